//! The endpoint of an attempt, as its name key has it.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::{Health, PortAssignment};
use crate::id::{Incarnation, Name, TaskId};

/// An endpoint as load balancers see it: the value of a name key.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Endpoint {
    #[n(0)]
    pub task: TaskId,
    #[n(1)]
    pub user: Name,
    #[n(2)]
    pub job: Name,
    /// The attempt that serves. Once withdrawn it is never published again.
    #[n(3)]
    pub incarnation: Incarnation,
    /// IP address or host name.
    #[n(4)]
    pub host: String,
    #[n(5)]
    pub ports: Vec<EndpointPort>,
    /// The result of its probes.
    #[n(6)]
    pub health: Health,
    /// Share of traffic relative to its siblings.
    #[n(7)]
    pub weight: u32,
    #[n(8)]
    pub node: Name,
    /// Since when it is healthy: time of the cell, milliseconds since 1970. 0: it is not, or nobody has recorded it.
    #[n(9)]
    #[cbor(default)]
    #[serde(default)]
    pub healthy_since_ms: i64,
    /// The values of the failure domains of its node, the widest first, as the cell names them. Empty where the node
    /// has none. As they were when the endpoint was written.
    #[n(10)]
    #[cbor(default)]
    #[serde(default)]
    pub domains: Vec<String>,
}

/// A named port of an endpoint.
pub type EndpointPort = PortAssignment;
