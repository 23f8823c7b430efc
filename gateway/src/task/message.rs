//! Converts tasks of the mirror to messages, and finds the task that a request means.

use std::sync::Arc;

use borough_model::node::NodeRow;
use borough_model::{JobRow, Name, NodeId, TaskId, TaskRow};
use borough_proto::convert::{TaskContext, name_from_text, resources_to_message, task_to_message};
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
    /// The alloc set that it is in.
    pub alloc_set: Option<Arc<JobRow>>,
    /// The tasks in it, if it is an alloc, with the rows of their jobs.
    pub inside: Vec<(Arc<JobRow>, Arc<TaskRow>)>,
}

/// Tasks in an alloc that a message lists.
const INSIDE_MAX: usize = 64;

/// The tasks in an alloc.
fn tasks_inside(state: &MirrorState, alloc: &TaskRow) -> Vec<(Arc<JobRow>, Arc<TaskRow>)> {
    let job = |job| state.jobs().get(job);
    if job(&alloc.id.job).is_none_or(|row| row.alloc_members().is_none()) {
        return Vec::new();
    }
    let node = alloc.charged_node();
    let there = node.into_iter().flat_map(|node| state.node_tasks(node));
    let inside = there.filter(|task| {
        task.in_alloc().is_some_and(|place| place.alloc == alloc.id && place.attempt == alloc.incarnation)
    });
    let named = inside.filter_map(|task| Some((Arc::clone(job(&task.id.job)?), Arc::clone(task))));
    named.take(INSIDE_MAX).collect()
}

impl TaskNodes {
    /// The nodes that the message of a task names.
    pub(super) fn of(state: &MirrorState, row: &TaskRow) -> Self {
        let node = |id: Option<NodeId>| -> Option<Arc<NodeRow>> { state.nodes().get(&id?).map(Arc::clone) };
        let alloc_set = row.in_alloc().and_then(|place| state.jobs().get(&place.alloc.job)).map(Arc::clone);
        Self {
            own: node(row.node),
            of_exit: node(row.exit.as_ref().and_then(|exit| exit.node)),
            alloc_set,
            inside: tasks_inside(state, row),
        }
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
        alloc_set: nodes.alloc_set.as_ref().map(|set| set.name.to_string()).unwrap_or_default(),
        inside: nodes.inside.iter().map(|(job, task)| inside_message(job, task)).collect(),
    };
    task_to_message(job, row, context)
}

fn inside_message(job: &JobRow, task: &TaskRow) -> v1::TaskInside {
    v1::TaskInside {
        job: job.name.to_string(),
        index: task.id.index,
        resources: task.in_alloc().map(|place| resources_to_message(&place.resources)),
    }
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
