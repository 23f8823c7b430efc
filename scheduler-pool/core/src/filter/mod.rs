//! Filters decide whether a node can take a task (Kubernetes: predicates). Plan, victim search, dry run and explanation
//! all call them. A plan stops at the first refusal, and an explanation visits all of them.

mod card;
mod constraint;
mod large;
mod package;
mod port;
mod requirement;
mod rule;
mod taint;
mod topology;

use std::ops::ControlFlow;

pub(crate) use card::{CardAsk, card_asks, cards_given, cards_most};
pub(crate) use large::{copies_empty, large_enough, passes_with_time};
pub(crate) use port::{ports_dynamic_free, ports_given};
pub(crate) use requirement::Requirement;
pub(crate) use rule::rule_held;
pub(crate) use topology::within_given;

use card::CardRefusal;

use crate::overlay::PlanOverlay;
use crate::tables::{NodeGate, NodeTable};

/// A reason to refuse a node, in the order in which filters run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FilterReason {
    Recovering,
    Lost,
    Cordoned,
    Draining,
    /// A taint without a toleration, by its number.
    Taint(u32),
    /// The n-th hard constraint.
    Constraint(u16),
    /// The n-th rule between tasks.
    Rule(u16),
    PortFixed(u16),
    /// The fixed port has no task any more, and cools down.
    PortCooling(u16),
    PortsDynamic,
    /// The empty node has too little of a dimension.
    Capacity(u16),
    /// No node has a device of the n-th requested kind.
    Missing(u16),
    /// The node has too little of a dimension free.
    Free(u16),
    /// Only cards that the selector of the n-th request excludes are free.
    CardSelector(u16),
    /// The empty node has too few cards for the n-th request.
    CardNever(u16),
    /// Too much of the cards of the n-th request is taken.
    CardBusy(u16),
    /// No socket or NUMA domain has enough free, or the node reports none.
    Within,
}

/// Filters that no placement changes: the state of the node, its taints and its attributes.
pub(crate) fn refusals_fixed<B>(
    nodes: &NodeTable,
    requirement: &Requirement,
    node: u32,
    mut visit: impl FnMut(FilterReason) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match nodes.gate(node) {
        NodeGate::Open => {}
        NodeGate::Unknown | NodeGate::Recovering => visit(FilterReason::Recovering)?,
        NodeGate::Lost => visit(FilterReason::Lost)?,
        NodeGate::Cordoned if requirement.cordoned => {}
        NodeGate::Cordoned => visit(FilterReason::Cordoned)?,
        NodeGate::Draining => visit(FilterReason::Draining)?,
    }
    for &taint in requirement.taints.refusing(nodes, node) {
        visit(FilterReason::Taint(taint))?;
    }
    for (constraint, number) in requirement.hard.iter().zip(0u16..) {
        if !constraint.met(nodes, node) {
            visit(FilterReason::Constraint(number))?;
        }
    }
    ControlFlow::Continue(())
}

/// Filters that placements change: rules between tasks, ports and resources.
pub(crate) fn refusals_moving<B>(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    now_ms: i64,
    mut visit: impl FnMut(FilterReason) -> ControlFlow<B>,
) -> ControlFlow<B> {
    rule::refusals(overlay, requirement, node, |_| true, &mut visit)?;
    ports_and_resources(overlay, requirement, node, now_ms, visit)
}

fn ports_and_resources<B>(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    now_ms: i64,
    mut visit: impl FnMut(FilterReason) -> ControlFlow<B>,
) -> ControlFlow<B> {
    port::refusals(overlay, requirement, node, now_ms, &mut visit)?;
    let dimension_number = |dimension: usize| u16::try_from(dimension).unwrap_or(u16::MAX);
    // If a node lists its cards, the card filter decides about their kind.
    let on_cards = |dimension: usize| {
        requirement.cards.iter().any(|ask| ask.kind == dimension && ask.applies(overlay.nodes, node))
    };
    for &(dimension, amount) in &requirement.demand {
        if amount > overlay.nodes.limit(dimension, node) && !on_cards(dimension) {
            visit(FilterReason::Capacity(dimension_number(dimension)))?;
        }
    }
    for (_, number) in requirement.missing.iter().zip(0u16..) {
        visit(FilterReason::Missing(number))?;
    }
    for &(dimension, amount) in &requirement.demand {
        let limit = overlay.nodes.limit(dimension, node);
        let short = amount <= limit && amount > limit.saturating_sub(overlay.used(dimension, node));
        if short && !on_cards(dimension) {
            visit(FilterReason::Free(dimension_number(dimension)))?;
        }
    }
    for (ask, number) in requirement.cards.iter().zip(0u16..) {
        match card::card_refusal(overlay, ask, node) {
            None => {}
            Some(CardRefusal::Selector) => visit(FilterReason::CardSelector(number))?,
            Some(CardRefusal::Never) => visit(FilterReason::CardNever(number))?,
            Some(CardRefusal::Busy) => visit(FilterReason::CardBusy(number))?,
        }
    }
    if requirement.within.as_ref().is_some_and(|ask| within_given(overlay, ask, node).is_none()) {
        visit(FilterReason::Within)?;
    }
    ControlFlow::Continue(())
}

/// Visits every reason against a node, in filter order.
pub(crate) fn refusals<B>(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    now_ms: i64,
    mut visit: impl FnMut(FilterReason) -> ControlFlow<B>,
) -> ControlFlow<B> {
    refusals_fixed(overlay.nodes, requirement, node, &mut visit)?;
    refusals_moving(overlay, requirement, node, now_ms, &mut visit)
}

/// Returns true if a node is a candidate: it fits now, or would fit once other domains have more tasks.
pub(crate) fn fits_in_time(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    now_ms: i64,
) -> bool {
    if !resources_free(overlay, requirement, node) {
        return false;
    }
    let mut visit = ControlFlow::Break;
    refusals_fixed(overlay.nodes, requirement, node, &mut visit).is_continue()
        && rule::refusals(overlay, requirement, node, |rule| !rule.recovers(), &mut visit).is_continue()
        && ports_and_resources(overlay, requirement, node, now_ms, visit).is_continue()
}

/// Returns true if a node takes tasks and has enough resources free. It is the cheapest check and refuses most nodes,
/// so it runs first.
fn resources_free(overlay: &PlanOverlay<'_>, requirement: &Requirement, node: u32) -> bool {
    let short = |&(dimension, amount): &(usize, u64)| {
        let limit = overlay.nodes.limit(dimension, node);
        amount > limit.saturating_sub(overlay.used(dimension, node))
    };
    requirement.admits(overlay.nodes.gate(node)) && !requirement.demand.iter().any(short)
}

/// Returns true if no filter refuses a node. The cheapest check comes first.
pub(crate) fn fits(overlay: &PlanOverlay<'_>, requirement: &Requirement, node: u32, now_ms: i64) -> bool {
    if !resources_free(overlay, requirement, node) {
        return false;
    }
    refusals(overlay, requirement, node, now_ms, ControlFlow::Break).is_continue()
}

/// Returns true if a node has the ports and resources. The caller knows that the other filters pass.
pub(crate) fn fits_moving(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    now_ms: i64,
) -> bool {
    ports_and_resources(overlay, requirement, node, now_ms, ControlFlow::Break).is_continue()
}

/// How many equal tasks fit a node together.
pub(crate) fn copies(overlay: &PlanOverlay<'_>, requirement: &Requirement, node: u32, now_ms: i64) -> u64 {
    if !fits(overlay, requirement, node, now_ms) {
        return 0;
    }
    let of_dimension = |&(dimension, amount): &(usize, u64)| {
        let free = overlay.nodes.limit(dimension, node).saturating_sub(overlay.used(dimension, node));
        free / amount.max(1)
    };
    let of_fixed = (!requirement.ports_fixed.is_empty()).then_some(1);
    let of_dynamic = (requirement.ports_dynamic > 0).then(|| {
        let free = ports_dynamic_free(overlay, requirement, node, now_ms) as u64;
        free / u64::from(requirement.ports_dynamic)
    });
    let of_cards = requirement.cards.iter().filter_map(|ask| card::cards_copies(overlay, ask, node));
    let of_places = requirement.within.as_ref().map(|ask| topology::within_copies(overlay, ask, node));
    let of_cards = of_cards.chain(of_places);
    let least =
        requirement.demand.iter().map(of_dimension).chain(of_fixed).chain(of_dynamic).chain(of_cards).min();
    least.unwrap_or(u64::MAX)
}
