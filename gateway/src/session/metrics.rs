//! Counters of failures in sessions, for Prometheus.

use borough_model::Name;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum EndKind {
    /// The agent closed it, or its connection broke.
    Closed,
    /// A newer session of the node took its place.
    Superseded,
    /// The agent did not keep the protocol or its bounds.
    Protocol,
    /// The store refused the content of a message.
    Refused,
    /// The agent stopped acknowledging.
    Stalled,
    /// The gateway could not continue it, or must not.
    Gateway,
}

/// How a session ended, for its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    pub kind: EndKind,
    /// Whether it had made lasting progress.
    pub lasting: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    cell: String,
    kind: EndKind,
    lasting: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CellLabels {
    cell: String,
}

/// Counters over all sessions of a gateway. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DeliveryMetrics {
    ended: Family<EndLabels, Counter>,
    set_aside: Family<CellLabels, Counter>,
    refused: Family<CellLabels, Counter>,
}

impl DeliveryMetrics {
    /// Shows them in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "borough_agent_sessions_ended",
            "Sessions of agents that ended, by what ended them and whether they had made lasting progress",
            self.ended.clone(),
        );
        registry.register(
            "borough_agent_items_set_aside",
            "Items of the desired state that are longer than any message takes",
            self.set_aside.clone(),
        );
        registry.register(
            "borough_agent_items_refused",
            "Items of the desired state that agents could not apply",
            self.refused.clone(),
        );
    }

    /// Counts the end of a session.
    pub fn ended(&self, cell: &Name, end: SessionEnd) {
        let lasting = if end.lasting { "true" } else { "false" };
        self.ended.get_or_create(&EndLabels { cell: cell.to_string(), kind: end.kind, lasting }).inc();
    }

    /// Counts an item that was longer than any message can be.
    pub fn set_aside(&self, cell: &Name) {
        self.set_aside.get_or_create(&CellLabels { cell: cell.to_string() }).inc();
    }

    /// Counts items that an agent could not apply.
    pub fn refused(&self, cell: &Name, items: usize) {
        let items = u64::try_from(items).unwrap_or(u64::MAX);
        self.refused.get_or_create(&CellLabels { cell: cell.to_string() }).inc_by(items);
    }
}
