//! The journal: one entry per mutating transaction, in the order of commits.
//!
//! A [`ChangeSet`] collects the deltas of one transaction and appends them as one entry at a versionstamped key, in
//! parts below the store's value limit. Deltas are absolute and carry their row's revision. The journal never contains
//! liveness and lease heartbeats.

mod change;
mod cursor;
mod list;
mod row;
mod shared;
mod tail;
#[cfg(test)]
mod tests;
mod trim;

pub(crate) use change::gate_read;
pub use change::{Change, ChangeSet, OpenChanges};
pub use cursor::{Cursor, CursorParseError};
pub use list::{CHUNK_ROWS, Listed, cell_list_chunked};
pub use row::{JournalFloor, JournalPart, PART_BYTES_MAX};
pub use shared::JournalShare;
pub use tail::{Page, journal_head, journal_tail, journal_tail_shared, journal_watch};
pub use trim::{
    journal_bytes, journal_cutoff, journal_cutoff_bytes, journal_floor, journal_trim, trim_cutoff,
};
