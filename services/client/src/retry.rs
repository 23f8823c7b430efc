//! Decides whether a call is retried, and after which pause. Pure: the random bits are an argument.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::error::{federation_silent, node_silent};

/// How often and how fast calls are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most tries, the first one included.
    pub attempts_max: u32,
    /// The pause before the second try; doubled for each further one.
    pub backoff_initial: Duration,
    pub backoff_max: Duration,
}

impl Default for RetryPolicy {
    /// Six tries over about a second and a half: long enough for a gateway to restart, short enough for a person to
    /// wait for "not reachable".
    fn default() -> Self {
        Self {
            attempts_max: 6,
            backoff_initial: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
        }
    }
}

impl RetryPolicy {
    /// The pause after `attempts` failed tries: between half and all of the doubled step, by the random `bits`. Clients
    /// that lost the same gateway therefore do not come back together.
    pub fn pause(&self, attempts: u32, bits: u64) -> Duration {
        let doublings = attempts.saturating_sub(1).min(16);
        let step = self.backoff_initial.saturating_mul(1 << doublings).min(self.backoff_max);
        let half_us = u64::try_from(step.as_micros() / 2).unwrap_or(u64::MAX);
        let spread_us = if half_us == 0 { 0 } else { bits % half_us };
        Duration::from_micros(half_us.saturating_add(spread_us))
    }
}

/// Returns true if the same call may succeed on another try: the gateway reported that it is unavailable, or the
/// connection broke.
///
/// A status from the wire has no source; one from the transport has. Every call is safe to repeat, since a mutation
/// carries its request id.
pub(crate) fn worth_repeating(status: &Status) -> bool {
    let broken = std::error::Error::source(status).is_some();
    match status.code() {
        // The gateway has asked often enough.
        Code::Unavailable if node_silent(status) || federation_silent(status) => false,
        // The second is the store's own time limit. The caller enforces its deadline itself, over all tries.
        Code::Unavailable | Code::DeadlineExceeded => true,
        Code::Unknown | Code::Internal | Code::Cancelled => broken,
        _ => false,
    }
}

/// How long a gateway that has too much to do asks to wait; `None` for every other status.
pub(crate) fn retry_told(status: &Status) -> Option<Duration> {
    if status.code() != Code::ResourceExhausted {
        return None;
    }
    let details = status.get_error_details();
    let is_overload = details.error_info().is_some_and(|info| info.reason == "OVERLOADED");
    details.retry_info().filter(|_| is_overload).and_then(|info| info.retry_delay)
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn pauses_grow_stay_within_bounds_and_differ() {
        let policy = RetryPolicy::default();
        for attempts in 0..100 {
            for bits in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
                let pause = policy.pause(attempts, bits);
                assert!(pause >= policy.backoff_initial / 2, "{attempts}: {pause:?}");
                assert!(pause <= policy.backoff_max, "{attempts}: {pause:?}");
            }
        }
        assert!(policy.pause(3, 0) > policy.pause(1, 0));
        assert_ne!(policy.pause(5, 0), policy.pause(5, 77_777));
    }

    #[test]
    fn a_zero_pause_is_legal() {
        let policy =
            RetryPolicy { attempts_max: 1, backoff_initial: Duration::ZERO, backoff_max: Duration::ZERO };
        assert_eq!(policy.pause(1, 99), Duration::ZERO);
    }

    #[test]
    fn refusals_are_not_repeated() {
        for code in [Code::NotFound, Code::FailedPrecondition, Code::Aborted, Code::Internal, Code::Unknown] {
            assert!(!worth_repeating(&Status::new(code, "no")), "{code:?}");
        }
        assert!(worth_repeating(&Status::unavailable("later")));
        for reason in ["NODE_SILENT", "NODE_LOST", "FEDERATION_SILENT"] {
            let details =
                ErrorDetails::with_error_info(reason, "borough", [("cell".to_owned(), "a".to_owned())]);
            let silent = Status::with_error_details(Code::Unavailable, "silent", details);
            assert!(!worth_repeating(&silent), "{reason}");
        }
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        assert!(worth_repeating(&Status::from_error(Box::new(broken))));
    }
}
