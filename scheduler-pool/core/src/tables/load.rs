//! The real load of nodes, as their agents measure it.

use borough_model::NodeId;
use borough_model::node::{LoadMeasured, NodeLoad};

use super::{CellTables, DeltaApplied, NodeTable};

/// What is known per ordinal: the revision of the row, and what was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads(Vec<(u64, Option<LoadMeasured>)>);

impl Loads {
    /// Forgets what was measured of a node that is gone.
    pub fn cleared(&mut self, node: usize) {
        if let Some(entry) = self.0.get_mut(node) {
            *entry = (0, None);
        }
    }
}

impl NodeTable {
    /// What is known of a node's load; absent: its agent cannot tell.
    pub fn measured(&self, node: u32) -> Option<&LoadMeasured> {
        self.loads.0.get(node as usize)?.1.as_ref()
    }

    /// The newer load of a node. Answers false where it is older than what is known.
    ///
    /// Only what was found out of this node is looked at again.
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
        self.changes.moved(node, false);
        true
    }
}

impl CellTables {
    /// What is known of a node's load, new or changed.
    pub fn load_upsert(&mut self, node: NodeId, load: &NodeLoad) -> DeltaApplied {
        if self.nodes.load_set(node, load) { DeltaApplied::Changed } else { DeltaApplied::Ignored }
    }

    /// What is known of a node's load; absent: its agent cannot tell.
    pub fn node_load(&self, node: NodeId) -> Option<LoadMeasured> {
        self.nodes.measured(self.nodes.ordinal(node)?).copied()
    }
}
