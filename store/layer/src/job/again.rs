//! Begins tasks again that were over for good.

use borough_kv::Transaction;
use borough_model::Delta;
use borough_model::disruption::RECHECKED_MAX;
use borough_model::job::{JobEvent, JobKind, JobRow, JobSpec, JobState};
use borough_model::task::{TaskEvent, TaskRow, Transition, Verdict, task_transition};

use super::change::job_event;
use super::read::job_specs_held;
use super::update::{rows_charged, surge_begin_if_room};
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, TaskKey};
use crate::quota::{ChargeBasis, QuotaUsed, overflow, quota_charge};

/// Begins the tasks of a service again that have failed for good: it has another version now. If its quota has no room
/// for them, they stay as they are. Of a job with more than 1,024 tasks they do too: reading all rows would cost more
/// than the update.
pub(super) async fn failed_revive(
    tx: &Transaction,
    changes: &mut ChangeSet,
    row: JobRow,
    spec: &JobSpec,
) -> StoreResult<JobRow> {
    let is_tried = row.state == JobState::Running && spec.kind != JobKind::Batch;
    if row.failed == 0 || !is_tried || row.count > RECHECKED_MAX {
        return Ok(row);
    }
    let mut failed = rows_charged(tx, changes, &row).await?;
    failed.retain(|task| task.id.index < row.count && task.is_over_as(Verdict::Failed));
    match tasks_revive(tx, changes, &row, spec, &failed).await {
        Err(StoreError::Refused { .. }) => Ok(row),
        revived => revived,
    }
}

/// Begins tasks of a running job again that are over for good, and charges them. A refusal has written nothing.
pub(crate) async fn tasks_revive(
    tx: &Transaction,
    changes: &mut ChangeSet,
    row: &JobRow,
    spec: &JobSpec,
    tasks: &[TaskRow],
) -> StoreResult<JobRow> {
    if tasks.is_empty() {
        return Ok(row.clone());
    }
    let mut revived = Vec::with_capacity(tasks.len());
    for task in tasks {
        revived.push(task_revived(tx, changes, task).await?);
    }
    let held = job_specs_held(tx, changes.space(), row).await?;
    let basis = ChargeBasis::with(row, spec, &held);
    let share = |task: &TaskRow| basis.share_of(task.id.index);
    let sum = tasks.iter().try_fold(QuotaUsed::default(), |sum, task| sum.plus(&share(task)));
    let sum = sum.map_err(|error| overflow(&error))?;
    quota_charge(tx, changes.space(), row, &sum, changes.at_ms()).await?;
    for row in revived {
        keys::write(tx, changes.space(), &TaskKey::of(row.id), &row)?;
        changes.push(Delta::Task { row });
    }
    let ended = |verdict| {
        let ended = tasks.iter().filter(|task| task.is_over_as(verdict)).count();
        u32::try_from(ended).unwrap_or(u32::MAX)
    };
    let (succeeded, failed) = (ended(Verdict::Succeeded), ended(Verdict::Failed));
    job_event(tx, changes, row, &JobEvent::TasksRevived { succeeded, failed })
}

/// The row of a task that begins again. It has no node, so no row but its own changes. One that was read as over is so
/// in its transaction: the charge would have no owner otherwise.
async fn task_revived(tx: &Transaction, changes: &ChangeSet, read: &TaskRow) -> StoreResult<TaskRow> {
    let row = keys::read(tx, changes.space(), &TaskKey::of(read.id)).await?.filter(|row| row == read);
    let row = row.ok_or_else(|| StoreError::refused(format!("task {} has changed; try again", read.id)))?;
    let revived = task_transition(&row, &TaskEvent::Revived, changes.at_ms());
    let Transition { row, .. } = revived
        .map_err(|refused| StoreError::refused(format!("task {} cannot begin again: {refused}", read.id)))?;
    Ok(row)
}

/// Begins a rollout again that has failed: the same version, with all its time. Failures before count no more. The
/// steps of the rollout forget them ([`crate::rollout::rollout_retry`]). `in_force` is the spec in force of `before`,
/// which was read with a conflict.
pub(crate) async fn rollout_again(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    in_force: &JobSpec,
) -> StoreResult<JobRow> {
    let Some(failed) = before.rollout_failed() else { return Ok(before.clone()) };
    let again = Box::new(failed.again(changes.actor(), changes.at_ms()));
    let row = job_event(tx, changes, before, &JobEvent::RolloutSet { rollout: again })?;
    let row = failed_revive(tx, changes, row, in_force).await?;
    surge_begin_if_room(tx, changes, row, in_force).await
}
