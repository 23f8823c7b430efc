//! How long the lock of a mirror is held. Whoever wants it meanwhile waits as long: the follower for a reader, and
//! every reader for the follower.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Holds that are longer than this count as long.
const LONG: Duration = Duration::from_millis(1);

/// The holds of one kind since the mirror began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockHolds {
    /// The longest hold, in microseconds.
    pub longest_us: u64,
    /// The place in the code that held it.
    pub longest_at: Option<&'static Location<'static>>,
    /// Holds of more than a millisecond.
    pub long: u64,
}

/// The holds of a mirror's lock, by what they were for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorLockHolds {
    /// Somebody looked at the state.
    pub reads: LockHolds,
    /// The follower applied entries.
    pub entries: LockHolds,
}

/// Counts the holds of one kind. Short ones cost one comparison.
#[derive(Debug, Default)]
pub(super) struct HoldCounter {
    longest_us: AtomicU64,
    long: AtomicU64,
    longest_at: Mutex<Option<&'static Location<'static>>>,
}

impl HoldCounter {
    /// Records a hold.
    pub(super) fn note(&self, took: Duration, at: &'static Location<'static>) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if us <= self.longest_us.load(Ordering::Relaxed) && took <= LONG {
            return;
        }
        if took > LONG {
            self.long.fetch_add(1, Ordering::Relaxed);
        }
        let mut longest_at = self.longest_at.lock();
        if us > self.longest_us.fetch_max(us, Ordering::Relaxed) {
            *longest_at = Some(at);
        }
    }

    pub(super) fn holds(&self) -> LockHolds {
        let longest_at = self.longest_at.lock();
        LockHolds {
            longest_us: self.longest_us.load(Ordering::Relaxed),
            longest_at: *longest_at,
            long: self.long.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_hold_is_known_with_its_place_and_the_long_ones_are_counted() {
        let (counter, us) = (HoldCounter::default(), Duration::from_micros);
        let (first, second) = (Location::caller(), Location::caller());
        assert_ne!(first, second);
        for (took, at) in [(us(10), first), (us(900), second), (us(1_000), first)] {
            counter.note(took, at);
        }
        assert_eq!(counter.holds(), LockHolds { longest_us: 1_000, longest_at: Some(first), long: 0 });
        for (took, at) in [(us(1_001), second), (us(5_000), second), (us(2_000), first), (us(5), first)] {
            counter.note(took, at);
        }
        assert_eq!(counter.holds(), LockHolds { longest_us: 5_000, longest_at: Some(second), long: 3 });
    }
}
