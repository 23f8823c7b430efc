//! Tells whether a node could ever take a task: with nothing else on it.

use super::card::cards_ever;
use super::topology::within_ever;
use super::{FilterReason, Requirement};
use crate::overlay::PlanOverlay;

/// Returns true if the empty node is large enough.
pub(crate) fn large_enough(overlay: &PlanOverlay<'_>, requirement: &Requirement, node: u32) -> bool {
    let on_cards = |dimension: usize| requirement.cards.iter().any(|ask| ask.kind == dimension);
    let enough = |&(dimension, amount): &(usize, u64)| {
        on_cards(dimension) || amount <= overlay.nodes.limit(dimension, node)
    };
    requirement.missing.is_empty()
        && requirement.demand.iter().all(enough)
        && requirement.cards.iter().all(|ask| cards_ever(overlay, ask, node))
        && requirement.within.as_ref().is_none_or(|ask| within_ever(overlay, ask, node))
}

/// Returns true if a reason against a large enough node goes away when tasks end, there or elsewhere.
pub(crate) fn passes_with_time(refusal: FilterReason) -> bool {
    match refusal {
        FilterReason::Rule(_)
        | FilterReason::PortFixed(_)
        | FilterReason::PortCooling(_)
        | FilterReason::PortsDynamic
        | FilterReason::Free(_)
        | FilterReason::CardSelector(_)
        | FilterReason::CardBusy(_)
        | FilterReason::Within => true,
        FilterReason::Recovering
        | FilterReason::Lost
        | FilterReason::Cordoned
        | FilterReason::Draining
        | FilterReason::Taint(_)
        | FilterReason::Constraint(_)
        | FilterReason::Capacity(_)
        | FilterReason::Missing(_)
        | FilterReason::CardNever(_) => false,
    }
}

/// An upper bound of the equal tasks that an empty, open node could hold.
pub(crate) fn copies_empty(overlay: &PlanOverlay<'_>, requirement: &Requirement, node: u32) -> u64 {
    let meets = requirement.hard.iter().all(|constraint| constraint.met(overlay.nodes, node));
    if !meets || !large_enough(overlay, requirement, node) {
        return 0;
    }
    let on_cards = |dimension: usize| requirement.cards.iter().any(|ask| ask.kind == dimension);
    let of_dimension = requirement.demand.iter().filter(|&&(dimension, _)| !on_cards(dimension));
    let of_dimension =
        of_dimension.map(|&(dimension, amount)| overlay.nodes.limit(dimension, node) / amount.max(1));
    let of_fixed = (!requirement.ports_fixed.is_empty()).then_some(1);
    of_dimension.chain(of_fixed).min().unwrap_or(u64::MAX)
}
