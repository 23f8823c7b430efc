//! Admits a job, or changes the running job with its name.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::job::{
    AffinityKind, ChangeClass, JobAlloc, JobRow, JobSpec, JobState, change_class, fields_fixed, job_new,
    spec_with_scheduler,
};
use borough_model::journal::ValueChange;
use borough_model::{Delta, JobId};
use minicbor::{Decode, Encode};

use super::again::rollout_again;
use super::alloc::{alloc_change_check, member_join};
use super::change::job_spec_replace;
use super::count::count_set;
use super::priority::priority_set;
use super::read::{job_get, job_spec_in_force};
use super::update::rollout_begin;
use crate::cell::cell_scheduler_rules;
use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, ConstraintKey, JobNameKey, JobPastKey, JobRowKey, JobSpecKey};
use crate::name::endpoints_left_withdraw;
use crate::quota::{ChargeBasis, job_charge, overflow, quota_admit};
use crate::row::ConstraintToken;

/// The result of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobSubmitted {
    #[n(0)]
    pub job: JobId,
    #[n(1)]
    pub outcome: SubmitOutcome,
    /// The revision of the job's row after the submission.
    #[n(2)]
    pub revision: u64,
}

/// What a submission has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum SubmitOutcome {
    /// Admitted a new job.
    #[n(0)]
    Created,
    /// Changed the running job.
    #[n(1)]
    Updated,
    /// Nothing: the running job is the same.
    #[n(2)]
    Unchanged,
}

/// Admits `spec`, as job `candidate` if it is new (an id made outside the transaction, never used before).
///
/// While a job of the name runs, the same spec changes nothing, unless its rollout has failed: that begins again. A
/// different count, priority or metadata is applied. Any other difference begins a rollout, except in fields that a
/// running job keeps: it is refused. After its end, the name goes to a new job. A submission writes the name, one row,
/// one spec and one journal entry, whatever the count.
///
/// A new job that names no scheduler is stored under the one that the cell's rules choose; a running one keeps its own.
pub async fn job_submit(
    tx: &Transaction,
    changes: &mut ChangeSet,
    spec: &JobSpec,
    candidate: JobId,
) -> StoreResult<JobSubmitted> {
    spec.validate().map_err(|errors| StoreError::InvalidSpec { errors })?;
    let name_key = JobNameKey { user: spec.user.clone(), name: spec.name.clone() };
    let named = match keys::read(tx, changes.space(), &name_key).await? {
        Some(job) => Some(job_get(tx, changes.space(), job).await?),
        None => None,
    };
    match named {
        Some(row) if !matches!(row.state, JobState::Ended { .. }) => update(tx, changes, &row, spec).await,
        before => create(tx, changes, spec, candidate, before.as_ref()).await,
    }
}

async fn update(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
    spec: &JobSpec,
) -> StoreResult<JobSubmitted> {
    if before.state == JobState::Stopping {
        let reason = format!(
            "job {}/{} is stopping: submit it again once it has ended, or under another name",
            before.user, before.name
        );
        return Err(StoreError::refused_with(RefusalRemedy::Wait, reason));
    }
    let in_force = job_spec_in_force(tx, changes.space(), before).await?;
    let spec = spec_with_scheduler(spec, Some(&in_force), &BTreeMap::new());
    let spec = spec.as_ref();
    let submitted = |row: &JobRow, outcome| JobSubmitted { job: row.id, outcome, revision: row.revision };
    match change_class(&in_force, spec) {
        // Whoever submits it again wants it in force.
        ChangeClass::Nothing if before.rollout_failed().is_some() => {
            let row = rollout_again(tx, changes, before, &in_force).await?;
            Ok(submitted(&row, SubmitOutcome::Updated))
        }
        ChangeClass::Nothing => Ok(submitted(before, SubmitOutcome::Unchanged)),
        class @ (ChangeClass::CountOrPriorityOnly | ChangeClass::Metadata | ChangeClass::NeedsUpdate) => {
            let fixed = fields_fixed(&in_force, spec);
            if !fixed.is_empty() {
                return Err(StoreError::NeedsUpdate { job: before.id, changes: fixed });
            }
            alloc_change_check(tx, changes.space(), before, spec).await?;
            let mut row = before.clone();
            changes.values_push(ValueChange::of_labels(&in_force.labels, &spec.labels));
            if spec.priority != row.priority {
                row = priority_set(tx, changes, &row, &in_force, spec.priority).await?;
            }
            // The nodes of the cell say how many tasks a daemon job has.
            if row.daemon.is_none() {
                row = count_set(tx, changes, &row, &in_force, spec.count).await?;
            }
            row = match class {
                ChangeClass::Metadata => job_spec_replace(tx, changes, &row, &in_force, spec)?,
                ChangeClass::NeedsUpdate => rollout_begin(tx, changes, &row, &in_force, spec).await?,
                ChangeClass::Nothing | ChangeClass::CountOrPriorityOnly => row,
            };
            // Whoever submits a file wants its version in force.
            if row.rollout_failed().is_some() {
                let in_force = job_spec_in_force(tx, changes.space(), &row).await?;
                row = rollout_again(tx, changes, &row, &in_force).await?;
            }
            Ok(submitted(&row, SubmitOutcome::Updated))
        }
    }
}

async fn create(
    tx: &Transaction,
    changes: &mut ChangeSet,
    spec: &JobSpec,
    candidate: JobId,
    before: Option<&JobRow>,
) -> StoreResult<JobSubmitted> {
    let space = changes.space().clone();
    if keys::read(tx, &space, &JobRowKey { job: candidate }).await?.is_some() {
        return Err(StoreError::AlreadyExists { what: format!("job {candidate}") });
    }
    let rules = match spec.scheduler {
        Some(_) => BTreeMap::new(),
        None => cell_scheduler_rules(tx, &space).await?,
    };
    let spec = spec_with_scheduler(spec, None, &rules);
    let spec = spec.as_ref();
    let mut row = job_new(candidate, spec, changes.request(), changes.at_ms());
    if let Some(set) = member_join(tx, changes, spec, candidate).await? {
        row.alloc = Some(Box::new(JobAlloc::Member { set }));
    }
    endpoints_left_withdraw(tx, changes, &spec.user, &spec.name).await?;
    let charge = job_charge(&ChargeBasis::from(spec), 0..spec.count).map_err(|error| overflow(&error))?;
    quota_admit(tx, &space, &mut row, &charge, changes.at_ms()).await?;
    job_write(tx, changes, row, spec, before)
}

/// Writes a new job. Its charge and its name have been checked; `before` is the ended job that had the name.
pub(super) fn job_write(
    tx: &Transaction,
    changes: &mut ChangeSet,
    mut row: JobRow,
    spec: &JobSpec,
    before: Option<&JobRow>,
) -> StoreResult<JobSubmitted> {
    let space = changes.space().clone();
    row.change_record(None, changes.actor());
    let (user, name) = (spec.user.clone(), spec.name.clone());
    if let Some(&JobRow { id: job, submitted_ms, .. }) = before {
        let past = JobPastKey { user: user.clone(), name: name.clone(), submitted_ms, job };
        keys::write(tx, &space, &past, &())?;
    }
    keys::write(tx, &space, &JobNameKey { user, name }, &row.id)?;
    keys::write(tx, &space, &JobRowKey { job: row.id }, &row)?;
    keys::write(tx, &space, &JobSpecKey { job: row.id, version: row.spec_version }, spec)?;
    if spec.affinity.iter().any(|one| one.kind == AffinityKind::Apart && one.preference.is_none()) {
        keys::write(tx, &space, &ConstraintKey::of_all(), &ConstraintToken::of(changes.request()))?;
    }
    let submitted = JobSubmitted { job: row.id, outcome: SubmitOutcome::Created, revision: row.revision };
    changes.push(Delta::Job { row: row.into(), spec: Some(Box::new(spec.clone())) });
    Ok(submitted)
}
