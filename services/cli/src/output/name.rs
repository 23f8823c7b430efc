//! Endpoints, and how they change.

use std::collections::BTreeMap;

use borough_proto::v1;
use serde::Serialize;

use super::Foreign;
use super::table::Tabular;
use super::text::word;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EndpointView {
    pub(crate) name: Foreign,
    pub(crate) user: Foreign,
    pub(crate) job: Foreign,
    pub(crate) index: u32,
    pub(crate) attempt: u64,
    pub(crate) host: Foreign,
    pub(crate) ports: BTreeMap<Foreign, u32>,
    pub(crate) health: String,
    pub(crate) weight: u32,
    pub(crate) node: Foreign,
    /// Since when it is healthy, in milliseconds since 1970; null: it is not, or it is not known.
    pub(crate) healthy_since_ms: Option<i64>,
    /// The values of the failure domains of its node, the widest first.
    pub(crate) domains: Vec<Foreign>,
    pub(crate) labels: BTreeMap<Foreign, Foreign>,
    /// Whether its node is drained.
    pub(crate) draining: bool,
}

impl From<v1::Endpoint> for EndpointView {
    fn from(endpoint: v1::Endpoint) -> Self {
        Self {
            health: word(endpoint.health().as_str_name(), "HEALTH_"),
            name: endpoint.name.into(),
            user: endpoint.user.into(),
            job: endpoint.job.into(),
            index: endpoint.index,
            attempt: endpoint.incarnation,
            host: endpoint.host.into(),
            ports: endpoint.ports.into_iter().map(|port| (port.name.into(), port.number)).collect(),
            weight: endpoint.weight,
            node: endpoint.node.into(),
            healthy_since_ms: Some(endpoint.healthy_since_ms).filter(|at| *at > 0),
            domains: endpoint.domains.into_iter().map(Foreign::from).collect(),
            labels: endpoint.labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            draining: endpoint.draining,
        }
    }
}

impl EndpointView {
    /// `http 127.0.0.1:8080` for each port.
    pub(crate) fn addresses(&self) -> String {
        let is_ipv6 = self.host.raw().contains(':');
        let host = if is_ipv6 { format!("[{}]", self.host) } else { self.host.to_string() };
        let texts = self.ports.iter().map(|(name, number)| format!("{name} {host}:{number}"));
        texts.collect::<Vec<_>>().join(", ")
    }
}

impl Tabular for EndpointView {
    const PLURAL: &'static str = "endpoints";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (
            vec!["NAME", "ADDRESSES", "HEALTH", "WEIGHT"],
            vec!["NODE", "DRAINING", "DOMAINS", "LABELS", "ATTEMPT"],
        )
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let cells =
            vec![self.name.to_string(), self.addresses(), self.health.clone(), self.weight.to_string()];
        let domains = self.domains.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let labels = self.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let draining = if self.draining { "yes" } else { "no" }.to_owned();
        let labels = labels.collect::<Vec<_>>().join(",");
        (cells, vec![self.node.to_string(), draining, domains, labels, self.attempt.to_string()])
    }
}

/// One change of the endpoints of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum EndpointChangeView {
    /// Every present endpoint; replaces what was known.
    Snapshot {
        endpoints: Vec<EndpointView>,
    },
    Published {
        endpoint: EndpointView,
    },
    /// Gone; this attempt never comes back.
    Withdrawn {
        user: Foreign,
        job: Foreign,
        index: u32,
        attempt: u64,
        /// Of the caller, for the name that the endpoint had.
        #[serde(skip)]
        cell: Foreign,
    },
    /// The watch could not continue; a snapshot follows.
    Resync {
        reason: Foreign,
    },
}

impl EndpointChangeView {
    pub(crate) fn text(&self) -> String {
        let line = |sign: &str, endpoint: &EndpointView| {
            let (addresses, attempt) = (endpoint.addresses(), endpoint.attempt);
            let space = if addresses.is_empty() { "" } else { " " };
            format!("{sign} {}{space}{addresses} {} (attempt {attempt})", endpoint.name, endpoint.health)
        };
        match self {
            Self::Snapshot { endpoints } if endpoints.is_empty() => "= no endpoints".to_owned(),
            Self::Snapshot { endpoints } => {
                endpoints.iter().map(|endpoint| line("=", endpoint)).collect::<Vec<_>>().join("\n")
            }
            Self::Published { endpoint } => line("+", endpoint),
            Self::Withdrawn { user, job, index, attempt, cell } => {
                format!("- {index}.{job}.{user}.{cell} (attempt {attempt})")
            }
            Self::Resync { reason } => format!("! listing again: {reason}"),
        }
    }
}
