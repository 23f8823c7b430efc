//! Journal entries, the part of the store that every role reads all the time.
//!
//! Property: as that of rows.

use borough_model::JournalEntry;

use crate::{golden, rows};

/// One entry.
pub fn run(data: &[u8]) {
    rows::stable::<JournalEntry>(data);
}

/// Every pinned encoding of an entry.
pub fn corpus() -> Vec<Vec<u8>> {
    golden("journal_entry")
}
