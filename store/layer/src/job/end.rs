//! Ends a stopped job, and removes it some time later.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::job::{JobEvent, JobRow, JobState};
use borough_model::journal::JobName;
use borough_model::task::{TaskRow, TaskState};
use borough_model::{Delta, JobId};

use super::change::job_event;
use super::read::{job_get, job_spec_in_force, job_specs_held};
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::{
    self, CellSpace, GangKey, JobNameKey, JobPastKey, JobRowKey, JobSpecKey, Prefix, RangeOptions, TaskKey,
};
use crate::quota::{ChargeBasis, job_remainder, overflow, quota_give_back};

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
    let held = job_specs_held(tx, changes.space(), job).await?;
    let basis = ChargeBasis::with(job, &spec, &held);
    let left = job_remainder(&basis, job.count, rows).map_err(|error| overflow(&error))?;
    quota_give_back(tx, changes.space(), job, &left)
}

async fn rows_of(tx: &Transaction, changes: &ChangeSet, job: JobId) -> StoreResult<Vec<TaskRow>> {
    let prefix = Prefix::<TaskKey>::of(&job);
    let rows = keys::range(tx, changes.space(), &prefix, RangeOptions::snapshot()).await?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The result of [`jobs_remove`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsRemoved {
    /// The jobs that were looked at, from the first on. The next call begins after them.
    pub done: usize,
    /// How many of them had a row and have none any more.
    pub removed: usize,
    /// Those of them that stay for now: they have not ended, or a task above their count is not dead.
    pub left: Vec<JobId>,
}

/// Removes ended jobs, each with its specs and rows, until the transaction has `bytes_max` bytes; at least one.
/// Removing a job twice changes nothing. The work per job does not depend on its tasks.
pub async fn jobs_remove(
    tx: &Transaction,
    changes: &mut ChangeSet,
    jobs: &[JobId],
    bytes_max: usize,
) -> StoreResult<JobsRemoved> {
    // Gangs are few, and no row names those of earlier attempts any more.
    let gangs = keys::range::<GangKey>(tx, changes.space(), &Prefix::all(), RangeOptions::snapshot()).await?;
    let mut gangs_of: BTreeMap<JobId, Vec<GangKey>> = BTreeMap::new();
    for (key, gang) in gangs {
        gangs_of.entry(gang.job).or_default().push(key);
    }
    let mut removed = JobsRemoved::default();
    for job in jobs {
        if removed.done > 0 && tx.approximate_size().await? >= bytes_max {
            break;
        }
        removed.done = removed.done.saturating_add(1);
        let gangs = gangs_of.get(job).map_or(&[][..], Vec::as_slice);
        match job_remove(tx, changes, *job, gangs).await? {
            Removal::Done => removed.removed = removed.removed.saturating_add(1),
            Removal::Absent => {}
            Removal::TooEarly => removed.left.push(*job),
        }
    }
    Ok(removed)
}

/// The result of one removal.
enum Removal {
    Done,
    /// Another process was first.
    Absent,
    TooEarly,
}

async fn job_remove(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    gangs: &[GangKey],
) -> StoreResult<Removal> {
    let space = changes.space().clone();
    let Some(row) = keys::read(tx, &space, &JobRowKey { job }).await? else { return Ok(Removal::Absent) };
    if !matches!(row.state, JobState::Ended { .. }) || above_count_alive(tx, &space, &row).await? {
        return Ok(Removal::TooEarly);
    }
    for gang in gangs {
        keys::clear(tx, &space, gang)?;
    }
    let name = JobNameKey { user: row.user.clone(), name: row.name.clone() };
    if keys::read(tx, &space, &name).await? == Some(job) {
        keys::clear(tx, &space, &name)?;
    }
    let JobRow { user, name, .. } = row;
    let past = JobPastKey { user: user.clone(), name: name.clone(), submitted_ms: row.submitted_ms, job };
    keys::clear(tx, &space, &past)?;
    keys::clear(tx, &space, &JobRowKey { job })?;
    keys::clear_prefix(tx, &space, &Prefix::<JobSpecKey>::of(&job))?;
    keys::clear_prefix(tx, &space, &Prefix::<TaskKey>::of(&job))?;
    changes.push(Delta::JobRemoved { job, name: Some(JobName { user, job: name }) });
    Ok(Removal::Done)
}

/// Whether a task above the count of an ended job is alive. Those below it are dead: their ends have ended the job, or
/// its stop waited for them.
async fn above_count_alive(tx: &Transaction, space: &CellSpace, row: &JobRow) -> StoreResult<bool> {
    let after = row.count.checked_sub(1).map(|index| TaskKey { job: row.id, index });
    let options = RangeOptions { after, ..RangeOptions::snapshot() };
    let above = keys::range(tx, space, &Prefix::<TaskKey>::of(&row.id), options).await?;
    Ok(above.iter().any(|(_, task)| task.state != TaskState::Dead))
}
