//! Nodes and resources.

use borough_model::node::{LoadMeasured, NodeAlloc, NodeLoad, NodeRow, NodeState, silent_since_ms};
use borough_model::{Name, Resources};

use super::FieldRefused;
use super::card::card_to_message;
use super::taint::taint_to_message;
use super::topology::domain_to_message;
use super::wire::{Wire, WirePath};
use crate::v1;

/// Resources as a message.
pub fn resources_to_message(resources: &Resources) -> v1::Resources {
    Wire::of(resources)
}

/// Resources from a message: no amount is out of range, an absent one is zero.
pub fn capacity_from_message(message: Option<&v1::Resources>) -> Result<Resources, FieldRefused> {
    message.map_or_else(|| Ok(Resources::default()), |message| message.read(&WirePath::Root))
}

/// A node's state.
pub fn node_state_to_message(state: NodeState) -> v1::NodeState {
    match state {
        NodeState::Ready => v1::NodeState::Ready,
        NodeState::Recovering => v1::NodeState::Recovering,
        NodeState::Lost => v1::NodeState::Lost,
    }
}

/// Returns true if the drain of a node is done: it is charged for no task, and holds room for none.
pub fn is_drained(row: &NodeRow, alloc: &NodeAlloc) -> bool {
    row.draining && alloc.tasks == 0
}

/// A node with what is committed on it, and what is known of its load. A gateway adds what it knows of its sessions.
pub fn node_to_message(cell: &Name, row: &NodeRow, alloc: &NodeAlloc, load: Option<&NodeLoad>) -> v1::Node {
    v1::Node {
        id: row.id.to_string(),
        cell: cell.to_string(),
        name: row.name.to_string(),
        state: node_state_to_message(row.state).into(),
        schedulable: row.schedulable,
        draining: row.draining,
        drained: is_drained(row, alloc),
        capacity: Some(resources_to_message(&row.capacity)),
        used: Some(resources_to_message(&alloc.used)),
        tasks: alloc.tasks,
        port_first: u32::from(row.port_first),
        port_last: u32::from(row.port_last),
        ports_used: u32::try_from(alloc.ports.len()).unwrap_or(u32::MAX),
        attributes: row.attributes.clone(),
        labels: row.labels.clone(),
        host: row.host.clone(),
        boot_id: row.boot_id.clone(),
        agent_version: row.agent_version.clone(),
        revision: row.revision,
        changed_ms: row.changed_ms,
        connected: false,
        identity: row.identity.as_ref().map(ToString::to_string).unwrap_or_default(),
        packages: row.packages.iter().cloned().collect(),
        domains: row.domains.iter().map(domain_to_message).collect(),
        cards: row.cards.iter().map(card_to_message).collect(),
        taints: row.taints.iter().map(taint_to_message).collect(),
        load: load.and_then(load_to_message),
        session_failure: None,
        silent_since_ms: silent_since_ms(&row.taints).unwrap_or_default(),
        lost_at_ms: 0,
    }
}

/// What is known of a node's load; absent where its agent cannot tell.
fn load_to_message(load: &NodeLoad) -> Option<v1::NodeLoad> {
    let changed_ms = load.changed_ms;
    load.measured.map(|measured| v1::NodeLoad { changed_ms, ..measured_to_message(&measured) })
}

/// A measurement of a node's load.
pub fn measured_to_message(measured: &LoadMeasured) -> v1::NodeLoad {
    v1::NodeLoad {
        cpu_millis: measured.cpu_millis,
        memory_bytes: measured.memory_bytes,
        covered_cpu_millis: measured.covered_cpu_millis,
        covered_memory_bytes: measured.covered_memory_bytes,
        changed_ms: 0,
    }
}

/// A measurement of a node's load, as its agent tells it.
pub fn measured_from_message(message: &v1::NodeLoad) -> LoadMeasured {
    LoadMeasured {
        cpu_millis: message.cpu_millis,
        memory_bytes: message.memory_bytes,
        covered_cpu_millis: message.covered_cpu_millis,
        covered_memory_bytes: message.covered_memory_bytes,
    }
}
