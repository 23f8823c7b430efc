//! Sockets and NUMA domains of nodes.

use borough_model::NodeRow;
use borough_model::node::{NumaDomain, core_speed};

use super::node::NodeTable;

/// A NUMA domain of a node: the dimensions of its processors and memory, and those of its socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DomainSlot {
    pub own: (u16, u16),
    pub socket: (u16, u16),
    /// The speed of a core, in thousandths of the reference speed.
    pub speed: u64,
}

impl NodeTable {
    /// Stores a node's domains. The caller has interned their dimensions.
    pub(super) fn domains_put(&mut self, node: u32, row: &NodeRow) {
        let speed = core_speed(&row.attributes);
        let number = |dimension: &str| u16::try_from(self.kind_dimension(dimension)?).ok();
        let slot = |domain: &NumaDomain| {
            let [own, socket] = domain.dimensions();
            Some(DomainSlot {
                own: (number(&own.0)?, number(&own.1)?),
                socket: (number(&socket.0)?, number(&socket.1)?),
                speed,
            })
        };
        let layout = row.domains.iter().filter_map(slot).collect();
        self.domain_layouts.put(node, layout);
    }
}
