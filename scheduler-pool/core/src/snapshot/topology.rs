//! Sockets and NUMA domains of nodes. Nodes of one make share one layout, as with cards.

use std::collections::BTreeMap;

use borough_model::node::NumaDomain;
use smallvec::SmallVec;

use super::node::NodeTable;

/// A domain in the numbers of one snapshot: the dimensions of its processors and memory, and those of its socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DomainSlot {
    pub own: (u16, u16),
    pub socket: (u16, u16),
}

type Layout = SmallVec<[DomainSlot; 2]>;

/// The layouts in use, each with a number. They are not forgotten: there are as many as makes of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomainLayouts {
    numbers: BTreeMap<Layout, u32>,
    layouts: Vec<Layout>,
    of_node: Vec<u32>,
}

impl DomainLayouts {
    /// Every layout, from number 1 on.
    pub fn all(&self) -> impl Iterator<Item = &[DomainSlot]> {
        self.layouts.iter().map(|layout| &**layout)
    }

    /// The number of a node's layout; 0: its domains are not known.
    pub fn of(&self, node: u32) -> u32 {
        self.of_node.get(node as usize).copied().unwrap_or(0)
    }

    fn interned(&mut self, layout: Layout) -> u32 {
        if layout.is_empty() {
            return 0;
        }
        if let Some(&number) = self.numbers.get(&layout) {
            return number;
        }
        self.layouts.push(layout.clone());
        let number = u32::try_from(self.layouts.len()).unwrap_or(u32::MAX);
        self.numbers.insert(layout, number);
        number
    }

    /// Nodes of unknown domains behind the last of known ones are left out of the column.
    pub(super) fn put(&mut self, node: u32, number: u32) {
        let index = node as usize;
        if self.of_node.len() <= index {
            if number == 0 {
                return;
            }
            self.of_node.resize(index + 1, 0);
        }
        if let Some(entry) = self.of_node.get_mut(index) {
            *entry = number;
        }
    }
}

impl NodeTable {
    /// Takes in a node's domains. Their dimensions are known by then.
    pub(super) fn domains_put(&mut self, node: u32, domains: &[NumaDomain]) {
        let number = |dimension: &str| u16::try_from(self.kind_dimension(dimension)?).ok();
        let slot = |domain: &NumaDomain| {
            let [own, socket] = domain.dimensions();
            Some(DomainSlot {
                own: (number(&own.0)?, number(&own.1)?),
                socket: (number(&socket.0)?, number(&socket.1)?),
            })
        };
        let layout: Layout = domains.iter().filter_map(slot).collect();
        let number = self.domain_layouts.interned(layout);
        self.domain_layouts.put(node, number);
    }
}
