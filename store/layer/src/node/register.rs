//! Registration: which agent owns a node, and which session of that agent is in force.

use borough_kv::Transaction;
use borough_model::node::{
    AgentIdentity, AgentProcess, NodeApplicant, NodeEvent, NodeFacts, NodeRow, NodeSeen, NodeSession,
    NodeState, NodeTransition, node_admit, node_facts_check, node_new, session_next,
};
use borough_model::{Name, NodeId};

use super::NodeWriter;
use super::live::node_live_guarded;
use super::step::{node_event, node_read, node_write};
use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, NodeKey, NodeNameKey, NodeSessionKey};

/// The result of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The row in force. While it is `Recovering` the node takes no tasks: apply the agent's full report first.
    pub row: NodeRow,
    /// Whether the node is new to the store.
    pub created: bool,
    /// Whether it was declared lost. Its old tasks may be placed elsewhere, so its agent must be ordered to stop them.
    pub returning: bool,
    /// Whether it runs in another boot than at its last registration: no earlier process exists any more.
    pub rebooted: bool,
    /// Whether any part of the row was written.
    pub changed: bool,
}

/// An agent that opens a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRegistration {
    pub name: Name,
    /// The facts that the agent reports.
    pub facts: NodeFacts,
    /// The node's id if the name is new. An id that is in use is refused.
    pub candidate: NodeId,
    /// The session that the agent opens: new, and not 0.
    pub session: u64,
    /// The gateway that holds the session, by its address for other gateways.
    pub gateway: String,
    /// The agent's process; `None`: the agent does not identify itself.
    pub agent: Option<AgentProcess>,
    /// The node's liveness, if the gateway has seen no sign of life for its whole waiting time. One since then voids
    /// it.
    pub silent: Option<NodeSeen>,
}

impl NodeRegistration {
    /// The registration of an agent without an identity, in `session` of a gateway without an address.
    pub fn new(name: Name, facts: NodeFacts, candidate: NodeId, session: u64) -> Self {
        Self { name, facts, candidate, session, gateway: String::new(), agent: None, silent: None }
    }
}

/// Registers a node. By its name, the node keeps its id, its operator's settings, and its commitment. Repeating a
/// registration changes nothing of the row.
///
/// An agent that does not own the node is refused with [`StoreError::NodeRefused`] before anything is written.
///
/// After this commit the session of `registration` is in force: writes of gateways for the session before it no longer
/// commit. Returns the row, and the right to write for the node.
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

/// Registers a node that has a row. Also returns the session before.
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
        Some(seen) => node_live_guarded(tx, &space, node).await?.as_ref() == Some(seen),
        None => false,
    };
    let agent = registration.agent.as_ref();
    let applicant = NodeApplicant { agent, boot_id: &facts.boot_id, host: &facts.host, silent };
    node_admit(&before, &session, applicant).map_err(StoreError::NodeRefused)?;
    let event = NodeEvent::Registered(Box::new(facts.clone()));
    let NodeTransition { mut row, mut changed, rebooted } = node_event(tx, changes, node, &event).await?;
    // A recorded identity that contains the presented one stays, except a key that older versions recorded.
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

/// Gives a node to another agent, on an operator's word that the recorded agent's machine is gone for good. The
/// previous session is over. The node is lost until the new agent registers, and so are the attempts that ran there.
///
/// Fails until the node is lost. `seen` is the node's liveness as the operator's gateway has seen it without a sign of
/// life for its whole waiting time: the command fails if it has changed since. Repeating it changes nothing.
pub async fn node_agent_admit(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    identity: &AgentIdentity,
    seen: Option<&NodeSeen>,
) -> StoreResult<NodeRow> {
    let space: CellSpace = changes.space().clone();
    let row = node_read(tx, &space, node).await?;
    if row.identity.as_ref() == Some(identity) {
        return Ok(row);
    }
    // Silence alone may be an agent that is being upgraded while its tasks keep running.
    if row.state != NodeState::Lost {
        let reason = format!(
            "node {} is not lost yet, and tasks may run on its machine: wait until the cell has given it up",
            row.name
        );
        return Err(StoreError::refused_with(RefusalRemedy::Wait, reason));
    }
    if node_live_guarded(tx, &space, node).await?.as_ref() != seen {
        let recorded =
            row.identity.as_ref().map_or_else(|| "without identity".to_owned(), ToString::to_string);
        let reason = format!("agent {recorded} of node {} still reports: end it first", row.name);
        return Err(StoreError::refused(reason));
    }
    let row = node_event(tx, changes, node, &NodeEvent::AgentAdmitted(identity.clone())).await?.row;
    keys::write(tx, &space, &NodeSessionKey { node }, &NodeSession::default())?;
    Ok(row)
}
