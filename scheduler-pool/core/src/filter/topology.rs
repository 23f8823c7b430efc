//! The filter of sockets and NUMA domains. A task that must stay within one needs all that it asks for there. Tasks
//! with exclusive cores are among them. The charge of other tasks counts against the domain too. So the domain always
//! has as many unused cores as it has free capacity, and the node's agent chooses among them.

use borough_model::Resources;
use borough_model::node::{Within, cores_whole};
use smallvec::SmallVec;

use crate::overlay::PlanOverlay;
use crate::tables::{DomainSlot, NodeTable, Shape};

/// Dimensions with the amount of each that a task takes.
pub(crate) type Share = SmallVec<[(usize, u64); 4]>;

/// The request for one socket or NUMA domain.
#[derive(Clone, Debug)]
pub(crate) struct WithinAsk {
    /// True if the task asks for exclusive cores.
    pub exclusive: bool,
    /// Per layout, from number 1: the charge of a task in each socket or domain that could hold it.
    places: Vec<SmallVec<[Share; 2]>>,
}

impl WithinAsk {
    /// The request of a shape; `None` if the shape may use all of a node.
    pub(crate) fn of(shape: &Shape, nodes: &NodeTable) -> Option<Self> {
        let (within, exclusive) = (shape.within?, shape.exclusive_cores);
        let Resources { cpu_millis, memory_bytes, .. } = shape.resources;
        let share = |dimensions: &[(u16, u16)]| -> Share {
            let both = dimensions.iter().flat_map(|&(cpu, memory)| {
                [(usize::from(cpu), cpu_millis), (usize::from(memory), memory_bytes)]
            });
            both.collect()
        };
        let of_layout = |layout: &[DomainSlot]| {
            // On faster or slower cores, no number of complete cores may equal the request.
            let exact = |slot: &&DomainSlot| !exclusive || cores_whole(cpu_millis, slot.speed).is_some();
            let layout = layout.iter().filter(exact);
            let all: SmallVec<[Share; 2]> = match within {
                Within::OneSocket => layout.map(|slot| share(&[slot.socket])).collect(),
                Within::OneNumaNode => layout.map(|slot| share(&[slot.own, slot.socket])).collect(),
            };
            // In the order of the domains, because the numbers of dimensions depend on the order of arrival.
            let mut places: SmallVec<[Share; 2]> = SmallVec::new();
            for share in all {
                if !places.contains(&share) {
                    places.push(share);
                }
            }
            places
        };
        Some(Self { exclusive, places: nodes.domain_layouts.all().map(of_layout).collect() })
    }

    fn of_node(&self, nodes: &NodeTable, node: u32) -> &[Share] {
        let layout = nodes.domain_layouts.of(node).checked_sub(1);
        layout.and_then(|layout| self.places.get(layout as usize)).map_or(&[], |places| places)
    }
}

fn free(overlay: &PlanOverlay<'_>, node: u32, dimension: usize) -> u64 {
    overlay.nodes.limit(dimension, node).saturating_sub(overlay.used(dimension, node))
}

/// The charge of a task in the socket or domain that it gets; `None` if none fits. The fullest that fits is chosen, so
/// that large tasks still fit in the others.
pub(crate) fn within_given(overlay: &PlanOverlay<'_>, ask: &WithinAsk, node: u32) -> Option<Share> {
    let fits =
        |share: &&Share| share.iter().all(|&(dimension, amount)| free(overlay, node, dimension) >= amount);
    let free_amounts = |share: &&Share| {
        share.iter().map(|&(dimension, _)| free(overlay, node, dimension)).collect::<Vec<_>>()
    };
    ask.of_node(overlay.nodes, node).iter().filter(fits).min_by_key(free_amounts).cloned()
}

/// Returns true if any empty socket or domain of a node would do.
pub(crate) fn within_ever(overlay: &PlanOverlay<'_>, ask: &WithinAsk, node: u32) -> bool {
    let large = |share: &Share| {
        share.iter().all(|&(dimension, amount)| overlay.nodes.limit(dimension, node) >= amount)
    };
    ask.of_node(overlay.nodes, node).iter().any(large)
}

/// How many equal tasks the sockets or domains of a node hold together.
pub(crate) fn within_copies(overlay: &PlanOverlay<'_>, ask: &WithinAsk, node: u32) -> u64 {
    let of_place = |share: &Share| {
        let of_dimension =
            |&(dimension, amount): &(usize, u64)| free(overlay, node, dimension) / amount.max(1);
        share.iter().map(of_dimension).min().unwrap_or(0)
    };
    ask.of_node(overlay.nodes, node).iter().map(of_place).fold(0, u64::saturating_add)
}
