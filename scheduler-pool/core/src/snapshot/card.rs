//! Which cards nodes have. Nodes of one make share one layout, so that a class is held against each layout once and a
//! node is a number; how much of a card is taken stands in the column of the card's own dimension.

use std::collections::BTreeMap;

use borough_model::node::{Card, card_dimension};

use super::node::NodeTable;

/// A card, in the numbers of one snapshot.
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

/// The layouts in use, each with a number. They are not forgotten: there are as many as makes of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CardLayouts {
    numbers: BTreeMap<Box<[CardSlot]>, u32>,
    layouts: Vec<Box<[CardSlot]>>,
}

impl CardLayouts {
    fn interned(&mut self, layout: Box<[CardSlot]>) -> u32 {
        if let Some(&number) = self.numbers.get(&layout) {
            return number;
        }
        self.layouts.push(layout.clone());
        let number = u32::try_from(self.layouts.len()).unwrap_or(u32::MAX);
        self.numbers.insert(layout, number);
        number
    }

    /// Every layout, from number 1 on.
    pub fn all(&self) -> impl Iterator<Item = &[CardSlot]> {
        self.layouts.iter().map(|layout| &**layout)
    }
}

impl NodeTable {
    /// The number of a node's layout of cards; 0: it has none.
    pub fn card_layout(&self, node: u32) -> u32 {
        self.card_layouts_of.get(node as usize).copied().unwrap_or(0)
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
        let layout: Box<[CardSlot]> = cards.iter().filter_map(slot).collect();
        let layout = if layout.is_empty() { 0 } else { self.card_layouts.interned(layout) };
        self.card_layout_put(node, layout);
    }

    /// Nodes without cards behind the last that has any are left out of the column.
    pub(super) fn card_layout_put(&mut self, node: u32, layout: u32) {
        let index = node as usize;
        if self.card_layouts_of.len() <= index {
            if layout == 0 {
                return;
            }
            self.card_layouts_of.resize(index + 1, 0);
        }
        if let Some(entry) = self.card_layouts_of.get_mut(index) {
            *entry = layout;
        }
    }
}
