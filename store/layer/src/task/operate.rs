//! Actions of controllers and owners on tasks.

use borough_kv::Transaction;
use borough_model::job::JobState;
use borough_model::node::NodeState;
use borough_model::task::{StopReason, TaskEvent, TaskRow, TaskState};
use borough_model::{Incarnation, JobId, NodeId, TaskId};

use super::TaskBook;
use crate::error::{StoreError, StoreResult};
use crate::job::{job_get, job_spec_in_force, tasks_revive};
use crate::journal::ChangeSet;
use crate::keys::{self, NodeKey, NodeTaskKey, Prefix, RangeOptions, TaskKey};

/// Begins to end attempts: this commit withdraws each endpoint, the rest follows on the node. Leaves a task alone that
/// has another attempt by now, or no row. Returns how many rows have changed.
pub async fn task_stop_begin(
    tx: &Transaction,
    changes: &mut ChangeSet,
    attempts: &[(TaskId, Incarnation)],
    reason: StopReason,
) -> StoreResult<usize> {
    attempts_apply(tx, changes, attempts, |_| Some(TaskEvent::StopRequested { reason })).await
}

/// Applies the event that `event` gives for its row to each of `attempts` that is still current.
pub(crate) async fn attempts_apply(
    tx: &Transaction,
    changes: &mut ChangeSet,
    attempts: &[(TaskId, Incarnation)],
    event: impl Fn(&TaskRow) -> Option<TaskEvent>,
) -> StoreResult<usize> {
    let mut book = TaskBook::read(tx, changes.space(), attempts.iter().map(|&(task, _)| task)).await?;
    let mut changed = 0_usize;
    for &(task, incarnation) in attempts {
        let same = |row: &&TaskRow| row.revision > 0 && row.incarnation == incarnation;
        let Some(event) = book.task(task).filter(same).and_then(&event) else { continue };
        let applied = book.apply(task, &event, changes.at_ms())?;
        // An event that is no longer possible was overtaken by another one.
        changed = changed.saturating_add(usize::from(applied.unwrap_or(false)));
    }
    book.write(tx, changes).await?;
    Ok(changed)
}

/// The result of one step of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TaskSweep {
    /// Rows that have changed.
    pub changed: usize,
    /// Where to continue; `None` at the end.
    pub next: Option<TaskId>,
}

/// Begins to end the tasks that a job no longer wants: all of a stopping job, or those above the count. Visits at most
/// `limit` rows after `after`. Tasks that were never placed have no row and need nothing.
///
/// The job's row is read with a conflict, so tasks of a job that grows again meanwhile are not ended.
pub async fn task_unwanted_stop(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    after: Option<TaskId>,
    limit: usize,
) -> StoreResult<TaskSweep> {
    let owner = job_get(tx, changes.space(), job).await?;
    let first = if owner.state == JobState::Stopping { 0 } else { owner.count };
    let after = after.map(|task| task.index).max(first.checked_sub(1));
    let after = after.map(|index| TaskKey { job, index });
    let options = RangeOptions { after, limit: limit.max(1), ..RangeOptions::default() };
    let rows = keys::range(tx, changes.space(), &Prefix::<TaskKey>::of(&job), options).await?;
    let next = rows.last().filter(|_| rows.len() >= limit.max(1)).map(|(_, row)| row.id);
    let alive = rows.into_iter().filter(|(_, row)| row.state != TaskState::Dead);
    let alive: Vec<TaskRow> = alive.map(|(_, row)| row).collect();
    let mut book = TaskBook::default();
    let known = alive.iter().map(|row| (row.id, Some(row.clone())));
    book.extend_rows(tx, changes.space(), known).await?;
    let mut changed = 0_usize;
    for row in &alive {
        let reason = StopReason::of_unwanted(&owner, row.id.index);
        let applied = book.apply(row.id, &TaskEvent::StopRequested { reason }, changes.at_ms())?;
        changed = changed.saturating_add(usize::from(applied.unwrap_or(false)));
    }
    book.write(tx, changes).await?;
    Ok(TaskSweep { changed, next })
}

/// Revives tasks below a running job's count that ended only because the job had been smaller. They are pending again
/// and keep the numbers of their attempts. Those that are still ending are revived later. Visits at most `limit` rows
/// after `after`.
///
/// The job's row is read with a conflict, so nothing is revived of a job that shrinks or stops meanwhile. The owner of
/// the charge does not change: below the count it is the job's already.
pub async fn task_wanted_revive(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    after: Option<TaskId>,
    limit: usize,
) -> StoreResult<TaskSweep> {
    let row = job_get(tx, changes.space(), job).await?;
    if row.state != JobState::Running {
        return Ok(TaskSweep::default());
    }
    let options =
        RangeOptions { after: after.map(TaskKey::of), limit: limit.max(1), ..RangeOptions::snapshot() };
    let rows = keys::range(tx, changes.space(), &Prefix::<TaskKey>::of(&job), options).await?;
    let last = rows.last().filter(|_| rows.len() >= limit.max(1)).map(|(_, row)| row.id);
    let wanted = rows.iter().map(|(_, task)| task);
    let wanted = wanted.filter(|task| task.id.index < row.count && task.is_spared()).map(|task| task.id);
    let mut book = TaskBook::read(tx, changes.space(), wanted).await?;
    let tasks: Vec<TaskId> = book.rows().map(|row| row.id).collect();
    let mut changed = 0_usize;
    for task in tasks {
        let applied = book.apply(task, &TaskEvent::JobGrown, changes.at_ms())?;
        changed = changed.saturating_add(usize::from(applied.unwrap_or(false)));
    }
    book.write(tx, changes).await?;
    Ok(TaskSweep { changed, next: last.filter(|task| task.index < row.count) })
}

/// Ends the current attempt of a task at its owner's request, so that the next one begins. A task in back-off is tried
/// again at once. One that has succeeded or failed for good begins again, if the quota has room for it.
pub async fn task_restart(tx: &Transaction, changes: &mut ChangeSet, task: TaskId) -> StoreResult<TaskRow> {
    let row = keys::read(tx, changes.space(), &TaskKey::of(task)).await?;
    if let Some(row) = row.filter(TaskRow::is_over_by_itself) {
        let job = job_get(tx, changes.space(), task.job).await?;
        if job.state == JobState::Running && task.index < job.count {
            let spec = job_spec_in_force(tx, changes.space(), &job).await?;
            tasks_revive(tx, changes, &job, &spec, &[row]).await?;
            let revived = keys::read(tx, changes.space(), &TaskKey::of(task)).await?;
            return revived.ok_or_else(|| StoreError::not_found(format!("task {task}")));
        }
    }
    let event = TaskEvent::StopRequested { reason: StopReason::Restart };
    owner_apply(tx, changes, task, &event).await
}

/// Ends the current attempt of a task at its owner's request. The scheduler prefers another node for the next one.
///
/// Refuses a task that waits for a node: it has no attempt to stop.
pub async fn task_attempt_stop(
    tx: &Transaction,
    changes: &mut ChangeSet,
    task: TaskId,
) -> StoreResult<TaskRow> {
    let row = keys::read(tx, changes.space(), &TaskKey::of(task)).await?;
    if row.is_some_and(|row| row.state == TaskState::Pending) {
        let job = job_get(tx, changes.space(), task.job).await?;
        let named = format!("{}/{}/{}", job.user, job.name, task.index);
        let reason = format!(
            "task {named}: it waits for a node and has no attempt to stop; to end its pause after a failure: borough \
             task restart {named}"
        );
        return Err(StoreError::refused(reason));
    }
    owner_apply(tx, changes, task, &TaskEvent::MoveRequested).await
}

/// Applies an event that ends an attempt of a running job's task. The refusal says why there is none.
async fn owner_apply(
    tx: &Transaction,
    changes: &mut ChangeSet,
    task: TaskId,
    event: &TaskEvent,
) -> StoreResult<TaskRow> {
    let job = job_get(tx, changes.space(), task.job).await?;
    let refuse =
        |why: &str| Err(StoreError::refused(format!("task {}/{}/{}: {why}", job.user, job.name, task.index)));
    if task.index >= job.count {
        return refuse("the job has no such task");
    }
    if job.state != JobState::Running {
        return refuse("its job does not run");
    }
    let mut book = TaskBook::read(tx, changes.space(), [task]).await?;
    let never_placed = book.task(task).is_none_or(|row| row.revision == 0);
    if never_placed || book.task(task).is_some_and(|row| row.state == TaskState::Dead) {
        return refuse(if never_placed { "it was never placed" } else { "it is over for good" });
    }
    if let Err(refused) = book.apply(task, event, changes.at_ms())? {
        return refuse(&refused.to_string());
    }
    let row = book.task(task).cloned();
    book.write(tx, changes).await?;
    row.ok_or_else(|| StoreError::not_found(format!("task {task}")))
}

/// Removes tasks from a node that was declared lost: they are not charged any more, and their endpoints are demoted to
/// unknown health. Visits at most `limit` of them after `after`. Fails if the node is not lost.
///
/// The commit that declared it lost wrote its commitment, so nothing is placed there afterwards.
pub async fn task_node_lost(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    after: Option<TaskId>,
    limit: usize,
) -> StoreResult<TaskSweep> {
    let row = keys::read(tx, changes.space(), &NodeKey { node }).await?;
    if row.is_none_or(|row| row.state != NodeState::Lost) {
        return Err(StoreError::refused(format!("node {node} is not lost")));
    }
    let after = after.map(|task| NodeTaskKey::of(node, task));
    let (keys, next) = keys::chunk_read(tx, changes.space(), &Prefix::of(&node), after, limit).await?;
    let tasks: Vec<TaskId> = keys.into_iter().map(|(key, ())| key.task()).collect();
    let mut book = TaskBook::read(tx, changes.space(), tasks.iter().copied()).await?;
    let mut changed = 0_usize;
    for task in tasks {
        let applied = book.apply(task, &TaskEvent::NodeDeclaredLost { node }, changes.at_ms())?;
        changed = changed.saturating_add(usize::from(applied.unwrap_or(false)));
    }
    book.write(tx, changes).await?;
    Ok(TaskSweep { changed, next: next.map(|key| key.task()) })
}

/// Gives up lost tasks, to be placed elsewhere: this commit withdraws their endpoints. A task of a daemon job is dead
/// then, since it runs on its node or nowhere. Leaves tasks alone that have another attempt by now, or whose node is no
/// longer lost: the node's report decides about those.
pub async fn task_reschedule_lost(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    attempts: &[(TaskId, Incarnation)],
) -> StoreResult<usize> {
    let row = keys::read(tx, changes.space(), &NodeKey { node }).await?;
    if row.is_some_and(|row| row.state != NodeState::Lost) {
        return Ok(0);
    }
    let given_up = |row: &TaskRow| {
        if row.state != TaskState::Lost || row.node != Some(node) {
            return None;
        }
        let withdrawn = TaskEvent::StopRequested { reason: StopReason::NodeLeft };
        Some(if row.daemon_node.is_some() { withdrawn } else { TaskEvent::RescheduleLost })
    };
    attempts_apply(tx, changes, attempts, given_up).await
}
