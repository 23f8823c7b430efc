//! Sums over the nodes that take tasks: capacities, free amounts and tasks. They follow each change of a node and are
//! exact, so that a plan gets its means without looking at the nodes.

use super::node::{NodeGate, NodeTable};

/// The sums over the nodes that take tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenSums {
    nodes: u64,
    tasks: u64,
    /// Per dimension, the limits, overcommit included.
    limits: Vec<u128>,
    /// Per dimension, what is free of the limits.
    free: Vec<u128>,
}

impl OpenSums {
    /// The number of nodes that take tasks.
    pub(crate) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// The number of tasks on them.
    pub(crate) fn tasks(&self) -> u64 {
        self.tasks
    }

    /// The sum of their limits in a dimension.
    pub(crate) fn limit(&self, dimension: usize) -> u128 {
        self.limits.get(dimension).copied().unwrap_or(0)
    }

    /// The sum of what they have free in a dimension.
    pub(crate) fn free(&self, dimension: usize) -> u128 {
        self.free.get(dimension).copied().unwrap_or(0)
    }
}

impl NodeTable {
    /// What a node has free of a dimension.
    pub(crate) fn amount_free(&self, dimension: usize, node: u32) -> u64 {
        self.limit(dimension, node).saturating_sub(self.used(dimension, node))
    }

    fn summed(&self, node: u32) -> bool {
        self.gate(node) == NodeGate::Open
    }

    fn tasks_of(&self, node: u32) -> u64 {
        self.tasks.get(node as usize).copied().unwrap_or(0).into()
    }

    /// Takes a node out of the sums, before it changes.
    pub(super) fn sums_leave(&mut self, node: u32) {
        if !self.summed(node) {
            return;
        }
        let tasks = self.tasks_of(node);
        self.sums.nodes = self.sums.nodes.saturating_sub(1);
        self.sums.tasks = self.sums.tasks.saturating_sub(tasks);
        for dimension in 0..self.dimensions() {
            let (limit, free) = (self.limit(dimension, node), self.amount_free(dimension, node));
            let OpenSums { limits, free: sums, .. } = &mut self.sums;
            for (sum, amount) in [(limits.get_mut(dimension), limit), (sums.get_mut(dimension), free)] {
                let Some(sum) = sum else { continue };
                *sum = sum.saturating_sub(amount.into());
            }
        }
    }

    /// Adds a node to the sums, after it has changed.
    pub(super) fn sums_join(&mut self, node: u32) {
        if !self.summed(node) {
            return;
        }
        let (tasks, dimensions) = (self.tasks_of(node), self.dimensions());
        self.sums.nodes += 1;
        self.sums.tasks += tasks;
        self.sums.limits.resize(dimensions, 0);
        self.sums.free.resize(dimensions, 0);
        for dimension in 0..dimensions {
            let (limit, free) = (self.limit(dimension, node), self.amount_free(dimension, node));
            let OpenSums { limits, free: sums, .. } = &mut self.sums;
            for (sum, amount) in [(limits.get_mut(dimension), limit), (sums.get_mut(dimension), free)] {
                let Some(sum) = sum else { continue };
                *sum += u128::from(amount);
            }
        }
    }

    /// Follows a node that had `before` free of a dimension.
    pub(super) fn sums_free_moved(&mut self, dimension: usize, node: u32, before: u64) {
        if !self.summed(node) {
            return;
        }
        let after = self.amount_free(dimension, node);
        if let Some(sum) = self.sums.free.get_mut(dimension) {
            *sum = sum.saturating_sub(before.into()) + u128::from(after);
        }
    }

    /// Follows a node that had `before` tasks.
    pub(super) fn sums_tasks_moved(&mut self, node: u32, before: u32) {
        if self.summed(node) {
            let after = self.tasks_of(node);
            self.sums.tasks = self.sums.tasks.saturating_sub(before.into()) + after;
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_model::node::NodeState;
    use borough_model::{NodeAlloc, NodeId, NodeRow, Resources};
    use proptest::prelude::*;

    use super::*;
    use crate::count::CountChange;
    use crate::settings::CellSettings;
    use crate::tables::{CellTables, test_row};

    #[derive(Clone, Debug)]
    enum Change {
        Row(u64, u64, u64, NodeState),
        Alloc(u64, u64, u32),
        Charged(u64, u64),
        Released(u64, u64),
        Removed(u64),
    }

    fn change() -> impl Strategy<Value = Change> {
        let (id, amount) = (1..6u64, 0..5u64);
        let state = prop::sample::select(vec![NodeState::Ready, NodeState::Ready, NodeState::Lost]);
        prop_oneof![
            4 => (id.clone(), amount.clone(), 0..3u64, state)
                .prop_map(|(id, cpu, gpus, state)| Change::Row(id, cpu, gpus, state)),
            3 => (id.clone(), 0..9u64, 0..4u32).prop_map(|(id, cpu, tasks)| Change::Alloc(id, cpu, tasks)),
            2 => (id.clone(), amount.clone()).prop_map(|(id, cpu)| Change::Charged(id, cpu)),
            2 => (id.clone(), amount).prop_map(|(id, cpu)| Change::Released(id, cpu)),
            1 => id.prop_map(Change::Removed),
        ]
    }

    fn apply(tables: &mut CellTables, step: u64, change: &Change) {
        let charge = |tables: &mut CellTables, id, cpu, change| {
            if let Some(node) = tables.nodes.ordinal(NodeId(id)) {
                tables.nodes.charge(node, &[(0, cpu)], &[], change);
            }
        };
        match *change {
            Change::Row(id, cpu_millis, gpus, state) => {
                let mut capacity = Resources { cpu_millis, ..Resources::default() };
                capacity.device_millis.insert("gpu".to_owned(), gpus);
                tables.node_upsert(&NodeRow { capacity, state, revision: step, ..test_row(id) });
            }
            Change::Alloc(id, cpu_millis, tasks) => {
                let used = Resources { cpu_millis, ..Resources::default() };
                let alloc = NodeAlloc { epoch: step, used, tasks, ..NodeAlloc::default() };
                tables.alloc_upsert(NodeId(id), &alloc);
            }
            Change::Charged(id, cpu) => charge(tables, id, cpu, CountChange::Add),
            Change::Released(id, cpu) => charge(tables, id, cpu, CountChange::Remove),
            Change::Removed(id) => drop(tables.node_remove(NodeId(id))),
        }
    }

    proptest! {
        /// After any changes, overcommitted nodes and unknown ones among them, the sums equal a count over all nodes.
        #[test]
        fn the_sums_equal_a_recount(changes in prop::collection::vec(change(), 1..60)) {
            let mut tables = CellTables::new(CellSettings::default());
            for (step, change) in (1..).zip(&changes) {
                apply(&mut tables, step, change);
                let nodes = &tables.nodes;
                let open: Vec<u32> =
                    nodes.order.iter().copied().filter(|&node| nodes.gate(node) == NodeGate::Open).collect();
                prop_assert_eq!(nodes.sums.nodes(), open.len() as u64);
                prop_assert_eq!(nodes.sums.tasks(), open.iter().map(|&node| nodes.tasks_of(node)).sum::<u64>());
                for dimension in 0..nodes.dimensions() {
                    let sum = |of: &dyn Fn(u32) -> u64| open.iter().map(|&node| u128::from(of(node))).sum::<u128>();
                    prop_assert_eq!(nodes.sums.limit(dimension), sum(&|node| nodes.limit(dimension, node)));
                    prop_assert_eq!(nodes.sums.free(dimension), sum(&|node| nodes.amount_free(dimension, node)));
                }
            }
        }
    }
}
