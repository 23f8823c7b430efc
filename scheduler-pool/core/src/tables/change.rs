//! A change log of the nodes, for caches over them.

use std::collections::VecDeque;

use super::NodeTable;

/// The length of the log of freed nodes. A reader that missed more begins again.
const FREED_MAX: usize = 4_096;

/// Change counters per node, and the log of freed nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeChanges {
    /// How often each node changed in any way, by ordinal.
    moved: Vec<u32>,
    /// Nodes that may fit more than before, the oldest first.
    freed: VecDeque<u32>,
    freed_total: u64,
    /// Counts nodes that were added or removed, and changes of attributes.
    facts_version: u64,
}

impl NodeChanges {
    /// Adds the counter of a new ordinal.
    pub(super) fn node_made(&mut self) {
        self.moved.push(0);
    }

    /// Records a new or removed node, or a change of attributes.
    pub(super) fn facts_changed(&mut self) {
        self.facts_version += 1;
    }

    /// Records a change of a node that lets nothing more fit.
    pub(super) fn changed(&mut self, node: u32) {
        if let Some(moved) = self.moved.get_mut(node as usize) {
            *moved = moved.wrapping_add(1);
        }
    }

    /// Records a change of a node after which more may fit than before.
    pub(super) fn freed(&mut self, node: u32) {
        self.changed(node);
        self.freed_total += 1;
        self.freed.push_back(node);
        if self.freed.len() > FREED_MAX {
            self.freed.pop_front();
        }
    }
}

impl NodeTable {
    /// How often a node changed.
    pub(crate) fn moved(&self, node: u32) -> u32 {
        self.changes.moved.get(node as usize).copied().unwrap_or(0)
    }

    /// Changes when a node is added or removed, or its attributes change.
    pub(crate) fn facts_version(&self) -> u64 {
        self.changes.facts_version
    }

    /// How often any node freed capacity.
    pub(crate) fn freed_total(&self) -> u64 {
        self.changes.freed_total
    }

    /// The nodes that freed capacity since the total was `before`; `None` if the log no longer goes back so far.
    pub(crate) fn freed_since(&self, before: u64) -> Option<impl ExactSizeIterator<Item = u32> + use<'_>> {
        let changes = &self.changes;
        let missed = usize::try_from(changes.freed_total.checked_sub(before)?).ok()?;
        let first = changes.freed.len().checked_sub(missed)?;
        Some(changes.freed.range(first..).copied())
    }
}
