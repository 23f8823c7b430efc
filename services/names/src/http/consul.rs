//! Bodies in the form of Consul's HTTP interface.
//!
//! A cell is a data centre, and `JOB_USER` or `JOB_USER_PORT` is a service. A merged service is `NAME__USER` or
//! `NAME__USER_PORT`. No name of ours contains `_` or is empty, so two services never have one name here.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::Name;
use borough_model::merged::LabelOperator;
use borough_model::task::Health;
use serde_json::{Map, Value, json};

use crate::hub::HubKey;
use crate::table::{
    CellTable, MergedKey, MergedPort, MergedView, NamesTable, Service, ServiceEndpoint, ServiceKey,
    TableIndex,
};

/// Between the parts of a service's name.
const SEPARATOR: char = '_';

/// The name of a service, or of one of its ports.
pub fn service_name(key: &ServiceKey, port: Option<&Name>) -> String {
    format!("{}{SEPARATOR}{}{}", key.job, key.user, port_suffix(port))
}

/// The name of a merged service, or of one of its ports.
pub(super) fn merged_name(key: &MergedKey, port: Option<&Name>) -> String {
    format!("{}{SEPARATOR}{SEPARATOR}{}{}", key.name, key.user, port_suffix(port))
}

fn port_suffix(port: Option<&Name>) -> String {
    port.map(|port| format!("{SEPARATOR}{port}")).unwrap_or_default()
}

/// What a service of the catalogue is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogOwner {
    Job(ServiceKey),
    Merged(MergedKey),
}

/// Which service, and which of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceQuery {
    pub owner: CatalogOwner,
    /// Absent: the first port.
    pub port: Option<Name>,
}

impl ServiceQuery {
    /// Reads the name of a service in a cell.
    pub fn parse(cell: &Name, text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(SEPARATOR).collect();
        let job = |job, user| Some(CatalogOwner::Job(ServiceKey::of_texts(cell.as_str(), user, job)?));
        let merged = |name, user| Some(CatalogOwner::Merged(MergedKey::of_texts(cell.as_str(), user, name)?));
        let (owner, port) = match *parts.as_slice() {
            [name, "", user] => (merged(name, user)?, None),
            [name, "", user, port] => (merged(name, user)?, Some(Name::new(port).ok()?)),
            [name, user] => (job(name, user)?, None),
            [name, user, port] => (job(name, user)?, Some(Name::new(port).ok()?)),
            _ => return None,
        };
        Some(Self { owner, port })
    }

    fn cell(&self) -> &Name {
        match &self.owner {
            CatalogOwner::Job(key) => &key.cell,
            CatalogOwner::Merged(key) => &key.cell,
        }
    }

    /// The name as a client asks for it.
    fn name(&self) -> String {
        match &self.owner {
            CatalogOwner::Job(key) => service_name(key, self.port.as_ref()),
            CatalogOwner::Merged(key) => merged_name(key, self.port.as_ref()),
        }
    }

    /// What wakes a query about it.
    pub(super) fn hub_key(&self) -> HubKey {
        match &self.owner {
            CatalogOwner::Job(key) => HubKey::Service(key.clone()),
            CatalogOwner::Merged(key) => HubKey::Merged(key.clone()),
        }
    }

    /// The index of the service, and the table's own; `None` if the cell is not in the table.
    pub(super) fn indexes(&self, table: &NamesTable) -> Option<(TableIndex, TableIndex)> {
        let cell = table.cell(self.cell().as_str())?;
        let index = match &self.owner {
            CatalogOwner::Job(key) => cell.index_of(&key.user, &key.job),
            CatalogOwner::Merged(key) => cell.index_of_merged(&key.user, &key.name),
        };
        Some((index, cell.index()))
    }

    fn port_of(&self, service: &Service, endpoint: &ServiceEndpoint) -> Option<u16> {
        match &self.port {
            Some(port) => endpoint.port(port),
            None => {
                let first = service.facts().ports.first().and_then(|port| endpoint.port(port));
                // A task without ports is there, and nobody can connect to it.
                Some(first.or_else(|| endpoint.ports.first().map(|port| port.number)).unwrap_or_default())
            }
        }
    }
}

/// Which endpoints of a service.
#[derive(Clone, Debug, Default)]
pub struct ServiceFilter {
    /// Only those that traffic should go to.
    pub is_passing: bool,
    /// Tags that the service must have, each of them.
    pub tags: Vec<String>,
}

/// A label as a tag: `key=value`, or the key alone if the value is empty.
fn tags_of(labels: &BTreeMap<String, String>) -> Vec<String> {
    let tag = |(key, value): (&String, &String)| {
        if value.is_empty() { key.clone() } else { format!("{key}={value}") }
    };
    labels.iter().map(tag).collect()
}

/// The cells.
pub(super) fn datacenters(table: &NamesTable) -> Value {
    table.cells().map(|cell| cell.name().as_str()).collect()
}

/// The services of a cell with their tags. A job with several ports is listed once per port. Jobs that are over are
/// left out once their last endpoint is withdrawn.
pub(super) fn services(cell: &CellTable) -> Value {
    let mut services = Map::new();
    for query in listed(cell) {
        let tags = match &query.owner {
            CatalogOwner::Job(key) => {
                cell.service(&key.user, &key.job).map(|service| tags_of(&service.facts().labels))
            }
            CatalogOwner::Merged(key) => cell.merged(&key.user, &key.name).map(|merged| merged_tags(&merged)),
        };
        services.insert(query.name(), tags.unwrap_or_default().into());
    }
    Value::Object(services)
}

/// What the list of services names.
pub(super) fn listed(cell: &CellTable) -> Vec<ServiceQuery> {
    let mut all = Vec::new();
    let mut add = |owner: CatalogOwner, ports: Vec<&Name>| {
        if ports.len() <= 1 {
            all.push(ServiceQuery { owner, port: None });
            return;
        }
        let of_port = |port: &Name| ServiceQuery { owner: owner.clone(), port: Some(port.clone()) };
        all.extend(ports.into_iter().map(of_port));
    };
    for (key, service) in cell.services().filter(|(_, service)| !service.is_over()) {
        add(CatalogOwner::Job(key), service.ports().collect());
    }
    for key in cell.merged_keys() {
        let Some(merged) = cell.merged(&key.user, &key.name) else { continue };
        add(CatalogOwner::Merged(key), merged.ports());
    }
    all
}

/// The nodes of a cell.
pub(super) fn nodes(cell: &CellTable) -> Value {
    let node = |(name, place): (&Name, &crate::table::NodePlace)| {
        node_json(cell.name(), name, &place.host, cell.list_index())
    };
    cell.nodes().map(node).collect()
}

pub(super) fn node_json(cell: &Name, node: &Name, host: &str, index: TableIndex) -> Value {
    json!({
        "ID": format!("{node}.{cell}"),
        "Node": node,
        "Address": host,
        "Datacenter": cell,
        "TaggedAddresses": {"lan": host, "wan": host},
        "Meta": {},
        "CreateIndex": index.0,
        "ModifyIndex": index.0,
    })
}

/// The labels that each job of a merged service has.
fn merged_tags(merged: &MergedView<'_>) -> Vec<String> {
    let selector = merged.row.selector.iter();
    let is = selector.filter(|condition| condition.operator == LabelOperator::Is);
    tags_of(&is.map(|condition| (condition.key.clone(), condition.value.clone())).collect())
}

/// One endpoint of an answer.
pub(super) struct FoundInstance {
    pub(super) id: String,
    /// Its job.
    key: ServiceKey,
    pub(super) endpoint: Arc<ServiceEndpoint>,
    /// The number of tasks of the job.
    tasks: u32,
    port: u16,
    pub(super) is_usable: bool,
    weight: u32,
}

pub(super) fn instances(
    table: &NamesTable,
    query: &ServiceQuery,
    filter: &ServiceFilter,
) -> (Vec<FoundInstance>, Vec<String>, TableIndex) {
    let key = match &query.owner {
        CatalogOwner::Job(key) => key,
        CatalogOwner::Merged(key) => return merged_instances(table, query, key, filter),
    };
    let Some(service) = table.service(key) else { return Default::default() };
    let tags = tags_of(&service.facts().labels);
    if !filter.tags.iter().all(|wanted| tags.contains(wanted)) {
        return (Vec::new(), tags, service.index());
    }
    let suffix = port_suffix(query.port.as_ref());
    let instance = |endpoint: &Arc<ServiceEndpoint>| {
        let is_usable = service.is_usable(endpoint);
        if filter.is_passing && !is_usable {
            return None;
        }
        let port = query.port_of(service, endpoint)?;
        let id = format!("{}.{key}{suffix}", endpoint.task.index);
        let (key, endpoint) = (key.clone(), Arc::clone(endpoint));
        let tasks = service.facts().count;
        Some(FoundInstance { id, key, tasks, port, is_usable, weight: endpoint.weight, endpoint })
    };
    (service.endpoints().iter().filter_map(instance).collect(), tags, service.index())
}

/// The endpoints of a merged service. Their weights divide the traffic by the shares of the jobs. One that gets no
/// traffic is not passing.
fn merged_instances(
    table: &NamesTable,
    query: &ServiceQuery,
    key: &MergedKey,
    filter: &ServiceFilter,
) -> (Vec<FoundInstance>, Vec<String>, TableIndex) {
    let Some(merged) = table.merged(key) else { return Default::default() };
    let tags = merged_tags(&merged);
    if !filter.tags.iter().all(|wanted| tags.contains(wanted)) {
        return (Vec::new(), tags, merged.index);
    }
    let parts = merged.parts(query.port.as_ref().map_or(MergedPort::Any, MergedPort::Named));
    let suffix = format!("{SEPARATOR}{SEPARATOR}{}{}", key.name, port_suffix(query.port.as_ref()));
    let instance = |(at, endpoint): (usize, &Arc<ServiceEndpoint>)| {
        let job = merged.jobs.get(at)?;
        let weight = parts.weight(at, endpoint.weight_shown(), endpoint.task.index);
        let is_usable = weight.is_some() && parts.uses(endpoint.health);
        if filter.is_passing && !is_usable {
            return None;
        }
        let port = query.port_of(job.service, endpoint)?;
        let id = format!("{}.{}{suffix}", endpoint.task.index, job.key);
        let (key, endpoint) = (job.key.clone(), Arc::clone(endpoint));
        let (tasks, weight) = (job.service.facts().count, weight.unwrap_or_default());
        Some(FoundInstance { id, key, tasks, endpoint, port, is_usable, weight })
    };
    (merged.endpoints_from(0).filter_map(instance).collect(), tags, merged.index)
}

/// What a service says about one of its endpoints, in Consul's alphabet: letters, digits, `-` and `_`.
fn meta_of(key: &ServiceKey, tasks: u32, endpoint: &ServiceEndpoint) -> Value {
    json!({
        "borough_cell": key.cell,
        "borough_user": key.user,
        "borough_job": key.job,
        "borough_job_tasks": tasks.to_string(),
        "borough_index": endpoint.task.index.to_string(),
        "borough_attempt": endpoint.incarnation.to_string(),
        "borough_health": health_text(endpoint.health),
        "borough_healthy_since_ms": endpoint.healthy_ms.to_string(),
        "borough_zone": endpoint.place.zone,
        "borough_sub_zone": endpoint.place.sub_zone,
        "borough_node_draining": endpoint.place.is_draining.to_string(),
    })
}

pub(super) fn health_text(health: Health) -> &'static str {
    match health {
        Health::Unknown => "unknown",
        Health::Healthy => "healthy",
        Health::Unhealthy => "unhealthy",
    }
}

fn weights(weight: u32) -> Value {
    json!({"Passing": weight, "Warning": weight})
}

/// The endpoints of a service, as `/v1/catalog/service` shows them.
pub(super) fn catalog_service(table: &NamesTable, query: &ServiceQuery, filter: &ServiceFilter) -> Value {
    let (found, tags, index) = instances(table, query, filter);
    let (name, cell) = (query.name(), query.cell());
    let row = |instance: FoundInstance| {
        let FoundInstance { id, key, tasks, endpoint, port, weight, .. } = instance;
        let host = endpoint.host.text();
        json!({
            "ID": format!("{}.{cell}", endpoint.node),
            "Node": endpoint.node,
            "Address": host,
            "Datacenter": cell,
            "TaggedAddresses": {"lan": host, "wan": host},
            "NodeMeta": {},
            "ServiceKind": "",
            "ServiceID": id,
            "ServiceName": name,
            "ServiceTags": tags,
            "ServiceAddress": host,
            "ServiceTaggedAddresses": {},
            "ServiceWeights": weights(weight),
            "ServiceMeta": meta_of(&key, tasks, &endpoint),
            "ServicePort": port,
            "ServiceEnableTagOverride": false,
            "ServiceProxy": {},
            "ServiceConnect": {},
            "CreateIndex": index.0,
            "ModifyIndex": index.0,
        })
    };
    found.into_iter().map(row).collect()
}

/// The endpoints of a service with their checks, as `/v1/health/service` shows them.
pub(super) fn health_service(table: &NamesTable, query: &ServiceQuery, filter: &ServiceFilter) -> Value {
    let (found, tags, index) = instances(table, query, filter);
    let row = |instance: FoundInstance| {
        json!({
            "Node": node_json(query.cell(), &instance.endpoint.node, &instance.endpoint.host.text(), index),
            "Service": service_json(query, &instance, &tags, index),
            "Checks": [check_json(query, &instance, &tags, index)],
        })
    };
    found.into_iter().map(row).collect()
}

/// An endpoint as a service of its node.
pub(super) fn service_json(
    query: &ServiceQuery,
    instance: &FoundInstance,
    tags: &[String],
    index: TableIndex,
) -> Value {
    let FoundInstance { id, key, tasks, endpoint, port, weight, .. } = instance;
    json!({
        "ID": id,
        "Service": query.name(),
        "Tags": tags,
        "Address": endpoint.host.text(),
        "TaggedAddresses": {},
        "Meta": meta_of(key, *tasks, endpoint),
        "Port": port,
        "Weights": weights(*weight),
        "EnableTagOverride": false,
        "Proxy": {},
        "Connect": {},
        "CreateIndex": index.0,
        "ModifyIndex": index.0,
    })
}

/// The check of an endpoint.
pub(super) fn check_json(
    query: &ServiceQuery,
    instance: &FoundInstance,
    tags: &[String],
    index: TableIndex,
) -> Value {
    let FoundInstance { id, endpoint, is_usable, .. } = instance;
    json!({
        "Node": endpoint.node,
        "CheckID": format!("service:{id}"),
        "Name": "health of the task",
        "Status": if *is_usable { "passing" } else { "warning" },
        "Notes": "",
        "Output": health_text(endpoint.health),
        "ServiceID": id,
        "ServiceName": query.name(),
        "ServiceTags": tags,
        "Type": "",
        "Definition": {},
        "CreateIndex": index.0,
        "ModifyIndex": index.0,
    })
}

/// What a client asks its agent about itself: above all the default data centre.
pub(super) fn agent_self(cell: &Name, version: &str) -> Value {
    json!({
        "Config": {
            "Datacenter": cell,
            "PrimaryDatacenter": cell,
            "NodeName": "borough-names",
            "NodeID": "",
            "Revision": "",
            "Server": true,
            "Version": version,
        },
        "Member": {"Name": "borough-names", "Addr": "127.0.0.1", "Port": 0, "Tags": {}, "Status": 1},
        "Meta": {},
    })
}
