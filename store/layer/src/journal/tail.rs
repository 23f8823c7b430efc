//! Reads the journal: whole entries after a cursor, in order, after a check of the floor and the epoch.

use std::sync::Arc;

use borough_kv::{RangeRequest, Transaction, Watch};
use borough_model::JournalEntry;

use super::shared::{JournalShare, Stored};
use super::{Cursor, JournalFloor, JournalPart};
use crate::error::{StoreError, StoreResult};
use crate::gate::{GateRead, cell_gate_read};
use crate::keys::{
    self, CellGateKey, CellSpace, JournalFloorKey, JournalHeadKey, JournalKey, Key, Prefix, RangeOptions,
    value_decode,
};

/// A page ends after so many bytes of entries, whatever its limit.
pub(super) const PAGE_BYTES_MAX: usize = 2_000_000;

/// A page of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<E = JournalEntry> {
    /// Whole entries, each with its position, in the order of commits.
    pub entries: Vec<(Cursor, E)>,
    /// The cursor for the next page: the last entry's position, or the given one if the page is empty.
    pub next: Cursor,
    /// Whether more entries follow at this read version.
    pub more: bool,
    /// The cell's gate at this read version.
    pub gate: GateRead,
}

/// Up to `limit` entries after `after` (at least one if one exists), at the transaction's read version.
///
/// Stamps are in the order of visibility: at the end (`more` is false) the reader has seen every commit up to the read
/// version. Fails for a cursor of another store epoch and for one before the floor: list again.
pub async fn journal_tail(
    tx: &Transaction,
    space: &CellSpace,
    after: Cursor,
    limit: usize,
) -> StoreResult<Page> {
    let page = journal_tail_by(tx, space, after, limit, None).await?;
    let entries = page.entries.into_iter().map(|(at, entry)| (at, Arc::unwrap_or_clone(entry)));
    Ok(Page { entries: entries.collect(), next: page.next, more: page.more, gate: page.gate })
}

/// The same for one of several readers in this process. Reuses entries that any of them has decoded.
pub async fn journal_tail_shared(
    tx: &Transaction,
    space: &CellSpace,
    after: Cursor,
    limit: usize,
    share: &JournalShare,
) -> StoreResult<Page<Arc<JournalEntry>>> {
    journal_tail_by(tx, space, after, limit, Some(share)).await
}

/// The same for a reader that may have others beside it.
pub(crate) async fn journal_tail_by(
    tx: &Transaction,
    space: &CellSpace,
    after: Cursor,
    limit: usize,
    share: Option<&JournalShare>,
) -> StoreResult<Page<Arc<JournalEntry>>> {
    let gate = gate_for(tx, space, after).await?;
    let key = JournalKey { store_epoch: after.store_epoch, stamp: after.stamp, part: u32::MAX };
    let begin = key.encode(space);
    let end = Prefix::<JournalKey>::of(&after.store_epoch).range(space).end;
    let mut request = RangeRequest::between(borough_kv::database::key_after(&begin), end).snapshot();
    let mut assembly = Assembly::new(after, limit.max(1), share);
    assembly.more = loop {
        let batch = tx.get_range(&request).await?;
        let last = batch.rows.last().map(|(key, _)| key.clone());
        for (bytes, value) in &batch.rows {
            let key = JournalKey::decode(space, bytes)?;
            if assembly.known(&key) {
                continue;
            }
            let part = value_decode::<JournalPart>(JournalKey::KIND, bytes, value)?;
            if !assembly.push(space, &key, part)? {
                break;
            }
        }
        let Some(last) = last.filter(|_| batch.more && !assembly.full) else {
            break batch.more || assembly.full;
        };
        request.begin = borough_kv::KeySelector::first_greater_than(last);
        request.iteration = request.iteration.saturating_add(1);
    };
    assembly.page(space, gate)
}

/// The entry at a position, if it is kept.
pub(super) async fn journal_entry(
    tx: &Transaction,
    space: &CellSpace,
    at: Cursor,
) -> StoreResult<Option<JournalEntry>> {
    let prefix = Prefix::<JournalKey>::of_two(&at.store_epoch, &at.stamp);
    let mut assembly = Assembly::new(at, 1, None);
    for (key, part) in keys::range(tx, space, &prefix, RangeOptions::snapshot()).await? {
        assembly.push(space, &key, part)?;
    }
    Ok(assembly.entries.pop().map(|(_, entry)| Arc::unwrap_or_clone(entry)))
}

/// The cursor of the last entry, or the start of the epoch if it has none. A listing begins from it.
pub async fn journal_head(tx: &Transaction, space: &CellSpace) -> StoreResult<Cursor> {
    let gate = cell_gate_read(tx, space).await?;
    let head = keys::read(tx, space, &JournalHeadKey {}).await?;
    let stamp = head.map_or(borough_kv::Versionstamp::ZERO, |head| head.0);
    Ok(Cursor { store_epoch: gate.store_epoch, stamp })
}

/// A watch that ends when an entry may have been appended, or the cell's gate may have changed with one. It is inert
/// until the commit. Pair it with a timer, then tail.
pub async fn journal_watch(tx: &Transaction, space: &CellSpace) -> StoreResult<Watch> {
    keys::watch(tx, space, &JournalHeadKey {}).await
}

/// The gate, after a check of the epoch and the floor for a reader at `after`.
async fn gate_for(tx: &Transaction, space: &CellSpace, after: Cursor) -> StoreResult<GateRead> {
    let gate = keys::read(tx, space, &CellGateKey {}).await?;
    let gate = gate.ok_or_else(|| StoreError::CellUnknown { cell: space.to_string() })?;
    let floor = keys::read(tx, space, &JournalFloorKey {}).await?;
    cursor_check(gate.store_epoch, floor, after)?;
    GateRead::of(tx, space, gate).await
}

/// Fails if a reader at `after` cannot continue.
fn cursor_check(store_epoch: u64, floor: Option<JournalFloor>, after: Cursor) -> StoreResult<()> {
    if after.store_epoch != store_epoch {
        return Err(StoreError::ForeignEpoch { asked: after, current: store_epoch });
    }
    match floor {
        Some(floor) if floor.trimmed_to.store_epoch == store_epoch && after < floor.trimmed_to => {
            Err(StoreError::JournalTrimmed { asked: after, floor: floor.trimmed_to })
        }
        _ => Ok(()),
    }
}

/// Reassembles entries from their parts.
struct Assembly<'s> {
    next: Cursor,
    limit: usize,
    share: Option<&'s JournalShare>,
    entries: Vec<(Cursor, Arc<JournalEntry>)>,
    /// Coming parts of the last entry, which is known already.
    parts_known: u32,
    pending: Vec<u8>,
    parts_seen: u32,
    bytes: usize,
    full: bool,
    /// Whether more entries follow.
    more: bool,
}

impl<'s> Assembly<'s> {
    fn new(after: Cursor, limit: usize, share: Option<&'s JournalShare>) -> Self {
        Self {
            next: after,
            limit,
            share,
            entries: Vec::new(),
            parts_known: 0,
            pending: Vec::new(),
            parts_seen: 0,
            bytes: 0,
            full: false,
            more: false,
        }
    }

    /// Returns true if a part belongs to an entry that another reader has decoded. That entry is taken whole with its
    /// first part.
    fn known(&mut self, key: &JournalKey) -> bool {
        let at = Cursor { store_epoch: key.store_epoch, stamp: key.stamp };
        if self.parts_known > 0 && at == self.next {
            self.parts_known -= 1;
            return true;
        }
        if key.part != 0 || self.full || self.parts_seen != 0 {
            return false;
        }
        let Some(stored) = self.share.and_then(|share| share.get(at)) else { return false };
        self.parts_known = stored.parts.saturating_sub(1);
        self.taken(at, stored);
        true
    }

    fn taken(&mut self, at: Cursor, stored: Stored) {
        self.bytes = self.bytes.saturating_add(stored.bytes);
        self.entries.push((at, stored.entry));
        self.next = at;
        self.full = self.entries.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX;
    }

    /// Takes the next part; `false` if the page is full.
    fn push(&mut self, space: &CellSpace, key: &JournalKey, part: JournalPart) -> StoreResult<bool> {
        if self.full {
            return Ok(false);
        }
        let at = Cursor { store_epoch: key.store_epoch, stamp: key.stamp };
        if key.part != self.parts_seen || part.parts <= key.part || (key.part == 0) != self.pending.is_empty()
        {
            return Err(damaged(space, key, format!("part {} after {} parts", key.part, self.parts_seen)));
        }
        self.pending.extend_from_slice(&part.bytes);
        self.parts_seen = self.parts_seen.saturating_add(1);
        if self.parts_seen < part.parts {
            return Ok(true);
        }
        let entry = entry_decode(space, key, &self.pending)?;
        let stored = Stored { entry: Arc::new(entry), parts: part.parts, bytes: self.pending.len() };
        self.pending.clear();
        self.parts_seen = 0;
        if let Some(share) = self.share {
            share.put(at, stored.clone());
        }
        self.taken(at, stored);
        Ok(true)
    }

    fn page(self, space: &CellSpace, gate: GateRead) -> StoreResult<Page<Arc<JournalEntry>>> {
        if !self.pending.is_empty() {
            let key = JournalKey { store_epoch: self.next.store_epoch, stamp: self.next.stamp, part: 0 };
            return Err(damaged(space, &key, "an entry after this one lacks its last parts".to_owned()));
        }
        Ok(Page { entries: self.entries, next: self.next, more: self.more, gate })
    }
}

/// The entry whose parts, joined, are `bytes`.
pub(super) fn entry_decode(space: &CellSpace, key: &JournalKey, bytes: &[u8]) -> StoreResult<JournalEntry> {
    minicbor::decode(bytes).map_err(|error| damaged(space, key, error.to_string()))
}

pub(super) fn damaged(space: &CellSpace, key: &JournalKey, found: String) -> StoreError {
    StoreError::DamagedValue { kind: JournalKey::KIND, key: key.encode(space), found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::change::entry_split;
    use borough_kv::Versionstamp;
    use borough_model::{Delta, JobId, RequestId};
    use proptest::prelude::*;

    fn space() -> CellSpace {
        CellSpace::new(borough_model::Name::new("alpha").unwrap())
    }

    fn entry(request: u128, deltas: usize) -> JournalEntry {
        JournalEntry {
            request: RequestId(request),
            actor: "user/ada".to_owned(),
            action: "test".to_owned(),
            at_ms: 7,
            deltas: (0..deltas).map(|job| Delta::JobRemoved { job: JobId(job as u64), name: None }).collect(),
            values: None,
            calls: None,
        }
    }

    fn stamp(at: u64) -> Versionstamp {
        Versionstamp::new(at as i64, 0)
    }

    proptest! {
        /// However entries are cut, pages return them whole, in order, and continue where the last one ended.
        #[test]
        fn entries_survive_being_cut(
            sizes in prop::collection::vec(0..40_usize, 1..12),
            bytes_max in 1..200_usize,
            limit in 1..5_usize,
        ) {
            let entries: Vec<_> = (1_u64..).zip(sizes).map(|(at, size)| (at, entry(u128::from(at), size))).collect();
            let mut rows = Vec::new();
            for (at, entry) in &entries {
                for (part, value) in (0_u32..).zip(entry_split(entry, bytes_max).unwrap()) {
                    prop_assert!(value.bytes.len() <= bytes_max);
                    rows.push((JournalKey { store_epoch: 1, stamp: stamp(*at), part }, value));
                }
            }
            let share = JournalShare::default();
            // The first two decode, the third finds everything decoded.
            for (reader, share) in [None, Some(&share), Some(&share)].into_iter().enumerate() {
                let mut seen = Vec::new();
                let mut after = Cursor::start(1);
                loop {
                    let mut assembly = Assembly::new(after, limit, share);
                    let left = rows.iter().filter(|(key, _)| key.stamp > after.stamp);
                    for (key, part) in left {
                        if assembly.known(key) {
                            continue;
                        }
                        prop_assert!(reader < 2 || assembly.full, "all is decoded already");
                        if !assembly.push(&space(), key, part.clone()).unwrap() {
                            break;
                        }
                    }
                    let full = assembly.full;
                    prop_assert!(assembly.entries.len() <= limit);
                    after = assembly.next;
                    seen.extend(assembly.entries);
                    if !full {
                        break;
                    }
                }
                let seen: Vec<_> = seen.into_iter().map(|(at, entry)| (at, (*entry).clone())).collect();
                let expected: Vec<_> = entries
                    .iter()
                    .map(|(at, entry)| (Cursor { store_epoch: 1, stamp: stamp(*at) }, entry.clone()))
                    .collect();
                prop_assert_eq!(seen, expected);
            }
        }
    }

    #[test]
    fn a_missing_part_is_damage() {
        let parts = entry_split(&entry(1, 30), 20).unwrap();
        assert!(parts.len() > 2);
        let key = |part| JournalKey { store_epoch: 1, stamp: stamp(1), part };
        let mut assembly = Assembly::new(Cursor::start(1), 10, None);
        assembly.push(&space(), &key(0), parts[0].clone()).unwrap();
        let error = assembly.push(&space(), &key(2), parts[2].clone()).unwrap_err();
        assert!(matches!(error, StoreError::DamagedValue { .. }), "{error}");
    }

    #[test]
    fn cursors_are_checked_against_epoch_and_floor() {
        let at = |store_epoch, version| Cursor { store_epoch, stamp: stamp(version) };
        let floor = |cursor| Some(JournalFloor { trimmed_to: cursor, at_ms: 0 });
        assert!(cursor_check(2, None, Cursor::start(2)).is_ok());
        assert!(cursor_check(2, floor(at(2, 5)), at(2, 5)).is_ok(), "has seen the last trimmed entry");
        let error = cursor_check(2, floor(at(2, 5)), at(2, 4)).unwrap_err();
        assert!(matches!(error, StoreError::JournalTrimmed { .. }));
        let error = cursor_check(2, None, at(1, 9)).unwrap_err();
        assert!(matches!(error, StoreError::ForeignEpoch { current: 2, .. }));
        let error = cursor_check(1, None, at(2, 9)).unwrap_err();
        assert!(matches!(error, StoreError::ForeignEpoch { current: 1, .. }));
    }
}
