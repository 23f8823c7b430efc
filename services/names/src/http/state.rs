//! The checks of a cell by their state, and what a node has: for clients that follow more than one service.

use serde_json::{Map, Value, json};

use super::consul::{
    FoundInstance, ServiceFilter, ServiceQuery, check_json, instances, listed, node_json, service_json,
};
use crate::table::{CellTable, NamesTable};

/// The state of checks that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckState {
    Any,
    Passing,
    Warning,
    /// No check has it: an endpoint that fails is withdrawn.
    Critical,
}

impl CheckState {
    /// The texts of all states, for refusals.
    pub(super) const ACCEPTED: &str = "any, passing, warning, critical";

    /// The state of a text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "any" => Self::Any,
            "passing" => Self::Passing,
            "warning" => Self::Warning,
            "critical" => Self::Critical,
            _ => return None,
        })
    }

    fn has(self, instance: &FoundInstance) -> bool {
        match self {
            Self::Any => true,
            Self::Passing => instance.is_usable,
            Self::Warning => !instance.is_usable,
            Self::Critical => false,
        }
    }
}

/// The checks of every service of a cell, as `/v1/health/state` shows them.
pub(super) fn health_state(table: &NamesTable, cell: &CellTable, state: CheckState) -> Value {
    let mut checks = Vec::new();
    for query in listed(cell) {
        let (found, tags, index) = instances(table, &query, &ServiceFilter::default());
        let wanted = found.iter().filter(|instance| state.has(instance));
        checks.extend(wanted.map(|instance| check_json(&query, instance, &tags, index)));
    }
    Value::Array(checks)
}

/// A node with its services, as `/v1/catalog/node` shows them; `null` if the cell has no such node.
pub(super) fn catalog_node(table: &NamesTable, cell: &CellTable, node: &str) -> Value {
    let Some((name, place)) = cell.nodes().find(|(name, _)| name.as_str() == node) else {
        return Value::Null;
    };
    let mut services = Map::new();
    let of_node = |query: &ServiceQuery| {
        let (found, tags, index) = instances(table, query, &ServiceFilter::default());
        let there = found.into_iter().filter(|instance| instance.endpoint.node == *name);
        let shown =
            |instance: FoundInstance| (instance.id.clone(), service_json(query, &instance, &tags, index));
        there.map(shown).collect::<Vec<_>>()
    };
    for query in listed(cell) {
        services.extend(of_node(&query));
    }
    json!({"Node": node_json(cell.name(), name, &place.host, cell.list_index()), "Services": services})
}
