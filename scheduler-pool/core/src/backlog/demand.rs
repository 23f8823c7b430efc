//! What unschedulable requests ask for at least. Most freed nodes have too little for any of them, and one comparison
//! per dimension shows it, however many requests wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::Resources;

use crate::tables::{NodeGate, NodeTable, Shape, fixed_amounts};

/// The requested amounts of a dimension, each with the number of requests.
type Amounts = BTreeMap<u64, u32>;

/// Requests for the same kinds of devices: the amounts of the fixed dimensions, then those of the kinds.
#[derive(Clone, Debug, Default)]
struct DemandGroup {
    requests: u32,
    amounts: Vec<Amounts>,
}

/// The requests that wait, grouped by the kinds of devices that they ask for. So a request for a card and little else
/// does not hide how much the others need.
#[derive(Clone, Debug, Default)]
struct WaitingDemand {
    groups: BTreeMap<Vec<String>, DemandGroup>,
}

fn kinds_of(resources: &Resources) -> Vec<String> {
    let asked = resources.device_millis.iter().filter(|&(_, &amount)| amount > 0);
    asked.map(|(kind, _)| kind.clone()).collect()
}

fn amounts_of(resources: &Resources) -> impl Iterator<Item = u64> {
    let devices = resources.device_millis.values().copied().filter(|&amount| amount > 0);
    fixed_amounts(resources).into_iter().chain(devices)
}

impl WaitingDemand {
    /// Adds a request.
    fn add(&mut self, resources: &Resources) {
        let group = self.groups.entry(kinds_of(resources)).or_default();
        group.requests += 1;
        for (position, amount) in amounts_of(resources).enumerate() {
            if group.amounts.len() <= position {
                group.amounts.push(Amounts::new());
            }
            if let Some(amounts) = group.amounts.get_mut(position) {
                *amounts.entry(amount).or_default() += 1;
            }
        }
    }

    /// Removes a request that was added.
    fn remove(&mut self, resources: &Resources) {
        let kinds = kinds_of(resources);
        let Some(group) = self.groups.get_mut(&kinds) else { return };
        group.requests = group.requests.saturating_sub(1);
        for (amounts, amount) in group.amounts.iter_mut().zip(amounts_of(resources)) {
            let Some(requests) = amounts.get_mut(&amount) else { continue };
            *requests = requests.saturating_sub(1);
            if *requests == 0 {
                amounts.remove(&amount);
            }
        }
        if group.requests == 0 {
            self.groups.remove(&kinds);
        }
    }

    /// Returns true if a node has at least the smallest request of each dimension free. False proves that none fits.
    fn may_fit(&self, nodes: &NodeTable, node: u32) -> bool {
        self.covered(nodes, node, |dimension| nodes.amount_free(dimension, node))
    }

    /// The same for the whole node. False proves that no eviction there helps either.
    fn may_fit_empty(&self, nodes: &NodeTable, node: u32) -> bool {
        self.covered(nodes, node, |dimension| nodes.limit(dimension, node))
    }

    fn covered(&self, nodes: &NodeTable, node: u32, has: impl Fn(usize) -> u64) -> bool {
        if self.groups.is_empty() || nodes.gate(node) != NodeGate::Open {
            return false;
        }
        let fixed = fixed_amounts(&Resources::default()).len();
        self.groups.iter().any(|(kinds, group)| {
            let devices = kinds.iter().map(|kind| nodes.kind_dimension(kind));
            let dimensions = (0..fixed).map(Some).chain(devices);
            dimensions.zip(&group.amounts).all(|(dimension, amounts)| {
                let least = amounts.first_key_value().map_or(0, |(&amount, _)| amount);
                least == 0 || dimension.is_some_and(|dimension| has(dimension) >= least)
            })
        })
    }
}

/// An entry of the unschedulable queue.
pub(super) trait WaitingRequest {
    /// The shapes that it waits for.
    fn shapes(&self) -> &[Arc<Shape>];

    /// Returns true if it asks for ports.
    fn ports(&self) -> bool;
}

/// What would help an unschedulable request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelpedBy {
    /// Free capacity.
    Capacity,
    /// Free capacity, or tasks that it may evict.
    Evictions,
}

/// What all unschedulable requests ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingRequests {
    /// Requests that only free capacity helps.
    capacity: WaitingDemand,
    /// Requests that evictions may help.
    evictions: WaitingDemand,
    /// The number of entries that ask for ports. A port that cools on one node may help on all that share its address.
    /// So all freed nodes are kept then.
    ports: usize,
}

impl WaitingRequests {
    /// Adds an entry.
    pub(super) fn added(&mut self, entry: &impl WaitingRequest, by: HelpedBy) {
        let demand = self.of(by);
        entry.shapes().iter().for_each(|shape| demand.add(&shape.resources));
        self.ports += usize::from(entry.ports());
    }

    /// Removes an entry that was added, if there was one.
    pub(super) fn removed(&mut self, entry: Option<impl WaitingRequest>, by: HelpedBy) {
        let Some(entry) = entry else { return };
        let demand = self.of(by);
        entry.shapes().iter().for_each(|shape| demand.remove(&shape.resources));
        self.ports -= usize::from(entry.ports());
    }

    fn of(&mut self, by: HelpedBy) -> &mut WaitingDemand {
        match by {
            HelpedBy::Capacity => &mut self.capacity,
            HelpedBy::Evictions => &mut self.evictions,
        }
    }

    /// Returns true if a freed node may help any of them.
    pub(super) fn helped_by_freed(&self, nodes: &NodeTable, node: u32) -> bool {
        self.ports > 0 || self.capacity.may_fit(nodes, node) || self.helped_by_leaving(nodes, node)
    }

    /// Returns true if a node that a task is about to leave may help any of them.
    pub(super) fn helped_by_leaving(&self, nodes: &NodeTable, node: u32) -> bool {
        self.evictions.may_fit_empty(nodes, node)
    }
}

/// A set of nodes that costs one bit per node, and clears as fast as it was filled.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeSet {
    nodes: Vec<u32>,
    known: Vec<u64>,
}

impl NodeSet {
    /// Adds a node, unless it is in the set.
    pub(super) fn insert(&mut self, node: u32) {
        let (word, bit) = (node as usize / 64, 1 << (node % 64));
        if self.known.len() <= word {
            self.known.resize(word + 1, 0);
        }
        let Some(known) = self.known.get_mut(word).filter(|known| **known & bit == 0) else { return };
        *known |= bit;
        self.nodes.push(node);
    }

    /// Takes all nodes, ascending.
    pub(super) fn take(&mut self) -> Vec<u32> {
        let mut nodes = std::mem::take(&mut self.nodes);
        for &node in &nodes {
            if let Some(known) = self.known.get_mut(node as usize / 64) {
                *known = 0;
            }
        }
        nodes.sort_unstable();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use borough_model::node::NodeState;
    use borough_model::{NodeAlloc, NodeId, NodeRow};
    use proptest::prelude::*;

    use super::*;
    use crate::settings::CellSettings;
    use crate::tables::{CellTables, test_row};

    fn asked() -> impl Strategy<Value = Resources> {
        (0..4u64, 0..4u64, 0..3u64).prop_map(|(cpu_millis, disk_bytes, gpus)| {
            let mut resources = Resources { cpu_millis, disk_bytes, ..Resources::default() };
            resources.device_millis.insert("gpu".to_owned(), gpus);
            resources
        })
    }

    fn row(capacity: Resources, state: NodeState) -> NodeRow {
        NodeRow { state, capacity, ..test_row(1) }
    }

    fn fits(asked: &Resources, has: &Resources) -> bool {
        let gpus = |resources: &Resources| resources.device_millis.get("gpu").copied().unwrap_or(0);
        asked.cpu_millis <= has.cpu_millis && asked.disk_bytes <= has.disk_bytes && gpus(asked) <= gpus(has)
    }

    proptest! {
        /// No node is left out that has enough for any request, whatever came and went. Alone, a request is decided
        /// exactly.
        #[test]
        fn a_node_is_left_out_only_if_it_has_too_little_for_all(
            stay in prop::collection::vec(asked(), 0..4),
            go in prop::collection::vec(asked(), 0..4),
            capacity in asked(),
            used in asked(),
            ready in any::<bool>(),
        ) {
            let mut waiting = WaitingDemand::default();
            stay.iter().chain(&go).for_each(|asked| waiting.add(asked));
            go.iter().for_each(|asked| waiting.remove(asked));
            let mut tables = CellTables::new(CellSettings::default());
            let state = if ready { NodeState::Ready } else { NodeState::Lost };
            tables.node_upsert(&row(capacity.clone(), state));
            let used = Resources {
                cpu_millis: used.cpu_millis.min(capacity.cpu_millis),
                ..Resources::default()
            };
            tables.alloc_upsert(NodeId(1), &NodeAlloc { epoch: 1, used: used.clone(), ..NodeAlloc::default() });
            let node = tables.nodes.ordinal(NodeId(1)).expect("a node");
            let free = Resources { cpu_millis: capacity.cpu_millis - used.cpu_millis, ..capacity.clone() };
            let any = |has: &Resources| ready && stay.iter().any(|asked| fits(asked, has));
            let (now, empty) = (any(&free), any(&capacity));
            prop_assert!(!now || waiting.may_fit(&tables.nodes, node));
            prop_assert!(!empty || waiting.may_fit_empty(&tables.nodes, node));
            if stay.len() <= 1 {
                prop_assert_eq!(waiting.may_fit(&tables.nodes, node), now);
                prop_assert_eq!(waiting.may_fit_empty(&tables.nodes, node), empty);
            }
            prop_assert!(!stay.is_empty() || waiting.groups.is_empty());
        }

        #[test]
        fn a_set_of_nodes_has_each_once_and_is_empty_after_it_was_taken(
            nodes in prop::collection::vec(0..300u32, 0..40),
            more in prop::collection::vec(0..300u32, 0..40),
        ) {
            let mut set = NodeSet::default();
            for nodes in [nodes, more] {
                nodes.iter().for_each(|&node| set.insert(node));
                let once: std::collections::BTreeSet<u32> = nodes.into_iter().collect();
                prop_assert_eq!(set.take(), once.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
