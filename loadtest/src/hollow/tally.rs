//! Counts how many sessions of the present generation of connections are open and current. A storm begins a new
//! generation, and sessions of an older one no longer count.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest measurable time, in microseconds: ten minutes.
const SPREAD_US_MAX: u64 = 600_000_000;

/// The stage of one node's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The gateway has not made its full report durable.
    Opening,
    /// Its full report is durable.
    Connected,
    /// Its full report is durable, and it has received its full desired state.
    Current,
}

/// What a session has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionSteps {
    /// Its full report is durable.
    pub reported: bool,
    /// It has received its full desired state.
    pub desired: bool,
}

impl SessionSteps {
    /// How far the session has come.
    pub(super) fn stage(self) -> Stage {
        if !self.reported {
            Stage::Opening
        } else if self.desired {
            Stage::Current
        } else {
            Stage::Connected
        }
    }
}

/// Counts of one generation.
#[derive(Debug)]
pub(crate) struct GenerationCounts {
    generation: u64,
    began: Duration,
    connected: usize,
    current: usize,
    current_us: Histogram<u64>,
}

impl GenerationCounts {
    /// Starts at `now` (monotonic) without sessions.
    pub(crate) fn new(now: Duration) -> anyhow::Result<Self> {
        let current_us = Histogram::new_with_bounds(1, SPREAD_US_MAX, 3)?;
        Ok(Self { generation: 0, began: now, connected: 0, current: 0, current_us })
    }

    /// Begins a generation: all sessions are broken at `now` (monotonic). Returns its number.
    pub(crate) fn generation_begin(&mut self, now: Duration) -> u64 {
        self.generation += 1;
        (self.began, self.connected, self.current) = (now, 0, 0);
        self.current_us.reset();
        self.generation
    }

    /// Records that a session of `generation` changed from one stage to another, at `now` (monotonic).
    pub(crate) fn moved(&mut self, generation: u64, from: Stage, to: Stage, now: Duration) {
        if generation != self.generation {
            return;
        }
        let step = |count: &mut usize, stage: Stage| {
            if from < stage && to >= stage {
                *count += 1;
            } else if from >= stage && to < stage {
                *count = count.saturating_sub(1);
            }
        };
        step(&mut self.connected, Stage::Connected);
        step(&mut self.current, Stage::Current);
        if to == Stage::Current && from != Stage::Current {
            let us = now.saturating_sub(self.began).as_micros();
            self.current_us.saturating_record(u64::try_from(us).unwrap_or(u64::MAX).max(1));
        }
    }

    /// Sessions at `stage` or beyond.
    pub(crate) fn count(&self, stage: Stage) -> usize {
        match stage {
            Stage::Opening => 0,
            Stage::Connected => self.connected,
            Stage::Current => self.current,
        }
    }

    /// Microseconds from the beginning of the generation until a session was current.
    pub(crate) fn current_us(&self) -> &Histogram<u64> {
        &self.current_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn counts(tally: &GenerationCounts) -> (usize, usize) {
        (tally.count(Stage::Connected), tally.count(Stage::Current))
    }

    #[test]
    fn a_session_counts_as_far_as_it_has_come() {
        let mut tally = GenerationCounts::new(Duration::ZERO).unwrap();
        tally.moved(0, Stage::Opening, Stage::Connected, MS);
        assert_eq!(counts(&tally), (1, 0));
        tally.moved(0, Stage::Connected, Stage::Current, MS * 2);
        tally.moved(0, Stage::Opening, Stage::Current, MS * 3);
        assert_eq!(counts(&tally), (2, 2));
        tally.moved(0, Stage::Current, Stage::Opening, MS * 4);
        assert_eq!(counts(&tally), (1, 1));
    }

    #[test]
    fn a_storm_forgets_the_sessions_before_it_and_what_they_still_do() {
        let mut tally = GenerationCounts::new(Duration::ZERO).unwrap();
        tally.moved(0, Stage::Opening, Stage::Current, MS);
        assert_eq!(tally.generation_begin(MS * 10), 1);
        assert_eq!(counts(&tally), (0, 0));
        // Sessions that have not noticed the storm yet.
        tally.moved(0, Stage::Opening, Stage::Connected, MS * 11);
        tally.moved(0, Stage::Current, Stage::Opening, MS * 11);
        assert_eq!(counts(&tally), (0, 0));
        tally.moved(1, Stage::Opening, Stage::Current, MS * 12);
        assert_eq!((counts(&tally), tally.current_us().len(), tally.current_us().max()), ((1, 1), 1, 2_000));
    }

    #[test]
    fn a_session_is_current_with_both_its_report_durable_and_its_desired_state_received() {
        let stage = |reported, desired| SessionSteps { reported, desired }.stage();
        assert_eq!(stage(false, true), Stage::Opening);
        assert_eq!(stage(true, false), Stage::Connected);
        assert_eq!(stage(true, true), Stage::Current);
    }
}
