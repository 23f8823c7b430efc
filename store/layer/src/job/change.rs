//! Changes of a job's row, each decided by the state machine.

use borough_kv::Transaction;
use borough_model::job::TaskEnd;
use borough_model::job::{
    AfterDecision, JobEvent, JobRefused, JobRow, JobSpec, JobState, JobTransition, RolloutState,
    after_decide, count_check, job_transition,
};
use borough_model::{Delta, JobId, Name};

use super::alloc::{set_count_check, set_stop_check};
use super::count::count_set;
use super::end::remainder_give_back;
use super::read::{job_get, job_spec_in_force};
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, ConstraintKey, JobGateKey, JobNameKey, JobRowKey, JobSpecKey};
use crate::row::ConstraintToken;

/// Applies an event to a row that was read with a conflict. Writes what has changed, the row and the
/// delta, and touches the gate if placements in flight may be wrong now.
pub(crate) fn job_event(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    event: &JobEvent,
) -> StoreResult<JobRow> {
    let transition = job_changed(changes, before, event)?;
    job_write(tx, changes, &transition, None)?;
    Ok(transition.row)
}

/// The row after an event, with who has caused it.
fn job_changed(changes: &ChangeSet, before: &JobRow, event: &JobEvent) -> StoreResult<JobTransition> {
    let transition = job_transition(before, event, changes.request(), changes.at_ms());
    let mut transition = transition.map_err(|refused| job_refused(before, refused))?;
    transition.row.change_record(Some(before), changes.actor());
    Ok(transition)
}

/// Gives a job the next version of its spec, which differs from the one in force in metadata only. Attempts keep the
/// version that they were placed with. If the rules of a rollout under way change, its time without progress begins
/// again: by the rules before, it had more of it.
pub(super) fn job_spec_replace(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    in_force: &JobSpec,
    spec: &JobSpec,
) -> StoreResult<JobRow> {
    let rules = |spec: &JobSpec| (spec.update, spec.progress_deadline_ms);
    let rollout = before.rollout.as_deref().filter(|rollout| rollout.state == RolloutState::Rolling);
    let rollout = rollout.filter(|_| rules(in_force) != rules(spec));
    let rollout = rollout.map(|rollout| Box::new(rollout.with_rules_changed(changes.at_ms())));
    job_spec_write(tx, changes, before, &JobEvent::SpecReplaced { rollout }, spec)
}

/// Writes the next version of a spec, and the row as `event` leaves it.
pub(crate) fn job_spec_write(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    event: &JobEvent,
    spec: &JobSpec,
) -> StoreResult<JobRow> {
    let transition = job_changed(changes, before, event)?;
    let key = JobSpecKey { job: before.id, version: transition.row.spec_version };
    keys::write(tx, changes.space(), &key, spec)?;
    // Affinities of other jobs mean this one by its labels: placements that are held against others are planned again.
    keys::write(tx, changes.space(), &ConstraintKey::of_all(), &ConstraintToken::of(changes.request()))?;
    job_write(tx, changes, &transition, Some(Box::new(spec.clone())))?;
    Ok(transition.row)
}

fn job_write(
    tx: &Transaction,
    changes: &mut ChangeSet,
    transition: &JobTransition,
    spec: Option<Box<JobSpec>>,
) -> StoreResult<()> {
    let row = &transition.row;
    if !transition.changed {
        return Ok(());
    }
    keys::write(tx, changes.space(), &JobRowKey { job: row.id }, row)?;
    if transition.gate {
        keys::touch(tx, changes.space(), &JobGateKey { job: row.id })?;
    }
    changes.push(Delta::Job { row: row.clone().into(), spec });
    Ok(())
}

fn job_refused(row: &JobRow, refused: JobRefused) -> StoreError {
    StoreError::refused(format!("job {}/{}: {refused}", row.user, row.name))
}

/// Sets the number of tasks. Growing charges quota for the new tasks. Shrinking releases what was never placed, and
/// leaves tasks above the count to the controller. The same count changes nothing. A job that is over refuses any
/// count, also its own: nothing of it would run.
pub async fn job_scale(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    count: u32,
) -> StoreResult<JobRow> {
    let before = job_get(tx, changes.space(), job).await?;
    // Whatever its spec would accept: what is wrong is that the job is over.
    if matches!(before.state, JobState::Stopping | JobState::Ended { .. }) {
        return Err(job_refused(&before, JobRefused::Over(before.state)));
    }
    let spec = job_spec_in_force(tx, changes.space(), &before).await?;
    count_check(count, &spec.in_force(&before)).map_err(|errors| StoreError::InvalidSpec { errors })?;
    set_count_check(tx, changes.space(), &before, &spec, count).await?;
    count_set(tx, changes, &before, &spec, count).await
}

/// Stops a job: nothing is placed for it after this commit. A job that never ran ends at once. Otherwise the controller
/// ends its tasks, and the job ends with the last of them. Stopping a stopping or ended job changes nothing.
pub async fn job_stop(tx: &Transaction, changes: &mut ChangeSet, job: JobId) -> StoreResult<JobRow> {
    let before = job_get(tx, changes.space(), job).await?;
    if matches!(before.state, JobState::Waiting | JobState::Running) {
        set_stop_check(tx, changes.space(), &before).await?;
    }
    if before.state == JobState::Waiting {
        remainder_give_back(tx, changes, &before).await?;
    }
    job_event(tx, changes, &before, &JobEvent::StopRequested)
}

/// Starts a job whose dependencies have ended successfully, or ends it if one never will. Returns the decision.
/// Leaves a job alone that waits for nothing.
pub async fn job_dependencies_check(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
) -> StoreResult<AfterDecision> {
    let before = job_get(tx, changes.space(), job).await?;
    if before.state != JobState::Waiting {
        return Ok(AfterDecision::Go);
    }
    let spec = job_spec_in_force(tx, changes.space(), &before).await?;
    let mut states: Vec<(Name, JobState)> = Vec::new();
    for after in &spec.after {
        let key = JobNameKey { user: before.user.clone(), name: after.job.clone() };
        let Some(id) = keys::read(tx, changes.space(), &key).await? else { continue };
        let row = keys::read(tx, changes.space(), &JobRowKey { job: id }).await?;
        states.extend(row.map(|row| (row.name, row.state)));
    }
    let state_of = |name: &Name| states.iter().find(|(known, _)| known == name).map(|&(_, state)| state);
    let decision = after_decide(&spec.after, state_of);
    match &decision {
        AfterDecision::Wait(_) => {}
        AfterDecision::Go => {
            job_event(tx, changes, &before, &JobEvent::DependenciesMet)?;
        }
        AfterDecision::Never(_) => {
            remainder_give_back(tx, changes, &before).await?;
            job_event(tx, changes, &before, &JobEvent::DependencyFailed)?;
        }
    }
    Ok(decision)
}

/// Counts tasks below the count that have ended for good. The last of them ends the job. The caller has taken a
/// conflict on the row.
pub(crate) fn job_tasks_ended(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    ended: &[TaskEnd],
) -> StoreResult<()> {
    let (request, at_ms) = (changes.request(), changes.at_ms());
    let mut all = JobTransition { row: before.clone(), changed: false, gate: false };
    for &end in ended {
        let next = job_transition(&all.row, &JobEvent::TaskEnded { end }, request, at_ms)
            .map_err(|refused| job_refused(before, refused))?;
        all = JobTransition {
            row: next.row,
            changed: all.changed || next.changed,
            gate: all.gate || next.gate,
        };
    }
    job_write(tx, changes, &all, None)
}
