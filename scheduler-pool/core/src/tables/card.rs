//! The cards of nodes. Each card has a dimension of its own; the node table's column of that dimension holds how much
//! of the card is taken.

use borough_model::node::{Card, card_dimension};

use super::node::NodeTable;

/// A card of a node, with interned dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CardSlot {
    /// The dimension of its kind.
    pub kind: u16,
    pub dimension: u16,
    /// Empty if unknown.
    pub model: Box<str>,
    pub memory_bytes: u64,
}

impl NodeTable {
    /// The cards of a node, in the order of their places. Empty if the node only counts its devices.
    pub(crate) fn cards_of(&self, node: u32) -> &[CardSlot] {
        self.card_layouts.layout_of(node).unwrap_or(&[])
    }

    /// Stores a node's cards. The caller has interned their dimensions.
    pub(super) fn cards_put(&mut self, node: u32, cards: &[Card]) {
        let number = |dimension: Option<usize>| u16::try_from(dimension?).ok();
        let slot = |card: &Card| {
            Some(CardSlot {
                kind: number(self.kind_dimension(&card.kind))?,
                dimension: number(self.kind_dimension(&card_dimension(&card.kind, card.place)))?,
                model: card.model.as_str().into(),
                memory_bytes: card.memory_bytes,
            })
        };
        let layout = cards.iter().filter_map(slot).collect();
        self.card_layouts.put(node, layout);
    }
}
