//! Removes the jobs of a name before their retention is over.

use borough_kv::Transaction;
use borough_model::job::JobState;
use borough_model::{JobId, Name};
use minicbor::{Decode, Encode};

use super::end::jobs_remove;
use super::read::job_get;
use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, JobNameKey, JobPastKey, Prefix, RangeOptions};

/// Most jobs of one name that one step looks at.
const JOBS_AT_ONCE: usize = 256;

/// The result of one step of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct JobPurged {
    /// The jobs that had a row and have none any more.
    #[n(0)]
    pub removed: u32,
    /// Whether more jobs of the name are left.
    #[n(1)]
    pub more: bool,
}

/// Removes the ended jobs of a name with their specs and rows: first those of the past, the present one last. One step
/// ends at about `bytes_max` bytes. Fails while the present job has not ended, and if no job has or had the name.
pub async fn job_purge(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    name: &Name,
    bytes_max: usize,
) -> StoreResult<JobPurged> {
    let space = changes.space().clone();
    let present = keys::read(tx, &space, &JobNameKey { user: user.clone(), name: name.clone() }).await?;
    if let Some(job) = present
        && !matches!(job_get(tx, &space, job).await?.state, JobState::Ended { .. })
    {
        let reason = format!(
            "job {user}/{name} has not ended; to stop and purge it: borough job stop {user}/{name} && borough job purge {user}/{name}"
        );
        return Err(StoreError::refused(reason));
    }
    let prefix = Prefix::<JobPastKey>::of_two(user, name);
    let options = RangeOptions { limit: JOBS_AT_ONCE, ..RangeOptions::snapshot() };
    let past = keys::range(tx, &space, &prefix, options).await?;
    let past_is_whole = past.len() < JOBS_AT_ONCE;
    // Earlier commits have written an entry for the present one as well.
    let past = past.into_iter().map(|(key, ())| key.job).filter(|job| Some(*job) != present);
    let jobs: Vec<JobId> = past.chain(present.filter(|_| past_is_whole)).collect();
    if jobs.is_empty() {
        return Err(StoreError::not_found(format!("job {user}/{name}, now or before")));
    }
    let step = jobs_remove(tx, changes, &jobs, bytes_max).await?;
    if !step.left.is_empty() {
        let reason = format!(
            "job {user}/{name} has ended, but a task above its count has not: borough job status {user}/{name}; purge \
             it when no task runs"
        );
        return Err(StoreError::refused_with(RefusalRemedy::Wait, reason));
    }
    let removed = u32::try_from(step.removed).unwrap_or(u32::MAX);
    Ok(JobPurged { removed, more: step.done < jobs.len() || !past_is_whole })
}
