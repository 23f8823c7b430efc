//! Indexes over the node table: the nodes with an attribute value, each node's position in the order of all nodes, and
//! the free capacity of each stretch. A search skips stretches that are too full.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::NodeTable;
use super::node::NodeGate;

/// A stretch is this many nodes, consecutive in the order of all nodes.
pub(crate) const STRETCH: usize = 64;

/// The most processor time and the most memory that any node of a stretch has free. Zero if none of them takes tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct StretchCapacity {
    pub cpu_millis: u64,
    pub memory_bytes: u64,
}

impl StretchCapacity {
    pub(crate) fn both_most(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.max(other.cpu_millis),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }

    /// Returns true if it is at least what is asked.
    pub(crate) fn covers(self, asked: Self) -> bool {
        self.cpu_millis >= asked.cpu_millis && self.memory_bytes >= asked.memory_bytes
    }

    /// Returns true if this node alone may have set a maximum of its stretch, and has less now.
    fn was_most(self, after: Self, most: Self) -> bool {
        (self.cpu_millis == most.cpu_millis && after.cpu_millis < most.cpu_millis)
            || (self.memory_bytes == most.memory_bytes && after.memory_bytes < most.memory_bytes)
    }
}

/// Indexes over a node table. Those that depend on the order of all nodes are built on first use after a node was added
/// or removed. Changes then keep them up to date.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeIndex {
    /// The ordinals of the nodes with a value, ascending, by (key, value).
    values: BTreeMap<(u32, u32), Vec<u32>>,
    positions: OnceLock<Vec<u32>>,
    free: OnceLock<Vec<StretchCapacity>>,
}

impl NodeIndex {
    /// The nodes with this value of an attribute.
    pub(crate) fn with_value(&self, key: u32, value: u32) -> &[u32] {
        self.values.get(&(key, value)).map_or(&[], Vec::as_slice)
    }

    /// Every value of an attribute, with the nodes that have it.
    pub(crate) fn values_of(&self, key: u32) -> impl Iterator<Item = (u32, &[u32])> {
        self.values.range((key, 0)..=(key, u32::MAX)).map(|(&(_, value), nodes)| (value, nodes.as_slice()))
    }

    /// Moves a node from its old attributes to its new ones. Both lists ascend.
    pub(crate) fn attributes_moved(&mut self, node: u32, before: &[(u32, u32)], after: &[(u32, u32)]) {
        for pair in before.iter().filter(|pair| after.binary_search(pair).is_err()) {
            let Some(nodes) = self.values.get_mut(pair) else { continue };
            if let Ok(position) = nodes.binary_search(&node) {
                nodes.remove(position);
            }
            if nodes.is_empty() {
                self.values.remove(pair);
            }
        }
        for pair in after.iter().filter(|pair| before.binary_search(pair).is_err()) {
            let nodes = self.values.entry(*pair).or_default();
            if let Err(position) = nodes.binary_search(&node) {
                nodes.insert(position, node);
            }
        }
    }

    /// Drops what depends on the order: nodes were added or removed.
    pub(crate) fn order_changed(&mut self) {
        self.positions.take();
        self.free.take();
    }
}

impl NodeTable {
    /// Each node's position in the order of all nodes, by ordinal.
    pub(crate) fn positions(&self) -> &[u32] {
        self.index.positions.get_or_init(|| {
            let mut positions = vec![u32::MAX; self.ordinals_end()];
            for (position, &node) in (0u32..).zip(&self.order) {
                if let Some(entry) = positions.get_mut(node as usize) {
                    *entry = position;
                }
            }
            positions
        })
    }

    /// The most that any node of each stretch has free.
    pub(crate) fn stretches_free(&self) -> &[StretchCapacity] {
        // Without positions `free_changed` could not keep them up to date.
        self.positions();
        self.index.free.get_or_init(|| {
            let stretches = self.order.chunks(STRETCH);
            stretches.map(|nodes| self.free_most(nodes.iter().copied())).collect()
        })
    }

    /// The most that any of these nodes has free, per dimension.
    pub(crate) fn free_most(&self, nodes: impl Iterator<Item = u32>) -> StretchCapacity {
        nodes.fold(StretchCapacity::default(), |most, node| most.both_most(self.free(node)))
    }

    /// The processor time and memory that a node has free for new tasks.
    pub(crate) fn free(&self, node: u32) -> StretchCapacity {
        if self.gate(node) != NodeGate::Open {
            return StretchCapacity::default();
        }
        let free = |dimension| self.limit(dimension, node).saturating_sub(self.used(dimension, node));
        StretchCapacity { cpu_millis: free(0), memory_bytes: free(1) }
    }

    /// Updates the stretch of a node that had `before` free.
    pub(crate) fn free_changed(&mut self, node: u32, before: StretchCapacity) {
        let after = self.free(node);
        let Some(position) = self.index.positions.get().and_then(|known| known.get(node as usize).copied())
        else {
            self.index.free.take();
            return;
        };
        let stretch = position as usize / STRETCH;
        let most = self.index.free.get().and_then(|known| known.get(stretch).copied());
        let Some(most) = most.filter(|_| before != after) else { return };
        let most = if before.was_most(after, most) {
            let first = stretch * STRETCH;
            let last = (first + STRETCH).min(self.order.len());
            self.order
                .get(first..last)
                .map_or_else(StretchCapacity::default, |nodes| self.free_most(nodes.iter().copied()))
        } else {
            most.both_most(after)
        };
        if let Some(entry) = self.index.free.get_mut().and_then(|known| known.get_mut(stretch)) {
            *entry = most;
        }
    }
}
