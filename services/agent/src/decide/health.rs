//! Interprets a task's probes, and decides when the next one is due.

use std::time::Duration;

use borough_proto::v1;

/// The results of an attempt's probes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeHistory {
    /// The health that follows from them.
    pub health: v1::Health,
    /// Counted failures in a row.
    pub failures: u32,
    /// Probes before the first success.
    tries: u32,
}

impl ProbeHistory {
    /// The history of an attempt whose last known health was `health`.
    pub(crate) fn new(health: v1::Health) -> Self {
        Self { health, failures: 0, tries: 0 }
    }
}

/// Pauses between the first probes. An endpoint is published after the first success, so a whole interval would delay
/// every start.
const QUICK_FIRST_MS: u64 = 20;
const QUICK_MAX_MS: u64 = 100;
/// After so many probes, the pauses grow up to [`QUICK_LATE_MS`].
const QUICK_TRIES: u32 = 50;
const QUICK_LATE_MS: u64 = 500;
/// How long a task must run before it is healthy, unless its assignment says otherwise.
pub(crate) const HEALTHY_AFTER_MS: u64 = 1_000;
/// Interval of checking the ports of a task without probes, while another process has one of them.
const UNCHECKED_PAUSE: Duration = Duration::from_secs(1);
/// Replaces 0 in a spec.
const INTERVAL_LEAST_MS: u64 = 20;

/// The result of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    Passed,
    Failed,
}

/// How long a task has run at a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskUptime {
    pub since_start: Duration,
    /// How long it must run before it is healthy: a task that exits at once was never up.
    pub healthy_after: Duration,
}

impl TaskUptime {
    /// How long the task must still run before it is healthy.
    fn missing(self) -> Duration {
        self.healthy_after.saturating_sub(self.since_start)
    }
}

/// The history after a probe, and the pause before the next one.
pub(crate) fn next(
    check: &v1::HealthCheck,
    history: ProbeHistory,
    result: ProbeResult,
    uptime: TaskUptime,
) -> (ProbeHistory, Duration) {
    let interval = Duration::from_millis(check.interval_ms.max(INTERVAL_LEAST_MS));
    if result == ProbeResult::Passed {
        let missing = uptime.missing();
        if history.health != v1::Health::Healthy && !missing.is_zero() {
            return (ProbeHistory { failures: 0, ..history }, missing.min(interval));
        }
        return (ProbeHistory { health: v1::Health::Healthy, failures: 0, tries: history.tries }, interval);
    }
    let never = !matches!(history.health, v1::Health::Healthy | v1::Health::Unhealthy);
    // A task has at least one interval to come up, whatever the spec's grace is.
    let grace = Duration::from_millis(check.initial_grace_ms).max(interval);
    if never && uptime.since_start < grace {
        let tries = history.tries.saturating_add(1);
        let quick = if tries > QUICK_TRIES {
            QUICK_LATE_MS
        } else {
            (QUICK_FIRST_MS << tries.saturating_sub(1).min(8)).min(QUICK_MAX_MS)
        };
        let pause = Duration::from_millis(quick).min(interval).min(grace.saturating_sub(uptime.since_start));
        return (ProbeHistory { tries, ..history }, pause);
    }
    let failures = history.failures.saturating_add(1);
    let health = if failures >= check.failures_max.max(1) { v1::Health::Unhealthy } else { history.health };
    (ProbeHistory { health, failures, ..history }, interval)
}

/// The same for a task without a check. It is healthy once it has run long enough and no other process has its ports.
/// It is never unhealthy.
pub(crate) fn next_unchecked(
    history: ProbeHistory,
    result: ProbeResult,
    uptime: TaskUptime,
) -> (ProbeHistory, Duration) {
    let missing = uptime.missing();
    if result == ProbeResult::Failed {
        (history, UNCHECKED_PAUSE)
    } else if missing.is_zero() {
        (ProbeHistory { health: v1::Health::Healthy, ..history }, UNCHECKED_PAUSE)
    } else {
        (history, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::ProbeResult::{Failed, Passed};
    use super::*;

    use proptest::prelude::*;

    fn check(interval_ms: u64, failures_max: u32, initial_grace_ms: u64) -> v1::HealthCheck {
        v1::HealthCheck { interval_ms, failures_max, initial_grace_ms, ..v1::HealthCheck::default() }
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A task that has run for this long and may be healthy at once.
    const fn now(since_start: u64) -> TaskUptime {
        TaskUptime { since_start: ms(since_start), healthy_after: Duration::ZERO }
    }

    #[test]
    fn nothing_is_healthy_before_it_has_run_for_a_while() {
        let early = TaskUptime { since_start: ms(300), healthy_after: ms(1_000) };
        let (history, pause) =
            next(&check(5_000, 1, 0), ProbeHistory::new(v1::Health::Unknown), Passed, early);
        assert_eq!((history.health, pause), (v1::Health::Unknown, ms(700)));
        let late = TaskUptime { since_start: ms(1_000), ..early };
        assert_eq!(next(&check(5_000, 1, 0), history, Passed, late).0.health, v1::Health::Healthy);
        // A task that was healthy before this agent started stays healthy.
        let known = ProbeHistory::new(v1::Health::Healthy);
        assert_eq!(next(&check(5_000, 1, 0), known, Passed, early).0.health, v1::Health::Healthy);
        let (history, pause) = next_unchecked(ProbeHistory::new(v1::Health::Unknown), Passed, early);
        assert_eq!((history.health, pause), (v1::Health::Unknown, ms(700)));
        assert_eq!(next_unchecked(history, Failed, late).0.health, v1::Health::Unknown);
        assert_eq!(next_unchecked(history, Passed, late).0.health, v1::Health::Healthy);
    }

    #[test]
    fn the_first_that_passes_is_enough() {
        let (history, pause) =
            next(&check(1000, 3, 0), ProbeHistory::new(v1::Health::Unknown), Passed, now(1));
        assert_eq!((history.health, pause), (v1::Health::Healthy, ms(1000)));
    }

    #[test]
    fn probes_are_quick_until_then_and_not_counted() {
        let mut history = ProbeHistory::new(v1::Health::Unknown);
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let (next, pause) = next(&check(1000, 1, 0), history, Failed, now(10));
            history = next;
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses, [20, 40, 80, 100, 100]);
        assert_eq!((history.health, history.failures), (v1::Health::Unknown, 0));
    }

    #[test]
    fn failures_in_a_row_make_it_unhealthy_and_one_success_heals() {
        let check = check(1000, 3, 0);
        let mut history = ProbeHistory::new(v1::Health::Healthy);
        for expect in [v1::Health::Healthy, v1::Health::Healthy, v1::Health::Unhealthy] {
            history = next(&check, history, Failed, now(1)).0;
            assert_eq!(history.health, expect);
        }
        history = next(&check, history, Passed, now(1)).0;
        assert_eq!((history.health, history.failures), (v1::Health::Healthy, 0));
    }

    #[test]
    fn one_that_never_passes_becomes_unhealthy_after_its_grace() {
        let check = check(100, 2, 5000);
        let mut history = ProbeHistory::new(v1::Health::Unknown);
        let mut at = Duration::ZERO;
        while history.health != v1::Health::Unhealthy {
            let (next, pause) =
                next(&check, history, Failed, TaskUptime { since_start: at, healthy_after: Duration::ZERO });
            (history, at) = (next, at + pause);
            assert!(at < ms(6000), "still {history:?}");
        }
        assert!(at >= ms(5000));
    }

    proptest! {
        #[test]
        fn unhealthy_exactly_after_failures_max_counted_failures_in_a_row(
            outcomes in prop::collection::vec(any::<bool>(), 0..60), failures_max in 0u32..6, interval in 0u64..500,
        ) {
            let check = check(interval, failures_max, 0);
            let (mut history, mut row) = (ProbeHistory::new(v1::Health::Healthy), 0);
            for passed in outcomes {
                let result = if passed { Passed } else { Failed };
                let (after, pause) = next(&check, history, result, now(10_000));
                history = after;
                row = if passed { 0 } else { row + 1 };
                let expect =
                    if row >= failures_max.max(1) { v1::Health::Unhealthy } else { v1::Health::Healthy };
                prop_assert_eq!(history.health, expect);
                prop_assert!(pause >= ms(INTERVAL_LEAST_MS));
            }
        }
    }
}
