//! Decoded entries, shared by the readers of one process that follow the same journal.
//!
//! Each worker of a process reads the journal at its own version, and reads every key of it. Only the decoding is
//! shared. An entry never changes once it is written, so it may be shared for any time.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::JournalEntry;
use parking_lot::Mutex;

use super::Cursor;

/// Stored bytes of the entries that are kept.
const BYTES_KEPT: usize = 16_000_000;

/// An entry, with its size in the journal.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub entry: Arc<JournalEntry>,
    pub parts: u32,
    pub bytes: usize,
}

/// The newest entries of one cell's journal, decoded. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct JournalShare {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: BTreeMap<Cursor, Stored>,
    bytes: usize,
}

impl JournalShare {
    pub(super) fn get(&self, at: Cursor) -> Option<Stored> {
        self.kept.lock().entries.get(&at).cloned()
    }

    pub(super) fn put(&self, at: Cursor, stored: Stored) {
        let mut kept = self.kept.lock();
        kept.bytes += stored.bytes;
        if let Some(before) = kept.entries.insert(at, stored) {
            kept.bytes -= before.bytes;
        }
        while kept.bytes > BYTES_KEPT {
            let Some((_, oldest)) = kept.entries.pop_first() else { break };
            kept.bytes -= oldest.bytes;
        }
    }

    /// Counts the kept entries.
    pub fn count(&self) -> usize {
        self.kept.lock().entries.len()
    }
}
