//! Metrics of the sequencer: how much it commits and how long the disk takes.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Durations of a flush: from a disk with its own power supply to a failing one.
const FLUSH_BUCKETS_SECONDS: [f64; 10] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0];

/// Counters of one engine.
#[derive(Debug)]
pub(crate) struct EngineCounters {
    transactions: Counter,
    mutations: Counter,
    batches: Counter,
    failures: Counter,
    flushes: Counter,
    flush: Histogram,
}

impl Default for EngineCounters {
    fn default() -> Self {
        Self {
            transactions: Counter::default(),
            mutations: Counter::default(),
            batches: Counter::default(),
            failures: Counter::default(),
            flushes: Counter::default(),
            flush: Histogram::new(FLUSH_BUCKETS_SECONDS),
        }
    }
}

/// What an engine has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Transactions that committed something.
    pub transactions: u64,
    /// Mutations in them.
    pub mutations: u64,
    /// The batches of these transactions.
    pub batches: u64,
    /// Batches that the disk refused.
    pub failures: u64,
    /// Flushes of the commit log that a batch waited for; 0 without a disk.
    pub flushes: u64,
}

impl EngineCounters {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("store_embedded");
        registry.register("transactions", "Transactions that committed something", self.transactions.clone());
        registry.register("mutations", "Changes made by committed transactions", self.mutations.clone());
        registry.register("batches", "Batches committed, each with one flush", self.batches.clone());
        registry.register("batch_failures", "Batches the disk refused", self.failures.clone());
        let help = "Time to append a batch to the commit log and flush it";
        registry.register_with_unit("flush", help, Unit::Seconds, self.flush.clone());
    }

    pub(crate) fn published(&self, transactions: usize, mutations: usize) {
        let count = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
        self.transactions.inc_by(count(transactions));
        self.mutations.inc_by(count(mutations));
        self.batches.inc();
    }

    pub(crate) fn flushed(&self, took: Duration) {
        self.flushes.inc();
        self.flush.observe(took.as_secs_f64());
    }

    pub(crate) fn failed(&self) {
        self.failures.inc();
    }

    pub(crate) fn now(&self) -> EngineStats {
        EngineStats {
            transactions: self.transactions.get(),
            mutations: self.mutations.get(),
            batches: self.batches.get(),
            failures: self.failures.get(),
            flushes: self.flushes.get(),
        }
    }
}
