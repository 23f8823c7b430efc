//! Metrics of the calls of a gateway.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::class::CallClass;
use super::share::Seats;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabel {
    class: &'static str,
}

#[derive(Debug, Default)]
pub(super) struct CallMetrics {
    seats: Family<ClassLabel, Gauge>,
    waiting: Family<ClassLabel, Gauge>,
    refused: Family<ClassLabel, Counter>,
    streams: Gauge,
    pub(super) streams_refused: Counter,
}

impl CallMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("borough_gateway_calls");
        registry.register("seats", "Seats that calls of a class use", self.seats.clone());
        registry.register("waiting", "Calls of a class that wait for seats", self.waiting.clone());
        registry.register("refused", "Calls of a class that found no seats in time", self.refused.clone());
        registry.register("streams", "Streams that are open", self.streams.clone());
        let help = "Streams that were refused: there were too many";
        registry.register("streams_refused", help, self.streams_refused.clone());
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
