//! What is stored of the journal.

use minicbor::{Decode, Encode};

use super::Cursor;

/// Bytes of an entry in one part at most: below the store's value limit with room for the rest.
pub const PART_BYTES_MAX: usize = 90_000;

/// A part of an entry: a piece of its CBOR.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JournalPart {
    /// How many parts the entry has.
    #[n(0)]
    pub parts: u32,
    /// The piece.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
}

/// Up to where entries were trimmed. Written with the trim, and read by every tail with a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JournalFloor {
    /// The last entry that is gone; whoever has seen it can go on.
    #[n(0)]
    pub trimmed_to: Cursor,
    /// Wall time of the trim, milliseconds since 1970.
    #[n(1)]
    pub at_ms: i64,
}
