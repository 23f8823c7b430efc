//! Finds the agent of a task's attempt, in a session of this gateway or of another one.

use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::{Incarnation, NodeId, TaskRow};
use borough_store::node::node_live_read;
use tonic::{Code, Status};

use super::away::TaskAgent;
use super::message::{job_found, task_found};
use crate::cell::CellContext;
use crate::peer::Peers;
use crate::session::desired::DesiredAttempt;
use crate::session::registry::RegisteredSession;
use crate::status::{status_from_store, status_refused, status_with};

/// An attempt, with the session of the agent that has it.
pub(super) struct FoundAttempt {
    pub row: Arc<TaskRow>,
    pub attempt: DesiredAttempt,
    pub session: Arc<RegisteredSession>,
    pub agent: TaskAgent,
}

/// Which gateway can reach the agent.
pub(super) enum AgentReached {
    /// This gateway holds the session.
    Here(FoundAttempt),
    /// The gateway with this address.
    Elsewhere(String),
}

/// The task, or attempt of it, that a caller means.
pub(super) struct WantedAttempt<'a> {
    pub user: &'a str,
    pub job: &'a str,
    pub index: u32,
    /// `None`: the current attempt.
    pub incarnation: Option<u64>,
    /// Whether another gateway has forwarded the call. It is then not forwarded again.
    pub handed_on: bool,
}

/// Finds an attempt, the current one by default, and the gateway that reaches its agent. The attempt's node must be
/// known.
pub(super) async fn attempt_found(
    cell: &Arc<CellContext>,
    peers: &Peers,
    wanted: &WantedAttempt<'_>,
) -> Result<AgentReached, Status> {
    let &WantedAttempt { user, job, index, incarnation, handed_on } = wanted;
    let row = cell.state(|state| {
        let job = job_found(state, &cell.name, user, job)?;
        task_found(state, &cell.name, job, index)
    })??;
    let current = row.incarnation;
    let wanted = incarnation.map_or(current, Incarnation);
    let node = node_of(&row, wanted).ok_or_else(|| {
        let reason = "NO_SUCH_ATTEMPT";
        match attempts_known(&row).as_slice() {
            [] if current.0 == 0 => {
                let task = format!("{user}/{job}/{index}");
                let text = format!("task {task} was never placed, so there is nothing of it on any node");
                let facts = [("task".to_owned(), task)].into();
                status_with(Code::FailedPrecondition, "NEVER_PLACED", text, facts)
            }
            [] => status_refused(reason, format!("no node has output of task {user}/{job}/{index} any more")),
            known => {
                let known = known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let text = format!("no attempt {wanted} of task {user}/{job}/{index}; known: {known}");
                status_with(Code::NotFound, reason, text, Default::default())
            }
        }
    })?;
    let agent = TaskAgent { cell: Arc::clone(cell), task: format!("{user}/{job}/{index}"), node };
    if let Some(session) = cell.sessions.get(node) {
        if agent.is_silent(&session) {
            return Err(agent.away().await);
        }
        return Ok(AgentReached::Here(FoundAttempt {
            attempt: DesiredAttempt { task: row.id, incarnation: wanted },
            row,
            session,
            agent,
        }));
    }
    if !handed_on
        && let Some(gateway) = gateway_of(cell, node).await?
        && !peers.is_own(&gateway)
    {
        return Ok(AgentReached::Elsewhere(gateway));
    }
    Err(agent.away().await)
}

/// The gateway that holds the session in force of the node.
pub(super) async fn gateway_of(cell: &CellContext, node: NodeId) -> Result<Option<String>, Status> {
    let space = &cell.space;
    let live = cell.db.run("node_live_read", Idempotency::ReadOnly, |tx, _| async move {
        node_live_read(&tx, space, node).await
    });
    let live = live.await.map_err(|error| status_from_store(&error))?;
    Ok(live.map(|seen| seen.live.gateway).filter(|gateway| !gateway.is_empty()))
}

/// The attempts whose node the row still has: the one that ended last, and the current one.
fn attempts_known(row: &TaskRow) -> Vec<Incarnation> {
    let ended = row.exit.as_ref().map(|exit| exit.incarnation);
    let mut known: Vec<Incarnation> = ended.into_iter().chain([row.incarnation]).collect();
    known.dedup();
    known.retain(|&attempt| node_of(row, attempt).is_some());
    known
}

/// The node of an attempt, if the row still has it: that of the current attempt, or that of the last exit.
fn node_of(row: &TaskRow, wanted: Incarnation) -> Option<NodeId> {
    let last = row.exit.as_ref().filter(|exit| exit.incarnation == wanted).and_then(|exit| exit.node);
    if row.incarnation == wanted { row.node.or(last) } else { last }
}
