//! Gives a running job the next version of its spec, with the rollout that brings it to the tasks.

use borough_kv::Transaction;
use borough_model::job::{JobEvent, JobRow, JobSpec, JobState, Rollout};
use borough_model::task::TaskRow;

use super::change::job_spec_write;
use super::read::job_specs_held;
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::{self, Prefix, RangeOptions, TaskKey};
use crate::quota::{ChargeBasis, charges_guard, job_held, overflow, quota_charge, quota_give_back};
use crate::row::QuotaUsed;

/// Gives a job the next version of its spec, and begins to bring it to its tasks. A job that waits for others has no
/// attempts yet, so nothing is rolled out. `in_force` is the spec in force of `before`, which was read with a conflict.
pub(crate) async fn rollout_begin(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    in_force: &JobSpec,
    spec: &JobSpec,
) -> StoreResult<JobRow> {
    let rollout = Rollout::begin(before, changes.actor(), changes.at_ms());
    spec_update(tx, changes, before, in_force, spec, rollout).await
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
    let mut held = job_specs_held(tx, changes.space(), before).await?;
    let is_waiting = before.state == JobState::Waiting;
    let earlier = ChargeBasis::with(before, in_force, &held);
    let differs = resources_differ(in_force, spec);
    let mut charged = None;
    if differs {
        charged = Some(job_held_by(tx, changes, before, &earlier).await?);
    }
    if differs && !is_waiting && !rollout.held.contains(&before.spec_version) {
        rollout.held.push(before.spec_version);
    }
    let event = if is_waiting {
        JobEvent::SpecReplaced
    } else {
        JobEvent::SpecUpdated { rollout: Box::new(rollout) }
    };
    let after = job_spec_write(tx, changes, before, &event, spec)?;
    if let Some(charged) = charged {
        held.insert(before.spec_version, in_force.clone());
        let later = job_held_by(tx, changes, before, &ChargeBasis::with(&after, spec, &held)).await?;
        quota_give_back(tx, changes.space(), before, &charged.beyond(&later))?;
        quota_charge(tx, changes.space(), &after, &later.beyond(&charged), changes.at_ms()).await?;
    }
    Ok(after)
}

/// Whether two versions of a spec ask for other resources for any task, also for one beyond the count: it may still be
/// ending. The roles are the same.
fn resources_differ(old: &JobSpec, new: &JobSpec) -> bool {
    let mut indexes = old.overrides.keys().chain(new.overrides.keys());
    old.task.resources != new.task.resources
        || indexes.any(|&index| old.resources_for(index) != new.resources_for(index))
}

/// What a job holds by `basis`. Its rows are read without conflicts, under the token of its charges.
pub(crate) async fn job_held_by(
    tx: &Transaction,
    changes: &ChangeSet,
    job: &JobRow,
    basis: &ChargeBasis<'_>,
) -> StoreResult<QuotaUsed> {
    charges_guard(tx, changes.space(), job.id)?;
    let prefix = Prefix::<TaskKey>::of(&job.id);
    let rows = keys::range(tx, changes.space(), &prefix, RangeOptions::snapshot()).await?;
    let rows: Vec<TaskRow> = rows.into_iter().map(|(_, row)| row).collect();
    job_held(basis, job.count, &rows).map_err(|error| overflow(&error))
}
