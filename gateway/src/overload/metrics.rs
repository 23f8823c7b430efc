//! Metrics of the calls of a gateway.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tonic::Code;

use super::class::CallClass;
use super::share::Seats;
use crate::call::code_text;
use crate::cell::METHODS;

/// Bounds of the time of a call. The objectives of `deploy/monitoring` are among them.
const BUCKETS_SECONDS: [f64; 12] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0];

/// The methods of the table by their paths: no other name becomes a label.
static PATHS: LazyLock<BTreeMap<String, &'static str>> = LazyLock::new(|| {
    METHODS.iter().map(|rule| (format!("/borough.v1.{}", rule.method), rule.method)).collect()
});

/// The label of a path.
pub(super) fn method_of(path: &str) -> &'static str {
    PATHS.get(path).copied().unwrap_or("other")
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabel {
    class: &'static str,
}

/// What a call was, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabel {
    /// Such as `JobService/StopJob`.
    method: &'static str,
    /// As gRPC writes it, such as `OK` or `NOT_FOUND`.
    code: String,
}

#[derive(Debug)]
pub(super) struct CallMetrics {
    answers: Family<AnswerLabel, Counter>,
    durations: Family<ClassLabel, Histogram, fn() -> Histogram>,
    seats: Family<ClassLabel, Gauge>,
    waiting: Family<ClassLabel, Gauge>,
    refused: Family<ClassLabel, Counter>,
    streams: Gauge,
    pub(super) streams_refused: Counter,
}

impl Default for CallMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS_SECONDS);
        Self {
            answers: Family::default(),
            durations: Family::new_with_constructor(histogram),
            seats: Family::default(),
            waiting: Family::default(),
            refused: Family::default(),
            streams: Gauge::default(),
            streams_refused: Counter::default(),
        }
    }
}

impl CallMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("borough_gateway_calls");
        registry.register("answers", "Calls that were answered, by method and code", self.answers.clone());
        let help = "Time from the arrival of a call to its answer, of a stream to its begin";
        registry.register("seconds", help, self.durations.clone());
        registry.register("seats", "Seats that calls of a class use", self.seats.clone());
        registry.register("waiting", "Calls of a class that wait for seats", self.waiting.clone());
        registry.register("refused", "Calls of a class that found no seats in time", self.refused.clone());
        registry.register("streams", "Streams that are open", self.streams.clone());
        let help = "Streams that were refused: there were too many";
        registry.register("streams_refused", help, self.streams_refused.clone());
    }

    /// Counts a call that was answered.
    pub(super) fn answered(&self, method: &'static str, class: CallClass, code: Code, took: Duration) {
        self.answers.get_or_create(&AnswerLabel { method, code: code_text(code) }).inc();
        self.durations.get_or_create(&ClassLabel { class: class.name() }).observe(took.as_secs_f64());
    }

    /// Shows what a class uses now.
    pub(super) fn note(&self, seats: &Seats, class: CallClass) {
        let (used, waiting) = seats.of(class);
        let label = ClassLabel { class: class.name() };
        self.seats.get_or_create(&label).set(i64::from(used));
        self.waiting.get_or_create(&label).set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(super) fn streams_note(&self, seats: &Seats) {
        self.streams.set(i64::try_from(seats.streams()).unwrap_or(i64::MAX));
    }

    pub(super) fn refuse(&self, class: CallClass) {
        self.refused.get_or_create(&ClassLabel { class: class.name() }).inc();
    }
}
