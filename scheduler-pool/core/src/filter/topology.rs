//! Tasks that stay within one socket or NUMA domain: it must have room for all of what they ask. Those that get cores
//! of their own are among them: what others take within a domain is charged to it, so there are as many cores left that
//! nobody uses as there is room for, and its agent chooses which.

use borough_model::node::{Within, cores_whole};
use smallvec::SmallVec;

use crate::overlay::PlanOverlay;
use crate::tables::{DomainSlot, NodeTable};

/// Dimensions with how much of each a task takes.
pub(crate) type Share = SmallVec<[(usize, u64); 4]>;

/// What is asked of a socket or domain.
#[derive(Clone, Debug)]
pub(crate) struct WithinAsk {
    /// Whether it is whole cores that are asked for.
    pub exclusive: bool,
    /// Per layout, from number 1 on: what a task takes of each place that could hold it.
    places: Vec<SmallVec<[Share; 2]>>,
}

impl WithinAsk {
    pub fn of(
        within: Within,
        exclusive: bool,
        (cpu_millis, memory_bytes): (u64, u64),
        nodes: &NodeTable,
    ) -> Self {
        let share = |dimensions: &[(u16, u16)]| -> Share {
            let both = dimensions.iter().flat_map(|&(cpu, memory)| {
                [(usize::from(cpu), cpu_millis), (usize::from(memory), memory_bytes)]
            });
            both.collect()
        };
        let of_layout = |layout: &[DomainSlot]| {
            // Faster or slower cores may have no whole number that is what was asked for.
            let whole = |slot: &&DomainSlot| !exclusive || cores_whole(cpu_millis, slot.speed).is_some();
            let layout = layout.iter().filter(whole);
            let all: SmallVec<[Share; 2]> = match within {
                Within::OneSocket => layout.map(|slot| share(&[slot.socket])).collect(),
                Within::OneNumaNode => layout.map(|slot| share(&[slot.own, slot.socket])).collect(),
            };
            // In the order of the domains: the numbers of dimensions follow from what was heard of first.
            let mut places: SmallVec<[Share; 2]> = SmallVec::new();
            for share in all {
                if !places.contains(&share) {
                    places.push(share);
                }
            }
            places
        };
        Self { exclusive, places: nodes.domain_layouts.all().map(of_layout).collect() }
    }

    fn of_node(&self, nodes: &NodeTable, node: u32) -> &[Share] {
        let layout = nodes.domain_layouts.of(node).checked_sub(1);
        layout.and_then(|layout| self.places.get(layout as usize)).map_or(&[], |places| places)
    }
}

fn free(work: &PlanOverlay<'_>, node: u32, dimension: usize) -> u64 {
    work.nodes.limit(dimension, node).saturating_sub(work.used(dimension, node))
}

/// What a task takes of the place on a node that it gets: the fullest that has room, so that large tasks keep finding
/// room in others. `None` where none has.
pub(crate) fn within_given(work: &PlanOverlay<'_>, ask: &WithinAsk, node: u32) -> Option<Share> {
    let has_room =
        |share: &&Share| share.iter().all(|&(dimension, amount)| free(work, node, dimension) >= amount);
    let room =
        |share: &&Share| share.iter().map(|&(dimension, _)| free(work, node, dimension)).collect::<Vec<_>>();
    ask.of_node(work.nodes, node).iter().filter(has_room).min_by_key(room).cloned()
}

/// Whether any place of a node would do if it were free.
pub(crate) fn within_ever(work: &PlanOverlay<'_>, ask: &WithinAsk, node: u32) -> bool {
    let large =
        |share: &Share| share.iter().all(|&(dimension, amount)| work.nodes.limit(dimension, node) >= amount);
    ask.of_node(work.nodes, node).iter().any(large)
}

/// Most tasks that all ask for this which the places of a node could hold together.
pub(crate) fn within_copies(work: &PlanOverlay<'_>, ask: &WithinAsk, node: u32) -> u64 {
    let of_place = |share: &Share| {
        let of_dimension = |&(dimension, amount): &(usize, u64)| free(work, node, dimension) / amount.max(1);
        share.iter().map(of_dimension).min().unwrap_or(0)
    };
    ask.of_node(work.nodes, node).iter().map(of_place).fold(0, u64::saturating_add)
}
