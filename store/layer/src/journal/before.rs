//! Reads the journal backwards, from the newest entry: for lists that end long before the oldest one.

use std::ops::Bound;

use borough_kv::{RangeRequest, StreamingMode, Transaction};
use borough_model::JournalEntry;

use super::tail::{PAGE_BYTES_MAX, damaged, entry_decode};
use super::{Cursor, JournalPart};
use crate::error::{StoreError, StoreResult};
use crate::gate::cell_gate_read;
use crate::keys::{CellSpace, JournalKey, Key, Prefix, value_decode};

/// Entries before a position.
#[derive(Clone, Debug, PartialEq)]
pub struct PageBefore {
    /// Whole entries, the newest first.
    pub entries: Vec<(Cursor, JournalEntry)>,
    /// What is older than this is not read yet. `None`: nothing is.
    pub next: Option<Cursor>,
}

/// Up to `limit` entries before `end` (at least one if one exists), at the transaction's read version.
///
/// Fails for a position of another store epoch: begin again. Entries that were trimmed in between are left out.
pub async fn journal_before(
    tx: &Transaction,
    space: &CellSpace,
    end: Bound<Cursor>,
    limit: usize,
) -> StoreResult<PageBefore> {
    let gate = cell_gate_read(tx, space).await?;
    if let Bound::Included(asked) | Bound::Excluded(asked) = end
        && asked.store_epoch != gate.store_epoch
    {
        return Err(StoreError::ForeignEpoch { asked, current: gate.store_epoch });
    }
    let all = Prefix::<JournalKey>::of(&gate.store_epoch).range(space);
    let key =
        |at: Cursor, part| JournalKey { store_epoch: at.store_epoch, stamp: at.stamp, part }.encode(space);
    let end = match end {
        Bound::Included(at) => key(at, u32::MAX),
        Bound::Excluded(at) => key(at, 0),
        Bound::Unbounded => all.end,
    };
    let mut request = RangeRequest::between(all.start, end).snapshot().reverse();
    // A list may need few entries.
    request.mode = StreamingMode::Iterator;
    let mut parts = PartsBackwards::default();
    loop {
        let batch = tx.get_range(&request).await?;
        for (bytes, value) in &batch.rows {
            let key = JournalKey::decode(space, bytes)?;
            parts.push(space, key, value_decode::<JournalPart>(JournalKey::KIND, bytes, value)?)?;
            if parts.entries.len() >= limit.max(1) || parts.bytes >= PAGE_BYTES_MAX {
                let next = parts.entries.last().map(|(at, _)| *at);
                return Ok(PageBefore { entries: parts.entries, next });
            }
        }
        let Some((last, _)) = batch.rows.last().filter(|_| batch.more) else { break };
        request.end = borough_kv::KeySelector::first_greater_or_equal(last.clone());
        request.iteration = request.iteration.saturating_add(1);
    }
    if let Some((key, _)) = parts.pending.last() {
        return Err(damaged(space, key, "an entry lacks its first parts".to_owned()));
    }
    Ok(PageBefore { entries: parts.entries, next: None })
}

/// Reassembles entries whose parts come in reverse.
#[derive(Default)]
struct PartsBackwards {
    entries: Vec<(Cursor, JournalEntry)>,
    /// The last parts of an entry, in reverse.
    pending: Vec<(JournalKey, JournalPart)>,
    /// Bytes of `entries`.
    bytes: usize,
}

impl PartsBackwards {
    fn push(&mut self, space: &CellSpace, key: JournalKey, part: JournalPart) -> StoreResult<()> {
        let follows = match self.pending.last() {
            Some((later, _)) => later.stamp == key.stamp && later.part == key.part.saturating_add(1),
            None => part.parts == key.part.saturating_add(1),
        };
        if !follows {
            return Err(damaged(space, &key, format!("part {} of {} is out of order", key.part, part.parts)));
        }
        if key.part > 0 {
            self.pending.push((key, part));
            return Ok(());
        }
        let mut bytes = part.bytes;
        for (_, later) in self.pending.drain(..).rev() {
            bytes.extend(later.bytes);
        }
        let at = Cursor { store_epoch: key.store_epoch, stamp: key.stamp };
        self.entries.push((at, entry_decode(space, &key, &bytes)?));
        self.bytes = self.bytes.saturating_add(bytes.len());
        Ok(())
    }
}
