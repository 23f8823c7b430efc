//! Targets for Prometheus (`http_sd`): one group per port of an endpoint.

use std::collections::BTreeMap;

use borough_model::Name;
use serde_json::{Map, Value, json};

use super::consul::health_text;
use crate::table::{CellTable, NamesTable, Service, ServiceEndpoint, ServiceKey};

/// Which targets. An absent field matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct TargetFilter {
    pub(super) cell: Option<Name>,
    pub(super) user: Option<Name>,
    /// A merged service: only jobs of it, whatever their shares.
    pub(super) service: Option<Name>,
    pub(super) job: Option<Name>,
    pub(super) port: Option<Name>,
}

/// A label's key in the alphabet of Prometheus.
fn label_key(key: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    key.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

/// The labels of a job. Of two keys that are one in Prometheus's alphabet, the first counts.
fn job_labels(labels: &BTreeMap<String, String>) -> Map<String, Value> {
    let mut shown = Map::new();
    for (key, value) in labels {
        let key = format!("__meta_borough_label_{}", label_key(key));
        shown.entry(key).or_insert_with(|| Value::from(value.as_str()));
    }
    shown
}

/// The groups of targets.
pub(super) fn targets(table: &NamesTable, filter: &TargetFilter) -> Value {
    let wants = |wanted: &Option<Name>, name: &Name| wanted.as_ref().is_none_or(|wanted| wanted == name);
    let mut groups = Vec::new();
    if let Some(service) = &filter.service {
        for cell in table.cells().filter(|cell| wants(&filter.cell, cell.name())) {
            merged_groups(cell, service, filter, &mut groups);
        }
        return Value::Array(groups);
    }
    match (&filter.cell, &filter.user, &filter.job) {
        // The usual case needs no look at the other services.
        (Some(cell), Some(user), Some(job)) => {
            let key = ServiceKey { cell: cell.clone(), user: user.clone(), job: job.clone() };
            if let Some(service) = table.service(&key) {
                groups_of(&key, service, filter, &mut groups);
            }
        }
        _ => {
            for cell in table.cells().filter(|cell| wants(&filter.cell, cell.name())) {
                for (key, service) in cell.services() {
                    if wants(&filter.user, &key.user) && wants(&filter.job, &key.job) {
                        groups_of(&key, service, filter, &mut groups);
                    }
                }
            }
        }
    }
    Value::Array(groups)
}

/// The groups of the merged services of a cell with this name: those of each of their jobs.
fn merged_groups(cell: &CellTable, name: &Name, filter: &TargetFilter, groups: &mut Vec<Value>) {
    let wants = |wanted: &Option<Name>, name: &Name| wanted.as_ref().is_none_or(|wanted| wanted == name);
    let named = cell.merged_keys().filter(|key| key.name == *name && wants(&filter.user, &key.user));
    for key in named {
        let Some(merged) = cell.merged(&key.user, &key.name) else { continue };
        let from = groups.len();
        for job in merged.jobs.iter().filter(|job| wants(&filter.job, &job.key.job)) {
            groups_of(&job.key, job.service, filter, groups);
        }
        for labels in groups.iter_mut().skip(from).filter_map(|group| group.get_mut("labels")) {
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("__meta_borough_service".to_owned(), key.name.to_string().into());
            }
        }
    }
}

fn groups_of(key: &ServiceKey, service: &Service, filter: &TargetFilter, groups: &mut Vec<Value>) {
    let labels = job_labels(&service.facts().labels);
    for endpoint in service.endpoints() {
        for port in &endpoint.ports {
            if filter.port.as_ref().is_some_and(|wanted| *wanted != port.name) {
                continue;
            }
            let mut labels = labels.clone();
            labels.extend(endpoint_labels(key, service, endpoint, &port.name));
            groups.push(json!({"targets": [endpoint.host.with_port(port.number)], "labels": labels}));
        }
    }
}

fn endpoint_labels(
    key: &ServiceKey,
    service: &Service,
    endpoint: &ServiceEndpoint,
    port: &Name,
) -> Map<String, Value> {
    let labels = [
        ("cell", key.cell.to_string()),
        ("user", key.user.to_string()),
        ("job", key.job.to_string()),
        ("job_tasks", service.facts().count.to_string()),
        ("port", port.to_string()),
        ("index", endpoint.task.index.to_string()),
        ("attempt", endpoint.incarnation.to_string()),
        ("node", endpoint.node.to_string()),
        ("health", health_text(endpoint.health).to_owned()),
        ("zone", endpoint.place.zone.clone()),
        ("sub_zone", endpoint.place.sub_zone.clone()),
        ("node_draining", endpoint.place.is_draining.to_string()),
    ];
    labels.into_iter().map(|(key, value)| (format!("__meta_borough_{key}"), value.into())).collect()
}
