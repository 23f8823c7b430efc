//! Single devices of nodes, and which of them will do.

use borough_model::TaskRow;
use borough_model::node::{Card, NodeRow};

use crate::v1;

/// A card as a message.
pub fn card_to_message(card: &Card) -> v1::Card {
    v1::Card {
        kind: card.kind.clone(),
        place: card.place,
        id: card.id.clone(),
        model: card.model.clone(),
        memory_bytes: card.memory_bytes,
    }
}

/// A card that an agent has found.
pub fn card_from_message(message: &v1::Card) -> Card {
    Card {
        kind: message.kind.clone(),
        place: message.place,
        id: message.id.clone(),
        model: message.model.clone(),
        memory_bytes: message.memory_bytes,
    }
}

/// The cards of its node that an attempt has. One that the node has no more is left out.
pub fn cards_assigned(row: &TaskRow, node: &NodeRow) -> Vec<v1::AssignedCard> {
    let taken = row.charge.resources.cards();
    let assigned = |(kind, place, millis): (&str, u32, u64)| {
        let card = node.cards.iter().find(|card| card.kind == kind && card.place == place)?;
        Some(v1::AssignedCard { card: Some(card_to_message(card)), millis })
    };
    taken.into_iter().filter_map(assigned).collect()
}
