//! The charge of a task: its request, and what is chosen for it on the node, such as cards.

use std::borrow::Cow;

use borough_model::Resources;
use smallvec::SmallVec;

use crate::filter::{Requirement, cards_given, within_given};
use crate::overlay::PlanOverlay;

/// Amounts by dimension.
type Demand = SmallVec<[(usize, u64); 6]>;

/// A charge, and the same by dimension.
type Charged<'r> = (Resources, Cow<'r, [(usize, u64)]>);

/// The charge on a node of a task that asks for `resources`, and the same by dimension. `None` if the cards or the
/// domain that it needs are not free.
pub(super) fn charge_on<'r>(
    overlay: &PlanOverlay<'_>,
    requirement: &'r Requirement,
    resources: &Resources,
    node: u32,
) -> Option<Charged<'r>> {
    let mut charge = resources.clone();
    if !requirement.chooses() {
        return Some((charge, Cow::Borrowed(&requirement.demand)));
    }
    let mut demand: Demand = requirement.demand.clone();
    let within = match &requirement.within {
        Some(ask) => within_given(overlay, ask, node)?,
        None => Default::default(),
    };
    for (dimension, amount) in cards_given(overlay, &requirement.cards, node).into_iter().chain(within) {
        charge.device_millis.insert(overlay.nodes.kind(dimension)?.to_owned(), amount);
        demand.push((dimension, amount));
    }
    Some((charge, Cow::Owned(demand.into_vec())))
}
