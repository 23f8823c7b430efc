//! Forgetting: journal entries, answers of requests and jobs that are older than they are kept.

use borough_kv::{Idempotency, Transaction};
use borough_model::JobId;
use borough_model::job::JobState;
use borough_store::cell::CellMeta;
use borough_store::journal::{journal_cutoff, journal_trim};
use borough_store::lease::lease_check;
use borough_store::mirror::MirrorState;
use borough_store::request::request_expire;
use borough_store::{StoreError, StoreResult};

use crate::act::Hands;

/// Requests forgotten in one transaction.
const REQUESTS_MAX: usize = 500;
/// Pages of the journal trimmed in one pass.
const TRIM_PASSES_MAX: usize = 64;
/// Jobs forgotten in one pass.
const JOBS_MAX: usize = 100;

/// Jobs that have been over for longer than they are kept.
pub fn jobs_old(state: &MirrorState, meta: &CellMeta, now_ms: i64) -> Vec<JobId> {
    let kept_ms = i64::try_from(meta.job_retention_ms).unwrap_or(i64::MAX);
    let over = state.jobs().values().filter(|row| matches!(row.state, JobState::Ended { .. }));
    let old = over.filter(|row| row.changed_ms.saturating_add(kept_ms) < now_ms);
    old.map(|row| row.id).take(JOBS_MAX).collect()
}

/// One pass.
pub async fn tidy(hands: &Hands, meta: &CellMeta, jobs: Vec<JobId>) -> StoreResult<()> {
    let now_ms = hands.clock.wall_ms();
    let retention_ms = meta.journal_retention_ms;
    let (space, lease) = (&hands.space, &hands.lease);
    for _ in 0..TRIM_PASSES_MAX {
        let trimmed = hands.db.run("journal_trim", Idempotency::Natural, |tx: Transaction, _| async move {
            lease_check(&tx, space, lease).await?;
            match journal_cutoff(&tx, space, retention_ms, now_ms).await? {
                Some(cutoff) => journal_trim(&tx, space, cutoff, now_ms).await,
                None => Ok(None),
            }
        });
        if trimmed.await?.is_none() {
            break;
        }
    }
    loop {
        let expired = hands.db.run("request_expire", Idempotency::Natural, |tx, _| async move {
            lease_check(&tx, space, lease).await?;
            request_expire(&tx, space, now_ms, REQUESTS_MAX).await
        });
        if expired.await? < REQUESTS_MAX {
            break;
        }
    }
    for job in jobs {
        match hands.job_forget(job).await {
            // Its last tasks are not gone yet: the next pass will find it again.
            Err(StoreError::Refused { reason }) => tracing::debug!(reason, "a job is not forgotten yet"),
            other => other?,
        }
    }
    Ok(())
}
