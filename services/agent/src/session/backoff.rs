//! How long to wait before the next attempt.

use std::time::Duration;

use crate::config::Pace;

/// The pause after `failures` attempts in a row that came to nothing (0: a session that worked has ended): doubled each
/// time up to the longest, of which a random part, at least half, is waited.
pub fn pause(failures: u32, pace: Pace, random: u64) -> Duration {
    let full = pace.reconnect_first.saturating_mul(1 << failures.min(20)).min(pace.reconnect_max);
    let half = full / 2;
    let spread = u64::try_from(half.as_micros()).unwrap_or(u64::MAX).max(1);
    half.saturating_add(Duration::from_micros(random % spread))
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pauses_double_up_to_the_longest(failures: u32, random: u64) {
            let pace = Pace::default();
            let found = pause(failures, pace, random);
            let full = pace.reconnect_first.saturating_mul(1 << failures.min(20)).min(pace.reconnect_max);
            prop_assert!(found >= full / 2 && found <= full, "{found:?} of {full:?}");
        }
    }
}
