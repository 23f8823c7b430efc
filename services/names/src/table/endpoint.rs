//! One endpoint as the views see it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use borough_model::task::{Endpoint, EndpointPort, Health};
use borough_model::{Name, TaskId};

use super::NodePlace;

/// The host of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointHost {
    Address(IpAddr),
    /// A name that somebody else resolves.
    Named(String),
}

impl EndpointHost {
    fn of(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Named(text.to_owned()), Self::Address)
    }

    /// The address, unless the host is a name.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Named(_) => None,
        }
    }

    /// Host and port as one text. An IPv6 address is in brackets.
    pub fn with_port(&self, port: u16) -> String {
        match self {
            Self::Address(address) => SocketAddr::new(*address, port).to_string(),
            Self::Named(name) => format!("{name}:{port}"),
        }
    }

    /// The host alone.
    pub fn text(&self) -> String {
        match self {
            Self::Address(address) => address.to_string(),
            Self::Named(name) => name.clone(),
        }
    }
}

/// A published endpoint, with what its node adds.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceEndpoint {
    pub task: TaskId,
    /// The number of the attempt.
    pub incarnation: u64,
    /// The revision of the task's row that it follows from.
    pub revision: u64,
    pub host: EndpointHost,
    pub ports: Vec<EndpointPort>,
    pub health: Health,
    /// Since when the attempt is healthy, in milliseconds since 1970; 0: unknown.
    pub healthy_ms: i64,
    /// 1 to 255.
    pub weight: u32,
    pub node: Name,
    pub place: Arc<NodePlace>,
}

impl ServiceEndpoint {
    pub(super) fn new(endpoint: &Endpoint, revision: u64, healthy_ms: i64, place: Arc<NodePlace>) -> Self {
        Self {
            task: endpoint.task,
            incarnation: endpoint.incarnation.0,
            revision,
            host: EndpointHost::of(&endpoint.host),
            ports: endpoint.ports.clone(),
            health: endpoint.health,
            healthy_ms,
            weight: endpoint.weight,
            node: endpoint.node.clone(),
            place,
        }
    }

    /// Its weight, within the bounds of a job file.
    pub fn weight_shown(&self) -> u32 {
        self.weight.clamp(1, 255)
    }

    /// The number of a port.
    pub fn port(&self, name: &Name) -> Option<u16> {
        self.ports.iter().find(|port| port.name == *name).map(|port| port.number)
    }

    /// Returns true if the views answer the same for both.
    pub(super) fn shows_as(&self, other: &Self) -> bool {
        Self { revision: other.revision, ..self.clone() } == *other
    }
}
