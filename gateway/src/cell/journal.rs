//! The size of a cell's journal. The gateway measures it every two seconds, shows it as metrics, and admits no new work
//! while it exceeds its bound. The controller trims the journal long before. Without a controller, an embedded store
//! would run out of memory. The ended jobs are counted at the same time.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_store::cell::cell_meta_read;
use borough_store::journal::JournalMeter;
use borough_store::{StoreError, StoreResult, error_chain};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::CellContext;

/// Time between two measurements.
const LOOK: Duration = Duration::from_secs(2);

/// The journal of a cell, as last measured.
#[derive(Debug)]
pub struct JournalUse {
    kept: Gauge<u64, AtomicU64>,
    most: Gauge<u64, AtomicU64>,
    refused: Counter,
}

impl Default for JournalUse {
    fn default() -> Self {
        let most = Gauge::<u64, AtomicU64>::default();
        most.set(u64::MAX);
        Self { kept: Gauge::default(), most, refused: Counter::default() }
    }
}

impl JournalUse {
    /// Refuses new work if the journal exceeds its bound. The error names the size and the bound.
    pub fn admit(&self) -> StoreResult<()> {
        let (kept, most) = (self.kept.get(), self.most.get());
        if kept < most {
            return Ok(());
        }
        self.refused.inc();
        Err(StoreError::JournalFull { bytes: kept, bytes_max: most })
    }

    fn note(&self, kept: u64, most: u64) {
        self.kept.set(kept);
        self.most.set(most);
    }

    /// Shows the metrics of `cell` in `registry`.
    pub fn register(&self, cell: &str, registry: &mut Registry) {
        let label = ("cell".into(), cell.to_owned().into());
        let registry = registry.sub_registry_with_prefix("borough_journal").sub_registry_with_label(label);
        registry.register("bytes", "Bytes of the journal that are kept", self.kept.clone());
        registry.register("bytes_max", "Bytes of the journal that may be kept", self.most.clone());
        let help = "Requests for new work refused because the journal was over its bound";
        registry.register("refusals", help, self.refused.clone());
    }
}

/// Measures the journal of `cell` until the future is dropped.
pub(super) async fn journal_follow(cell: Arc<CellContext>) {
    let mut meter = JournalMeter::default();
    loop {
        let (space, measured) = (&cell.space, &meter);
        let look = cell.db.run("journal_bytes", Idempotency::ReadOnly, |tx, _| async move {
            let meta = cell_meta_read(&tx, space).await?;
            Ok::<_, StoreError>((measured.look(&tx, space).await?, meta))
        });
        match look.await {
            Ok((look, meta)) => {
                let (kept, most) = (meter.note(look), meta.journal_bytes_max());
                cell.journal.note(kept, most);
                cell.ended_jobs.most_note(meta.ended_jobs_max());
                cell.ended_jobs.kept_note(cell.mirror.read(|state| state.ended_jobs().len()));
                if let Some(at) = cell.mirror_lock.note(cell.mirror.lock_holds()) {
                    tracing::debug!(cell = %cell.name, %at, "the lock of the mirror was held for long");
                }
                if kept >= most {
                    tracing::warn!(cell = %cell.name, kept, most, "the gateway admits no work: no controller trims the journal");
                }
            }
            Err(error) => {
                tracing::debug!(cell = %cell.name, error = %error_chain(&error), "the size of the journal cannot be read")
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_admitted_below_the_bound_only() {
        let journal = JournalUse::default();
        assert!(journal.admit().is_ok(), "nothing is known yet");
        for (kept, admitted) in [(0, true), (99, true), (100, false), (101, false), (99, true)] {
            journal.note(kept, 100);
            assert_eq!(journal.admit().is_ok(), admitted, "{kept} of 100");
        }
        assert_eq!(journal.refused.get(), 2);
        let status = crate::status::status_from_store(&journal_full());
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        assert!(tonic_types::StatusExt::get_details_retry_info(&status).is_some());
    }

    fn journal_full() -> StoreError {
        let journal = JournalUse::default();
        journal.note(7, 7);
        journal.admit().unwrap_err()
    }
}
