//! The journal: one entry per mutating transaction, in the order of commits.
//!
//! A [`ChangeSet`] collects the deltas of one transaction and appends them as one entry at a versionstamped key, in
//! parts below the store's value limit. Deltas are absolute and carry their row's revision. The journal never contains
//! liveness and lease heartbeats.

mod before;
mod change;
mod list;
mod meter;
mod shared;
mod tail;
#[cfg(test)]
mod tests;
mod trim;

pub use before::{PageBefore, journal_before};
pub use change::{Change, ChangeSet, OpenChanges};
pub use list::{CHUNK_ROWS, Listed, cell_list_chunked};
pub use meter::{JournalLook, JournalMeter};
pub use shared::JournalShare;
pub(crate) use tail::journal_tail_by;
pub use tail::{Page, journal_head, journal_tail, journal_tail_shared, journal_watch};
pub use trim::{JournalCutoff, TrimGoal, journal_cutoff, journal_floor, journal_trim, trim_cutoff};

pub use crate::row::{Cursor, CursorParseError, JournalFloor, JournalPart, PART_BYTES_MAX};
