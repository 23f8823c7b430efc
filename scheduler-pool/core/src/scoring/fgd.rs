//! Fragmentation gradient descent: the node on which the task adds least to what other tasks could not use of its cards
//! ("Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", ATC 2023, section
//! 4).
//!
//! The fragmentation of a node for one kind of task is all that is free of the node's cards where the task does not
//! fit, and where it does, what is free of those cards that it could not use; that of a node is the mean over the kinds
//! of task in the cell, by how many there are of each. Between nodes that are even one order decides for all tasks, so
//! that nodes are filled one after the other. Where no task of the cell uses cards the fullest node is best.

use smallvec::SmallVec;

use super::basis::Basis;
use super::best_fit::fullness;
use super::mix::{Mix, Typical};
use super::{Breadth, CellStats, Policy, ScoringContext};
use crate::filter::{Requirement, cards_given};
use crate::overlay::PlanOverlay;

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct Fgd;

/// Nodes that are scored for a class where the cell's tasks use cards.
const NODES: usize = 2_048;
/// What no node's fragmentation reaches, in thousandths of a card.
const ABOVE: i64 = 1 << 17;
/// Rises that differ by less than so many thousandths of a card are even. Finer distinctions scatter tasks over nodes
/// that are as good: on the trace of the paper a tenth packs best, and full resolution a point worse.
const EVEN: i64 = 100;

impl Policy for Fgd {
    fn breadth(&self, basis: &Basis) -> Breadth {
        if basis.mix.is_some() { Breadth::Nodes(NODES) } else { Breadth::Few }
    }

    fn basis(&self, stats: &CellStats<'_>, _requirement: &Requirement) -> Basis {
        Basis { mix: stats.mix().cloned(), ..Basis::default() }
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let Some(mix) = &context.basis.mix else { return fullness(context) };
        let fall = match fragmentation_rise(context, mix) {
            // Where there are no cards there is nothing to harm.
            None => 1,
            // In the units of the parts, so that what is even is exactly so; no harm at all is better than little.
            Some(rise) => (-rise).div_euclid(EVEN * mix.parts.max(1)),
        };
        u32::try_from((ABOVE + fall).max(0)).unwrap_or(u32::MAX)
    }
}

/// What is free of a node.
struct Free {
    cpu_millis: u64,
    memory_bytes: u64,
    /// By the dimension of the card.
    cards: SmallVec<[(usize, u64); 16]>,
}

impl Free {
    fn of(work: &PlanOverlay<'_>, node: u32) -> Self {
        let free = |dimension| work.nodes.limit(dimension, node).saturating_sub(work.used(dimension, node));
        let cards = work.nodes.cards_of(node).iter().map(|slot| usize::from(slot.dimension));
        Self {
            cpu_millis: free(0),
            memory_bytes: free(1),
            cards: cards.map(|dimension| (dimension, free(dimension))).collect(),
        }
    }

    /// What is left with the task.
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
        // The cards of one make mostly have dimensions in a row.
        let first = self.cards.first().map_or(0, |&(first, _)| first);
        let guess = self.cards.get(dimension.wrapping_sub(first)).filter(|&&(card, _)| card == dimension);
        let known = guess.or_else(|| self.cards.iter().find(|&&(card, _)| card == dimension));
        known.map_or(0, |&(_, free)| free)
    }
}

/// By how much a node's fragmentation rises with the task, in thousandths of a card times the parts of the mix. `None`
/// where it has no cards.
fn fragmentation_rise(context: &ScoringContext<'_, '_>, mix: &Mix) -> Option<i64> {
    if context.work.nodes.cards_of(context.node).is_empty() {
        return None;
    }
    let before = Free::of(context.work, context.node);
    let of_before = fragmentation(context, mix, &before);
    let given = cards_given(context.work, &context.requirement.cards, context.node);
    let after = before.without(context.requirement, &given);
    Some(fragmentation(context, mix, &after) - of_before)
}

/// A node's fragmentation with so much free, times the parts of the mix.
fn fragmentation(context: &ScoringContext<'_, '_>, mix: &Mix, free: &Free) -> i64 {
    let sum: u64 = mix.tasks.iter().map(|task| task.part * fragment(context, task, free)).sum();
    i64::try_from(sum).unwrap_or(i64::MAX)
}

/// What one kind of task could not use of the cards of its kind that are free.
fn fragment(context: &ScoringContext<'_, '_>, task: &Typical, free: &Free) -> u64 {
    let mut fragment = 0;
    let mut fits = task.cpu_millis <= free.cpu_millis && task.memory_bytes <= free.memory_bytes;
    let mut all = 0;
    for ask in &task.cards {
        let Some((of_kind, selected)) = ask.of_node(context.work.nodes, context.node) else { continue };
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
        fragment += of_all - usable;
    }
    if fits { fragment } else { all }
}
