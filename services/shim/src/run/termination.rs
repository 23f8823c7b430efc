//! Decides when an ending attempt gets which signal: a pure function of orders and events.

use std::time::Duration;

use crate::spec::StopOrder;

/// The progress of ending an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Termination {
    /// The order, and when it was first seen.
    pub order: Option<(StopOrder, Duration)>,
    /// SIGTERM has been sent.
    pub terminated: bool,
    /// SIGKILL has been sent, last at this time.
    pub killed: Option<Duration>,
}

/// The step that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TerminationStep {
    /// Nothing before this time, if ever.
    Wait(Option<Duration>),
    /// SIGTERM to the process group.
    Terminate,
    /// SIGKILL to everything.
    Kill,
}

/// Time between two SIGKILLs to processes that do not end: they may fork faster than they are found.
const KILL_AGAIN: Duration = Duration::from_millis(100);

impl Termination {
    /// Records an order. A later one changes the times, which still count from when the first was seen.
    pub(super) fn ordered(&mut self, order: StopOrder, now: Duration) {
        let seen = self.order.map_or(now, |(_, seen)| seen);
        self.order = Some((order, seen));
    }

    /// When SIGKILL follows the order, if there is one.
    pub(super) fn kill_at(&self) -> Option<Duration> {
        let (order, seen) = self.order?;
        let delay_ms = order.drain_delay_ms.saturating_add(order.grace_ms);
        Some(seen.saturating_add(Duration::from_millis(delay_ms)))
    }

    /// The step that is due at `now`.
    pub(super) fn due(&self, now: Duration) -> TerminationStep {
        let Some((order, seen)) = self.order else { return TerminationStep::Wait(None) };
        let terminate_at = seen.saturating_add(Duration::from_millis(order.drain_delay_ms));
        let kill_at = terminate_at.saturating_add(Duration::from_millis(order.grace_ms));
        if !self.terminated {
            return if now >= terminate_at {
                TerminationStep::Terminate
            } else {
                TerminationStep::Wait(Some(terminate_at))
            };
        }
        let kill_at = self.killed.map_or(kill_at, |at| at.saturating_add(KILL_AGAIN));
        if now >= kill_at { TerminationStep::Kill } else { TerminationStep::Wait(Some(kill_at)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn drain_then_term_then_grace_then_kill_again_and_again() {
        let mut termination = Termination::default();
        assert_eq!(termination.due(ms(5)), TerminationStep::Wait(None));
        termination.ordered(StopOrder { drain_delay_ms: 10, grace_ms: 20 }, ms(100));
        assert_eq!(termination.due(ms(109)), TerminationStep::Wait(Some(ms(110))));
        assert_eq!(termination.due(ms(110)), TerminationStep::Terminate);
        termination.terminated = true;
        assert_eq!(termination.due(ms(129)), TerminationStep::Wait(Some(ms(130))));
        assert_eq!(termination.due(ms(130)), TerminationStep::Kill);
        termination.killed = Some(ms(130));
        assert_eq!(termination.due(ms(131)), TerminationStep::Wait(Some(ms(230))));
        assert_eq!(termination.due(ms(230)), TerminationStep::Kill);
    }

    #[test]
    fn a_second_order_counts_from_the_first() {
        let mut termination = Termination::default();
        termination.ordered(StopOrder { drain_delay_ms: 1000, grace_ms: 1000 }, ms(0));
        termination.ordered(StopOrder { drain_delay_ms: 0, grace_ms: 5 }, ms(50));
        assert_eq!(termination.due(ms(50)), TerminationStep::Terminate);
    }

    #[test]
    fn absurd_times_do_not_overflow() {
        let mut termination = Termination::default();
        termination.ordered(StopOrder { drain_delay_ms: u64::MAX, grace_ms: u64::MAX }, Duration::MAX);
        assert_eq!(termination.due(ms(1)), TerminationStep::Wait(Some(Duration::MAX)));
    }
}
