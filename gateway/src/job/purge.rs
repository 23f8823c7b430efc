//! Purges: as many transactions as the jobs of a name need.

use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::Name;
use borough_model::job::{JobRow, JobState};
use borough_model::journal::JobName;
use borough_proto::v1;
use borough_store::job::{JobPurged, job_purge};
use borough_store::journal::{ChangeSet, Cursor};
use borough_store::mirror::MirrorState;
use borough_store::{StoreError, StoreResult};
use tonic::Status;

use crate::cell::{Caller, CellContext, KeyedRequest, cursor_to_message, keyed_run};
use crate::status::status_refused;

/// Bytes at which one transaction of a purge ends.
const STEP_BYTES: usize = 1 << 20;
const ACTION: &str = "job_purge";

/// Removes the ended jobs of a name. A repeated request counts what its first transaction has removed, and goes on.
pub(super) async fn jobs_purge(
    cell: &CellContext,
    caller: &Caller,
    request: &v1::PurgeJobRequest,
    named: &JobName,
) -> Result<v1::PurgeJobResponse, Status> {
    if let Some(waiting) = cell.state(|state| waiting_for(state, named))? {
        let JobName { user, job } = named;
        let text = format!(
            "job {user}/{waiting} waits for job {job}, and would wait for ever without it: borough job purge {user}/{job} once \
             {waiting} runs"
        );
        return Err(status_refused("JOB_AWAITED", text));
    }
    let keyed = KeyedRequest::new(caller, ACTION, request);
    let first = keyed_run(cell, &keyed, |tx, mut changes| async move {
        let purged = job_purge(&tx, &mut changes, &named.user, &named.job, STEP_BYTES).await?;
        Ok((purged, changes))
    });
    let purged = match first.await {
        Ok((first, cursor)) => rest_purge(cell, caller, named, first, cursor).await,
        Err(error) => Err(error),
    };
    let (jobs, cursor) = cell.settled(purged).await?;
    Ok(v1::PurgeJobResponse { jobs, cursor: Some(cursor_to_message(cursor)) })
}

/// A job that comes after a job of this name, and has not begun.
fn waiting_for(state: &MirrorState, named: &JobName) -> Option<Name> {
    let waits = |row: &&Arc<JobRow>| {
        let names =
            || state.spec_of(row).is_some_and(|spec| spec.after.iter().any(|after| after.job == named.job));
        row.state == JobState::Waiting && names()
    };
    state.named_jobs_of(&named.user).find(waits).map(|row| row.name.clone())
}

/// Goes on until no job of the name is left. Returns how many were removed in all.
async fn rest_purge(
    cell: &CellContext,
    caller: &Caller,
    named: &JobName,
    first: JobPurged,
    mut cursor: Option<Cursor>,
) -> StoreResult<(u32, Option<Cursor>)> {
    let (change, space) = (&cell.change(caller, ACTION), &cell.space);
    let (mut jobs, mut more) = (first.removed, first.more);
    while more {
        let step = cell.db.run_committed(ACTION, Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let purged = match job_purge(&tx, &mut changes, &named.user, &named.job, STEP_BYTES).await {
                // Another request has removed the rest.
                Err(StoreError::NotFound { .. }) => JobPurged::default(),
                purged => purged?,
            };
            let epoch = changes.store_epoch();
            changes.append(&tx)?;
            Ok::<_, StoreError>((purged, epoch))
        });
        let ((purged, store_epoch), committed) = step.await?;
        cursor = committed.stamp.map(|stamp| Cursor { store_epoch, stamp }).or(cursor);
        (jobs, more) = (jobs.saturating_add(purged.removed), purged.more);
    }
    Ok((jobs, cursor))
}
