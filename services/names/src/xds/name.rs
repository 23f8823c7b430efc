//! Names and types of resources.

use std::collections::BTreeSet;
use std::fmt;

use borough_model::Name;

use crate::hub::HubKey;
use crate::table::{CellTable, MergedKey, NamesTable, Service, ServiceKey};

/// The types of resources that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum XdsKind {
    Listener,
    Route,
    Cluster,
    Endpoints,
}

impl XdsKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Listener, Self::Route, Self::Cluster, Self::Endpoints];

    /// The type as requests name it.
    pub fn type_url(self) -> &'static str {
        match self {
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        }
    }

    /// The type that a request names.
    pub fn of_type_url(type_url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == type_url)
    }

    /// For metrics and logs.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Route => "route",
            Self::Cluster => "cluster",
            Self::Endpoints => "endpoints",
        }
    }

    /// Returns true if a response of the state of the world must have every resource: one that is left out is gone.
    pub(super) fn is_complete_state(self) -> bool {
        matches!(self, Self::Listener | Self::Cluster)
    }
}

/// In front of the names of resources of merged services. No name of a job's resource has a `/`.
const MERGED_PREFIX: &str = "svc/";

/// What a resource is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum XdsOwner {
    Job(ServiceKey),
    Merged(MergedKey),
}

impl fmt::Display for XdsOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(key) => key.fmt(f),
            Self::Merged(key) => key.fmt(f),
        }
    }
}

/// What the name of a resource names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct XdsName {
    pub owner: XdsOwner,
    /// Absent: the first port.
    pub port: Option<Name>,
}

impl XdsName {
    /// Reads `JOB.USER.CELL` or `PORT.JOB.USER.CELL`. No part contains a dot, so the number of parts decides. `svc/` in
    /// front of either makes it the name of a merged service.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, is_merged) =
            text.strip_prefix(MERGED_PREFIX).map_or((text, false), |behind| (behind, true));
        let parts: Vec<&str> = text.split('.').collect();
        let (port, job, user, cell) = match parts.as_slice() {
            [job, user, cell] => (None, job, user, cell),
            [port, job, user, cell] => (Some(Name::new(*port).ok()?), job, user, cell),
            _ => return None,
        };
        let owner = if is_merged {
            XdsOwner::Merged(MergedKey::of_texts(cell, user, job)?)
        } else {
            XdsOwner::Job(ServiceKey::of_texts(cell, user, job)?)
        };
        Some(Self { owner, port })
    }

    /// What wakes a client of it.
    pub(super) fn hub_key(self) -> HubKey {
        match self.owner {
            XdsOwner::Job(key) => HubKey::Service(key),
            XdsOwner::Merged(key) => HubKey::Merged(key),
        }
    }

    /// The service of a job, if it has the port.
    pub(super) fn service<'t>(&self, table: &'t NamesTable) -> Option<&'t Service> {
        let XdsOwner::Job(key) = &self.owner else { return None };
        let service = table.service(key)?;
        self.port.as_ref().is_none_or(|port| service.has_port(port)).then_some(service)
    }
}

impl fmt::Display for XdsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self.owner, XdsOwner::Merged(_)) {
            f.write_str(MERGED_PREFIX)?;
        }
        match &self.port {
            Some(port) => write!(f, "{port}.{}", self.owner),
            None => self.owner.fmt(f),
        }
    }
}

/// The clusters of a client that asks for all: one per service, and one per port of a service with several.
pub(super) fn cluster_names(table: &NamesTable) -> BTreeSet<String> {
    table.cells().flat_map(CellTable::services).flat_map(|(key, service)| names_of(&key, service)).collect()
}

/// Returns true if a client that asks for all clusters gets this one: as `names_of` says, without making the names.
pub(super) fn is_listed(name: &XdsName, service: &Service) -> bool {
    let mut ports = service.ports();
    let has_several = || service.ports().nth(1).is_some();
    match &name.port {
        _ if service.is_over() => false,
        None => ports.next().is_some(),
        Some(port) => has_several() && service.has_port(port),
    }
}

pub(super) fn names_of(key: &ServiceKey, service: &Service) -> Vec<String> {
    let ports: Vec<&Name> = service.ports().collect();
    if ports.is_empty() || service.is_over() {
        return Vec::new();
    }
    let mut names = vec![key.to_string()];
    if ports.len() > 1 {
        names.extend(ports.into_iter().map(|port| format!("{port}.{key}")));
    }
    names
}
