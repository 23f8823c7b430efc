//! What garbage collection has done, and how far it is behind.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GarbageLabels {
    cell: String,
    kind: &'static str,
}

/// Metrics of all garbage collectors of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct GarbageMetrics {
    removed: Family<GarbageLabels, Counter>,
    lag_ms: Family<GarbageLabels, Gauge>,
}

impl GarbageMetrics {
    /// Shows them in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "borough_garbage_removed",
            "Ended jobs and answers of requests that this process removed",
            self.removed.clone(),
        );
        registry.register(
            "borough_garbage_lag_milliseconds",
            "For how long the oldest of what may go has been waiting for its removal",
            self.lag_ms.clone(),
        );
    }

    pub(super) fn removed(&self, cell: &str, kind: &'static str, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.removed.get_or_create(&GarbageLabels { cell: cell.to_owned(), kind }).inc_by(count);
    }

    pub(super) fn lag(&self, cell: &str, kind: &'static str, lag_ms: i64) {
        self.lag_ms.get_or_create(&GarbageLabels { cell: cell.to_owned(), kind }).set(lag_ms);
    }
}
