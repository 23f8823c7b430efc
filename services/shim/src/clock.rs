//! The one place of this crate that reads the machine's clocks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since some fixed moment; never goes back.
pub fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Milliseconds since 1970. May jump; nothing is decided by it.
pub fn wall_ms() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}
