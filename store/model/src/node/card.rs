//! Cards: the single devices of a node, such as graphics cards, and which of them a task gets.
//!
//! Each card is a dimension of its own besides that of its kind: `gpu/1` is the card of place 1, and its thousandths
//! are charged to both. Arithmetic on resources therefore covers every card, and concurrent placements cannot
//! overcommit one.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::resource::Resources;

/// Most cards of a node.
pub const CARDS_MAX: usize = 128;
/// The thousandths of a whole card.
pub const CARD_MILLIS: u64 = 1000;

/// One card of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Card {
    /// Such as `gpu`.
    #[n(0)]
    pub kind: String,
    /// Its place among the node's cards of its kind, from 0.
    #[n(1)]
    pub place: u32,
    /// Its name for tasks on the node: its number or unique name in the driver.
    #[n(2)]
    pub id: String,
    /// Such as `A100`; empty if unknown.
    #[n(3)]
    pub model: String,
    /// In bytes; 0 if unknown.
    #[n(4)]
    pub memory_bytes: u64,
}

/// Which cards of a kind are acceptable.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct CardSelector {
    /// One of these models; empty: any.
    #[n(0)]
    #[serde(default)]
    pub models: Vec<String>,
    /// At least so many bytes of memory.
    #[n(1)]
    #[serde(default)]
    pub memory_bytes_min: u64,
}

impl CardSelector {
    /// Returns true if a card of this model and memory is acceptable.
    pub fn selects(&self, model: &str, memory_bytes: u64) -> bool {
        let of_model = self.models.is_empty() || self.models.iter().any(|listed| listed == model);
        of_model && memory_bytes >= self.memory_bytes_min
    }

    /// Returns true if any card is acceptable.
    pub fn is_any(&self) -> bool {
        self.models.is_empty() && self.memory_bytes_min == 0
    }
}

/// A request for cards of one kind: a share of one, or several whole ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardNeed {
    pub count: u64,
    pub millis: u64,
}

impl CardNeed {
    /// The request of an amount: up to a whole card it is a share of one, above it is whole cards.
    pub fn of(millis: u64) -> Self {
        match millis {
            0..=CARD_MILLIS => Self { count: u64::from(millis > 0), millis },
            more => Self { count: more.div_ceil(CARD_MILLIS), millis: CARD_MILLIS },
        }
    }
}

/// The dimension of one card.
pub fn card_dimension(kind: &str, place: u32) -> String {
    format!("{kind}/{place}")
}

/// The kind and place of a card's dimension; `None` for that of a whole kind.
pub fn card_of_dimension(dimension: &str) -> Option<(&str, u32)> {
    let (kind, place) = dimension.rsplit_once('/')?;
    Some((kind, place.parse().ok()?))
}

/// A node's capacity with a dimension for each card, and as many whole devices of a kind as it has cards.
pub fn cards_counted(capacity: &Resources, cards: &[Card]) -> Resources {
    let mut counted = capacity.clone();
    counted.device_millis.retain(|dimension, _| card_of_dimension(dimension).is_none());
    for card in cards {
        counted.device_millis.insert(card.kind.clone(), 0);
    }
    for card in cards {
        if let Some(total) = counted.device_millis.get_mut(&card.kind) {
            *total = total.saturating_add(CARD_MILLIS);
        }
        counted.device_millis.insert(card_dimension(&card.kind, card.place), CARD_MILLIS);
    }
    counted
}

impl Resources {
    /// The same without dimensions of single cards: the amount that an owner requested, and is charged for.
    pub fn without_cards(&self) -> Self {
        let mut asked = self.clone();
        asked.device_millis.retain(|dimension, _| card_of_dimension(dimension).is_none());
        asked
    }

    /// Its cards, as kind, place and thousandths, in order.
    pub fn cards(&self) -> Vec<(&str, u32, u64)> {
        let mut cards: Vec<(&str, u32, u64)> = self
            .device_millis
            .iter()
            .filter_map(|(dimension, &millis)| {
                let (kind, place) = card_of_dimension(dimension)?;
                Some((kind, place, millis))
            })
            .collect();
        cards.sort_unstable();
        cards
    }
}
