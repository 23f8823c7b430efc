//! Garbage collection: removes journal entries, answers of requests and jobs past their retention.

use std::convert::Infallible;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::JobId;
use borough_model::job::JobState;
use borough_store::cell::{CellMeta, cell_meta_read};
use borough_store::journal::{journal_bytes, journal_cutoff, journal_cutoff_bytes, journal_trim};
use borough_store::lease::LeaseWriter;
use borough_store::mirror::MirrorState;
use borough_store::request::request_expire;
use borough_store::{StoreError, StoreResult};

use crate::act::ActionExecutor;

/// Requests removed in one transaction.
const REQUESTS_MAX: usize = 500;
/// Interval of checks of a journal that is well within its bound, and of one that nears it.
const TRIM_LOOK: Duration = Duration::from_secs(2);
const TRIM_LOOK_NEAR: Duration = Duration::from_millis(250);
/// Jobs removed in one pass.
const JOBS_MAX: usize = 100;

/// Jobs that ended longer ago than their retention.
pub(crate) fn jobs_old(state: &MirrorState, meta: &CellMeta, now_ms: i64) -> Vec<JobId> {
    let kept_ms = i64::try_from(meta.job_retention_ms).unwrap_or(i64::MAX);
    let over = state.jobs().values().filter(|row| matches!(row.state, JobState::Ended { .. }));
    let old = over.filter(|row| row.changed_ms.saturating_add(kept_ms) < now_ms);
    old.map(|row| row.id).take(JOBS_MAX).collect()
}

/// Excess bytes of the journal. Trimming begins at three quarters of the bound and goes down to five eighths, so that
/// the bound itself is never reached while a controller leads.
pub(crate) fn journal_excess(kept: u64, bytes_max: u64) -> u64 {
    if kept > bytes_max / 4 * 3 { kept.saturating_sub(bytes_max / 8 * 5) } else { 0 }
}

/// Keeps the journal within its retention and its bound, batch by batch. Only an error ends it: that of the store, or
/// the loss of the lease.
pub(crate) async fn journal_keep(writer: &LeaseWriter) -> StoreResult<Infallible> {
    loop {
        let (kept, bytes_max) = journal_measure(writer).await?;
        let mut excess = journal_excess(kept, bytes_max);
        while journal_pass(writer, excess).await? {
            if excess > 0 {
                let (kept, bytes_max) = journal_measure(writer).await?;
                excess = kept.saturating_sub(bytes_max / 8 * 5);
            }
        }
        let near = kept > bytes_max / 2;
        tokio::time::sleep(if near { TRIM_LOOK_NEAR } else { TRIM_LOOK }).await;
    }
}

/// Bytes of the journal, and their bound.
async fn journal_measure(writer: &LeaseWriter) -> StoreResult<(u64, u64)> {
    let space = &writer.space;
    let measured = writer.db.run("journal_bytes", Idempotency::ReadOnly, |tx, _| async move {
        let bytes_max = cell_meta_read(&tx, space).await?.journal_bytes_max();
        Ok::<_, StoreError>((journal_bytes(&tx, space).await?, bytes_max))
    });
    measured.await
}

/// Removes one batch of entries that are too old or, by `excess` bytes, too many. Returns false if nothing is left to
/// remove.
async fn journal_pass(writer: &LeaseWriter, excess: u64) -> StoreResult<bool> {
    let (space, now_ms) = (&writer.space, writer.clock.wall_ms());
    let trimmed = writer.run("journal_trim", |tx| async move {
        let retention_ms = cell_meta_read(&tx, space).await?.journal_retention_ms;
        let by_age = journal_cutoff(&tx, space, retention_ms, now_ms).await?;
        let by_bytes = journal_cutoff_bytes(&tx, space, excess).await?;
        match by_age.max(by_bytes) {
            Some(cutoff) => journal_trim(&tx, space, cutoff, now_ms).await,
            None => Ok(None),
        }
    });
    Ok(trimmed.await?.is_some())
}

/// One pass over everything except the journal.
pub(crate) async fn tidy(executor: &ActionExecutor, jobs: Vec<JobId>) -> StoreResult<()> {
    let writer = &executor.writer;
    let now_ms = writer.clock.wall_ms();
    let expire = |tx| async move { request_expire(&tx, &writer.space, now_ms, REQUESTS_MAX).await };
    while writer.run("request_expire", expire).await? >= REQUESTS_MAX {}
    for job in jobs {
        match executor.job_forget(job).await {
            // Its last tasks are not gone yet: the next pass finds it again.
            Err(StoreError::Refused { reason }) => {
                tracing::debug!(reason, "the controller cannot forget a job yet")
            }
            other => other?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::journal_excess;

    #[test]
    fn a_journal_is_trimmed_before_it_reaches_its_bound_and_not_for_a_little() {
        const MAX: u64 = 512 << 20;
        assert_eq!(journal_excess(0, MAX), 0);
        assert_eq!(journal_excess(MAX / 4 * 3, MAX), 0);
        assert_eq!(journal_excess(MAX / 4 * 3 + 1, MAX), MAX / 8 + 1);
        assert_eq!(journal_excess(MAX, MAX), MAX / 8 * 3);
        for kept in (0..2 * MAX).step_by(1 << 20) {
            let left = kept - journal_excess(kept, MAX);
            assert!(left <= MAX / 4 * 3 && (left >= MAX / 8 * 5 || left == kept), "{kept}");
        }
    }
}
