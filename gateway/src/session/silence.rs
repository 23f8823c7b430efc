//! Decides how often an agent reports when nothing changes, and when its session is silent.
//!
//! Each report of an idle agent costs its gateway processor time. So the interval grows with the sessions that the
//! gateway holds, and the silence that it allows a session follows the interval that it has told this session. A
//! session that has ended gets no more than before: its end shows what the missing reports would have shown.

use std::time::Duration;

use borough_proto::bounds::REPORTS_UNAPPLIED_MAX;

/// Intervals below this one never grow: their cell has a short tolerance, and wants to hear of a loss soon.
const GROWING_FROM: Duration = Duration::from_secs(12);
/// The longest interval. An agent that hangs while its connection lives is silent after 150 s then.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Reports of idle agents in a second, about, that a gateway asks for. A report costs about 11 µs.
const REPORTS_PER_S: usize = 4_000;
/// Half intervals of its reports for which a session may be silent. The agent may miss one report, and the next one may
/// be late.
const SILENCE_HALVES: u32 = 5;

/// The interval of reports of an agent when nothing changes. `least` is that of its cell, `sessions` how many the
/// gateway holds.
pub fn report_interval(least: Duration, sessions: usize) -> Duration {
    if least < GROWING_FROM {
        return least;
    }
    let seconds = u64::try_from(sessions.div_ceil(REPORTS_PER_S)).unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(INTERVAL_MAX).max(least)
}

/// For how long a session may do no work if its agent reports at this interval.
pub fn silence_max(interval: Duration) -> Duration {
    interval.saturating_mul(SILENCE_HALVES) / 2
}

/// The work of one session, and what the gateway has told its agent about reports.
#[derive(Clone, Copy, Debug)]
pub struct SessionWork {
    /// The shortest interval of reports.
    least: Duration,
    /// The intervals of the last answers. The agent has heard each but the newest [`REPORTS_UNAPPLIED_MAX`], since it
    /// sends no report while so many are unanswered. So the interval that it keeps is one of these.
    told: [Duration; REPORTS_UNAPPLIED_MAX + 1],
    /// When the session last did work (monotonic).
    worked: Option<Duration>,
    /// When it ended (monotonic).
    ended: Option<Duration>,
}

/// When a session is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilenceLimit {
    /// From when silence counts (monotonic).
    pub since: Duration,
    /// How long it may last.
    pub most: Duration,
}

impl SilenceLimit {
    /// When the session is silent, if it does no work before.
    pub fn due(self) -> Duration {
        self.since.saturating_add(self.most)
    }
}

impl SessionWork {
    /// A session without work, to which the gateway has told `interval` in its welcome.
    pub fn new(interval: Duration) -> Self {
        Self { least: interval, told: [interval; REPORTS_UNAPPLIED_MAX + 1], worked: None, ended: None }
    }

    /// Records work at `now`.
    pub fn worked(&mut self, now: Duration) {
        self.worked = Some(now);
    }

    /// When the session last did work. `None`: not yet.
    pub fn worked_at(&self) -> Option<Duration> {
        self.worked
    }

    /// Records that the session ends at `now`.
    pub fn end(&mut self, now: Duration) {
        self.ended.get_or_insert(now);
    }

    /// Records the interval of the next answer. Call it before the answer is sent.
    pub fn tell(&mut self, interval: Duration) {
        self.told.rotate_right(1);
        self.told[0] = interval.max(self.least);
    }

    /// When the session is silent.
    ///
    /// An open session has two and a half of the longest interval that its agent may keep. A session that has ended has
    /// two and a half of the shortest one. It counts as if its agent had last reported one shortest interval before the
    /// end, and never later than an agent that reports in time.
    pub fn limit(&self) -> SilenceLimit {
        let worked = self.worked.unwrap_or_default();
        let longest = self.told.into_iter().max().unwrap_or(self.least);
        match self.ended {
            None => SilenceLimit { since: worked, most: silence_max(longest) },
            Some(ended) => {
                let latest = worked.saturating_add(longest.saturating_sub(self.least));
                let since = ended.saturating_sub(self.least).min(latest).max(worked);
                SilenceLimit { since, most: silence_max(self.least) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// What the agent knows: the interval that it keeps, and the answers on their way to it.
    struct Agent {
        interval: Duration,
        underway: std::collections::VecDeque<Duration>,
    }

    proptest! {
        #[test]
        fn the_interval_grows_with_the_sessions_within_its_bounds(
            least_ms in 1..90_000_u64,
            sessions in 0..1_000_000_usize,
            more in 0..1_000_000_usize,
        ) {
            let least = Duration::from_millis(least_ms);
            let interval = report_interval(least, sessions);
            prop_assert!(interval >= least && interval <= INTERVAL_MAX.max(least));
            prop_assert!(report_interval(least, sessions + more) >= interval);
            prop_assert!(least >= GROWING_FROM || interval == least);
            let reports_per_s = sessions as f64 / interval.as_secs_f64();
            prop_assert!(
                interval == least || interval == INTERVAL_MAX || reports_per_s <= REPORTS_PER_S as f64
            );
        }

        /// However the interval goes up and down, and however late the answers arrive, the gateway allows an open
        /// session two and a half of the interval that its agent keeps. It allows no more than the longest one.
        #[test]
        fn an_agent_that_has_not_heard_a_shorter_interval_has_the_longer_ones_time(
            steps in prop::collection::vec((prop::bool::ANY, 12..=60_u64), 1..80),
        ) {
            let mut work = SessionWork::new(seconds(12));
            work.worked(seconds(100));
            let mut agent = Agent { interval: seconds(12), underway: Default::default() };
            for (reports, interval) in steps {
                if reports && agent.underway.len() < REPORTS_UNAPPLIED_MAX {
                    work.tell(seconds(interval));
                    agent.underway.push_back(seconds(interval));
                } else if let Some(heard) = agent.underway.pop_front() {
                    agent.interval = heard;
                }
                let limit = work.limit();
                prop_assert_eq!(limit.since, seconds(100));
                prop_assert!(limit.most >= silence_max(agent.interval), "{:?} {:?}", limit, agent.interval);
                prop_assert!(limit.most <= silence_max(INTERVAL_MAX));
            }
        }

        /// The keep-alive ends the session of a machine that dies within one shortest interval. Such a machine is
        /// silent no later than with the shortest interval. An agent that ends its session has at least as long to come
        /// back.
        #[test]
        fn the_end_of_a_session_shows_what_missing_reports_would_show(
            interval in 12..=60_u64,
            since_work in 0..200_u64,
            noticed_after in 0..=12_u64,
        ) {
            let (least, worked) = (seconds(12), seconds(1_000));
            let mut work = SessionWork::new(least);
            work.tell(seconds(interval));
            work.worked(worked);
            let died = worked + seconds(since_work);
            work.end(died + seconds(noticed_after));
            let limit = work.limit();
            prop_assert!(limit.due() <= died + silence_max(least));
            let in_time = since_work <= interval;
            prop_assert!(!in_time || limit.due() >= died + silence_max(least) - least);
            prop_assert!(limit.due() <= worked + silence_max(seconds(interval)), "no later than an open one");
            prop_assert!(interval != 12 || limit.since == worked, "as before");
        }
    }

    #[test]
    fn a_hundred_thousand_sessions_report_four_thousand_times_a_second() {
        let base = seconds(12);
        assert_eq!(report_interval(base, 0), base);
        assert_eq!(report_interval(base, 48_000), base);
        assert_eq!(report_interval(base, 100_000), seconds(25));
        assert_eq!(report_interval(base, usize::MAX), seconds(60));
        assert_eq!(report_interval(seconds(1), 100_000), seconds(1), "a short tolerance stays short");
    }
}
