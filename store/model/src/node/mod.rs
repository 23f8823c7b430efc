//! A node: its row (set by the operator and its agent) and its commitment (the concurrency token).

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::{Name, NodeId};
use crate::resource::Resources;

mod agent_feature;
mod alloc;
mod card;
mod effect;
mod facts;
mod identity;
mod label;
mod live;
mod load;
mod machine;
mod package;
mod port;
mod pressure;
mod promise;
mod resize;
mod session;
mod silent;
mod taint;
mod topology;

pub use agent_feature::{AGENT_ALLOCS, AGENT_HELPERS, AGENT_IDENTITIES, AGENT_SECRETS};
pub use alloc::{
    NodeAllocBroken, NodeAllocError, PORT_KEPT_BACK_MS, ShareFit, node_alloc_add, node_alloc_apply,
    node_alloc_check, node_alloc_cool, node_alloc_cooled, node_alloc_release, node_alloc_resize,
    node_alloc_retake, node_alloc_touch, node_free, resize_shortfall,
};
pub use card::{
    CARD_MILLIS, CARDS_MAX, Card, CardNeed, CardSelector, card_dimension, card_of_dimension, cards_counted,
};
pub use effect::{CapacityEffect, CapacityShare};
pub use facts::{HOST_ACCEPTED, NODE_ENTRIES_MAX, is_host, node_facts_check};
pub use identity::{
    AgentFace, AgentIdentity, AgentKey, AgentProcess, DurableId, IdentityError, NodeApplicant, NodeRefusal,
    RefusalCause, node_admit, session_next,
};
pub use label::{
    NODE_LABELS_MAX, NODE_NAME, SELECTOR_CONDITIONS_MAX, label_check, labels_changed, node_attribute,
    node_labels_check, selector_check,
};
pub use live::{GatewayLive, LivenessSign, NodeLive, NodeSeen, REGISTERED, Voucher};
pub use load::{LoadMeasured, NodeLoad, node_load_next};
pub use machine::{NodeClosed, NodeEvent, NodeFacts, NodeTransition, node_new, node_open, node_transition};
pub(crate) use package::task_packages_check;
pub use package::{NODE_PACKAGES_MAX, node_packages_kept, package_attribute, package_attributes};
pub use port::port_space;
pub use pressure::{PRESSURE_PREFIX, Pressure, pressure_of};
pub use promise::{node_alloc_forgo, node_alloc_fulfil, node_alloc_promise};
pub use resize::{AGENT_RESIZE, node_resizes};
pub use session::NodeSession;
pub use silent::{SILENT_KEY, silent_since_ms};
pub use taint::{TAINTS_MAX, Taint, TaintEffect, TaintMatch, node_taints_check, taints_changed};
pub(crate) use topology::device_kind_check;
pub use topology::{
    CORE_SPEED, CORE_SPEED_REFERENCE, CORE_SPEEDS, DOMAINS_MAX, NumaDomain, TOPOLOGY_KINDS, Within,
    confinement, core_speed, cores_whole, domains_counted, is_domain_memory,
};

/// The row of a node, written by its agent's registration and by operators. Any change also raises
/// [`NodeAlloc::epoch`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct NodeRow {
    #[n(0)]
    pub id: NodeId,
    /// Unique within the cell.
    #[n(1)]
    pub name: Name,
    #[n(2)]
    pub state: NodeState,
    /// `false`: cordoned.
    #[n(3)]
    pub schedulable: bool,
    /// Whether an operator wants it empty.
    #[n(4)]
    pub draining: bool,
    /// Its normalised capacity for tasks.
    #[n(5)]
    pub capacity: Resources,
    /// First TCP port that it assigns, inclusive.
    #[n(6)]
    pub port_first: u16,
    /// Last TCP port that it assigns, inclusive.
    #[n(7)]
    pub port_last: u16,
    /// Facts that its agent found (processor, kernel, cgroup version, missing features), and failure domains.
    #[n(8)]
    pub attributes: BTreeMap<String, String>,
    /// No verb sets any. Constraints read them like attributes.
    #[n(9)]
    pub labels: BTreeMap<String, String>,
    /// The address of its tasks: an IP address or host name.
    #[n(10)]
    pub host: String,
    /// The boot that the agent last reported from.
    #[n(11)]
    pub boot_id: String,
    #[n(12)]
    pub agent_version: String,
    /// Counts every change of this row.
    #[n(13)]
    pub revision: u64,
    /// Wall time of the last change, milliseconds since 1970.
    #[n(14)]
    pub changed_ms: i64,
    /// Set by operators, its agent and gateways, in one order. They keep tasks away that do not tolerate them.
    #[n(15)]
    #[cbor(default)]
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Its single devices, by kind and place. The capacity has a dimension for each.
    #[n(16)]
    #[cbor(default)]
    #[serde(default)]
    pub cards: Vec<Card>,
    /// Its NUMA domains by their number; empty if unknown. The capacity has dimensions for each.
    #[n(17)]
    #[cbor(default)]
    #[serde(default)]
    pub domains: Vec<NumaDomain>,
    /// Installed packages, each as `name/version`.
    #[n(18)]
    #[cbor(default)]
    #[serde(default)]
    pub packages: BTreeSet<String>,
    /// The agent that owns it. Absent: the first agent that identifies itself takes it.
    #[n(19)]
    #[cbor(default)]
    #[serde(default)]
    pub identity: Option<AgentIdentity>,
}

impl NodeRow {
    /// The values of these attributes, as constraints compare them, in this order; empty where it has none.
    pub fn domain_values(&self, keys: &[String]) -> Vec<String> {
        keys.iter().map(|key| node_attribute(self, key).unwrap_or_default().to_owned()).collect()
    }
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Its agent reports; tasks are placed.
    #[n(0)]
    Ready,
    /// Back after a loss (or new to this store) and still running tasks that it must first end; nothing is placed.
    #[n(1)]
    Recovering,
    /// Silent for longer than the tolerance; its tasks are placed elsewhere.
    #[n(2)]
    Lost,
}

/// The commitment of a node: its optimistic-concurrency token.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct NodeAlloc {
    /// Counts every change, of the commitment or of the node's row.
    #[n(0)]
    pub epoch: u64,
    /// The sum over tasks that are charged to the node.
    #[n(1)]
    pub used: Resources,
    /// Tasks charged to the node.
    #[n(2)]
    pub tasks: u32,
    /// Ports given to tasks.
    #[n(3)]
    pub ports: BTreeSet<u16>,
    /// Ports that cool down, each with the wall time (milliseconds since 1970) from which it is free.
    #[n(4)]
    pub ports_cooling: BTreeMap<u16, i64>,
    /// The sum over tasks that are held until their victims exit: nobody else may take it, but it is not free yet
    /// either. It is not part of `used`; the tasks' ports and their number are part of `ports` and `tasks`.
    #[n(5)]
    #[cbor(default)]
    #[serde(default)]
    pub promised: Resources,
}
