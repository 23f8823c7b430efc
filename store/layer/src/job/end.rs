//! Ends a stopped job, and removes it some time later.

use borough_kv::Transaction;
use borough_model::job::{JobEvent, JobRow, JobState};
use borough_model::journal::JobName;
use borough_model::task::{TaskRow, TaskState};
use borough_model::{Delta, JobId};

use super::change::job_event;
use super::read::{job_get, job_spec_in_force};
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{
    self, GangKey, JobGateKey, JobNameKey, JobPastKey, JobRowKey, JobSpecKey, Prefix, RangeOptions, TaskKey,
};
use crate::quota::{job_remainder, overflow, quota_give_back};

/// Whether a stopping job has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnding {
    /// The job has ended.
    Ended(JobRow),
    /// Some of its tasks are not dead yet.
    Left { tasks: usize },
}

/// Ends a stopping job once every task with a row is dead, and releases the charge of tasks that were never placed. An
/// ended job stays as it is.
///
/// The rows are read without conflicts. After the commit of the stop, which the gate guards, no task gets a row, and a
/// dead one stays dead.
pub async fn job_tasks_gone(tx: &Transaction, changes: &mut ChangeSet, job: JobId) -> StoreResult<JobEnding> {
    let before = job_get(tx, changes.space(), job).await?;
    if before.state == JobState::Stopping {
        let rows = rows_of(tx, changes, job).await?;
        let tasks = rows.iter().filter(|row| row.state != TaskState::Dead).count();
        if tasks > 0 {
            return Ok(JobEnding::Left { tasks });
        }
        remainder_of(tx, changes, &before, &rows).await?;
    }
    job_event(tx, changes, &before, &JobEvent::TasksGone).map(JobEnding::Ended)
}

/// Releases the charge of the never placed tasks of a job that ends.
pub(super) async fn remainder_give_back(
    tx: &Transaction,
    changes: &ChangeSet,
    job: &JobRow,
) -> StoreResult<()> {
    let rows = rows_of(tx, changes, job.id).await?;
    remainder_of(tx, changes, job, &rows).await
}

async fn remainder_of(
    tx: &Transaction,
    changes: &ChangeSet,
    job: &JobRow,
    rows: &[TaskRow],
) -> StoreResult<()> {
    let spec = job_spec_in_force(tx, changes.space(), job).await?;
    let left = job_remainder(&spec, job.count, rows).map_err(|error| overflow(&error))?;
    quota_give_back(tx, changes.space(), job, &left)
}

async fn rows_of(tx: &Transaction, changes: &ChangeSet, job: JobId) -> StoreResult<Vec<TaskRow>> {
    let prefix = Prefix::<TaskKey>::of(&job);
    let rows = keys::range(tx, changes.space(), &prefix, RangeOptions::snapshot()).await?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Removes an ended job, with its specs and rows. Fails if it has not ended, or if any of its tasks is not dead (those
/// above the count may outlast the job). Removing it twice changes nothing.
pub async fn job_remove(tx: &Transaction, changes: &mut ChangeSet, job: JobId) -> StoreResult<()> {
    let space = changes.space().clone();
    let Some(row) = keys::read(tx, &space, &JobRowKey { job }).await? else { return Ok(()) };
    let rows = rows_of(tx, changes, job).await?;
    let alive = rows.iter().filter(|row| row.state != TaskState::Dead).count();
    if !matches!(row.state, JobState::Ended { .. }) || alive > 0 {
        let reason = format!("job {}/{} is {:?}, {alive} tasks are not dead", row.user, row.name, row.state);
        return Err(StoreError::refused(reason));
    }
    // Gangs are few, and no row names those of earlier attempts any more.
    let gangs = keys::range::<GangKey>(tx, &space, &Prefix::all(), RangeOptions::snapshot()).await?;
    for (key, _) in gangs.iter().filter(|(_, gang)| gang.job == job) {
        keys::clear(tx, &space, key)?;
    }
    let name = JobNameKey { user: row.user.clone(), name: row.name.clone() };
    if keys::read(tx, &space, &name).await? == Some(job) {
        keys::clear(tx, &space, &name)?;
    }
    let JobRow { user, name, .. } = row;
    let past = JobPastKey { user: user.clone(), name: name.clone(), submitted_ms: row.submitted_ms, job };
    keys::clear(tx, &space, &past)?;
    keys::clear(tx, &space, &JobRowKey { job })?;
    keys::clear(tx, &space, &JobGateKey { job })?;
    keys::clear_prefix(tx, &space, &Prefix::<JobSpecKey>::of(&job))?;
    keys::clear_prefix(tx, &space, &Prefix::<TaskKey>::of(&job))?;
    changes.push(Delta::JobRemoved { job, name: Some(JobName { user, job: name }) });
    Ok(())
}
