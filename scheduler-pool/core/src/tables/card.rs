//! Which cards nodes have; how much of a card is taken stands in the column of the card's own dimension.

use borough_model::node::{Card, card_dimension};

use super::node::NodeTable;

/// A card, in the numbers of one tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CardSlot {
    /// The dimension of its kind.
    pub kind: u16,
    /// Its own dimension.
    pub dimension: u16,
    /// Its model, as text; empty where it is not known.
    pub model: Box<str>,
    pub memory_bytes: u64,
}

impl NodeTable {
    /// The cards of a node, in the order of their places; none where it only counts its devices.
    pub fn cards_of(&self, node: u32) -> &[CardSlot] {
        self.card_layouts.layout_of(node).unwrap_or(&[])
    }

    /// Takes in a node's cards. Their dimensions are known by then.
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
