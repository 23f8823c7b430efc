//! Forgets old versions of a spec.

use std::collections::BTreeSet;

use borough_kv::Transaction;
use borough_model::job::GoneVersions;
use borough_model::{Delta, JobId};

use super::read::job_get;
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::{self, JobGateKey, JobRowKey, JobSpecKey};

/// Forgets the versions of `known` that are gone by `gone`, which was decided for the job at `revision`. Returns how
/// many those are; 0: the job has changed since, and tasks may use others.
///
/// # Errors
/// There is no such job any more.
pub async fn job_versions_forget(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    gone: &GoneVersions,
    known: &BTreeSet<u32>,
) -> StoreResult<usize> {
    let before = job_get(tx, changes.space(), job).await?;
    let Some(row) = before.with_gone(gone.clone()).filter(|_| before.revision == revision) else {
        return Ok(0);
    };
    let forgotten = gone.among(known.iter().copied());
    for &version in &forgotten {
        keys::clear(tx, changes.space(), &JobSpecKey { job, version })?;
    }
    // A worker that was paused may hold placements of a version that is gone.
    keys::touch(tx, changes.space(), &JobGateKey { job })?;
    keys::write(tx, changes.space(), &JobRowKey { job }, &row)?;
    changes.push(Delta::Job { row: row.into(), spec: None });
    Ok(forgotten.len())
}
