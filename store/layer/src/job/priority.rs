//! Changes a job's priority. Another band means another quota.

use borough_kv::Transaction;
use borough_model::JobId;
use borough_model::job::{JobEvent, JobRow, JobSpec, band, priority_check};

use super::change::job_event;
use super::read::{job_get, job_spec_in_force, job_specs_held};
use super::update::rows_charged;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::quota::{ChargeBasis, QuotaRooms, job_held, overflow, quota_charge, quota_give_back};

/// Sets the priority. If the band changes with it, the job's whole charge moves to the quotas of the new band, which
/// must allow it. The same priority changes nothing.
pub async fn job_priority_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    priority: u32,
) -> StoreResult<JobRow> {
    priority_check(priority).map_err(|errors| StoreError::InvalidSpec { errors })?;
    let before = job_get(tx, changes.space(), job).await?;
    let spec = job_spec_in_force(tx, changes.space(), &before).await?;
    priority_set(tx, changes, &before, &spec, priority).await
}

pub(super) async fn priority_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    spec: &JobSpec,
    priority: u32,
) -> StoreResult<JobRow> {
    if band(priority) == band(before.priority) {
        return job_event(tx, changes, before, &JobEvent::PrioritySet { priority });
    }
    // Each band has a tree of its own.
    let mut rooms = QuotaRooms::default();
    let quota_groups = rooms.groups_open(tx, changes.space(), &before.user, band(priority)).await?;
    let moved = JobRow { quota_groups, ..before.clone() };
    let after = job_event(tx, changes, &moved, &JobEvent::PrioritySet { priority })?;
    charge_move(tx, changes, before, &after, spec).await?;
    Ok(after)
}

/// The rows are read without conflicts, under the token of the job's charges. A task that ends meanwhile releases its
/// charge in one band or the other, never in both. Reports of other tasks do not fail this transaction.
async fn charge_move(
    tx: &Transaction,
    changes: &ChangeSet,
    before: &JobRow,
    after: &JobRow,
    spec: &JobSpec,
) -> StoreResult<()> {
    let rows = rows_charged(tx, changes, before).await?;
    let held = job_specs_held(tx, changes.space(), before).await?;
    let basis = ChargeBasis::with(before, spec, &held);
    let charged = job_held(&basis, before.count, &rows).map_err(|error| overflow(&error))?;
    quota_give_back(tx, changes.space(), before, &charged)?;
    quota_charge(tx, changes.space(), after, &charged, changes.at_ms()).await
}
