//! Stored rows of the journal.

use minicbor::{Decode, Encode};

use super::Cursor;

/// Most bytes of an entry in one part: 90 kB of the store's value limit of 100 kB, which leaves the rest for the frame.
pub const PART_BYTES_MAX: usize = 90_000;

/// A part of an entry: a piece of its CBOR.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JournalPart {
    /// The number of parts of the entry.
    #[n(0)]
    pub parts: u32,
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
}

/// The position up to which entries were trimmed. Written with the trim, and read by every tail with a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JournalFloor {
    /// The last removed entry. A reader that has seen it can continue.
    #[n(0)]
    pub trimmed_to: Cursor,
    /// Wall time of the trim, milliseconds since 1970.
    #[n(1)]
    pub at_ms: i64,
}
