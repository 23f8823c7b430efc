//! Decides the wait before the next session. Only lasting progress resets it. Otherwise a session that is welcomed and
//! breaks on its first messages would come back twenty times a second.

use std::time::Duration;

use borough_proto::v1;
use borough_proto::v1::gateway_message::Message;

use crate::config::Intervals;

/// A session counts as lasting after so many intervals of its reports.
const LASTING_INTERVALS: u32 = 3;

/// The progress of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionProgress {
    welcome: Option<SessionWelcome>,
    /// The full desired state has arrived to its end.
    complete: bool,
    /// A report was applied after that.
    applied: bool,
}

/// A gateway's answer to a session.
#[derive(Clone, Copy, Debug)]
struct SessionWelcome {
    /// When it came (monotonic).
    at: Duration,
    report_interval: Duration,
}

impl SessionProgress {
    /// Records a message of the gateway that arrives at `now` (monotonic).
    pub(super) fn message(&mut self, message: &v1::GatewayMessage, now: Duration) {
        match &message.message {
            Some(Message::Welcome(welcome)) => {
                let report_interval = Duration::from_millis(welcome.report_interval_ms);
                self.welcome = Some(SessionWelcome { at: now, report_interval });
            }
            Some(Message::Desired(chunk)) => self.complete |= chunk.full_end,
            Some(Message::ReportApplied(_)) => self.applied |= self.complete,
            _ => {}
        }
    }

    /// The result of the session that ends at `now` (monotonic).
    pub(super) fn ended(&self, now: Duration) -> Ended {
        let Some(welcome) = self.welcome else { return Ended::Unreached };
        let lasted =
            now.saturating_sub(welcome.at) >= welcome.report_interval.saturating_mul(LASTING_INTERVALS);
        if self.complete && self.applied && lasted { Ended::Lasting } else { Ended::Fruitless }
    }
}

/// The result of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// No gateway has welcomed it.
    Unreached,
    /// A gateway has welcomed it, and it has made no lasting progress.
    Fruitless,
    /// The full desired state has arrived, a report was applied after that, and the session has lasted.
    Lasting,
}

/// Failed sessions in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionFailures {
    /// Since a gateway was last reached.
    pub unreached: u32,
    /// Sessions since the last one with lasting progress. A try that reaches no gateway is no session.
    pub fruitless: u32,
}

impl SessionFailures {
    /// After one more try.
    #[must_use]
    pub(super) fn next(self, ended: Ended) -> Self {
        match ended {
            Ended::Unreached => Self { unreached: self.unreached.saturating_add(1), ..self },
            Ended::Fruitless => Self { unreached: 0, fruitless: self.fruitless.saturating_add(1) },
            Ended::Lasting => Self::default(),
        }
    }

    /// The pause before the next try: a random time between half of a step and the whole step. The step doubles with
    /// each failure up to the longest. A gateway that was not reached may be back at any time, so its longest step is
    /// short.
    pub(super) fn pause(self, intervals: Intervals, random: u64) -> Duration {
        let (failures, most) = match self.unreached {
            0 => (self.fruitless, intervals.fruitless_max),
            unreached => (unreached, intervals.reconnect_max),
        };
        let full = intervals.reconnect_first.saturating_mul(1 << failures.min(20)).min(most);
        let half = full / 2;
        let spread = u64::try_from(half.as_micros()).unwrap_or(u64::MAX).max(1);
        half.saturating_add(Duration::from_micros(random % spread))
    }
}

/// The same failure is logged again after this time.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// The failure that was logged last. An agent that tries each second would fill a disk with one line.
#[derive(Debug, Default)]
pub(super) struct SaidFailure {
    said: Option<(String, Duration)>,
}

impl SaidFailure {
    /// Returns true if this failure is to be logged.
    pub(super) fn is_news(&mut self, text: &str, now: Duration) -> bool {
        let is_old = |(said, at): &(String, Duration)| said == text && now.saturating_sub(*at) < SAID_AGAIN;
        let is_news = !self.said.as_ref().is_some_and(is_old);
        if is_news {
            self.said = Some((text.to_owned(), now));
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const INTERVAL_MS: u64 = 1_000;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn session(messages: &[Message], ended_ms: u64) -> Ended {
        let mut progress = SessionProgress::default();
        for message in messages {
            progress.message(&v1::GatewayMessage { message: Some(message.clone()) }, at(0));
        }
        progress.ended(at(ended_ms))
    }

    fn messages() -> [Message; 4] {
        [
            Message::Welcome(v1::Welcome { report_interval_ms: INTERVAL_MS, ..v1::Welcome::default() }),
            Message::ReportApplied(v1::ReportApplied { revision: 1, report_interval_ms: 0 }),
            Message::Desired(v1::Desired { full_begin: true, full_end: true, ..v1::Desired::default() }),
            Message::ReportApplied(v1::ReportApplied { revision: 2, report_interval_ms: 0 }),
        ]
    }

    #[test]
    fn only_all_of_it_is_lasting_progress() {
        let all = messages();
        assert_eq!(session(&all, 3 * INTERVAL_MS), Ended::Lasting);
        assert_eq!(session(&all, 3 * INTERVAL_MS - 1), Ended::Fruitless, "too short");
        assert_eq!(session(&all[..3], 60_000), Ended::Fruitless, "no report applied after the desired state");
        assert_eq!(session(&[all[0].clone(), all[1].clone()], 60_000), Ended::Fruitless, "nothing desired");
        assert_eq!(session(&[], 60_000), Ended::Unreached);
    }

    /// A session that always breaks on the first chunk: the pause grows to half a minute, not 50 ms.
    #[test]
    fn sessions_that_break_after_their_welcome_come_ever_more_rarely() {
        let broken = session(&messages()[..2], 10);
        let mut failures = SessionFailures::default();
        for _ in 0..30 {
            failures = failures.next(broken);
        }
        let intervals = Intervals::default();
        assert!(failures.pause(intervals, 0) >= intervals.fruitless_max / 2);
        assert_eq!(failures.next(Ended::Lasting), SessionFailures::default());
        let away = failures.next(Ended::Unreached);
        assert!(
            away.pause(intervals, u64::MAX) <= intervals.reconnect_max,
            "a gateway that restarts is found soon"
        );
        assert_eq!(away.fruitless, 30, "and it proves nothing");
    }

    proptest! {
        #[test]
        fn pauses_double_up_to_the_longest(fruitless: u32, unreached: u32, random: u64) {
            let intervals = Intervals::default();
            let found = SessionFailures { fruitless, unreached }.pause(intervals, random);
            let (count, most) =
                if unreached == 0 { (fruitless, intervals.fruitless_max) } else { (unreached, intervals.reconnect_max) };
            let full = intervals.reconnect_first.saturating_mul(1 << count.min(20)).min(most);
            prop_assert!(found >= full / 2 && found <= full, "{found:?} of {full:?}");
        }
    }

    #[test]
    fn a_failure_is_logged_when_it_is_another_one_and_once_a_minute() {
        let (mut said, s) = (SaidFailure::default(), Duration::from_secs);
        assert!(said.is_news("cannot connect: refused", s(1)));
        assert!(!said.is_news("cannot connect: refused", s(60)));
        assert!(said.is_news("cannot connect: refused", s(61)));
        assert!(said.is_news("the gateway ended the session: no cell", s(62)));
        assert!(said.is_news("cannot connect: refused", s(63)));
    }
}
