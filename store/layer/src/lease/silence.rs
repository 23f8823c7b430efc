//! Measures how long a lease or a node has been silent, by the observer's own clock.
//!
//! Only time counts in which the observer itself could have noticed a change: the time between two successful reads of
//! the store that lie close together. After an outage, or a pause of the observer, nothing looks dead that is not. An
//! observer that has just started waits a full tolerance.

use std::time::Duration;

use super::LeaseState;

/// The silence of one thing.
#[derive(Clone, Debug)]
pub struct Silence<T> {
    last: Option<(T, Duration)>,
    silent: Duration,
}

impl<T> Default for Silence<T> {
    fn default() -> Self {
        Self { last: None, silent: Duration::ZERO }
    }
}

impl<T: PartialEq> Silence<T> {
    /// Records what was read at `now` (monotonic), and returns for how long it has been the same.
    ///
    /// `gap_max` is the longest time between two reads that counts. A longer gap counts as nothing, since the observer
    /// itself was cut off for part of it. Use about three times the interval between reads.
    pub fn observe(&mut self, now: Duration, seen: T, gap_max: Duration) -> Duration {
        match &self.last {
            Some((last, at)) if *last == seen => {
                let gap = now.saturating_sub(*at);
                if gap <= gap_max {
                    self.silent = self.silent.saturating_add(gap);
                }
            }
            _ => self.silent = Duration::ZERO,
        }
        self.last = Some((seen, now));
        self.silent
    }

    /// The last value read, if any.
    pub fn last(&self) -> Option<&T> {
        self.last.as_ref().map(|(seen, _)| seen)
    }

    /// For how long it was the same at the last read.
    pub fn silent(&self) -> Duration {
        self.silent
    }
}

/// Watches one lease for its expiry.
#[derive(Clone, Debug)]
pub struct LeaseObserver {
    silence: Silence<LeaseState>,
    gap_max: Duration,
}

impl LeaseObserver {
    /// An observer that reads the lease about every third of `gap_max` (see [`Silence::observe`]).
    pub fn new(gap_max: Duration) -> Self {
        Self { silence: Silence::default(), gap_max }
    }

    /// Records the state read at `now` (monotonic). Returns it once it has been the same for its holder's duration. A
    /// claim then carries it as [`expired`](super::LeaseClaim::expired).
    pub fn observe(&mut self, now: Duration, state: LeaseState) -> Option<LeaseState> {
        let silent = self.silence.observe(now, state.clone(), self.gap_max);
        (silent >= Duration::from_millis(state.row.duration_ms)).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{LeaseBeat, LeaseRow};
    use proptest::prelude::*;

    #[test]
    fn a_lease_expires_after_its_own_duration_of_observed_silence() {
        let row = LeaseRow { epoch: 1, holder: "a".to_owned(), generation: 0, duration_ms: 5_000 };
        let state = |beat| LeaseState { row: row.clone(), beat: LeaseBeat { epoch: 1, beat } };
        let mut observer = LeaseObserver::new(GAP);
        let mut expired = |at, beat| observer.observe(Duration::from_secs(at), state(beat)).is_some();
        assert!(!expired(0, 1) && !expired(2, 1) && !expired(4, 1));
        assert!(expired(6, 1));
        assert!(!expired(7, 2), "it beats");
        assert!(!expired(100, 2), "the observer was away");
        assert!(!expired(103, 2) && expired(106, 2));
    }

    const GAP: Duration = Duration::from_secs(3);

    #[test]
    fn an_outage_of_the_observer_counts_for_nothing() {
        let mut silence = Silence::default();
        let at = Duration::from_secs;
        assert_eq!(silence.observe(at(100), 1, GAP), at(0), "just started");
        assert_eq!(silence.observe(at(102), 1, GAP), at(2));
        assert_eq!(silence.observe(at(202), 1, GAP), at(2), "cut off for long");
        assert_eq!(silence.observe(at(204), 1, GAP), at(4));
        assert_eq!(silence.observe(at(205), 2, GAP), at(0), "a beat");
        assert_eq!(silence.observe(at(206), 2, GAP), at(1));
    }

    proptest! {
        /// Never more than the time since the heartbeat was first read, and never more than the observed time.
        #[test]
        fn silence_is_never_more_than_what_was_observed(steps in prop::collection::vec((0..6_u64, any::<bool>()), 1..40)) {
            let mut silence = Silence::default();
            let (mut now, mut beat, mut seen_at, mut counted) = (0, 0, 0, 0);
            for (step, beats) in steps {
                now += step;
                if beats {
                    beat += 1;
                    (seen_at, counted) = (now, 0);
                } else if step <= 3 {
                    counted += step;
                }
                let silent = silence.observe(Duration::from_secs(now), beat, GAP).as_secs();
                prop_assert!(silent <= now - seen_at);
                prop_assert!(silent <= counted);
            }
        }
    }
}
