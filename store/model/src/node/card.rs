//! Cards: the single devices of a node, such as the graphics cards it has, and which of them a task gets.
//!
//! Each card is a dimension of its own beside that of its kind: `gpu/1` is the card of place 1, and its thousandths are
//! charged to both. So whatever adds, compares and gives back resources keeps every card, and no two placements that
//! were decided at once share more of one than it has.

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
    /// What it is: `gpu`.
    #[n(0)]
    pub kind: String,
    /// Its place among the node's cards of its kind, from 0.
    #[n(1)]
    pub place: u32,
    /// What tasks know it by on the node: its number or unique name, as the driver has it.
    #[n(2)]
    pub id: String,
    /// Its model, such as `A100`; empty where it is not known.
    #[n(3)]
    pub model: String,
    /// Its memory in bytes; 0 where it is not known.
    #[n(4)]
    pub memory_bytes: u64,
}

/// Which cards of a kind will do.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct CardSelector {
    /// Of one of these models; none: of any.
    #[n(0)]
    #[serde(default)]
    pub models: Vec<String>,
    /// With at least so many bytes of memory.
    #[n(1)]
    #[serde(default)]
    pub memory_bytes_min: u64,
}

impl CardSelector {
    /// Whether a card of this model and memory will do.
    pub fn selects(&self, model: &str, memory_bytes: u64) -> bool {
        let of_model = self.models.is_empty() || self.models.iter().any(|listed| listed == model);
        of_model && memory_bytes >= self.memory_bytes_min
    }

    /// Whether any card will do.
    pub fn is_any(&self) -> bool {
        self.models.is_empty() && self.memory_bytes_min == 0
    }
}

/// What is asked of cards of one kind: a share of one, or several whole ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardNeed {
    /// How many cards.
    pub count: u64,
    /// Thousandths of each.
    pub millis: u64,
}

impl CardNeed {
    /// What an amount of a kind asks for: up to a whole one it is a share of one card, above it is whole cards.
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

/// A node's capacity with a dimension for each card, and with as many whole devices of a kind as there are cards of it.
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
    /// The same without dimensions of single cards: what an owner asked for, and is charged for.
    pub fn without_cards(&self) -> Self {
        let mut asked = self.clone();
        asked.device_millis.retain(|dimension, _| card_of_dimension(dimension).is_none());
        asked
    }

    /// The cards it takes, as kind, place and thousandths, in order.
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
