//! The measured load of nodes, as their agents report it.

use borough_model::NodeId;
use borough_model::node::{LoadMeasured, NodeLoad};

use super::{CellTables, DeltaApplied, NodeTable};

/// Per ordinal, the revision of the row and the measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads(Vec<(u64, Option<LoadMeasured>)>);

impl Loads {
    /// Drops the measurement of a removed node.
    pub(super) fn cleared(&mut self, node: usize) {
        if let Some(entry) = self.0.get_mut(node) {
            *entry = (0, None);
        }
    }
}

impl NodeTable {
    /// The measured load of a node; `None` if its agent cannot measure it.
    pub(crate) fn measured(&self, node: u32) -> Option<&LoadMeasured> {
        self.loads.0.get(node as usize)?.1.as_ref()
    }

    /// Stores the load of a node. Returns false if a newer one is stored.
    ///
    /// Caches of policies that go by load look at this node again and keep the rest.
    fn load_set(&mut self, id: NodeId, load: &NodeLoad) -> bool {
        let node = self.ordinal_made(id);
        let index = node as usize;
        if self.loads.0.len() <= index {
            self.loads.0.resize(index + 1, (0, None));
        }
        let Some(known) = self.loads.0.get_mut(index).filter(|known| known.0 < load.revision) else {
            return false;
        };
        *known = (load.revision, load.measured);
        self.changes.load_changed(node);
        true
    }
}

impl CellTables {
    /// Applies the measured load of a node.
    pub fn load_upsert(&mut self, node: NodeId, load: &NodeLoad) -> DeltaApplied {
        if self.nodes.load_set(node, load) { DeltaApplied::Changed } else { DeltaApplied::Ignored }
    }

    /// The measured load of a node; `None` if its agent cannot measure it.
    pub fn node_load(&self, node: NodeId) -> Option<LoadMeasured> {
        self.nodes.measured(self.nodes.ordinal(node)?).copied()
    }
}
