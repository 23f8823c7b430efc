//! Reading jobs.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::job::{JobRow, JobSpec};
use borough_model::{JobId, Name};

use crate::error::{StoreError, StoreResult};
use crate::keys::{self, CellSpace, JobNameKey, JobPastKey, JobRowKey, JobSpecKey, Prefix, RangeOptions};

/// The row of a job, with a read conflict.
pub async fn job_get(tx: &Transaction, space: &CellSpace, job: JobId) -> StoreResult<JobRow> {
    let row = keys::read(tx, space, &JobRowKey { job }).await?;
    row.ok_or_else(|| StoreError::not_found(format!("job {job}")))
}

/// The row of the job that has a name now, or of the last one that had it, with read conflicts.
pub async fn job_by_name(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    name: &Name,
) -> StoreResult<JobRow> {
    let key = JobNameKey { user: user.clone(), name: name.clone() };
    let id = keys::read(tx, space, &key).await?;
    let id = id.ok_or_else(|| StoreError::not_found(format!("job {user}/{name}")))?;
    job_get(tx, space, id).await
}

/// A version of a job's spec, as it was submitted. Versions never change, so it takes no conflict.
pub async fn job_spec_get(
    tx: &Transaction,
    space: &CellSpace,
    job: JobId,
    version: u32,
) -> StoreResult<JobSpec> {
    let spec = keys::read_snapshot(tx, space, &JobSpecKey { job, version }).await?;
    spec.ok_or_else(|| StoreError::not_found(format!("version {version} of job {job}")))
}

/// The spec in force: the row's version, with the row's count and priority.
pub async fn job_spec_in_force(tx: &Transaction, space: &CellSpace, row: &JobRow) -> StoreResult<JobSpec> {
    Ok(job_spec_get(tx, space, row.id, row.spec_version).await?.in_force(row))
}

/// The earlier versions by which a job is charged during a rollout; usually none. The row was read with a conflict.
pub(crate) async fn job_specs_held(
    tx: &Transaction,
    space: &CellSpace,
    row: &JobRow,
) -> StoreResult<BTreeMap<u32, JobSpec>> {
    let held = row.rollout.as_ref().map_or(&[][..], |rollout| &rollout.held);
    let mut specs = BTreeMap::new();
    for &version in held {
        specs.insert(version, job_spec_get(tx, space, row.id, version).await?);
    }
    Ok(specs)
}

/// A version of a spec, with the job that had it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobVersion {
    /// The job as it is now.
    pub job: JobRow,
    /// From 1.
    pub version: u32,
    /// The spec as it was submitted.
    pub spec: JobSpec,
}

/// Every job that had a name and was not removed, with its spec versions, newest first; at most `limit` jobs.
pub async fn job_history(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    name: &Name,
    limit: usize,
) -> StoreResult<Vec<JobVersion>> {
    let present =
        keys::read_snapshot(tx, space, &JobNameKey { user: user.clone(), name: name.clone() }).await?;
    let prefix = Prefix::<JobPastKey>::of_two(user, name);
    let options = RangeOptions { limit, reverse: true, ..RangeOptions::snapshot() };
    let past = keys::range(tx, space, &prefix, options).await?;
    // Earlier commits have written an entry for the present one as well.
    let past = past.into_iter().map(|(key, ())| key.job).filter(|job| Some(*job) != present);
    let mut versions = Vec::new();
    for job in present.into_iter().chain(past).take(limit) {
        let Some(job) = keys::read_snapshot(tx, space, &JobRowKey { job }).await? else { continue };
        let prefix = Prefix::<JobSpecKey>::of(&job.id);
        let options = RangeOptions { reverse: true, ..RangeOptions::snapshot() };
        let specs = keys::range(tx, space, &prefix, options).await?;
        versions.extend(specs.into_iter().map(|(key, spec)| JobVersion {
            job: job.clone(),
            version: key.version,
            spec,
        }));
    }
    Ok(versions)
}
