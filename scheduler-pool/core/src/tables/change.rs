//! A change log of the nodes, for caches over them.

use std::collections::VecDeque;

use super::NodeTable;
use super::row::NodeEffect;

/// The length of the log. A reader that missed more begins again.
const LOG_MAX: usize = 8_192;

/// A row that changes more attributes than this is logged as one change that concerns every search.
const ATTRIBUTES_MAX: usize = 16;

/// A change of a node after which more may fit than before, or other tasks prefer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedChange {
    pub node: u32,
    /// The attribute that was added, removed or changed. It concerns only searches that look at it. `None`: the change
    /// concerns every search.
    pub attribute: Option<u32>,
}

/// Change counters per node, and the log of changes that caches must follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeChanges {
    /// How often each node changed in a way that concerns every search, by ordinal.
    moved: Vec<u32>,
    /// How often the load of each node was measured, by ordinal.
    measured: Vec<u32>,
    /// The oldest first.
    log: VecDeque<LoggedChange>,
    logged_total: u64,
    /// Counts nodes that were added or removed.
    membership: u64,
}

impl NodeChanges {
    /// Adds the counters of a new ordinal.
    pub(super) fn node_made(&mut self) {
        self.moved.push(0);
        self.measured.push(0);
    }

    /// Records a new or removed node.
    pub(super) fn membership_changed(&mut self) {
        self.membership += 1;
    }

    /// Records a change of a node that lets nothing more fit.
    pub(super) fn changed(&mut self, node: u32) {
        if let Some(moved) = self.moved.get_mut(node as usize) {
            *moved = moved.wrapping_add(1);
        }
    }

    /// Records a new measurement of a node. Only policies that go by load look at it.
    pub(super) fn load_changed(&mut self, node: u32) {
        if let Some(measured) = self.measured.get_mut(node as usize) {
            *measured = measured.wrapping_add(1);
        }
    }

    /// Records a change of a node after which more may fit than before.
    pub(super) fn freed(&mut self, node: u32) {
        self.changed(node);
        self.logged(LoggedChange { node, attribute: None });
    }

    /// Records a newer row or allocation of a node, apart from its attributes.
    pub(super) fn affected(&mut self, node: u32, effect: NodeEffect) {
        match effect {
            NodeEffect::None => {}
            NodeEffect::Less => self.changed(node),
            NodeEffect::More => self.freed(node),
        }
    }

    /// Records changed attributes of a node.
    pub(super) fn attributes_changed(&mut self, node: u32, keys: &[u32]) {
        if keys.len() > ATTRIBUTES_MAX {
            self.freed(node);
            return;
        }
        keys.iter().for_each(|&key| self.logged(LoggedChange { node, attribute: Some(key) }));
    }

    fn logged(&mut self, change: LoggedChange) {
        self.logged_total += 1;
        self.log.push_back(change);
        if self.log.len() > LOG_MAX {
            self.log.pop_front();
        }
    }
}

impl NodeTable {
    /// How often a node changed in a way that concerns every search.
    pub(crate) fn moved(&self, node: u32) -> u32 {
        self.changes.moved.get(node as usize).copied().unwrap_or(0)
    }

    /// How often the load of a node was measured.
    pub(crate) fn load_moved(&self, node: u32) -> u32 {
        self.changes.measured.get(node as usize).copied().unwrap_or(0)
    }

    /// Changes when a node is added or removed.
    pub(crate) fn membership(&self) -> u64 {
        self.changes.membership
    }

    /// The number of logged changes so far.
    pub(crate) fn logged_total(&self) -> u64 {
        self.changes.logged_total
    }

    /// The changes that were logged since the total was `before`; `None` if the log no longer goes back so far.
    pub(crate) fn logged_since(
        &self,
        before: u64,
    ) -> Option<impl ExactSizeIterator<Item = LoggedChange> + Clone + use<'_>> {
        let changes = &self.changes;
        let missed = usize::try_from(changes.logged_total.checked_sub(before)?).ok()?;
        let first = changes.log.len().checked_sub(missed)?;
        Some(changes.log.range(first..).copied())
    }
}
