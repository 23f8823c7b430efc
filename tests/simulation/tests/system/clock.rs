//! Time: one for the world, and clocks of roles that may be wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use borough_kv::env::Clock;

/// Wall time at the beginning of a run, milliseconds since 1970.
pub(crate) const WALL_BEGIN_MS: i64 = 1_700_000_000_000;

/// The world's time of the present tick: for the store's engine, which belongs to no role.
#[derive(Debug, Default)]
pub(crate) struct WorldClock(pub AtomicU64);

impl Clock for WorldClock {
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn wall_ms(&self) -> i64 {
        WALL_BEGIN_MS.saturating_add_unsigned(self.0.load(Ordering::Relaxed))
    }
}

/// The time of one role's runtime, in the world's milliseconds. Only for use inside of that runtime.
#[derive(Clone, Debug)]
pub(crate) struct RoleTime {
    base: tokio::time::Instant,
    base_ms: u64,
}

impl RoleTime {
    /// The time of the runtime that this is called in, which begins at `base_ms`.
    #[expect(clippy::disallowed_methods, reason = "the runtime's clock is the test's")]
    pub(crate) fn begin(base_ms: u64) -> Self {
        Self { base: tokio::time::Instant::now(), base_ms }
    }

    /// The world's time as this role sees it.
    pub(crate) fn now_ms(&self) -> u64 {
        self.base_ms + u64::try_from(self.base.elapsed().as_millis()).unwrap()
    }

    /// The instant at which the world's time is `at_ms`.
    pub(crate) fn instant(&self, at_ms: u64) -> tokio::time::Instant {
        self.base + Duration::from_millis(at_ms.saturating_sub(self.base_ms))
    }
}

/// How far the wall clock of a host is off, in milliseconds.
pub(crate) type Skew = Arc<AtomicI64>;

/// The clocks of one role. Its monotonic clock begins with the role.
#[derive(Debug)]
pub(crate) struct RoleClock {
    pub time: RoleTime,
    /// The error of its wall clock.
    pub skew: Skew,
}

impl Clock for RoleClock {
    fn monotonic(&self) -> Duration {
        self.time.base.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        WALL_BEGIN_MS.saturating_add_unsigned(self.time.now_ms()) + self.skew.load(Ordering::Relaxed)
    }
}
