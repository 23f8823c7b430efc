//! Metrics of the runner, by the names of runs.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::contract::ErrorCode;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Named {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failed {
    name: &'static str,
    code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Finished {
    name: &'static str,
    result: &'static str,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Done,
    Failed,
}

impl RunEnd {
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Done } else { Self::Failed }
    }
}

/// From a tenth of a millisecond to the five seconds of a transaction, and beyond for retries.
const BUCKETS_SECONDS: [f64; 12] =
    [0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 30.0];

#[derive(Debug)]
pub(crate) struct Metrics {
    attempts: Family<Named, Counter>,
    errors: Family<Failed, Counter>,
    durations: Family<Finished, Histogram, fn() -> Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS_SECONDS);
        Self {
            attempts: Family::default(),
            errors: Family::default(),
            durations: Family::new_with_constructor(histogram),
        }
    }
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("store");
        registry.register(
            "attempts",
            "Attempts of transactions, the first one included",
            self.attempts.clone(),
        );
        registry.register("errors", "Store errors that ended an attempt, by code", self.errors.clone());
        let help = "Time from the beginning of a run to its end, retries included";
        registry.register_with_unit("run", help, Unit::Seconds, self.durations.clone());
    }

    pub(crate) fn attempt(&self, name: &'static str) {
        self.attempts.get_or_create(&Named { name }).inc();
    }

    pub(crate) fn error(&self, name: &'static str, code: ErrorCode) {
        self.errors.get_or_create(&Failed { name, code: code.code() }).inc();
    }

    pub(crate) fn finished(&self, name: &'static str, end: RunEnd, took: Duration) {
        let result = match end {
            RunEnd::Done => "ok",
            RunEnd::Failed => "error",
        };
        self.durations.get_or_create(&Finished { name, result }).observe(took.as_secs_f64());
    }
}
