//! What has changed on nodes, for whoever keeps something that it has found out about them.

use std::collections::VecDeque;

use super::NodeTable;

/// Returned amounts that are remembered one by one.
const FREED_KEPT: usize = 4_096;

/// Counts of changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeChanges {
    /// Per ordinal, how often the node has changed in any way.
    moved: Vec<u32>,
    /// Nodes that may fit more than before, in order.
    freed: VecDeque<u32>,
    freed_total: u64,
    /// Counts nodes that came or went, and changes of attributes.
    facts_version: u64,
}

impl NodeChanges {
    /// An ordinal more.
    pub fn node_made(&mut self) {
        self.moved.push(0);
    }

    /// A node came or went, or bears other attributes.
    pub fn facts_changed(&mut self) {
        self.facts_version += 1;
    }

    /// A node has changed; `freed`: so that more may fit than before.
    pub fn moved(&mut self, node: u32, freed: bool) {
        if let Some(moved) = self.moved.get_mut(node as usize) {
            *moved = moved.wrapping_add(1);
        }
        if freed {
            self.freed_total += 1;
            self.freed.push_back(node);
            if self.freed.len() > FREED_KEPT {
                self.freed.pop_front();
            }
        }
    }
}

impl NodeTable {
    /// How often a node has changed.
    pub fn moved(&self, node: u32) -> u32 {
        self.changes.moved.get(node as usize).copied().unwrap_or(0)
    }

    /// Changes when a node comes or goes, or bears other attributes.
    pub fn facts_version(&self) -> u64 {
        self.changes.facts_version
    }

    /// How often something was given back on any node.
    pub fn freed_total(&self) -> u64 {
        self.changes.freed_total
    }

    /// The nodes on which something was given back since the total was `before`; `None` where that is not known any more.
    pub fn freed_since(&self, before: u64) -> Option<impl ExactSizeIterator<Item = u32> + use<'_>> {
        let changes = &self.changes;
        let missed = usize::try_from(changes.freed_total.checked_sub(before)?).ok()?;
        let first = changes.freed.len().checked_sub(missed)?;
        Some(changes.freed.range(first..).copied())
    }
}
