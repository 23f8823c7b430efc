//! The bounds of connections, derived from the descriptors of the process.

use std::time::Duration;

/// Descriptors that connections must not use: the store's files, listeners, timers, and pipes of child processes. The
/// reserve is an eighth of all, and at least this many.
const OWN_DESCRIPTORS_MIN: u64 = 64;
/// Most connections by default: each takes some 30 kB.
const TOTAL_DEFAULT_MAX: u64 = 65_536;
/// Bounds of the default for unauthenticated connections.
const UNAUTHENTICATED_MIN: usize = 8;
const UNAUTHENTICATED_MAX: usize = 4_096;
/// Calls that a gateway works on at once by default. A call takes some milliseconds, so this is more than two cores do.
const CALLS_DEFAULT: u32 = 512;
/// How long a connection may be without a valid token by default.
const UNAUTHENTICATED_FOR: Duration = Duration::from_secs(10);

/// The bounds of a gateway's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections of all kinds.
    pub total: usize,
    /// Of these, how many only agents get.
    pub for_agents: usize,
    /// Connections that have not presented a valid token.
    pub unauthenticated: usize,
    /// The same for one peer address (IPv6: one /64 network).
    pub unauthenticated_per_peer: usize,
    /// How long a connection may be without a valid token.
    pub unauthenticated_for: Duration,
    /// The bounds of the calls over all of them.
    pub calls: CallLimits,
}

impl ConnectionLimits {
    /// The bounds for a process with `descriptors` open files, of which it keeps some for itself.
    pub fn of_descriptors(descriptors: u64) -> Self {
        let own = OWN_DESCRIPTORS_MIN.max(descriptors / 8);
        let total = descriptors.saturating_sub(own).clamp(OWN_DESCRIPTORS_MIN / 4, TOTAL_DEFAULT_MAX);
        Self::of_total(usize::try_from(total).unwrap_or(usize::MAX))
    }

    /// The usual shares of `total` connections: a quarter for agents alone, and at most a quarter without a token.
    pub fn of_total(total: usize) -> Self {
        let unauthenticated = (total / 4).clamp(UNAUTHENTICATED_MIN, UNAUTHENTICATED_MAX).min(total);
        Self {
            total,
            for_agents: total / 4,
            unauthenticated,
            unauthenticated_per_peer: unauthenticated.div_ceil(2),
            unauthenticated_for: UNAUTHENTICATED_FOR,
            calls: CallLimits::of_seats(CALLS_DEFAULT),
        }
    }
}

/// The bounds of a gateway's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Seats. A plain call takes one while it is worked on.
    pub seats: u32,
    /// Seats of the lists and plans of users at a time. Each takes a processor until it is done, so more of them at
    /// once end no sooner, and everybody else waits for their turn.
    pub lists: u32,
    /// Calls of one caller that wait in one class.
    pub waiting_per_caller: usize,
    /// Calls that wait in one class.
    pub waiting: usize,
    /// Streams that are open at once.
    pub streams: usize,
}

impl CallLimits {
    /// The usual bounds of a gateway with so many seats.
    pub fn of_seats(seats: u32) -> Self {
        let seats = seats.max(SEATS_MIN);
        Self { seats, lists: seats, waiting_per_caller: 1_024, waiting: 4_096, streams: 16_384 }
    }

    /// The same on a machine with so many processors.
    #[must_use]
    pub fn on_processors(self, processors: usize) -> Self {
        let processors = u32::try_from(processors).unwrap_or(u32::MAX);
        Self { lists: processors.saturating_mul(LIST_SEATS_PER_PROCESSOR).min(self.seats), ..self }
    }

    /// Streams of one caller: others find room at any time.
    pub(crate) fn streams_per_caller(&self) -> usize {
        self.streams - self.streams / 4
    }
}

/// Seats of lists and plans for each processor: two calls, so that one finds something to do while another waits.
const LIST_SEATS_PER_PROCESSOR: u32 = 8;

/// Fewer seats would leave a class without any.
pub const SEATS_MIN: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_from_the_descriptors_and_leave_some() {
        for descriptors in [0, 64, 160, 256, 1_024, 4_096, 1 << 20, u64::MAX] {
            let limits = ConnectionLimits::of_descriptors(descriptors);
            let ConnectionLimits { total, for_agents, unauthenticated, unauthenticated_per_peer, .. } =
                limits;
            assert!((16..=65_536).contains(&total), "{descriptors}: {limits:?}");
            assert!(for_agents + unauthenticated < total, "{descriptors}: {limits:?}");
            assert!(unauthenticated_per_peer <= unauthenticated && unauthenticated_per_peer > 0);
            let free = i128::from(descriptors) - i128::try_from(total).unwrap();
            assert!(descriptors < 128 || free >= 64, "{descriptors}: {limits:?}");
        }
        assert_eq!(ConnectionLimits::of_descriptors(160).total, 96);
    }
}
