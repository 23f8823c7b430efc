//! The time that the health gate of a rollout costs at the least: pure.

use std::time::Duration;

/// The agent reports no attempt as healthy before it has run for so long, unless it has failed before.
pub(super) const UPTIME: Duration = Duration::from_secs(1);

/// What a rollout must wait for.
#[derive(Clone, Copy, Debug)]
pub(super) struct HealthGate {
    pub tasks: u32,
    /// The most tasks that may be away at once.
    pub unavailable_max: u32,
    /// How long an attempt must run before its agent reports it as healthy.
    pub uptime: Duration,
    /// For how long it must then stay healthy before it counts as available.
    pub healthy_after: Duration,
}

impl HealthGate {
    /// How many replacements must follow each other: a task is replaced only when one before it is available again.
    pub(super) fn batches(self) -> u32 {
        self.tasks.div_ceil(self.unavailable_max.max(1))
    }

    /// `batches × (uptime + healthy_after)`: the time of a rollout that starts and stops tasks in no time and waits for
    /// nothing else. The interval of probes adds nothing. An agent times a probe for the end of `uptime`, and a program
    /// that listens by then passes it.
    pub(super) fn best(self) -> Duration {
        self.uptime.saturating_add(self.healthy_after).saturating_mul(self.batches())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_waits_once_for_each_batch() {
        let gate = HealthGate {
            tasks: 1_000,
            unavailable_max: 50,
            uptime: UPTIME,
            healthy_after: Duration::from_secs(10),
        };
        assert_eq!((gate.batches(), gate.best()), (20, Duration::from_secs(220)));
        let uneven = HealthGate { tasks: 1_001, ..gate };
        assert_eq!((uneven.batches(), uneven.best()), (21, Duration::from_secs(231)));
        let one = HealthGate { tasks: 3, unavailable_max: 0, ..gate };
        assert_eq!(one.batches(), 3, "at least one task is replaced at a time");
    }
}
