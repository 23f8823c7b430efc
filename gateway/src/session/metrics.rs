//! Counts of what goes wrong with sessions, for Prometheus.

use borough_model::Name;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What ended a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum EndKind {
    /// The agent closed it, or its connection broke.
    Closed,
    /// A newer session of the node took its place.
    Superseded,
    /// The agent did not keep the protocol or its bounds.
    Protocol,
    /// The store refused what the agent sent, for its content.
    Refused,
    /// The agent took nothing in.
    Stalled,
    /// The gateway could not or may not go on with it.
    Gateway,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    cell: String,
    kind: EndKind,
    /// Whether it had made lasting progress.
    lasting: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CellLabels {
    cell: String,
}

/// Counts over all sessions of a gateway. Clones count together.
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

    /// A session of a cell has ended.
    pub fn ended(&self, cell: &Name, kind: EndKind, lasting: bool) {
        let lasting = if lasting { "true" } else { "false" };
        self.ended.get_or_create(&EndLabels { cell: cell.to_string(), kind, lasting }).inc();
    }

    /// An item was longer than any message takes.
    pub fn set_aside(&self, cell: &Name) {
        self.set_aside.get_or_create(&CellLabels { cell: cell.to_string() }).inc();
    }

    /// An agent could not apply so many items.
    pub fn refused(&self, cell: &Name, items: usize) {
        let items = u64::try_from(items).unwrap_or(u64::MAX);
        self.refused.get_or_create(&CellLabels { cell: cell.to_string() }).inc_by(items);
    }
}
