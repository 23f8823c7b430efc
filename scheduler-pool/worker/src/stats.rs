//! A worker's counters of its own work, and its report about itself.

use std::time::Duration;

use borough_scheduler_core::Plan;
use borough_store::lease::WorkerStatus;

/// Counts of one worker since it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerStats {
    placed: u64,
    commits: u64,
    conflicts: u64,
    planned: u64,
    scored: u64,
    searches_reused: u64,
    searches_begun: u64,
    /// When the rate was last computed, and the count of placements then.
    rate_from: Option<(Duration, u64)>,
    rate_per_ks: u64,
}

/// The shortest time over which a rate is computed.
const RATE_SPAN: Duration = Duration::from_secs(1);

impl WorkerStats {
    /// Counts a plan.
    pub(crate) fn planned(&mut self, plan: &Plan) {
        let counters = &plan.counters;
        self.planned += plan.placements.len() as u64;
        self.scored += counters.nodes_scored;
        self.searches_reused += counters.searches_reused;
        self.searches_begun += counters.searches_begun;
    }

    /// Counts a committed batch of so many tasks.
    pub(crate) fn committed(&mut self, tasks: usize) {
        self.commits += 1;
        self.placed += tasks as u64;
    }

    /// Counts a batch that lost a guard.
    pub(crate) fn conflicted(&mut self) {
        self.conflicts += 1;
    }

    /// The counters as the worker's report about itself at `now` (monotonic).
    pub(crate) fn status(&mut self, now: Duration) -> WorkerStatus {
        match self.rate_from {
            Some((from, placed)) if now.saturating_sub(from) >= RATE_SPAN => {
                let span_ms = u64::try_from(now.saturating_sub(from).as_millis()).unwrap_or(u64::MAX).max(1);
                self.rate_per_ks = (self.placed - placed).saturating_mul(1_000_000) / span_ms;
                self.rate_from = Some((now, self.placed));
            }
            Some(_) => {}
            None => self.rate_from = Some((now, self.placed)),
        }
        let per_mille = |part: u64, total: u64| part.saturating_mul(1000).checked_div(total).unwrap_or(0);
        let cached = per_mille(self.searches_reused, self.searches_reused + self.searches_begun);
        WorkerStatus {
            rate_per_ks: self.rate_per_ks,
            placed: self.placed,
            commits: self.commits,
            conflicts: self.conflicts,
            scored_per_mille: per_mille(self.scored, self.planned),
            cached_per_mille: u32::try_from(cached).unwrap_or(1000),
            ..WorkerStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_span() {
        let mut stats = WorkerStats::default();
        let at = Duration::from_millis;
        assert_eq!(stats.status(at(0)).rate_per_ks, 0);
        stats.committed(500);
        assert_eq!(stats.status(at(500)).rate_per_ks, 0, "too soon to say");
        assert_eq!(stats.status(at(2_000)).rate_per_ks, 250_000);
        assert_eq!(stats.status(at(4_000)).rate_per_ks, 0);
        assert_eq!(stats.status(at(4_000)).placed, 500);
    }
}
