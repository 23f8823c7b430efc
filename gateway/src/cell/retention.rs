//! For how long a gateway remembers the answers of requests: an hour, and less the more requests come. A store of
//! bounded size remembers only so many.

use std::time::Duration;

use parking_lot::Mutex;

/// The longest and the shortest time: the latter is longer than any client of ours retries.
const KEPT_MAX: Duration = Duration::from_secs(3_600);
const KEPT_MIN: Duration = Duration::from_secs(120);
/// The answers that one gateway keeps of a cell, about, while the shortest time allows it.
const ANSWERS_MAX: f64 = 250_000.0;
/// The time over which requests are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Counts the requests of a cell and says for how long their answers are kept.
#[derive(Debug, Default)]
pub(super) struct RequestRetention(Mutex<Counted>);

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// When the present window began, by the process's clock.
    since: Duration,
    requests: u32,
    /// Requests per second in the window before.
    per_s: f64,
}

impl RequestRetention {
    /// Counts so many requests at `now`. Returns for how long an answer is kept.
    pub(super) fn kept_for(&self, now: Duration, requests: u32) -> Duration {
        let mut counted = self.0.lock();
        let elapsed = now.saturating_sub(counted.since);
        if elapsed >= WINDOW {
            *counted = Counted {
                since: now,
                requests: 0,
                per_s: f64::from(counted.requests) / elapsed.as_secs_f64(),
            };
        }
        counted.requests = counted.requests.saturating_add(requests);
        // A storm counts at once, and not when its first window is over.
        kept_at(counted.per_s.max(f64::from(counted.requests) / WINDOW.as_secs_f64()))
    }
}

/// For how long answers are kept at a rate of requests.
fn kept_at(per_s: f64) -> Duration {
    let fits = Duration::try_from_secs_f64(ANSWERS_MAX / per_s.max(f64::EPSILON)).unwrap_or(KEPT_MAX);
    fits.clamp(KEPT_MIN, KEPT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_for_an_hour_and_shorter_in_a_storm() {
        assert_eq!([0.0, 1.0, 69.0].map(kept_at), [KEPT_MAX; 3]);
        assert_eq!(kept_at(1_000.0), Duration::from_secs(250));
        assert_eq!([5_000.0, 1e9, f64::INFINITY].map(kept_at), [KEPT_MIN; 3]);
        let retention = RequestRetention::default();
        let at = |ms: u64| Duration::from_millis(ms);
        assert_eq!(retention.kept_for(at(1), 1), KEPT_MAX);
        // 5,000 per second for two seconds: the storm is known before the window is over.
        let last = (0..10_000).map(|request| retention.kept_for(at(1_000 + request / 5), 1)).last();
        assert_eq!(last, Some(Duration::from_secs_f64(ANSWERS_MAX / 1_000.1)));
        // It goes on, and then it is over.
        assert_eq!(
            (0..50_000).map(|request| retention.kept_for(at(11_000 + request / 5), 1)).last(),
            Some(KEPT_MIN)
        );
        retention.kept_for(at(60_000), 1);
        assert_eq!(retention.kept_for(at(120_000), 0), KEPT_MAX);
    }
}
