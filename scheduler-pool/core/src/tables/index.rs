//! What is found without looking at every node: the nodes that bear a value, where a node stands in the one order, and
//! which stretches of that order have no room at all.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::NodeTable;
use super::node::NodeGate;

/// Nodes of a stretch.
pub(crate) const STRETCH: usize = 64;

/// The most processor time and memory that any node of a stretch has free; nothing where none of them takes tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct StretchCapacity {
    pub cpu_millis: u64,
    pub memory_bytes: u64,
}

impl StretchCapacity {
    pub fn both_most(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.max(other.cpu_millis),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }

    /// Whether there is room for so much.
    pub fn holds(self, asked: Self) -> bool {
        self.cpu_millis >= asked.cpu_millis && self.memory_bytes >= asked.memory_bytes
    }

    /// Whether any part of it is as much as `most` has, and will be less.
    fn was_most(self, after: Self, most: Self) -> bool {
        (self.cpu_millis == most.cpu_millis && after.cpu_millis < most.cpu_millis)
            || (self.memory_bytes == most.memory_bytes && after.memory_bytes < most.memory_bytes)
    }
}

/// Indexes over a node table. What follows from the order of all nodes is made when it is first asked for after nodes
/// came or went, and kept up to date until the next do.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeIndex {
    /// Ordinals of the nodes that bear a value, ascending, by (key, value).
    values: BTreeMap<(u32, u32), Vec<u32>>,
    positions: OnceLock<Vec<u32>>,
    rooms: OnceLock<Vec<StretchCapacity>>,
}

impl NodeIndex {
    /// The nodes with that value of an attribute.
    pub fn bearing(&self, key: u32, value: u32) -> &[u32] {
        self.values.get(&(key, value)).map_or(&[], Vec::as_slice)
    }

    /// Every value of an attribute that nodes bear, with those nodes.
    pub fn values_of(&self, key: u32) -> impl Iterator<Item = (u32, &[u32])> {
        self.values.range((key, 0)..=(key, u32::MAX)).map(|(&(_, value), nodes)| (value, nodes.as_slice()))
    }

    /// A node bears other attributes than before; both lists ascend.
    pub fn attributes_moved(&mut self, node: u32, before: &[(u32, u32)], after: &[(u32, u32)]) {
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

    /// Nodes came or went.
    pub fn order_changed(&mut self) {
        self.positions.take();
        self.rooms.take();
    }
}

impl NodeTable {
    /// Where each node stands in the order, by ordinal.
    pub fn positions(&self) -> &[u32] {
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

    /// Stretches of the order, each with the most that is free in it.
    pub fn rooms(&self) -> &[StretchCapacity] {
        // Without positions a change could not be followed.
        self.positions();
        self.index.rooms.get_or_init(|| {
            let stretches = self.order.chunks(STRETCH);
            stretches.map(|nodes| self.room_most(nodes.iter().copied())).collect()
        })
    }

    /// The most that any of these nodes has free, by dimension.
    pub fn room_most(&self, nodes: impl Iterator<Item = u32>) -> StretchCapacity {
        nodes.fold(StretchCapacity::default(), |most, node| most.both_most(self.room(node)))
    }

    /// What a node has free for new tasks.
    pub fn room(&self, node: u32) -> StretchCapacity {
        if self.gate(node) != NodeGate::Open {
            return StretchCapacity::default();
        }
        let free = |dimension| self.limit(dimension, node).saturating_sub(self.used(dimension, node));
        StretchCapacity { cpu_millis: free(0), memory_bytes: free(1) }
    }

    /// A node that had `before` free has something else now.
    pub fn room_moved(&mut self, node: u32, before: StretchCapacity) {
        let after = self.room(node);
        let Some(position) = self.index.positions.get().and_then(|known| known.get(node as usize).copied())
        else {
            self.index.rooms.take();
            return;
        };
        let stretch = position as usize / STRETCH;
        let most = self.index.rooms.get().and_then(|rooms| rooms.get(stretch).copied());
        let Some(most) = most.filter(|_| before != after) else { return };
        let most = if before.was_most(after, most) {
            let first = stretch * STRETCH;
            let last = (first + STRETCH).min(self.order.len());
            self.order
                .get(first..last)
                .map_or_else(StretchCapacity::default, |nodes| self.room_most(nodes.iter().copied()))
        } else {
            most.both_most(after)
        };
        if let Some(entry) = self.index.rooms.get_mut().and_then(|rooms| rooms.get_mut(stretch)) {
            *entry = most;
        }
    }
}
