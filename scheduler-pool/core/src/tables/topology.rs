//! Sockets and NUMA domains of nodes.

use borough_model::NodeRow;
use borough_model::node::{NumaDomain, core_speed};

use super::node::NodeTable;

/// A domain in the numbers of one tables: the dimensions of its processors and memory, and those of its socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DomainSlot {
    pub own: (u16, u16),
    pub socket: (u16, u16),
    /// How fast a core is, in thousandths of the reference's.
    pub speed: u64,
}

impl NodeTable {
    /// Takes in a node's domains. Their dimensions are known by then.
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
