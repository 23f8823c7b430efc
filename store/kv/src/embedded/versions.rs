//! The version clock: the versions of reads and commits, and their ceiling.
//!
//! Versions follow the clock, about a million a second, even without writes. An idle store returns younger read
//! versions without waking up, since the version is computed on request. During a commit the read version stays at the
//! last published one, so that no read version falls between a batch's version and its publication. No version above
//! the stored ceiling is used.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::contract::Version;
use crate::env::{Clock, Rng};

/// The largest step when the clock has not moved: versions are never dense, so that no code relies on it.
const STEP_MAX: u64 = 10;

#[derive(Debug)]
struct VersionState {
    /// The version of reads.
    published: Version,
    /// The last version given to a batch, published or not.
    assigned: Version,
    /// Whether a batch has a version and is not published yet.
    in_flight: bool,
    /// Higher versions are not used until it has been raised durably.
    ceiling: Version,
}

/// The version clock of one engine.
pub(crate) struct Versions {
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    base: Version,
    base_time: Duration,
    state: Mutex<VersionState>,
}

impl Versions {
    /// A clock whose first version is `first`, with use allowed up to `ceiling`.
    pub(crate) fn new(clock: Arc<dyn Clock>, rng: Arc<dyn Rng>, first: Version, ceiling: Version) -> Self {
        let base_time = clock.monotonic();
        let state = VersionState { published: first, assigned: first, in_flight: false, ceiling };
        Self { clock, rng, base: first, base_time, state: Mutex::new(state) }
    }

    /// The version that the clock shows now.
    fn shown(&self) -> Version {
        let elapsed = self.clock.monotonic().saturating_sub(self.base_time).as_micros();
        self.base.saturating_add(Version::try_from(elapsed).unwrap_or(Version::MAX))
    }

    /// A read version: at or above every acknowledged commit.
    pub(crate) fn read_version(&self) -> Version {
        let shown = self.shown();
        let mut state = self.state.lock();
        if !state.in_flight {
            state.published = state.published.max(shown.min(state.ceiling));
        }
        state.published
    }

    /// A version for the next batch, above every read version given. Read versions stay the same until
    /// [`Versions::publish`] or [`Versions::abandon`].
    pub(crate) fn assign(&self) -> Version {
        let shown = self.shown();
        let step = Version::try_from(self.rng.next_u64() % STEP_MAX).unwrap_or(0).saturating_add(1);
        let mut state = self.state.lock();
        let after = state.published.max(state.assigned).saturating_add(step);
        state.assigned = after.max(shown.min(state.ceiling));
        state.in_flight = true;
        state.assigned
    }

    /// Makes `version` the read version: the batch is durable and in memory.
    pub(crate) fn publish(&self, version: Version) {
        let mut state = self.state.lock();
        state.published = state.published.max(version);
        state.in_flight = false;
    }

    /// Gives up the version: the batch failed.
    pub(crate) fn abandon(&self) {
        self.state.lock().in_flight = false;
    }

    /// The highest version that may be used.
    pub(crate) fn ceiling(&self) -> Version {
        self.state.lock().ceiling
    }

    /// Raises the ceiling, once the new one is durable.
    pub(crate) fn ceiling_raise(&self, ceiling: Version) {
        let mut state = self.state.lock();
        state.ceiling = state.ceiling.max(ceiling);
    }
}

impl std::fmt::Debug for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Versions").field("state", &*self.state.lock()).finish_non_exhaustive()
    }
}
