//! Gives a running job the next version of its spec, with the rollout that brings it to the tasks.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::job::{JobEvent, JobRow, JobSpec, JobState, Rollout, RolloutState, runs_alike};
use borough_model::rollout::RolloutBegin;
use borough_model::task::TaskRow;

use super::again::failed_revive;
use super::change::job_spec_write;
use super::count::{surge_set, surge_with_dead};
use super::read::{job_spec_get, job_specs_held};
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, Prefix, RangeOptions, TaskKey};
use crate::quota::{ChargeBasis, charges_guard, job_held, overflow, quota_charge, quota_give_back};

/// The most versions of other resources that a job may have beside the one in force. Each task is charged the most that
/// it takes in any of them.
const HELD_MAX: usize = 16;

/// Gives a job the next version of its spec, and begins to bring it to its tasks. A job that waits for others has no
/// attempts yet, so nothing is rolled out. A spec that its tasks have had before the rollout under way takes that one
/// back: nobody tries it again. `in_force` is the spec in force of `before`, which was read with a conflict.
pub(crate) async fn rollout_begin(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    in_force: &JobSpec,
    spec: &JobSpec,
) -> StoreResult<JobRow> {
    if is_earlier(tx, changes, before, spec).await? {
        let back = Rollout::revert(before, None, changes.actor(), changes.at_ms());
        let row = spec_update(tx, changes, before, in_force, spec, back).await?;
        return surge_begin_if_room(tx, changes, row, spec).await;
    }
    let RolloutBegin { canaries, in_place } = RolloutBegin::of(before, in_force, spec, before.owner_count());
    let rollout = Rollout::begin(before, canaries, changes.actor(), changes.at_ms());
    // Each attempt goes on, and nothing has to serve for it.
    let rollout = if in_place { rollout.resizing() } else { rollout };
    let row = spec_update(tx, changes, before, in_force, spec, rollout).await?;
    surge_begin(tx, changes, &row, spec).await.map_err(|error| match error {
        StoreError::Refused { reason, remedy } => StoreError::refused_with(remedy, format!(
            "{reason}. Its rollout begins with {} more tasks: `update.surge_max`, `update.surge_percent_max` and \
             `update.canaries` say how many",
            spec.surge_first(row.owner_count())
        )),
        other => other,
    })
}

/// Returns true if attempts with this spec run as those did before the rollout that is under way.
async fn is_earlier(
    tx: &Transaction,
    changes: &ChangeSet,
    row: &JobRow,
    spec: &JobSpec,
) -> StoreResult<bool> {
    let Some(version) = row.earlier_version() else { return Ok(false) };
    let earlier = job_spec_get(tx, changes.space(), row.id, version).await?.in_force(row);
    Ok(runs_alike(&earlier, spec))
}

/// As [`surge_begin`], without a surge if the quota has no room: neither a way back nor a promotion waits for it.
pub(crate) async fn surge_begin_if_room(
    tx: &Transaction,
    changes: &mut ChangeSet,
    row: JobRow,
    spec: &JobSpec,
) -> StoreResult<JobRow> {
    match surge_begin(tx, changes, &row, spec).await {
        Err(StoreError::Refused { .. }) => Ok(row),
        begun => begun,
    }
}

/// Charges what surges beside the tasks of a job whose rollout has just begun, and has it placed. What surges already
/// stays. Refuses if the quota has no room for it.
async fn surge_begin(
    tx: &Transaction,
    changes: &mut ChangeSet,
    row: &JobRow,
    spec: &JobSpec,
) -> StoreResult<JobRow> {
    let Some(rollout) = row.rollout.as_deref().filter(|rollout| rollout.state == RolloutState::Rolling)
    else {
        return Ok(row.clone());
    };
    let wanted = match rollout.canaries {
        0 if rollout.resizes => 0,
        0 => spec.surge(row.owner_count()),
        canaries => canaries,
    };
    let surge = surge_with_dead(tx, changes, row, wanted).await?.max(rollout.surge);
    if surge == rollout.surge {
        return Ok(row.clone());
    }
    surge_set(tx, changes, row, spec, rollout.with_surge(surge)).await
}

/// Gives a job the next version of its spec with this rollout. The charge follows.
pub(crate) async fn spec_update(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    in_force: &JobSpec,
    spec: &JobSpec,
    mut rollout: Rollout,
) -> StoreResult<JobRow> {
    let differs = resources_differ(in_force, spec);
    let is_waiting = before.state == JobState::Waiting;
    let mut held = if differs { job_specs_held(tx, changes.space(), before).await? } else { BTreeMap::new() };
    // Those that ask for the same are charged by one of them.
    let charges = |(version, spec): (&u32, &JobSpec)| {
        rollout.held.contains(version) && !resources_differ(spec, in_force)
    };
    if differs && !is_waiting && !held.iter().any(charges) {
        held_check(before, &rollout)?;
        rollout.held.push(before.spec_version);
    }
    let event = if is_waiting {
        JobEvent::SpecReplaced { rollout: None }
    } else {
        JobEvent::SpecUpdated { rollout: Box::new(rollout) }
    };
    let after = job_spec_write(tx, changes, before, &event, spec)?;
    if !differs {
        return failed_revive(tx, changes, after, spec).await;
    }
    let rows = rows_charged(tx, changes, before).await?;
    let sum =
        |basis: &ChargeBasis<'_>| job_held(basis, before.count, &rows).map_err(|error| overflow(&error));
    let charged = sum(&ChargeBasis::with(before, in_force, &held))?;
    held.insert(before.spec_version, in_force.clone());
    let later = sum(&ChargeBasis::with(&after, spec, &held))?;
    quota_give_back(tx, changes.space(), before, &charged.beyond(&later))?;
    quota_charge(tx, changes.space(), &after, &later.beyond(&charged), changes.at_ms()).await?;
    failed_revive(tx, changes, after, spec).await
}

/// Refuses an update of a job with tasks of too many versions of other resources: each of its steps reads them all. A
/// way back brings no further one.
fn held_check(job: &JobRow, rollout: &Rollout) -> StoreResult<()> {
    if rollout.held.len() < HELD_MAX || rollout.reverts.is_some() {
        return Ok(());
    }
    let name = format!("{}/{}", job.user, job.name);
    Err(StoreError::refused(format!(
        "job {name} may still have tasks of {HELD_MAX} earlier versions that ask for other resources; accepted: another \
         one when its rollout has replaced these: borough rollout status {name}"
    )))
}

/// Whether two versions of a spec ask for other resources for any task, also for one beyond the count: it may still be
/// ending. The roles are the same.
fn resources_differ(old: &JobSpec, new: &JobSpec) -> bool {
    let mut indexes = old.overrides.keys().chain(new.overrides.keys());
    // An index beyond all has no override.
    old.resources_for(u32::MAX) != new.resources_for(u32::MAX)
        || indexes.any(|&index| old.resources_for(index) != new.resources_for(index))
}

/// The rows of a job that sums of its charges are made of. They are read without conflicts, under the token of its
/// charges.
pub(crate) async fn rows_charged(
    tx: &Transaction,
    changes: &ChangeSet,
    job: &JobRow,
) -> StoreResult<Vec<TaskRow>> {
    charges_guard(tx, changes.space(), job.id)?;
    let prefix = Prefix::<TaskKey>::of(&job.id);
    let rows = keys::range(tx, changes.space(), &prefix, RangeOptions::snapshot()).await?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}
