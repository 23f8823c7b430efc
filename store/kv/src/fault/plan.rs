//! Which faults happen and how often.

use std::time::Duration;

/// Probabilities (0 to 1) of faults. The contract allows every one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    /// A read answers 1007, 1009 or 1037.
    pub read_fails: f64,
    /// A commit is not tried and answers 1020 (where the transaction has read something), 1007, 1009 or 1037.
    pub commit_refused: f64,
    /// A commit happens and answers 1021.
    pub commit_then_unknown: f64,
    /// A commit does not happen, is no longer in flight, and answers 1021.
    pub no_commit_then_unknown: f64,
    /// A commit answers 1031 and is tried later anyway.
    pub timed_out_then_commit: f64,
    /// The longest delay of that commit.
    pub commit_later_max: Duration,
    /// A commit takes a while before the store decides it.
    pub commit_slow: f64,
    pub commit_delay_max: Duration,
    /// A batch of a range returns only a few rows, with more left.
    pub short_batch: f64,
    /// A watch fires although nothing changed.
    pub watch_spurious: f64,
    /// A watch fires late.
    pub watch_late: f64,
    /// A watch ends with an error.
    pub watch_fails: f64,
    /// How much later a spurious, late or failing watch ends, at most.
    pub watch_delay_max: Duration,
    /// A transaction waits for its read version.
    pub read_version_slow: f64,
    pub read_version_delay_max: Duration,
}

impl FaultPlan {
    /// No faults.
    pub fn none() -> Self {
        Self {
            read_fails: 0.0,
            commit_refused: 0.0,
            commit_then_unknown: 0.0,
            no_commit_then_unknown: 0.0,
            timed_out_then_commit: 0.0,
            commit_later_max: Duration::from_millis(300),
            commit_slow: 0.0,
            commit_delay_max: Duration::from_millis(20),
            short_batch: 0.0,
            watch_spurious: 0.0,
            watch_late: 0.0,
            watch_fails: 0.0,
            watch_delay_max: Duration::from_millis(100),
            read_version_slow: 0.0,
            read_version_delay_max: Duration::from_millis(10),
        }
    }

    /// Used in every whole-system test: each fault is frequent enough to occur and rare enough for progress.
    pub fn standard() -> Self {
        Self {
            read_fails: 0.002,
            commit_refused: 0.02,
            commit_then_unknown: 0.02,
            no_commit_then_unknown: 0.02,
            timed_out_then_commit: 0.002,
            commit_slow: 0.02,
            short_batch: 0.3,
            watch_spurious: 0.1,
            watch_late: 0.2,
            watch_fails: 0.05,
            read_version_slow: 0.05,
            ..Self::none()
        }
    }

    /// A fault in every other operation: for tests of a store's own layers.
    pub fn heavy() -> Self {
        Self {
            read_fails: 0.05,
            commit_refused: 0.15,
            commit_then_unknown: 0.15,
            no_commit_then_unknown: 0.15,
            timed_out_then_commit: 0.02,
            commit_slow: 0.1,
            short_batch: 0.7,
            watch_spurious: 0.3,
            watch_late: 0.3,
            watch_fails: 0.2,
            read_version_slow: 0.1,
            ..Self::none()
        }
    }
}
