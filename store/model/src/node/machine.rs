//! The lifecycle of a node: registered, ready, cordoned, drained, lost and back.

use std::collections::{BTreeMap, BTreeSet};

use super::pressure::pressure_applied;
use super::silent::{silence_begun, silence_ended};
use super::{
    AgentIdentity, Card, NodeRow, NodeState, NumaDomain, Pressure, Taint, cards_counted, core_speed,
    domains_counted,
};
use crate::id::{Name, NodeId};
use crate::resource::Resources;

/// The facts that an agent registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its normalised capacity for tasks.
    pub capacity: Resources,
    /// First TCP port that it assigns, inclusive.
    pub port_first: u16,
    /// Last TCP port that it assigns, inclusive.
    pub port_last: u16,
    /// Facts that the agent found, and failure domains.
    pub attributes: BTreeMap<String, String>,
    /// The address of its tasks.
    pub host: String,
    pub boot_id: String,
    pub agent_version: String,
    /// Its single devices, each with a unique place within its kind.
    pub cards: Vec<Card>,
    /// Its NUMA domains; empty if unknown.
    pub domains: Vec<NumaDomain>,
}

impl NodeFacts {
    /// The capacity with the dimensions of single cards and of domains.
    fn capacity_counted(&self) -> Resources {
        let speed = core_speed(&self.attributes);
        domains_counted(&cards_counted(&self.capacity, &self.cards), &self.domains, speed)
    }
}

/// An event of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// Its agent has opened a session and registered facts.
    Registered(Box<NodeFacts>),
    /// Its agent's full report was applied. Lost tasks that it still runs were taken back (`NodeReturned`). Others were
    /// given up (`ReleaseConfirmed`, or `ProcessExited` if the agent knows how they ended).
    Reported {
        /// Lost tasks whose row still names this node.
        lost_tasks: u32,
        /// Attempts that it runs, that are over in the store, and that it was ordered to stop.
        stale_attempts: u32,
    },
    /// Its agent is about to start with this range of TCP ports, and registers it later.
    PortsSet { first: u16, last: u16 },
    /// It was silent for longer than its tolerance.
    DeclaredLost,
    /// An operator cordons it.
    Cordon,
    /// An operator lets it take tasks again; also ends a drain.
    Uncordon,
    /// An operator drains it.
    Drain,
    /// An operator sets its taints.
    TaintsSet(Vec<Taint>),
    /// An operator sets its labels: all of them.
    LabelsSet(BTreeMap<String, String>),
    /// Its agent reports the machine's shortages: all of them.
    PressureSet(BTreeSet<Pressure>),
    /// Its agent does not answer, since this many milliseconds.
    SilenceBegan { silent_ms: u64 },
    /// Its agent has answered.
    SilenceEnded,
    /// Its agent reports the installed packages: all of them.
    PackagesSet(BTreeSet<String>),
    /// Its admitted agent identifies itself.
    Identified(AgentIdentity),
    /// An operator gives the node to another agent, since the machine of the recorded one is gone: its attempts are
    /// lost.
    AgentAdmitted(AgentIdentity),
}

/// The effects of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTransition {
    /// The new row; the old one if nothing has changed.
    pub row: NodeRow,
    /// Whether anything has changed. The same transaction then writes [`super::node_alloc_touch`] of its commitment.
    pub changed: bool,
    /// The node was booted again: its earlier processes have ended.
    pub rebooted: bool,
}

/// A node that registers for the first time. It takes tasks after its first full report was applied.
pub fn node_new(id: NodeId, name: Name, facts: NodeFacts, now_ms: i64) -> NodeRow {
    NodeRow {
        id,
        name,
        state: NodeState::Recovering,
        schedulable: true,
        draining: false,
        capacity: facts.capacity_counted(),
        port_first: facts.port_first,
        port_last: facts.port_last,
        attributes: facts.attributes,
        labels: BTreeMap::new(),
        host: facts.host,
        boot_id: facts.boot_id,
        agent_version: facts.agent_version,
        revision: 1,
        changed_ms: now_ms,
        taints: Vec::new(),
        cards: facts.cards,
        domains: facts.domains,
        packages: BTreeSet::new(),
        identity: None,
    }
}

/// Applies `event` to `row` at wall time `now_ms` (milliseconds since 1970). Every event is legal in every state.
pub fn node_transition(row: &NodeRow, event: &NodeEvent, now_ms: i64) -> NodeTransition {
    let mut next = row.clone();
    match event {
        NodeEvent::Registered(facts) => registered(&mut next, facts),
        NodeEvent::Reported { lost_tasks, stale_attempts } => {
            next.state = reported(row.state, *lost_tasks, *stale_attempts);
        }
        NodeEvent::PortsSet { first, last } => (next.port_first, next.port_last) = (*first, *last),
        NodeEvent::DeclaredLost => next.state = NodeState::Lost,
        NodeEvent::Cordon => next.schedulable = false,
        NodeEvent::Uncordon => {
            next.schedulable = true;
            next.draining = false;
        }
        NodeEvent::Drain => {
            next.schedulable = false;
            next.draining = true;
        }
        NodeEvent::TaintsSet(taints) => next.taints.clone_from(taints),
        NodeEvent::LabelsSet(labels) => next.labels.clone_from(labels),
        NodeEvent::PackagesSet(packages) => next.packages.clone_from(packages),
        NodeEvent::Identified(identity) => next.identity = Some(identity.clone()),
        NodeEvent::AgentAdmitted(identity) => {
            next.identity = Some(identity.clone());
            next.state = NodeState::Lost;
        }
        NodeEvent::PressureSet(short_of) => {
            next.taints = pressure_applied(&row.taints, short_of, now_ms);
        }
        NodeEvent::SilenceBegan { silent_ms } => {
            let since_ms = now_ms.saturating_sub_unsigned(*silent_ms);
            next.taints = silence_begun(&row.taints, since_ms);
        }
        NodeEvent::SilenceEnded => next.taints = silence_ended(&row.taints),
    }
    let changed = next != *row;
    if changed {
        next.revision = row.revision.saturating_add(1);
        next.changed_ms = now_ms;
    }
    NodeTransition { rebooted: next.boot_id != row.boot_id, row: next, changed }
}

fn registered(next: &mut NodeRow, facts: &NodeFacts) {
    next.capacity = facts.capacity_counted();
    next.cards.clone_from(&facts.cards);
    next.domains.clone_from(&facts.domains);
    next.port_first = facts.port_first;
    next.port_last = facts.port_last;
    next.attributes.clone_from(&facts.attributes);
    next.host.clone_from(&facts.host);
    next.boot_id.clone_from(&facts.boot_id);
    next.agent_version.clone_from(&facts.agent_version);
    next.state = match next.state {
        NodeState::Ready => NodeState::Ready,
        NodeState::Recovering | NodeState::Lost => NodeState::Recovering,
    };
}

/// A returned node is ready again only when it has no old attempts. That covers processes that are over in the store,
/// and lost tasks whose endpoints may still be published with this node's ports.
fn reported(state: NodeState, lost_tasks: u32, stale_attempts: u32) -> NodeState {
    match state {
        NodeState::Recovering if lost_tasks == 0 && stale_attempts == 0 => NodeState::Ready,
        NodeState::Ready | NodeState::Recovering | NodeState::Lost => state,
    }
}

/// Why a node takes no new tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum NodeClosed {
    #[error("the node is lost")]
    Lost,
    /// It is back and still ends old tasks.
    #[error("the node is recovering")]
    Recovering,
    #[error("the node is being drained")]
    Draining,
    #[error("the node is cordoned")]
    Cordoned,
}

/// Checks that a node takes new tasks; the error says why not.
pub fn node_open(row: &NodeRow) -> Result<(), NodeClosed> {
    match row.state {
        NodeState::Lost => Err(NodeClosed::Lost),
        NodeState::Recovering => Err(NodeClosed::Recovering),
        NodeState::Ready if row.draining => Err(NodeClosed::Draining),
        NodeState::Ready if !row.schedulable => Err(NodeClosed::Cordoned),
        NodeState::Ready => Ok(()),
    }
}
