//! Admits many new jobs in one transaction: they share its reads, its journal entry and its commit.
//!
//! Only what is plainly new is admitted together: the name is free, or its job has ended without leaving endpoints, and
//! the quota has room for all. Everything else is decided by itself, by [`job_submit`](super::job_submit). So a refusal
//! concerns one submission, and no submission fails for another one.

use std::borrow::Cow;
use std::collections::BTreeSet;

use borough_kv::Transaction;
use borough_model::job::{JobRow, JobSpec, JobState, band, job_new, spec_with_scheduler};
use borough_model::{JobId, Name, RequestId};
use futures::future::{try_join, try_join_all};

use super::read::job_get;
use super::submit::{JobSubmitted, job_write};
use crate::cell::cell_scheduler_rules;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, JobNameKey, JobRowKey};
use crate::name::name_is_vacant;
use crate::quota::{ChargeBasis, QuotaRooms, job_charge};

/// One submission among others. Its spec is valid.
#[derive(Clone, Copy, Debug)]
pub struct JobAdmission<'a> {
    pub spec: &'a JobSpec,
    /// The id of the job if it is new: made outside the transaction, and never used before.
    pub candidate: JobId,
    /// The submission's own request, which the row names as its cause.
    pub request: RequestId,
    /// Wall time of the submission, milliseconds since 1970: jobs of a user are planned in this order.
    pub submitted_ms: i64,
}

/// Admits those of `jobs` that are plainly new. Returns an answer for each; `None` has written nothing and must be
/// submitted by itself afterwards.
///
/// All rows are read at once, so the time does not depend on the number of jobs.
pub async fn jobs_admit(
    tx: &Transaction,
    changes: &mut ChangeSet,
    jobs: &[JobAdmission<'_>],
) -> StoreResult<Vec<Option<JobSubmitted>>> {
    let space = changes.space().clone();
    let rules = cell_scheduler_rules(tx, &space).await?;
    let found = try_join_all(jobs.iter().map(|job| name_find(tx, &space, job))).await?;
    let (mut names, mut ids): (BTreeSet<(&Name, &Name)>, BTreeSet<JobId>) = Default::default();
    let mut rows = Vec::with_capacity(jobs.len());
    for (job, found) in jobs.iter().zip(found) {
        // A second job of a name is an update of the first one. An id is never used twice.
        // One that joins an alloc set changes the set's row too.
        let found = found.filter(|_| job.spec.alloc_set.is_none());
        let found =
            found.filter(|_| names.insert((&job.spec.user, &job.spec.name)) && ids.insert(job.candidate));
        rows.push(found.map(|FreeName { before }| {
            let spec = spec_with_scheduler(job.spec, None, &rules);
            NewJob { row: job_new(job.candidate, &spec, job.request, job.submitted_ms), spec, before }
        }));
    }
    let charged = all_charge(tx, changes, rows.iter_mut().flatten()).await?;
    let mut admitted = Vec::with_capacity(jobs.len());
    for new in rows {
        admitted.push(match new.filter(|new| charged.contains(&new.row.id)) {
            Some(NewJob { row, spec, before }) => Some(job_write(tx, changes, row, &spec, before.as_ref())?),
            None => None,
        });
    }
    Ok(admitted)
}

/// A job that is about to be written.
struct NewJob<'a> {
    row: JobRow,
    spec: Cow<'a, JobSpec>,
    before: Option<JobRow>,
}

/// A name that a new job may take.
struct FreeName {
    /// The ended job that has it still.
    before: Option<JobRow>,
}

/// Looks up the name of a job, with read conflicts. `None`: it is not free.
async fn name_find(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobAdmission<'_>,
) -> StoreResult<Option<FreeName>> {
    let (user, name) = (&job.spec.user, &job.spec.name);
    let name_key = JobNameKey { user: user.clone(), name: name.clone() };
    let before = async {
        match keys::read(tx, space, &name_key).await? {
            Some(job) => job_get(tx, space, job).await.map(Some),
            None => Ok(None),
        }
    };
    let row_key = JobRowKey { job: job.candidate };
    let same = keys::read(tx, space, &row_key);
    let (before, same) = try_join(before, same).await?;
    let over = before.as_ref().is_none_or(|row| matches!(row.state, JobState::Ended { .. }));
    // A job that runs may have thousands of endpoints: nobody asks for them here.
    let free = over && same.is_none() && name_is_vacant(tx, space, user, name).await?;
    Ok(free.then_some(FreeName { before }))
}

/// Charges new jobs to their lines, in their order as far as there is room, and gives each its groups. Returns the jobs
/// that are charged.
async fn all_charge<'a, 's: 'a>(
    tx: &Transaction,
    changes: &ChangeSet,
    jobs: impl Iterator<Item = &'a mut NewJob<'s>>,
) -> StoreResult<BTreeSet<JobId>> {
    let (mut rooms, mut charged) = (QuotaRooms::default(), BTreeSet::new());
    for NewJob { row, spec, .. } in jobs {
        // A charge that cannot be counted is refused to the job that makes it so, by itself.
        let Ok(amount) = job_charge(&ChargeBasis::from(spec.as_ref()), 0..spec.count) else { continue };
        row.quota_groups = rooms.groups_open(tx, changes.space(), &row.user, band(row.priority)).await?;
        match rooms.take(row, &amount, &amount, changes.at_ms()) {
            Ok(()) => charged.insert(row.id),
            Err(StoreError::Refused { .. }) => continue,
            Err(error) => return Err(error),
        };
    }
    rooms.charge(tx, changes.space())?;
    Ok(charged)
}
