//! The card filter. A task asks for a share of one card or for several complete cards, and its selector excludes cards
//! of other models.

use std::collections::BTreeMap;

use borough_model::node::{CARD_MILLIS, CardNeed, CardSelector};
use smallvec::SmallVec;

use crate::overlay::PlanOverlay;
use crate::tables::{CardSlot, NodeTable};

/// The dimensions of cards, in the order of their places.
type Slots = SmallVec<[u16; 8]>;

/// A request for cards of one kind.
#[derive(Clone, Debug)]
pub(crate) struct CardAsk {
    /// The dimension of the kind.
    pub kind: usize,
    pub need: CardNeed,
    /// The requested amount of the kind.
    millis: u64,
    /// True if the selector accepts every card, and so also a node that only counts its devices.
    any: bool,
    /// Per layout, from number 1: its cards of the kind, and those that the selector accepts.
    slots: Vec<(Slots, Slots)>,
}

/// Why a node's cards do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CardRefusal {
    /// Cards that the selector excludes would fit.
    Selector,
    /// The empty node has too few.
    Never,
    /// Too much of them is taken.
    Busy,
}

impl CardAsk {
    pub(crate) fn of(kind: usize, millis: u64, selector: Option<&CardSelector>, nodes: &NodeTable) -> Self {
        let of_layout = |layout: &[CardSlot]| {
            let of_kind = || layout.iter().filter(|slot| usize::from(slot.kind) == kind);
            let selected = |slot: &&CardSlot| {
                selector.is_none_or(|selector| selector.selects(&slot.model, slot.memory_bytes))
            };
            let all = of_kind().map(|slot| slot.dimension).collect();
            (all, of_kind().filter(selected).map(|slot| slot.dimension).collect())
        };
        let any = selector.is_none_or(CardSelector::is_any);
        let slots = nodes.card_layouts.all().map(of_layout).collect();
        Self { kind, need: CardNeed::of(millis), millis, any, slots }
    }

    /// The cards of the kind on a node, and those that the selector accepts. `None` if the node has none, or only
    /// counts its devices.
    pub(crate) fn of_node(&self, nodes: &NodeTable, node: u32) -> Option<&(Slots, Slots)> {
        let layout = nodes.card_layouts.of(node).checked_sub(1)?;
        self.slots.get(layout as usize).filter(|(all, _)| !all.is_empty())
    }

    /// Returns true if the request is checked against single cards. On a node that only counts its devices any of them
    /// will do, except under a selector.
    pub(crate) fn applies(&self, nodes: &NodeTable, node: u32) -> bool {
        !self.any || self.of_node(nodes, node).is_some()
    }
}

/// How much of the kind is free. Promises can make it less than the free part of its cards. A promised card counts for
/// the victim and for the preemptor until the victim has gone.
fn kind_free(overlay: &PlanOverlay<'_>, ask: &CardAsk, node: u32) -> u64 {
    overlay.nodes.limit(ask.kind, node).saturating_sub(overlay.used(ask.kind, node))
}

fn free(overlay: &PlanOverlay<'_>, node: u32, slot: u16) -> u64 {
    let dimension = usize::from(slot);
    overlay.nodes.limit(dimension, node).saturating_sub(overlay.used(dimension, node))
}

/// The cards of a node that a task gets; `None` if they are too few. A share goes to the fullest card that fits, so
/// that complete cards stay free. Otherwise the first free cards are taken.
fn picked(overlay: &PlanOverlay<'_>, ask: &CardAsk, node: u32, slots: &Slots) -> Option<Slots> {
    let fitting = slots.iter().copied().filter(|&slot| free(overlay, node, slot) >= ask.need.millis);
    let count = usize::try_from(ask.need.count).ok()?;
    let picked: Slots = if ask.need.millis < CARD_MILLIS {
        // Of equal cards the first one wins. Dimensions cannot break ties, because their numbers depend on the order of
        // arrival.
        fitting.min_by_key(|&slot| free(overlay, node, slot)).into_iter().collect()
    } else {
        fitting.take(count).collect()
    };
    (picked.len() == count).then_some(picked)
}

/// The refusal of a node that only counts its devices. A selector cannot be checked there.
fn counted_refusal(overlay: &PlanOverlay<'_>, ask: &CardAsk, node: u32) -> Option<CardRefusal> {
    let limit = overlay.nodes.limit(ask.kind, node);
    let free = kind_free(overlay, ask, node);
    if ask.any {
        None
    } else if limit < ask.millis {
        Some(CardRefusal::Never)
    } else if free < ask.millis {
        Some(CardRefusal::Busy)
    } else {
        Some(CardRefusal::Selector)
    }
}

/// Why the cards of a node do not fit now; `None` if they do.
pub(crate) fn card_refusal(overlay: &PlanOverlay<'_>, ask: &CardAsk, node: u32) -> Option<CardRefusal> {
    let Some((all, selected)) = ask.of_node(overlay.nodes, node) else {
        return counted_refusal(overlay, ask, node);
    };
    if picked(overlay, ask, node, selected).is_some() {
        return (kind_free(overlay, ask, node) < ask.millis).then_some(CardRefusal::Busy);
    }
    let count = usize::try_from(ask.need.count).unwrap_or(usize::MAX);
    Some(if selected.len() < all.len() && picked(overlay, ask, node, all).is_some() {
        CardRefusal::Selector
    } else if selected.len() < count {
        CardRefusal::Never
    } else {
        CardRefusal::Busy
    })
}

/// The dimensions of the cards that a task gets on a node, with the amount of each.
pub(crate) fn cards_given(
    overlay: &PlanOverlay<'_>,
    asks: &[CardAsk],
    node: u32,
) -> SmallVec<[(usize, u64); 2]> {
    let of_ask = |ask: &CardAsk| {
        let (_, selected) = ask.of_node(overlay.nodes, node)?;
        let picked = picked(overlay, ask, node, selected)?;
        let millis = ask.need.millis;
        Some(picked.into_iter().map(move |slot| (usize::from(slot), millis)))
    };
    asks.iter().filter_map(of_ask).flatten().collect()
}

/// The largest request for cards that would fit a node now: complete ones, otherwise a share of the emptiest, but no
/// more than is free of the kind.
pub(crate) fn cards_most(overlay: &PlanOverlay<'_>, ask: &CardAsk, node: u32) -> Option<u64> {
    let (_, selected) = ask.of_node(overlay.nodes, node)?;
    let kind = kind_free(overlay, ask, node);
    let complete = selected.iter().filter(|&&slot| free(overlay, node, slot) >= CARD_MILLIS).count() as u64;
    let complete = complete.min(kind / CARD_MILLIS);
    let share = selected.iter().map(|&slot| free(overlay, node, slot)).max().unwrap_or(0);
    Some(if complete > 0 { complete.saturating_mul(CARD_MILLIS) } else { share.min(kind) })
}

/// Returns true if a node's cards would do if all were free.
pub(crate) fn cards_ever(overlay: &PlanOverlay<'_>, ask: &CardAsk, node: u32) -> bool {
    match ask.of_node(overlay.nodes, node) {
        Some((_, selected)) => selected.len() as u64 >= ask.need.count,
        None => ask.any && overlay.nodes.limit(ask.kind, node) >= ask.millis,
    }
}

/// How many equal tasks fit the free cards of a node together.
pub(crate) fn cards_copies(overlay: &PlanOverlay<'_>, ask: &CardAsk, node: u32) -> Option<u64> {
    let (_, selected) = ask.of_node(overlay.nodes, node)?;
    let each = ask.need.millis.max(1);
    let fitting: u64 = selected.iter().map(|&slot| free(overlay, node, slot) / each).sum();
    Some(fitting / ask.need.count.max(1))
}

/// The requests for cards, one per kind.
pub(crate) fn card_asks(
    demand: &[(usize, u64)],
    selectors: &BTreeMap<String, CardSelector>,
    nodes: &NodeTable,
) -> SmallVec<[CardAsk; 1]> {
    let ask = |&(dimension, millis): &(usize, u64)| {
        let kind = nodes.kind(dimension)?;
        Some(CardAsk::of(dimension, millis, selectors.get(kind), nodes))
    };
    demand.iter().filter_map(ask).collect()
}
