//! Tries again what has failed: a rollout that its owner begins again, and tasks in the pause of another version.

use borough_kv::Transaction;
use borough_model::disruption::RECHECKED_MAX;
use borough_model::job::{JobEvent, JobRow, JobSpec};
use borough_model::task::{TaskEvent, TaskRow, TaskState};
use borough_model::{Incarnation, JobId, TaskId};

use super::rollout_at;
use crate::error::StoreResult;
use crate::job::{failed_revive, job_event, job_get, surge_begin_if_room};
use crate::journal::ChangeSet;
use crate::task::{attempts_apply, job_tasks_read};

/// Begins a rollout again that has failed: the same version, with all its time. Failures before count no more. Of a job
/// with more than 1,024 tasks the steps of the rollout forget them ([`rollout_retry`]). `in_force` is the spec in force
/// of `before`, which was read with a conflict.
pub(crate) async fn rollout_again(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    in_force: &JobSpec,
) -> StoreResult<JobRow> {
    let Some(failed) = before.rollout_failed() else { return Ok(before.clone()) };
    let again = Box::new(failed.again(changes.actor(), changes.at_ms()));
    let row = job_event(tx, changes, before, &JobEvent::RolloutSet { rollout: again })?;
    if row.count <= RECHECKED_MAX {
        let tasks = job_tasks_read(tx, changes.space(), row.id).await?;
        let failed = tasks.iter().filter(|task| task.failures > 0 && task.id.index < row.count);
        let failed: Vec<_> = failed.map(|task| (task.id, task.incarnation)).collect();
        attempts_apply(tx, changes, &failed, |_| Some(TaskEvent::FailuresForgotten)).await?;
    }
    let row = failed_revive(tx, changes, row, in_force).await?;
    surge_begin_if_room(tx, changes, row, in_force).await
}

/// Lets tasks of a job be tried at once: they wait for failures of another version, or are judged by failures before
/// the rollout began again. That is progress. Does nothing if the job's row has another revision by now. Returns how
/// many tasks were waiting.
pub async fn rollout_retry(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    tasks: &[(TaskId, Incarnation)],
) -> StoreResult<usize> {
    let row = job_get(tx, changes.space(), job).await?;
    let Some(rollout) = rollout_at(&row, revision) else { return Ok(0) };
    let stepped = Box::new(rollout.stepped(0).progressed(changes.at_ms()));
    let again_ms = rollout.again_ms;
    job_event(tx, changes, &row, &JobEvent::RolloutSet { rollout: stepped })?;
    // Whatever else has happened since the look is of another attempt.
    let forgotten = |task: &TaskRow| {
        let is_behind = task.state == TaskState::Pending || task.changed_ms <= again_ms;
        is_behind.then_some(TaskEvent::FailuresForgotten)
    };
    attempts_apply(tx, changes, tasks, forgotten).await
}

/// Records when a rollout made progress: what made it may be gone at the next look. Does nothing if the job's row has
/// another revision by now.
pub async fn rollout_progress(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    progress_ms: i64,
) -> StoreResult<()> {
    let row = job_get(tx, changes.space(), job).await?;
    let Some(rollout) = rollout_at(&row, revision) else { return Ok(()) };
    let rollout = Box::new(rollout.progressed(progress_ms));
    job_event(tx, changes, &row, &JobEvent::RolloutSet { rollout }).map(drop)
}
