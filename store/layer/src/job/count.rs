//! Growing and shrinking.

use std::collections::BTreeSet;
use std::ops::Range;

use borough_kv::Transaction;
use borough_model::job::{COUNT_MAX, CountRefused, JobEvent, JobMoves, JobRow, JobSpec, Rollout};
use borough_model::resource::resources_sub;
use borough_model::task::{TaskRow, TaskState, Verdict};

use super::change::job_event;
use super::read::job_specs_held;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, Prefix, RangeOptions, TaskKey};
use crate::quota::{
    ChargeBasis, charges_guard, job_charge, overflow, quota_charge_part, quota_give_back, task_charge,
};
use crate::row::QuotaUsed;

/// Sets how many tasks the owner of a job wants. What surges is beside them.
pub(super) async fn count_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    spec: &JobSpec,
    count: u32,
) -> StoreResult<JobRow> {
    let is_open = before.rollout.as_ref().is_some_and(|rollout| rollout.state.is_open());
    before.count_check(count).map_err(|refused| {
        let name = format!("{}/{}", before.user, before.name);
        StoreError::refused(match refused {
            CountRefused::Canaries { .. } if is_open => {
                format!(
                    "job {name}: {refused}: borough rollout promote {name}, or borough rollout undo {name}"
                )
            }
            CountRefused::Canaries { .. } => format!(
                "job {name}: {refused}. The rollout is over, so nothing promotes it any more: borough rollout undo {name}, \
                 and then set the count"
            ),
            CountRefused::Surges { .. } => format!("job {name}: {refused}"),
        })
    })?;
    let wanted = count.saturating_add(before.surge());
    let resumed = before.rollout_resumed(changes.at_ms()).map(Box::new);
    wanted_set(tx, changes, before, spec, wanted, resumed.map_or(Surge::Same, Surge::Rollout)).await
}

/// What changes with the count of a job, in the same event: what surges, and what for.
enum Surge {
    Same,
    Rollout(Box<Rollout>),
    Moves(Box<JobMoves>),
}

/// Sets the rollout of a job, and with it how many tasks surge beside those that its owner wants. Charges or releases
/// the difference; if the quota has no room for it, nothing is written. One event changes both, so the owner's count
/// stays.
pub(crate) async fn surge_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    spec: &JobSpec,
    rollout: Rollout,
) -> StoreResult<JobRow> {
    let wanted = before.owner_count().saturating_add(rollout.surge).saturating_add(before.moves_surge());
    if wanted == before.count {
        return job_event(tx, changes, before, &JobEvent::RolloutSet { rollout: Box::new(rollout) });
    }
    wanted_set(tx, changes, before, spec, wanted, Surge::Rollout(Box::new(rollout))).await
}

/// Sets what moves leave in the row of a job, and with it how many tasks surge for them. Charges or releases the
/// difference; if the quota has no room for it, nothing is written.
pub(crate) async fn moves_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    spec: &JobSpec,
    moves: JobMoves,
) -> StoreResult<JobRow> {
    let others = before.count.saturating_sub(before.moves_surge());
    let wanted = others.saturating_add(moves.surge);
    let moves = Box::new(moves);
    if wanted == before.count {
        return job_event(tx, changes, before, &JobEvent::MovesSet { moves });
    }
    wanted_set(tx, changes, before, spec, wanted, Surge::Moves(moves)).await
}

/// How many indexes must surge so that `surge` of them can run. A task that has ended for good does not run again.
pub(crate) async fn surge_with_dead(
    tx: &Transaction,
    changes: &ChangeSet,
    job: &JobRow,
    surge: u32,
) -> StoreResult<u32> {
    if surge == 0 {
        return Ok(0);
    }
    let first = job.owner_count();
    let mut wanted = surge;
    for row in rows_from(tx, changes, job, first).await? {
        let within = row.id.index < first.saturating_add(wanted);
        let is_over = row.state == TaskState::Dead && !row.is_spared();
        wanted = wanted.saturating_add(u32::from(within && is_over));
    }
    Ok(wanted.min(COUNT_MAX.saturating_sub(first)))
}

/// Sets the count of a job whose row was read with a conflict, and what surges with it if that is given.
///
/// The rows from the lower of both counts on show which indexes were never placed (their charge is the job's). They
/// also show which tasks have ended and were or will be counted. They are read without conflicts, under the token of
/// the job's charges. Only a charge released meanwhile fails the transaction, not every report of a task. A released
/// charge must still be the job's at the commit: a task placed or revived meanwhile takes it.
///
/// However many tasks there are, this writes only the job's row. Tasks that had ended because the job was smaller
/// belong to the job again by its new count; [`task_wanted_revive`](crate::task::task_wanted_revive) revives them in
/// steps.
async fn wanted_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    spec: &JobSpec,
    count: u32,
    surge: Surge,
) -> StoreResult<JobRow> {
    if count == before.count {
        return Ok(before.clone());
    }
    let (rollout, moves) = match surge {
        Surge::Same => (None, None),
        Surge::Rollout(rollout) => (Some(rollout), None),
        Surge::Moves(moves) => (None, Some(moves)),
    };
    let charged = JobRow { rollout: rollout.clone().or_else(|| before.rollout.clone()), ..before.clone() };
    let held = job_specs_held(tx, changes.space(), &charged).await?;
    let basis = ChargeBasis::with(&charged, spec, &held);
    let low = count.min(before.count);
    let rows = rows_from(tx, changes, before, low).await?;
    let between: Vec<&TaskRow> = rows.iter().filter(|row| row.id.index < count.max(before.count)).collect();
    let own = || between.iter().copied().filter(|row| !row.is_spared());
    let ended = |verdict: Verdict| {
        // The job's row counted it while its index was below the count.
        let ended = between.iter().filter(|row| row.is_over_as(verdict)).count();
        u32::try_from(ended).unwrap_or(u32::MAX)
    };
    let (succeeded, failed) = (ended(Verdict::Succeeded), ended(Verdict::Failed));
    let event = if count < before.count {
        let unplaced = charge_without(&basis, count..before.count, own())?;
        let placed: BTreeSet<u32> = own().map(|row| row.id.index).collect();
        for (first, last) in spans_without(count..before.count, &placed) {
            let key = |index| TaskKey { job: before.id, index };
            keys::guard_span(tx, changes.space(), &key(first), &key(last))?;
        }
        quota_give_back(tx, changes.space(), before, &unplaced)?;
        JobEvent::CountSet {
            count,
            succeeded: before.succeeded.saturating_sub(succeeded),
            failed: before.failed.saturating_sub(failed),
            rollout,
            moves,
        }
    } else {
        let new = charge_without(&basis, before.count..count, own())?;
        let wanted = own().try_fold(new.clone(), |sum, row| sum.plus(&regained_later(&basis, row)));
        let wanted = wanted.map_err(|error| overflow(&error))?;
        if !wanted.is_zero() {
            quota_charge_part(tx, changes.space(), before, &new, &wanted, changes.at_ms()).await?;
        }
        JobEvent::CountSet {
            count,
            succeeded: before.succeeded.saturating_add(succeeded),
            failed: before.failed.saturating_add(failed),
            rollout,
            moves,
        }
    };
    job_event(tx, changes, before, &event)
}

/// What a row that the job has not charged is charged beyond its present charge once its end gives it back to the job.
fn regained_later(basis: &ChargeBasis<'_>, row: &TaskRow) -> QuotaUsed {
    if row.is_shrunk_away() {
        basis.share_of(row.id.index).beyond(&task_charge(basis, row))
    } else {
        QuotaUsed::default()
    }
}

async fn rows_from(
    tx: &Transaction,
    changes: &ChangeSet,
    job: &JobRow,
    index: u32,
) -> StoreResult<Vec<TaskRow>> {
    let after = index.checked_sub(1).map(|index| TaskKey { job: job.id, index });
    charges_guard(tx, changes.space(), job.id)?;
    let options = RangeOptions { after, ..RangeOptions::snapshot() };
    let rows = keys::range(tx, changes.space(), &Prefix::<TaskKey>::of(&job.id), options).await?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The stretches of `indexes` that contain no `taken` index, with the first and the last index of each.
fn spans_without(indexes: Range<u32>, taken: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut spans = Vec::new();
    let mut first = indexes.start;
    for &index in taken.range(indexes.clone()).chain([&indexes.end]) {
        if first < index {
            spans.push((first, index - 1));
        }
        first = index.saturating_add(1);
    }
    spans
}

/// The charge of `indexes`, without those that have one of `rows`.
fn charge_without<'a>(
    basis: &ChargeBasis<'_>,
    indexes: Range<u32>,
    rows: impl IntoIterator<Item = &'a TaskRow>,
) -> StoreResult<QuotaUsed> {
    let mut charge = job_charge(basis, indexes.clone()).map_err(|error| overflow(&error))?;
    for row in rows.into_iter().filter(|row| indexes.contains(&row.id.index)) {
        let own = basis.resources_for(row.id.index);
        charge.used = resources_sub(&charge.used, &own).map_err(|error| overflow(&error))?;
        charge.tasks = charge.tasks.saturating_sub(1);
    }
    Ok(charge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_what_is_left_between() {
        let spans = |range, taken: &[u32]| spans_without(range, &taken.iter().copied().collect());
        assert_eq!(spans(2..9, &[]), [(2, 8)]);
        assert_eq!(spans(2..9, &[0, 2, 4, 5, 8, 9]), [(3, 3), (6, 7)]);
        assert_eq!(spans(2..3, &[2]), []);
        assert_eq!(spans(0..4, &[3]), [(0, 2)]);
    }
}
