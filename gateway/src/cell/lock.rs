//! How long the lock of a cell's mirror was held. Everything that the gateway does for the cell waits for it.

use std::sync::atomic::AtomicU64;

use borough_store::mirror::{LockHolds, MirrorLockHolds};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The holds of one kind.
#[derive(Debug, Default)]
struct HoldsUse {
    longest_us: Gauge<u64, AtomicU64>,
    long: Counter,
}

impl HoldsUse {
    fn note(&self, holds: LockHolds) {
        self.longest_us.set(holds.longest_us);
        self.long.inner().store(holds.long, std::sync::atomic::Ordering::Relaxed);
    }

    fn register(&self, registry: &mut Registry) {
        let help =
            "The longest time since the start for which the lock of the mirror was held, in microseconds";
        registry.register("longest_microseconds", help, self.longest_us.clone());
        let help = "Times that the lock of the mirror was held for more than a millisecond";
        registry.register("long_holds", help, self.long.clone());
    }
}

/// The holds of a mirror's lock, as metrics.
#[derive(Debug, Default)]
pub struct MirrorLockUse {
    reads: HoldsUse,
    entries: HoldsUse,
}

impl MirrorLockUse {
    /// Records the holds so far. Returns the place of the longest look at the state if it is a new and long one.
    pub(super) fn note(&self, holds: MirrorLockHolds) -> Option<&'static std::panic::Location<'static>> {
        let before_us = self.reads.longest_us.get();
        self.reads.note(holds.reads);
        self.entries.note(holds.entries);
        holds.reads.longest_at.filter(|_| holds.reads.long > 0 && holds.reads.longest_us > before_us)
    }

    /// Shows the metrics of `cell` in `registry`.
    pub fn register(&self, cell: &str, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("borough_mirror_lock");
        for (by, holds) in [("reads", &self.reads), ("entries", &self.entries)] {
            let labels = [("cell".into(), cell.to_owned().into()), ("by".into(), by.into())];
            holds.register(registry.sub_registry_with_labels(labels.into_iter()));
        }
    }
}
