//! Growing and shrinking.

use borough_kv::Transaction;
use borough_model::TaskId;
use borough_model::job::{JobEvent, JobRow, JobSpec};
use borough_model::resource::resources_sub;
use borough_model::task::{ChargeOwner, TaskEvent, TaskRow, TaskState, Verdict};

use super::change::job_event;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, Prefix, RangeOptions, TaskKey};
use crate::quota::{QuotaUsed, job_charge, overflow, quota_charge, quota_give_back};
use crate::task::TaskBook;

/// Sets the count of a job whose row was read with a conflict.
///
/// The rows from the lower of both counts on are read with a conflict: they say which indexes were never placed (their
/// charge is the job's), which of them have ended and were or will be counted, and which die and are wanted again.
pub(super) async fn count_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    spec: &JobSpec,
    count: u32,
) -> StoreResult<JobRow> {
    if count == before.count {
        return Ok(before.clone());
    }
    let low = count.min(before.count);
    let rows = rows_from(tx, changes, before, low).await?;
    let between: Vec<&TaskRow> = rows.iter().filter(|row| row.id.index < count.max(before.count)).collect();
    let ended = |verdict: Verdict| {
        let ended = between.iter().filter(|row| is_counted(row, verdict)).count();
        u32::try_from(ended).unwrap_or(u32::MAX)
    };
    let (succeeded, failed) = (ended(Verdict::Succeeded), ended(Verdict::Failed));
    let event = if count < before.count {
        let unplaced = charge_without(spec, count..before.count, between.iter().copied())?;
        quota_give_back(tx, changes.space(), before, &unplaced)?;
        JobEvent::CountSet {
            count,
            succeeded: before.succeeded.saturating_sub(succeeded),
            failed: before.failed.saturating_sub(failed),
        }
    } else {
        let kept = revive(tx, changes, &between).await?;
        let new = charge_without(spec, before.count..count, kept)?;
        quota_charge(tx, changes.space(), before, &new, changes.at_ms()).await?;
        JobEvent::CountSet {
            count,
            succeeded: before.succeeded.saturating_add(succeeded),
            failed: before.failed.saturating_add(failed),
        }
    };
    job_event(tx, changes, before, &event)
}

/// Whether a row was counted in its job's row while its index was below the count.
fn is_counted(row: &TaskRow, verdict: Verdict) -> bool {
    row.state == TaskState::Dead && row.verdict == Some(verdict)
}

async fn rows_from(
    tx: &Transaction,
    changes: &ChangeSet,
    job: &JobRow,
    index: u32,
) -> StoreResult<Vec<TaskRow>> {
    let after = index.checked_sub(1).map(|index| TaskKey { job: job.id, index });
    let options = RangeOptions { after, ..RangeOptions::default() };
    let rows = keys::range(tx, changes.space(), &Prefix::<TaskKey>::of(&job.id), options).await?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// What `indexes` are charged, but for those that have one of `rows`.
fn charge_without<'a>(
    spec: &JobSpec,
    indexes: std::ops::Range<u32>,
    rows: impl IntoIterator<Item = &'a TaskRow>,
) -> StoreResult<QuotaUsed> {
    let mut charge = job_charge(spec, indexes.clone()).map_err(|error| overflow(&error))?;
    for row in rows.into_iter().filter(|row| indexes.contains(&row.id.index)) {
        let own = spec.resources_for(row.id.index);
        charge.used = resources_sub(&charge.used, own).map_err(|error| overflow(&error))?;
        charge.tasks = charge.tasks.saturating_sub(1);
    }
    Ok(charge)
}

/// Tells tasks that were to die that they are wanted again. Answers the rows that need no new charge: all but those that
/// were dead and are the job's again.
async fn revive<'a>(
    tx: &Transaction,
    changes: &mut ChangeSet,
    rows: &[&'a TaskRow],
) -> StoreResult<Vec<&'a TaskRow>> {
    let mut book = TaskBook::default();
    let known = rows.iter().map(|row| (row.id, Some((*row).clone())));
    book.extend_rows(tx, changes.space(), known).await?;
    for row in rows {
        book.apply(row.id, &TaskEvent::JobGrown, changes.at_ms())?
            .map_err(|refused| StoreError::refused(format!("task {}: {refused}", row.id)))?;
    }
    let owner = |task: TaskId| book.task(task).map(|row| row.charge.owner);
    let charged_anew =
        |row: &TaskRow| row.charge.owner == ChargeOwner::Released && owner(row.id) == Some(ChargeOwner::Job);
    let kept = rows.iter().copied().filter(|row| !charged_anew(row)).collect();
    book.write(tx, changes).await?;
    Ok(kept)
}
