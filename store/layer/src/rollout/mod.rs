//! Rollouts: they bring a changed spec to the tasks of a running job.
//!
//! The state of a rollout is in the row of its job, so that any controller continues it. Each step names the revision
//! of the row by whose state it was decided. Every step changes the row, so two steps are never decided by the same
//! state: together they would end more attempts than the job allows.
//!
//! If versions ask for other resources, each task is charged the most of any of them until the rollout is done
//! ([`ChargeBasis`]). The update that begins it must find room for that; no later step needs more.

mod adopt;
mod again;
mod promote;
mod resize;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use borough_kv::Transaction;
use borough_model::disruption::{DisruptionBudget, DisruptionCause, EndsLeft, RECHECKED_MAX};
use borough_model::job::{
    CanaryHealth, JobEvent, JobRow, JobSpec, JobState, OnFailure, Rollout, RolloutFailure, RolloutRefused,
    RolloutState, runs_alike, stable_versions,
};
use borough_model::rollout::{RolloutBegin, RolloutRules};
use borough_model::task::StopReason;
use borough_model::{Incarnation, JobId, TaskId, TaskRow};

use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::job::alloc_change_check;
use crate::job::{
    job_event, job_get, job_spec_get, job_spec_in_force, job_specs_held, rollout_again, rows_charged,
    spec_update, surge_begin_if_room, surge_set,
};
use crate::journal::ChangeSet;
use crate::quota::{ChargeBasis, job_held, overflow, quota_give_back};
use crate::task::{AllocsLeave, AllocsLeaving, allocs_leaving};
use crate::task::{attempts_read, job_tasks_read, task_stop_begin};

pub use adopt::rollout_adopt;
pub use again::{rollout_progress, rollout_retry};
pub use promote::rollout_promote;
pub use resize::rollout_resize;

use promote::promote_ordered;

/// The open rollout of a job whose row still has `revision`; `None` if the step was decided by an old state.
fn rollout_at(row: &JobRow, revision: u64) -> Option<&Rollout> {
    let rollout = row.rollout.as_deref().filter(|rollout| rollout.state == RolloutState::Rolling);
    rollout.filter(|_| row.revision == revision && row.state == JobState::Running)
}

/// Ends stale attempts of a job, to be placed again with the version in force. Ends none if the job's row has another
/// revision by now. Of a job with at most 1,024 tasks it ends no more healthy attempts than the bound allows by the
/// present rows. Others may have failed since the step was decided. Returns how many it has ended.
pub async fn rollout_replace(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    attempts: &[(TaskId, Incarnation)],
) -> StoreResult<usize> {
    let row = job_get(tx, changes.space(), job).await?;
    let Some(rollout) = rollout_at(&row, revision) else { return Ok(0) };
    let in_force = job_spec_in_force(tx, changes.space(), &row).await?;
    let rules = RolloutRules::of_job(&in_force, rollout, &row);
    let rows = if rules.together || row.count > RECHECKED_MAX {
        attempts_read(tx, changes.space(), attempts).await?
    } else {
        job_tasks_read(tx, changes.space(), job).await?
    };
    // The tasks of the owner keep their version while there are canaries.
    let is_bound = |(task, _): &&(TaskId, Incarnation)| rules.canaries == 0 || task.index >= rules.count;
    let attempts: Vec<(TaskId, Incarnation)> = attempts.iter().filter(is_bound).copied().collect();
    let mut within = if rules.together || row.count > RECHECKED_MAX {
        None
    } else {
        let budget = DisruptionBudget::of(&in_force, &row, DisruptionCause::Rollout);
        // The decision has seen that new attempts are healthy for long enough.
        Some(EndsLeft::of(&budget, &rows, i64::MAX))
    };
    let disrupted = disrupted(&rules, &rows);
    // One that was not healthy may be by now.
    let mut most = rules.disruptions_left.unwrap_or(u32::MAX);
    let mut may_end = |task: TaskId| {
        let disrupts = disrupted.contains(&task);
        let may_end = (!disrupts || most > 0) && within.as_mut().is_none_or(|within| within.take(task));
        most = most.saturating_sub(u32::from(may_end && disrupts));
        may_end
    };
    let (attempts, inside) = if row.alloc_members().is_some() {
        let AllocsLeaving { allocs, inside } =
            allocs_leaving(tx, changes, &row, &attempts, AllocsLeave::Rollout, may_end).await?;
        (allocs, inside)
    } else {
        (attempts.into_iter().filter(|(task, _)| may_end(*task)).collect(), Vec::new())
    };
    if attempts.is_empty() {
        return Ok(0);
    }
    task_stop_begin(tx, changes, &inside, StopReason::AllocLeft).await?;
    // The budget of a job inside may keep an alloc where it is.
    let disruptions = attempts.iter().filter(|(task, _)| disrupted.contains(task)).count();
    let stepped = rollout.stepped(u32::try_from(disruptions).unwrap_or(u32::MAX));
    job_event(tx, changes, &row, &JobEvent::RolloutSet { rollout: Box::new(stepped) })?;
    task_stop_begin(tx, changes, &attempts, StopReason::Updated).await
}

/// The healthy tasks of the owner: an end of these counts as a disruption.
fn disrupted(rules: &RolloutRules, rows: &[TaskRow]) -> BTreeSet<TaskId> {
    rows.iter().filter(|row| row.is_healthy() && row.id.index < rules.count).map(|row| row.id).collect()
}

/// Records that every task of a job has the version in force, except `skipped` ones, and releases what was held for
/// earlier ones if none is skipped. A version that no task has stays untried: they are all skipped, or the job was
/// scaled to no tasks meanwhile. Does nothing if the job's row has another revision by now.
pub async fn rollout_done(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    skipped: u32,
) -> StoreResult<()> {
    let before = job_get(tx, changes.space(), job).await?;
    // One that has failed is done if all its tasks are well.
    let failed = before.rollout_failed().filter(|_| before.revision == revision);
    let Some(rollout) = rollout_at(&before, revision).or(failed) else { return Ok(()) };
    let spec = job_spec_in_force(tx, changes.space(), &before).await?;
    let is_left = before.owner_count() == 0 && !rollout.empty;
    let done = if is_left {
        rollout.without_tasks()
    } else if skipped > 0 && !is_tried(tx, changes, &before, rollout.version).await? {
        Rollout { untried: true, ..rollout.done(skipped) }
    } else {
        rollout.done(skipped)
    };
    if !rollout.held.is_empty() && done.held.is_empty() {
        let held = job_specs_held(tx, changes.space(), &before).await?;
        let rows = rows_charged(tx, changes, &before).await?;
        let sum =
            |basis: &ChargeBasis<'_>| job_held(basis, before.count, &rows).map_err(|error| overflow(&error));
        let charged = sum(&ChargeBasis::with(&before, &spec, &held))?;
        let left = sum(&ChargeBasis::from(&spec))?;
        quota_give_back(tx, changes.space(), &before, &charged.beyond(&left))?;
    }
    // What has surged ends: the tasks of the owner serve.
    surge_set(tx, changes, &before, &spec, done).await.map(drop)
}

/// Whether any task of a job has an attempt of this version, or of a later one that differs in metadata.
async fn is_tried(tx: &Transaction, changes: &ChangeSet, job: &JobRow, version: u32) -> StoreResult<bool> {
    let rows = job_tasks_read(tx, changes.space(), job.id).await?;
    Ok(rows.iter().any(|row| row.spec_version >= version))
}

/// Ends a rollout that has failed. If its job wants that, it goes back to the last version that was rolled out and
/// differs. A rollout that takes back a version is not taken back itself. Does nothing if the job's row has another
/// revision by now.
pub async fn rollout_fail(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    failure: RolloutFailure,
) -> StoreResult<()> {
    let before = job_get(tx, changes.space(), job).await?;
    let Some(rollout) = rollout_at(&before, revision) else { return Ok(()) };
    let in_force = job_spec_in_force(tx, changes.space(), &before).await?;
    let rules = RolloutRules::of_job(&in_force, rollout, &before);
    let earlier = match rules.on_failure {
        OnFailure::Revert if rollout.reverts.is_none() => {
            let earlier = earlier_spec(tx, changes, &before, &in_force).await?.map(JobSpec::fitted);
            let held = job_specs_held(tx, changes.space(), &before).await?;
            // The way back must not need room that nobody has admitted: its refusal would come again and again.
            let charged = ChargeBasis::with(&before, &in_force, &held);
            let earlier =
                earlier.filter(|spec| charged.covers(spec, before.count) && spec.validate().is_ok());
            still_fits(tx, changes, &before, earlier).await?
        }
        OnFailure::Revert | OnFailure::Stop => None,
    };
    let Some(spec) = earlier else {
        let failed = JobEvent::RolloutSet { rollout: Box::new(rollout.failed(failure)) };
        return job_event(tx, changes, &before, &failed).map(drop);
    };
    let back = Rollout::revert(&before, Some(failure), changes.actor(), changes.at_ms());
    spec_update(tx, changes, &before, &in_force, &spec, back).await.map(drop)
}

/// The way back, unless allocs have changed so that it fits no more: the set of the job, or the jobs in the set.
async fn still_fits(
    tx: &Transaction,
    changes: &ChangeSet,
    row: &JobRow,
    earlier: Option<JobSpec>,
) -> StoreResult<Option<JobSpec>> {
    let Some(spec) = earlier else { return Ok(None) };
    match alloc_change_check(tx, changes.space(), row, &spec).await {
        Ok(()) => Ok(Some(spec)),
        Err(StoreError::InvalidSpec { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The spec of a version of a job, with the count and the priority in force.
async fn spec_of_version(
    tx: &Transaction,
    changes: &ChangeSet,
    row: &JobRow,
    version: u32,
) -> StoreResult<JobSpec> {
    Ok(job_spec_get(tx, changes.space(), row.id, version).await?.in_force(row))
}

/// The newest version that was rolled out and differs from the one in force.
async fn earlier_spec(
    tx: &Transaction,
    changes: &ChangeSet,
    row: &JobRow,
    in_force: &JobSpec,
) -> StoreResult<Option<JobSpec>> {
    for version in stable_versions(row).into_iter().rev() {
        let spec = spec_of_version(tx, changes, row, version).await?;
        if spec != *in_force {
            return Ok(Some(spec));
        }
    }
    Ok(None)
}

/// The spec to which an order without a version goes back. A way back that has failed is not there yet.
async fn undo_spec(
    tx: &Transaction,
    changes: &ChangeSet,
    row: &JobRow,
    in_force: &JobSpec,
) -> StoreResult<Option<JobSpec>> {
    let way_back = row.rollout_failed().filter(|rollout| rollout.reverts.is_some());
    match way_back.and_then(|way_back| way_back.stable.last()) {
        Some(newest) => Ok(Some(spec_of_version(tx, changes, row, *newest).await?)),
        None => earlier_spec(tx, changes, row, in_force).await,
    }
}

/// The versions that were rolled out and differ from the one in force, oldest first: a job can go back to each.
async fn versions_that_differ(
    tx: &Transaction,
    changes: &ChangeSet,
    row: &JobRow,
    in_force: &JobSpec,
) -> StoreResult<Vec<u32>> {
    let mut versions = Vec::new();
    for version in stable_versions(row) {
        if spec_of_version(tx, changes, row, version).await? != *in_force {
            versions.push(version);
        }
    }
    Ok(versions)
}

/// The spec of a version that was rolled out, or that differs from such a one in metadata only: attempts of both run
/// the same. `None` for other versions.
async fn rolled_out_spec(
    tx: &Transaction,
    changes: &ChangeSet,
    row: &JobRow,
    version: u32,
) -> StoreResult<Option<JobSpec>> {
    let kept = async |version| match spec_of_version(tx, changes, row, version).await {
        Ok(spec) => Ok(Some(spec)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let Some(spec) = kept(version).await? else { return Ok(None) };
    for stable in stable_versions(row).into_iter().rev() {
        if kept(stable).await?.is_some_and(|stable| runs_alike(&stable, &spec)) {
            return Ok(Some(spec));
        }
    }
    Ok(None)
}

/// Records whether the canaries of a rollout are healthy and wait for their promotion. Does nothing if the job's row
/// has another revision by now.
pub async fn rollout_canaries(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    health: CanaryHealth,
) -> StoreResult<()> {
    let before = job_get(tx, changes.space(), job).await?;
    let Some(rollout) = rollout_at(&before, revision) else { return Ok(()) };
    let rollout = Box::new(rollout.with_canaries(health, changes.at_ms()));
    job_event(tx, changes, &before, &JobEvent::RolloutSet { rollout }).map(drop)
}

/// Begins the surge of a rollout that has found attempts that cannot be resized in place, if the quota has room. Does
/// nothing if the job's row has another revision by now.
pub async fn rollout_surge(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
) -> StoreResult<()> {
    let before = job_get(tx, changes.space(), job).await?;
    let Some(rollout) = rollout_at(&before, revision).filter(|rollout| rollout.resizes) else {
        return Ok(());
    };
    let in_force = job_spec_in_force(tx, changes.space(), &before).await?;
    surge_with(tx, changes, &before, &in_force, rollout.surging()).await.map(drop)
}

/// Gives a job the next state of its rollout, and begins what surges for it, if the quota has room.
async fn surge_with(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    in_force: &JobSpec,
    rollout: Rollout,
) -> StoreResult<JobRow> {
    let rollout = Box::new(rollout);
    let row = job_event(tx, changes, before, &JobEvent::RolloutSet { rollout })?;
    surge_begin_if_room(tx, changes, row, in_force).await
}

/// What the owner of a job wants of its rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutOrder {
    /// Replace no further attempts.
    Pause,
    /// Go on.
    Resume,
    /// Replace the attempts of the owner's tasks: the canaries are good.
    Promote,
    /// Go back to a version that was rolled out; absent: to the newest one that differs.
    Undo(Option<u32>),
}

/// Carries out an order. Pausing a paused rollout, and resuming one that goes on, change nothing.
///
/// # Errors
/// Another version than `expected` is in force, or the rollout is at no point where that can be done.
pub async fn rollout_order(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    order: RolloutOrder,
    expected: Option<u32>,
) -> StoreResult<JobRow> {
    let before = job_get(tx, changes.space(), job).await?;
    if let Some(expected) = expected.filter(|expected| *expected != before.spec_version) {
        return Err(version_overtaken(&before, expected));
    }
    let refused =
        |why: RolloutRefused| StoreError::refused(format!("job {}/{}: {why}", before.user, before.name));
    if let RolloutOrder::Undo(Some(version)) = order {
        return undo(tx, changes, &before, Some(version)).await;
    }
    let rollout = before.rollout.as_deref().ok_or_else(|| refused(RolloutRefused::Absent))?;
    let state = match order {
        RolloutOrder::Pause => RolloutState::Paused,
        RolloutOrder::Resume => RolloutState::Rolling,
        RolloutOrder::Promote => return promote_ordered(tx, changes, &before).await,
        RolloutOrder::Undo(version) => return undo(tx, changes, &before, version).await,
    };
    let rollout = rollout.with_state(state, changes.at_ms()).map_err(refused)?;
    job_event(tx, changes, &before, &JobEvent::RolloutSet { rollout: Box::new(rollout) })
}

/// The refusal of an order for a version that is no longer in force: whoever gave it has not seen the present one.
fn version_overtaken(row: &JobRow, expected: u32) -> StoreError {
    let (job, now) = (format!("{}/{}", row.user, row.name), row.spec_version);
    let by = row.rollout.as_ref().map(|rollout| format!(", by {}", rollout.by)).unwrap_or_default();
    let reason = format!(
        "job {job} has version {now}{by}, and the order was for version {expected}; look again: borough rollout status {job}"
    );
    StoreError::refused_with(RefusalRemedy::ReadAgain, reason)
}

async fn undo(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    version: Option<u32>,
) -> StoreResult<JobRow> {
    let refused =
        |why: RolloutRefused| StoreError::refused(format!("job {}/{}: {why}", before.user, before.name));
    let way_back = before.rollout.as_deref().filter(|rollout| version.is_none() && rollout.state.is_open());
    // Two people who want the same get it once.
    if let Some((rollout, taken)) = way_back.and_then(|rollout| Some((rollout, rollout.reverts?))) {
        let (job, by) = (format!("{}/{}", before.user, before.name), &rollout.by);
        let again = if stable_versions(before).contains(&taken) {
            format!("to bring it again: borough rollout undo {job} --to {taken}")
        } else {
            format!(
                "it was never rolled out, so only its file brings it again; to follow: borough rollout status {job}"
            )
        };
        return Err(StoreError::refused(format!(
            "version {taken} of job {job} is being taken back already, by {by}; {again}"
        )));
    }
    let in_force = job_spec_in_force(tx, changes.space(), before).await?;
    let spec = match version {
        None => undo_spec(tx, changes, before, &in_force)
            .await?
            .ok_or_else(|| refused(RolloutRefused::NoneEarlier))?,
        Some(version) => {
            let Some(spec) = rolled_out_spec(tx, changes, before, version).await? else {
                let known = versions_that_differ(tx, changes, before, &in_force).await?;
                return Err(refused(RolloutRefused::NotStable { version, known }));
            };
            spec
        }
    };
    let spec = spec.fitted();
    if spec == in_force && before.rollout_failed().is_some() {
        return rollout_again(tx, changes, before, &in_force).await;
    }
    alloc_change_check(tx, changes.space(), before, &spec).await?;
    // It has the count in force, which its other fields may not allow.
    spec.validate().map_err(|errors| StoreError::InvalidSpec { errors })?;
    if spec == in_force {
        return Err(refused(RolloutRefused::Same(version.unwrap_or(before.spec_version))));
    }
    let back = Rollout::revert(before, None, changes.actor(), changes.at_ms());
    // Each attempt goes on, and nothing has to serve for it.
    let in_place = RolloutBegin::of_way_back(before, &in_force, &spec).in_place;
    let back = if in_place { back.resizing() } else { back };
    let row = spec_update(tx, changes, before, &in_force, &spec, back).await?;
    surge_begin_if_room(tx, changes, row, &spec).await
}
