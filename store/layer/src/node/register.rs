//! Registration: whose node it is, and which session of its agent is in force.

use borough_kv::Transaction;
use borough_model::node::{
    AgentIdentity, AgentProcess, NodeEvent, NodeFacts, NodeLive, NodeRow, NodeSession, NodeState,
    NodeTransition, node_admit, node_facts_check, node_new, session_next,
};
use borough_model::{Name, NodeId};

use super::NodeWriter;
use super::step::{node_event, node_read, node_write};
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, NodeKey, NodeLiveKey, NodeNameKey, NodeSessionKey};

/// What a registration came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The row in force. While it is `Recovering` the node takes no tasks: apply the agent's full report first.
    pub row: NodeRow,
    /// Whether the node is new to the store.
    pub created: bool,
    /// Whether it was declared lost: its old tasks may be placed elsewhere and it must be told which to stop.
    pub returning: bool,
    /// Whether it runs in another boot than when it last registered: no process of before attempts.
    pub rebooted: bool,
    /// Whether anything of the row was written.
    pub changed: bool,
}

/// An agent that opens a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRegistration {
    /// The node's name.
    pub name: Name,
    /// What the agent says of the node.
    pub facts: NodeFacts,
    /// The node's id where the name is new: a new one. An id that is in use is refused.
    pub candidate: NodeId,
    /// The session that the agent opens: new, and not 0.
    pub session: u64,
    /// The gateway that holds the session, as other gateways reach it.
    pub gateway: String,
    /// The agent's process; `None`: it does not say who it is.
    pub agent: Option<AgentProcess>,
    /// The node's lease, where the gateway has seen it unchanged for its whole waiting time. A beat since then voids
    /// it.
    pub silent: Option<NodeLive>,
}

impl NodeRegistration {
    /// The arrival of an agent without an identity, in `session` of a gateway without an address.
    pub fn new(name: Name, facts: NodeFacts, candidate: NodeId, session: u64) -> Self {
        Self { name, facts, candidate, session, gateway: String::new(), agent: None, silent: None }
    }
}

/// Registers a node: by its name it keeps its id, what operators set, and what is committed on it. Repeating a
/// registration changes nothing of the row.
///
/// An agent to which the node does not belong is refused with [`StoreError::NodeRefused`] before anything is written.
///
/// From this commit on the session of `registration` is the one in force: what gateways write for the session before it
/// does not commit any more. Answers the row, and the right to write for the node.
pub async fn node_register<'t>(
    tx: &'t Transaction,
    changes: &mut ChangeSet,
    registration: &NodeRegistration,
) -> StoreResult<(Registered, NodeWriter<'t>)> {
    node_facts_check(&registration.facts).map_err(|errors| StoreError::InvalidSpec { errors })?;
    let space = changes.space().clone();
    let known = keys::read(tx, &space, &NodeNameKey { name: registration.name.clone() }).await?;
    let (registered, before) = match known {
        Some(node) => node_known_register(tx, changes, node, registration).await?,
        None => (node_new_register(tx, changes, registration).await?, NodeSession::default()),
    };
    let node = registered.row.id;
    let instance = registration.agent.as_ref().map_or(0, |agent| agent.instance);
    let session = session_next(&before, registration.session, &registration.gateway, instance);
    keys::write(tx, &space, &NodeSessionKey { node }, &session)?;
    Ok((registered, NodeWriter::of(tx, node, session)))
}

async fn node_new_register(
    tx: &Transaction,
    changes: &mut ChangeSet,
    registration: &NodeRegistration,
) -> StoreResult<Registered> {
    let (space, id) = (changes.space().clone(), registration.candidate);
    if keys::read(tx, &space, &NodeKey { node: id }).await?.is_some() {
        return Err(StoreError::AlreadyExists { what: format!("node {id}") });
    }
    let mut row = node_new(id, registration.name.clone(), registration.facts.clone(), changes.at_ms());
    row.identity = registration.agent.as_ref().map(|agent| agent.identity.clone());
    keys::write(tx, &space, &NodeNameKey { name: registration.name.clone() }, &id)?;
    node_write(tx, changes, &row).await?;
    Ok(Registered { row, created: true, returning: false, rebooted: false, changed: true })
}

/// Registers a node that has a row; answers the session before, too.
async fn node_known_register(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    registration: &NodeRegistration,
) -> StoreResult<(Registered, NodeSession)> {
    let (space, facts) = (changes.space().clone(), &registration.facts);
    let before = node_read(tx, &space, node).await?;
    let session = keys::read(tx, &space, &NodeSessionKey { node }).await?.unwrap_or_default();
    let silent = match &registration.silent {
        Some(seen) => keys::read(tx, &space, &NodeLiveKey { node }).await?.as_ref() == Some(seen),
        None => false,
    };
    let (agent, place) = (registration.agent.as_ref(), (facts.boot_id.as_str(), facts.host.as_str()));
    node_admit(&before, &session, agent, place, silent).map_err(StoreError::NodeRefused)?;
    let event = NodeEvent::Registered(Box::new(facts.clone()));
    let NodeTransition { mut row, mut changed, rebooted } = node_event(tx, changes, node, &event).await?;
    // What the recorded identity says already, and more, stays; but not the key that older versions recorded.
    let is_known = |agent: &&AgentProcess| {
        let known = row.identity.as_ref().filter(|known| known.is_digest == agent.identity.is_digest);
        known.is_some_and(|known| known.machine.is_some())
    };
    if let Some(agent) = agent.filter(|agent| !is_known(agent)) {
        let event = NodeEvent::Identified(agent.identity.clone());
        let identified = node_event(tx, changes, node, &event).await?;
        (row, changed) = (identified.row, changed || identified.changed);
    }
    let returning = before.state == NodeState::Lost;
    Ok((Registered { row, created: false, returning, rebooted, changed }, session))
}

/// Gives a node to another agent, since an operator says that the machine of the recorded one is gone for good. The
/// session of before is over. The node is lost until the new agent registers, and so are the attempts that ran there.
///
/// The act is refused until the node is lost. `seen` is the node's lease as the operator's gateway has seen it
/// unchanged for its whole waiting time: the act is refused where it has changed since. Repeating the act changes
/// nothing.
pub async fn node_agent_admit(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    identity: &AgentIdentity,
    seen: Option<&NodeLive>,
) -> StoreResult<NodeRow> {
    let space: CellSpace = changes.space().clone();
    let row = node_read(tx, &space, node).await?;
    if row.identity.as_ref() == Some(identity) {
        return Ok(row);
    }
    // Silence alone may be an agent that is being replaced by its next version, with its tasks running on.
    if row.state != NodeState::Lost {
        let reason = format!(
            "node {} is not lost yet, and tasks may run on its machine: wait until the cell has given it up",
            row.name
        );
        return Err(StoreError::refused(reason));
    }
    if keys::read(tx, &space, &NodeLiveKey { node }).await?.as_ref() != seen {
        let recorded =
            row.identity.as_ref().map_or_else(|| "without identity".to_owned(), ToString::to_string);
        let reason = format!("agent {recorded} of node {} still reports: end it first", row.name);
        return Err(StoreError::refused(reason));
    }
    let row = node_event(tx, changes, node, &NodeEvent::AgentAdmitted(identity.clone())).await?.row;
    keys::write(tx, &space, &NodeSessionKey { node }, &NodeSession::default())?;
    Ok(row)
}
