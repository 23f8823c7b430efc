//! What the rows take in memory, as metrics.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::Memory;

/// What the rows take in memory, and how often others were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryUsage {
    /// Keys in memory, with those that were cleared a moment ago.
    pub rows: u64,
    /// About the bytes that they take, with their earlier values.
    pub bytes: u64,
    /// Bytes from which on rows are evicted.
    pub bytes_max: u64,
    /// Rows read from the checkpoint since the store was opened.
    pub cold_reads: u64,
}

impl Memory {
    /// What the rows take now.
    pub(crate) fn usage(&self) -> MemoryUsage {
        let count = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
        let rows = self.rows.read();
        MemoryUsage {
            rows: count(rows.chains.len()),
            bytes: count(rows.bytes),
            bytes_max: count(self.bytes_max),
            cold_reads: rows.cold_reads.get(),
        }
    }
}

/// Asks for the usage when the metrics are read.
#[derive(Debug)]
struct UsageCollector(Arc<Memory>);

impl Collector for UsageCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let MemoryUsage { rows, bytes, bytes_max, cold_reads } = self.0.usage();
        let gauge = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        let gauges = [
            ("store_embedded_rows", "Keys in memory", None, rows),
            ("store_embedded_memory", "Bytes that keys and values take in memory", Some(Unit::Bytes), bytes),
            (
                "store_embedded_memory_max",
                "Bytes from which on rows are evicted",
                Some(Unit::Bytes),
                bytes_max,
            ),
        ];
        for (name, help, unit, value) in gauges {
            let metric = gauge(value);
            metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), metric.metric_type())?)?;
        }
        let reads = ConstCounter::new(cold_reads);
        let help = "Rows read from the checkpoint, since they were not in memory";
        let name = "store_embedded_cold_reads";
        reads.encode(encoder.encode_descriptor(name, help, None, reads.metric_type())?)
    }
}

pub(crate) fn register(registry: &mut Registry, memory: &Arc<Memory>) {
    registry.register_collector(Box::new(UsageCollector(Arc::clone(memory))));
}
