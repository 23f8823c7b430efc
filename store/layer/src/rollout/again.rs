//! Steps of a rollout beside its replacements: tasks in the pause of another version are tried, and progress is kept.

use borough_kv::Transaction;
use borough_model::job::JobEvent;
use borough_model::task::{TaskEvent, TaskRow, TaskState};
use borough_model::{Incarnation, JobId, TaskId};

use super::rollout_at;
use crate::error::StoreResult;
use crate::job::{job_event, job_get};
use crate::journal::ChangeSet;
use crate::task::attempts_apply;

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
