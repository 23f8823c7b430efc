//! The agent that a task's life is, or was, with: in a session of this gateway, or of another.

use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::{Incarnation, NodeId, TaskRow};
use borough_store::node::node_live_read;
use tonic::Status;

use super::message::{job_found, task_found};
use crate::cell::CellDoor;
use crate::peer::Peers;
use crate::session::desired::Life;
use crate::session::registry::Session;
use crate::status::{status_from_store, status_refused, status_unavailable};

/// A life, and the session of the agent that has it.
pub struct Found {
    /// The task's row.
    pub row: Arc<TaskRow>,
    /// The life that is asked for.
    pub life: Life,
    /// Its agent's session.
    pub session: Arc<Session>,
}

/// Who can reach the agent.
pub enum Reached {
    /// This gateway.
    Here(Found),
    /// The gateway of this address.
    Elsewhere(String),
}

/// Which task, or which life of it, a caller means.
pub struct Wanted<'a> {
    /// Its user.
    pub user: &'a str,
    /// Its job.
    pub job: &'a str,
    /// Its index.
    pub index: u32,
    /// The life; `None` is the current one.
    pub incarnation: Option<u64>,
    /// Whether another gateway has handed the call on, so that it ends here.
    pub handed_on: bool,
}

/// Finds the life of a task and who reaches its agent. The current life is meant, or the one given, where its node is
/// known.
pub async fn life_found(door: &CellDoor, peers: &Peers, wanted: &Wanted<'_>) -> Result<Reached, Status> {
    let &Wanted { user, job, index, incarnation, handed_on } = wanted;
    let row = door.state(|state| {
        let job = job_found(state, &door.name, user, job)?;
        task_found(state, &door.name, job, index)
    })??;
    let current = row.incarnation;
    let wanted = incarnation.map_or(current, Incarnation);
    let node = node_of(&row, wanted).ok_or_else(|| {
        let text = match current.0 {
            0 => format!("task {user}/{job}/{index} was never placed, so there is nothing of it on any node"),
            _ => format!(
                "incarnation {wanted} of task {user}/{job}/{index} is not known; the current one is {current}"
            ),
        };
        status_refused("NO_SUCH_LIFE", text)
    })?;
    if let Some(session) = door.sessions.get(node) {
        return Ok(Reached::Here(Found { life: Life { task: row.id, incarnation: wanted }, row, session }));
    }
    if !handed_on
        && let Some(gateway) = gateway_of(door, node).await?
        && !peers.is_own(&gateway)
    {
        return Ok(Reached::Elsewhere(gateway));
    }
    let name = door.mirror.read(|state| state.nodes().get(&node).map(|row| row.name.to_string()));
    let name = name.unwrap_or_else(|| node.to_string());
    let text = format!("the agent of node {name} has no session with a gateway; try again when it is back");
    Err(status_unavailable("AGENT_AWAY", text))
}

/// The gateway that last renewed the node's lease.
async fn gateway_of(door: &CellDoor, node: NodeId) -> Result<Option<String>, Status> {
    let space = &door.space;
    let live = door.db.run("node_live_read", Idempotency::ReadOnly, |tx, _| async move {
        node_live_read(&tx, space, node).await
    });
    let live = live.await.map_err(|error| status_from_store(&error))?;
    Ok(live.map(|live| live.gateway).filter(|gateway| !gateway.is_empty()))
}

/// The node of a life, where the row still tells: the current one's, or the one the last exit was on.
fn node_of(row: &TaskRow, wanted: Incarnation) -> Option<NodeId> {
    let last = row.exit.as_ref().filter(|exit| exit.incarnation == wanted).and_then(|exit| exit.node);
    if row.incarnation == wanted { row.node.or(last) } else { last }
}
