//! Fragmentation gradient descent ("Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
//! Gradient Descent", ATC 2023, section 4). It takes the node on which the task adds least to the part of the cards
//! that other tasks cannot use.
//!
//! The fragmentation of a node for one kind of task is the free part of its cards that tasks of the kind cannot use. If
//! no task of the kind fits, that is everything free. In the paper a kind for which one task fits can use every card
//! that is large enough. Here processors and memory bound that part too: see [`DEPTH`]. Without the bound a node looks
//! sound until its processors are nearly spent, and its last cards are then lost.
//!
//! The fragmentation of a node is the mean over the kinds of task in the cell, weighed by their number. One order of
//! nodes breaks ties for all tasks, so nodes fill one after the other. If no task of the cell uses cards, the policy is
//! `best-fit`.

use std::sync::Arc;

use smallvec::SmallVec;

use super::basis::Basis;
use super::best_fit::BestFit;
use super::mix::{Mix, Typical};
use super::{Breadth, CellStats, Policy, ScoringContext};
use crate::filter::{Requirement, cards_given};
use crate::overlay::PlanOverlay;

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct Fgd;

/// How many nodes are scored for a class if the cell's tasks use cards.
const NODES: usize = 2_048;
/// More than the fragmentation of any node, in thousandths of a card times the parts of the mix.
const ABOVE: i64 = 1 << 31;
/// A kind of task can use so many times the cards for which it finds processors and memory. With 1 the node would hold
/// tasks of this kind alone. It holds others too, and those that ask for fewer processors leave more to this kind.
const DEPTH: u64 = 2;

impl Policy for Fgd {
    fn breadth(&self, basis: &Basis) -> Breadth {
        if basis.mix.is_some() { Breadth::Nodes(NODES) } else { Breadth::Few }
    }

    fn basis(&self, stats: &CellStats<'_>, requirement: &Requirement) -> Basis {
        match stats.mix() {
            Some(mix) => Basis { mix: Some(Arc::clone(mix)), ..Basis::default() },
            None => BestFit.basis(stats, requirement),
        }
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let Some(mix) = &context.basis.mix else { return BestFit.fit(context) };
        let fall = match fragmentation_rise(context, mix) {
            // Without cards the task harms nothing.
            None => 1,
            Some(rise) => -rise,
        };
        u32::try_from(ABOVE.saturating_add(fall).max(0)).unwrap_or(u32::MAX)
    }
}

/// The free amounts of a node.
struct Free {
    cpu_millis: u64,
    memory_bytes: u64,
    /// By card, with its dimension.
    cards: SmallVec<[(usize, u64); 16]>,
}

impl Free {
    fn of(overlay: &PlanOverlay<'_>, node: u32) -> Self {
        let free =
            |dimension| overlay.nodes.limit(dimension, node).saturating_sub(overlay.used(dimension, node));
        let cards = overlay.nodes.cards_of(node).iter().map(|slot| usize::from(slot.dimension));
        Self {
            cpu_millis: free(0),
            memory_bytes: free(1),
            cards: cards.map(|dimension| (dimension, free(dimension))).collect(),
        }
    }

    /// The free amounts with the task on the node.
    fn without(mut self, requirement: &Requirement, given: &[(usize, u64)]) -> Self {
        self.cpu_millis = self.cpu_millis.saturating_sub(requirement.amount(0));
        self.memory_bytes = self.memory_bytes.saturating_sub(requirement.amount(1));
        for &(dimension, amount) in given {
            for (_, free) in self.cards.iter_mut().filter(|&&mut (card, _)| card == dimension) {
                *free = free.saturating_sub(amount);
            }
        }
        self
    }

    fn of_card(&self, dimension: u16) -> u64 {
        let dimension = usize::from(dimension);
        // The cards of one node mostly have consecutive dimensions.
        let first = self.cards.first().map_or(0, |&(first, _)| first);
        let guess = self.cards.get(dimension.wrapping_sub(first)).filter(|&&(card, _)| card == dimension);
        let known = guess.or_else(|| self.cards.iter().find(|&&(card, _)| card == dimension));
        known.map_or(0, |&(_, free)| free)
    }
}

/// The rise of a node's fragmentation by the task, in thousandths of a card times the parts of the mix. `None` if the
/// node has no cards.
fn fragmentation_rise(context: &ScoringContext<'_, '_>, mix: &Mix) -> Option<i64> {
    if context.overlay.nodes.cards_of(context.node).is_empty() {
        return None;
    }
    let before = Free::of(context.overlay, context.node);
    let of_before = fragmentation(context, mix, &before);
    let given = cards_given(context.overlay, &context.requirement.cards, context.node);
    let after = before.without(context.requirement, &given);
    Some(fragmentation(context, mix, &after) - of_before)
}

/// A node's fragmentation with these free amounts, times the parts of the mix.
fn fragmentation(context: &ScoringContext<'_, '_>, mix: &Mix, free: &Free) -> i64 {
    let sum: u64 = mix.tasks.iter().map(|task| task.part * fragment(context, task, free)).sum();
    i64::try_from(sum).unwrap_or(i64::MAX)
}

/// The free part of the cards that tasks of one kind could not use.
fn fragment(context: &ScoringContext<'_, '_>, task: &Typical, free: &Free) -> u64 {
    let mut fragment = 0;
    let mut fits = task.cpu_millis <= free.cpu_millis && task.memory_bytes <= free.memory_bytes;
    let mut all = 0;
    for ask in &task.cards {
        let Some((of_kind, selected)) = ask.of_node(context.overlay.nodes, context.node) else { continue };
        let each = ask.need.millis;
        let of_all: u64 = of_kind.iter().map(|&slot| free.of_card(slot)).sum();
        all += of_all;
        if !fits {
            continue;
        }
        let (mut count, mut usable) = (0, 0);
        for free in selected.iter().map(|&slot| free.of_card(slot)).filter(|&free| free >= each) {
            count += 1;
            usable += free;
        }
        fits = count >= ask.need.count;
        let asked = each.saturating_mul(ask.need.count);
        let usable = bounded(usable, asked, task.cpu_millis, free.cpu_millis);
        fragment += of_all - bounded(usable, asked, task.memory_bytes, free.memory_bytes);
    }
    if fits { fragment } else { all }
}

/// The usable part of cards, bounded by another dimension: [`DEPTH`] times what tasks that ask for `cards` and for
/// `amount` of the dimension find `free` of it.
fn bounded(usable: u64, cards: u64, amount: u64, free: u64) -> u64 {
    let supply = free.saturating_mul(cards).saturating_mul(DEPTH);
    // The division is needed for few nodes: mostly the dimension suffices.
    if supply < usable.saturating_mul(amount) { supply / amount.max(1) } else { usable }
}
