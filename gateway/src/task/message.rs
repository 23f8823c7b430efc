//! Converts tasks of the mirror to messages, and finds the task that a request means.

use std::sync::Arc;

use borough_model::node::NodeRow;
use borough_model::{JobRow, Name, NodeId, TaskId, TaskRow};
use borough_proto::convert::{TaskContext, name_from_text, task_to_message};
use borough_proto::v1;
use borough_store::mirror::MirrorState;
use tonic::Status;

use crate::cell::CellContext;
use crate::session::desired::DesiredAttempt;
use crate::status::{status_from_field, status_not_found};

/// The nodes that the message of a task names.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskNodes {
    pub own: Option<Arc<NodeRow>>,
    /// Where its last attempt ended.
    pub of_exit: Option<Arc<NodeRow>>,
}

impl TaskNodes {
    /// The nodes that the message of a task names.
    pub(super) fn of(state: &MirrorState, row: &TaskRow) -> Self {
        let node = |id: Option<NodeId>| -> Option<Arc<NodeRow>> { state.nodes().get(&id?).map(Arc::clone) };
        Self { own: node(row.node), of_exit: node(row.exit.as_ref().and_then(|exit| exit.node)) }
    }
}

/// Converts a task to a message. A task without a row is pending and was never placed.
pub fn task_message(cell: &CellContext, state: &MirrorState, job: &JobRow, row: &TaskRow) -> v1::Task {
    task_message_of(cell, job, row, &TaskNodes::of(state, row))
}

/// As [`task_message`], without the mirror.
pub(super) fn task_message_of(
    cell: &CellContext,
    job: &JobRow,
    row: &TaskRow,
    nodes: &TaskNodes,
) -> v1::Task {
    let name = |node: Option<&Arc<NodeRow>>| node.map(|row| row.name.to_string()).unwrap_or_default();
    let attempt = DesiredAttempt { task: row.id, incarnation: row.incarnation };
    let session = row.node.and_then(|node| cell.sessions.get(node));
    let context = TaskContext {
        node: name(nodes.own.as_ref()),
        host: nodes.own.as_ref().map(|row| row.host.clone()).unwrap_or_default(),
        exit_node: name(nodes.of_exit.as_ref()),
        usage: session.and_then(|session| session.usage(attempt)),
    };
    task_to_message(job, row, context)
}

/// The newest job with that user and name.
pub fn job_found<'a>(
    state: &'a MirrorState,
    cell: &Name,
    user: &str,
    job: &str,
) -> Result<&'a Arc<JobRow>, Status> {
    let field = |refused| status_from_field(&refused);
    let user = name_from_text("user", user).map_err(field)?;
    let job = name_from_text("job", job).map_err(field)?;
    state
        .job_by_name(&user, &job)
        .ok_or_else(|| status_not_found(&format!("job {user}/{job} in cell {cell}")))
}

/// The row of one task of a job. A task that was never placed has a blank one.
pub fn task_found(
    state: &MirrorState,
    cell: &Name,
    job: &JobRow,
    index: u32,
) -> Result<Arc<TaskRow>, Status> {
    let id = TaskId { job: job.id, index };
    if let Some(row) = state.tasks().get(&id) {
        return Ok(Arc::clone(row));
    }
    if index < job.count {
        return Ok(Arc::new(TaskRow::never_placed(id)));
    }
    let known = match job.count {
        0 => "its job has no tasks".to_owned(),
        1 => "the only one is 0".to_owned(),
        count => format!("its job has 0 to {}", count - 1),
    };
    let what = format!("task {}/{}/{index} in cell {cell}; {known}", job.user, job.name);
    Err(status_not_found(&what))
}
