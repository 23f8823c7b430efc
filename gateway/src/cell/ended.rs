//! The ended jobs of a cell. Controllers remove them. If jobs end faster, the gateway first delays new jobs and then
//! refuses them. A tenant who submits as fast as possible does not fill memory.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use borough_store::cell::ENDED_JOBS_MAX;
use borough_store::{StoreError, StoreResult};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The longest delay of a submission.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// The ended jobs that a cell keeps and may keep.
#[derive(Debug)]
pub struct EndedJobsUse {
    kept: Gauge<u64, AtomicU64>,
    most: Gauge<u64, AtomicU64>,
    delayed: Counter,
    refused: Counter,
}

impl Default for EndedJobsUse {
    fn default() -> Self {
        let most = Gauge::<u64, AtomicU64>::default();
        most.set(ENDED_JOBS_MAX);
        Self { kept: Gauge::default(), most, delayed: Counter::default(), refused: Counter::default() }
    }
}

impl EndedJobsUse {
    /// The delay of a submission now.
    pub fn delay(&self) -> Duration {
        let delay = delay_of(self.kept.get(), self.most.get());
        if delay > Duration::ZERO {
            self.delayed.inc();
        }
        delay
    }

    /// Refuses new work at twice the number that the cell keeps. The error names both numbers.
    pub fn admit(&self) -> StoreResult<()> {
        let (kept, kept_max) = (self.kept.get(), self.most.get().saturating_mul(2));
        if kept < kept_max {
            return Ok(());
        }
        self.refused.inc();
        Err(StoreError::EndedJobsFull { kept, kept_max })
    }

    /// Records how many jobs the cell keeps.
    pub(super) fn kept_note(&self, kept: usize) {
        self.kept.set(u64::try_from(kept).unwrap_or(u64::MAX));
    }

    /// Records how many jobs it may keep.
    pub(super) fn most_note(&self, most: u64) {
        self.most.set(most);
    }

    /// Shows the metrics of `cell` in `registry`.
    pub fn register(&self, cell: &str, registry: &mut Registry) {
        let label = ("cell".into(), cell.to_owned().into());
        let registry = registry.sub_registry_with_prefix("borough_ended_jobs").sub_registry_with_label(label);
        registry.register("kept", "Ended jobs that have a row", self.kept.clone());
        registry.register("kept_max", "Ended jobs that the cell keeps at most", self.most.clone());
        let help = "Submissions delayed because ended jobs are removed too slowly";
        registry.register("delayed", help, self.delayed.clone());
        let help = "Submissions refused because the cell has twice as many ended jobs as it keeps";
        registry.register("refusals", help, self.refused.clone());
    }
}

/// The delay of a submission: none up to five quarters of `most`, and then more with each job, up to [`DELAY_MAX`] at
/// twice `most`.
fn delay_of(kept: u64, most: u64) -> Duration {
    let from = most.saturating_add(most / 4);
    let (over, range) = (kept.saturating_sub(from), most.saturating_mul(2).saturating_sub(from).max(1));
    let millis = DELAY_MAX.as_millis().saturating_mul(u128::from(over.min(range))) / u128::from(range);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_work_waits_longer_the_more_ended_jobs_there_are_and_is_refused_at_twice_their_bound() {
        let waits = |kept| delay_of(kept, 1_000).as_millis();
        assert_eq!([0, 1_000, 1_250].map(waits), [0, 0, 0]);
        assert_eq!([1_251, 1_625, 2_000, 9_000].map(waits), [1, 500, 1_000, 1_000]);
        assert_eq!(delay_of(u64::MAX, u64::MAX), Duration::ZERO);
        let ended = EndedJobsUse::default();
        ended.most_note(1_000);
        for (kept, admitted) in [(0, true), (1_999, true), (2_000, false), (2_001, false)] {
            ended.kept_note(kept);
            assert_eq!(ended.admit().is_ok(), admitted, "{kept}");
        }
        assert_eq!((ended.refused.get(), ended.delayed.get()), (2, 0));
        assert_eq!(ended.delay(), DELAY_MAX);
        assert_eq!(ended.delayed.get(), 1);
        let status = crate::status::status_from_store(&ended.admit().unwrap_err());
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        assert!(tonic_types::StatusExt::get_details_retry_info(&status).is_some());
    }
}
