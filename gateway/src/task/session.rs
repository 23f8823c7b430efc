//! The agent that a task's life is, or was, with.

use std::sync::Arc;

use borough_model::{Incarnation, NodeId, TaskRow};
use tonic::Status;

use super::message::{job_found, task_found};
use crate::cell::CellDoor;
use crate::session::desired::Life;
use crate::session::registry::Session;
use crate::status::{status_refused, status_unavailable};

/// A life, and the session of the agent that has it.
pub struct Found {
    /// The task's row.
    pub row: Arc<TaskRow>,
    /// The life that is asked for.
    pub life: Life,
    /// Its agent's session.
    pub session: Arc<Session>,
}

/// Finds the life of a task and its agent. The current life is meant, or the one given, where its node is known.
pub fn life_found(
    door: &CellDoor,
    user: &str,
    job: &str,
    index: u32,
    incarnation: Option<u64>,
) -> Result<Found, Status> {
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
    let session = door.sessions.get(node).ok_or_else(|| {
        let name = door.mirror.read(|state| state.nodes().get(&node).map(|row| row.name.to_string()));
        let name = name.unwrap_or_else(|| node.to_string());
        let text =
            format!("the agent of node {name} has no session with this gateway; try again when it is back");
        status_unavailable("AGENT_AWAY", text)
    })?;
    Ok(Found { life: Life { task: row.id, incarnation: wanted }, row, session })
}

/// The node of a life, where the row still tells: the current one's, or the one the last exit was on.
fn node_of(row: &TaskRow, wanted: Incarnation) -> Option<NodeId> {
    let last = row.exit.as_ref().filter(|exit| exit.incarnation == wanted).and_then(|exit| exit.node);
    if row.incarnation == wanted { row.node.or(last) } else { last }
}
