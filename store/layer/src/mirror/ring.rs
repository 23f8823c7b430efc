//! The last entries of the journal, so that an interrupted watch continues without a read of the store.

use crate::row::Cursor;
use std::collections::VecDeque;
use std::sync::Arc;

use borough_model::JournalEntry;

/// The entries after `from`, without a gap, up to the last applied one.
#[derive(Debug)]
pub(super) struct Ring {
    from: Cursor,
    entries: VecDeque<(Cursor, Arc<JournalEntry>)>,
    deltas: usize,
    deltas_max: usize,
}

impl Ring {
    /// An empty ring that begins at `from` and keeps about `deltas_max` deltas.
    pub(super) fn new(from: Cursor, deltas_max: usize) -> Self {
        Self { from, entries: VecDeque::new(), deltas: 0, deltas_max }
    }

    /// Adds the next entry, and drops the oldest ones beyond the ring's size.
    pub(super) fn push(&mut self, cursor: Cursor, entry: Arc<JournalEntry>) {
        self.deltas = self.deltas.saturating_add(entry.deltas.len().max(1));
        self.entries.push_back((cursor, entry));
        while self.deltas > self.deltas_max {
            let Some((cursor, entry)) = self.entries.pop_front() else { return };
            self.deltas = self.deltas.saturating_sub(entry.deltas.len().max(1));
            self.from = cursor;
        }
    }

    /// The next entries after `after`, of about `deltas_max` deltas in all, and at least one if there is one. `None` if
    /// the oldest of them may have been dropped.
    pub(super) fn after(&self, after: Cursor, deltas_max: usize) -> Option<RingPart> {
        if after.store_epoch != self.from.store_epoch || after < self.from {
            return None;
        }
        let first = self.entries.partition_point(|(cursor, _)| *cursor <= after);
        let mut deltas = 0_usize;
        let fits = |(_, entry): &&(Cursor, Arc<JournalEntry>)| {
            let fits = deltas < deltas_max;
            deltas = deltas.saturating_add(entry.deltas.len().max(1));
            fits
        };
        let entries: Vec<_> = self.entries.range(first..).take_while(fits).cloned().collect();
        let is_more = first.saturating_add(entries.len()) < self.entries.len();
        Some(RingPart { entries, is_more })
    }
}

/// Some entries of a ring, in order.
pub(super) struct RingPart {
    pub(super) entries: Vec<(Cursor, Arc<JournalEntry>)>,
    /// The ring has more after them.
    pub(super) is_more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use borough_kv::Versionstamp;
    use borough_model::{Delta, JobId, RequestId};
    use proptest::prelude::*;

    proptest! {
        /// Whatever is pushed, the ring returns exactly the entries after a position, or nothing.
        #[test]
        fn gives_all_after_a_position_or_nothing(sizes in prop::collection::vec(0..6_usize, 0..30), at in 0..70_i64) {
            let at_version = |version| Cursor { store_epoch: 1, stamp: Versionstamp::new(version, 0) };
            let mut ring = Ring::new(at_version(1), 20);
            let mut all = Vec::new();
            for (version, size) in (1_i64..).map(|n| n * 2 + 1).zip(sizes) {
                let deltas = vec![Delta::JobRemoved { job: JobId(0), name: None }; size];
                let entry = JournalEntry {
                    request: RequestId(0), actor: String::new(), action: String::new(), at_ms: version, deltas, values: None, calls: None,
                };
                ring.push(at_version(version), Arc::new(entry));
                all.push(version);
                prop_assert!(ring.deltas <= 20);
            }
            let expected: Vec<_> = all.iter().copied().filter(|version| *version > at).collect();
            let (mut found, mut from) = (Vec::new(), at_version(at));
            loop {
                let Some(part) = ring.after(from, 7) else {
                    prop_assert!(at_version(at) < ring.from);
                    break;
                };
                let deltas: usize = part.entries.iter().map(|(_, entry)| entry.deltas.len().max(1)).sum();
                prop_assert!(deltas < 7 + 6 && (!part.is_more || deltas >= 7));
                found.extend(part.entries.iter().map(|(_, entry)| entry.at_ms));
                from = part.entries.last().map_or(from, |(cursor, _)| *cursor);
                if !part.is_more {
                    prop_assert_eq!(found, expected);
                    break;
                }
            }
            prop_assert!(ring.after(Cursor::start(2), 7).is_none());
        }
    }
}
