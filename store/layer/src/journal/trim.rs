//! Trims the journal: retention has priority over slow readers. The floor is written with the clear, and every tail
//! reads it.

use borough_kv::{Transaction, Version, Versionstamp};

use super::{Cursor, JournalFloor};
use crate::error::StoreResult;
use crate::gate::cell_gate_read;
use crate::keys::{self, CellSpace, JournalFloorKey, JournalKey, Key, Prefix};

/// The first stamp to keep, `retention_ms` before the read version. Versions count microseconds. They jump at a
/// restart, so older entries look older than they are by that jump.
pub fn trim_cutoff(read_version: Version, retention_ms: u64) -> Versionstamp {
    let retention = i64::try_from(retention_ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
    Versionstamp::new(read_version.saturating_sub(retention).max(0), 0)
}

/// Removes entries before `cutoff` and moves the floor. Returns the last removed position. `None` if nothing was
/// removed; nothing is written then.
pub async fn journal_trim(
    tx: &Transaction,
    space: &CellSpace,
    cutoff: Versionstamp,
    at_ms: i64,
) -> StoreResult<Option<Cursor>> {
    let store_epoch = cell_gate_read(tx, space).await?.store_epoch;
    // With a conflict: a trim that commits late must not move the floor back below a later one.
    journal_floor(tx, space).await?;
    let begin = Prefix::<JournalKey>::of(&store_epoch).range(space).start;
    let end = JournalKey { store_epoch, stamp: cutoff, part: 0 }.encode(space);
    if end <= begin {
        return Ok(None);
    }
    let request = borough_kv::RangeRequest::between(begin.clone(), end.clone());
    let rows = tx.range_all(request.reverse().limit(1).snapshot()).await?;
    let Some((last, _)) = rows.first() else { return Ok(None) };
    let last = JournalKey::decode(space, last)?;
    let trimmed_to = Cursor { store_epoch, stamp: last.stamp };
    // Not up to the cutoff: if it lies ahead, entries may be appended below it during the commit, and the floor would
    // not cover them.
    let end = borough_kv::database::key_after(&last.encode(space));
    tx.clear_range(&begin, &end)?;
    keys::write(tx, space, &JournalFloorKey {}, &JournalFloor { trimmed_to, at_ms })?;
    Ok(Some(trimmed_to))
}

/// The first stamp to keep: that of the first entry that is younger than `retention_ms` by its writer's wall time or by
/// versions. Both must show that an entry is old, since wall clocks may jump, and versions jump at a restart. Reads one
/// page of entries; `None` if none of them is old.
pub async fn journal_cutoff(
    tx: &Transaction,
    space: &CellSpace,
    retention_ms: u64,
    now_ms: i64,
) -> StoreResult<Option<Versionstamp>> {
    let gate = cell_gate_read(tx, space).await?;
    let floor = journal_floor(tx, space).await?.map(|floor| floor.trimmed_to);
    let after = floor.filter(|floor| floor.store_epoch == gate.store_epoch);
    let after = after.unwrap_or_else(|| Cursor::start(gate.store_epoch));
    let page = super::journal_tail(tx, space, after, CUTOFF_ENTRIES).await?;
    let kept_from_ms = now_ms.saturating_sub(i64::try_from(retention_ms).unwrap_or(i64::MAX));
    let by_version = trim_cutoff(tx.read_version().await?, retention_ms);
    let is_old = |cursor: &Cursor, at_ms: i64| at_ms < kept_from_ms && cursor.stamp < by_version;
    let old = page.entries.iter().take_while(|(cursor, entry)| is_old(cursor, entry.at_ms)).count();
    // If all of them are old, the last one stays for the next pass: its successor is not known here.
    let first_kept = page.entries.get(old).or_else(|| page.entries.last());
    Ok(first_kept.filter(|_| old > 0).map(|(cursor, _)| cursor.stamp))
}

/// Bytes of the kept entries, of this epoch of the store. Exact on the embedded engine, which visits all of them; a
/// sample on FoundationDB.
pub async fn journal_bytes(tx: &Transaction, space: &CellSpace) -> StoreResult<u64> {
    let store_epoch = cell_gate_read(tx, space).await?.store_epoch;
    let range = Prefix::<JournalKey>::of(&store_epoch).range(space);
    Ok(tx.estimated_range_size(&range.start..&range.end).await?)
}

/// The first stamp to keep after the removal of the oldest entries, `excess` bytes or a little more; fewer if one
/// transaction cannot read as many. The last entry stays. `None` if nothing can be removed.
pub async fn journal_cutoff_bytes(
    tx: &Transaction,
    space: &CellSpace,
    excess: u64,
) -> StoreResult<Option<Versionstamp>> {
    if excess == 0 {
        return Ok(None);
    }
    let store_epoch = cell_gate_read(tx, space).await?.store_epoch;
    let range = Prefix::<JournalKey>::of(&store_epoch).range(space);
    let mut request = borough_kv::RangeRequest::between(range.start, range.end).snapshot();
    let (mut passed, mut first, mut kept) = (0_u64, None, None);
    while passed < CUTOFF_BYTES {
        // A batch may be short for any reason, even shorter than one entry.
        let batch = tx.get_range(&request).await?;
        for (key, value) in &batch.rows {
            let stamp = JournalKey::decode(space, key)?.stamp;
            if passed >= excess && kept != Some(stamp) {
                return Ok(Some(stamp));
            }
            first = first.or(Some(stamp));
            kept = Some(stamp);
            let bytes = key.len().saturating_add(value.len());
            passed = passed.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
        let Some((last, _)) = batch.rows.last().filter(|_| batch.more) else { break };
        request.begin = borough_kv::KeySelector::first_greater_than(last.clone());
    }
    // The last entry may be incomplete, or the last of all: it stays for the next pass.
    Ok(kept.filter(|kept| first != Some(*kept)))
}

/// Bytes of entries read for a cutoff: more than the 10 MB that one transaction, and so one entry, has at most.
const CUTOFF_BYTES: u64 = 12 << 20;

/// Entries read for a cutoff.
const CUTOFF_ENTRIES: usize = 1_000;

/// The floor: the last position that was removed, if any.
pub async fn journal_floor(tx: &Transaction, space: &CellSpace) -> StoreResult<Option<JournalFloor>> {
    keys::read(tx, space, &JournalFloorKey {}).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use borough_model::{Delta, NodeId, RequestId};

    use super::*;
    use crate::journal::Change;
    use crate::testing::TestCell;

    #[test]
    fn the_cutoff_lies_the_retention_before_the_read_version() {
        assert_eq!(trim_cutoff(10_000_000, 2_000), Versionstamp::new(8_000_000, 0));
        assert_eq!(trim_cutoff(10, 2_000), Versionstamp::ZERO);
        assert_eq!(trim_cutoff(10, u64::MAX), Versionstamp::ZERO);
    }

    /// Found when a restart, which moves versions ahead by up to an hour, emptied a journal of minutes.
    #[tokio::test]
    async fn entries_are_old_by_wall_time_and_by_versions() {
        let cell = TestCell::new().await;
        let change =
            |at_ms| Change { request: RequestId(1), actor: "test".to_owned(), action: "test", at_ms };
        for at_ms in [1_000, 2_000, 3_000] {
            let removed = Delta::NodeRemoved { node: NodeId(1) };
            cell.change(change(at_ms), async |_, changes| {
                changes.push(removed.clone());
                Ok(())
            })
            .await
            .unwrap();
            cell.clock.advance(Duration::from_secs(10));
        }
        let cutoff = async |retention_ms, now_ms| {
            cell.run(async |tx| journal_cutoff(&tx, &cell.space, retention_ms, now_ms).await).await.unwrap()
        };
        assert_eq!(cutoff(0, 500).await, None, "young by wall time, whatever versions say");
        assert_eq!(
            cutoff(1_000_000, 9_000_000).await,
            None,
            "young by versions, whatever the wall clock says"
        );
        let kept = cutoff(500, 3_400).await.unwrap();
        cell.run(async |tx| journal_trim(&tx, &cell.space, kept, 1).await).await.unwrap();
        let epoch = cell
            .run(async |tx| super::super::journal_head(&tx, &cell.space).await)
            .await
            .unwrap()
            .store_epoch;
        let floor = cell.run(async |tx| journal_floor(&tx, &cell.space).await).await.unwrap().unwrap();
        assert_eq!(floor.trimmed_to.store_epoch, epoch);
        let page =
            cell.run(async |tx| super::super::journal_tail(&tx, &cell.space, floor.trimmed_to, 9).await);
        let left: Vec<i64> = page.await.unwrap().entries.iter().map(|(_, entry)| entry.at_ms).collect();
        assert_eq!(left, [3_000]);
        let kept = cutoff(0, 9_000).await.unwrap();
        let removed = cell.run(async |tx| journal_trim(&tx, &cell.space, kept, 1).await).await.unwrap();
        assert_eq!(removed, None, "the last entry is kept until another follows");
    }

    async fn delta_append(cell: &TestCell, request: u128) {
        let at = Change { request: RequestId(request), actor: "test".to_owned(), action: "test", at_ms: 0 };
        let telling = cell.change(at, async |_, changes| {
            changes.push(Delta::NodeRemoved { node: NodeId(1) });
            Ok(())
        });
        telling.await.unwrap();
    }

    async fn floor_and_left(cell: &TestCell) -> (Cursor, Vec<Cursor>) {
        let read = cell.run(async |tx| {
            let floor = journal_floor(&tx, &cell.space).await?.unwrap().trimmed_to;
            let page = super::super::journal_tail(&tx, &cell.space, floor, 99).await?;
            Ok((floor, page.entries.into_iter().map(|(at, _)| at).collect()))
        });
        read.await.unwrap()
    }

    /// Writers keep writing while a trimmer enforces a bound. Only the last entries are kept, the bound holds at every
    /// pass, and the floor covers everything removed.
    #[tokio::test]
    async fn a_journal_under_sustained_writes_stays_within_its_bound() {
        const BOUND: u64 = 200_000;
        const ENTRY: usize = 20_000;
        let cell = TestCell::new().await;
        let mut most = 0;
        for round in 0..60_u32 {
            for writer in 0..4 {
                let actor = "a".repeat(ENTRY);
                let request = RequestId(u128::from(round * 4 + writer));
                let change = Change { request, actor, action: "test", at_ms: 0 };
                let push = async |_: &Transaction, changes: &mut crate::journal::ChangeSet| {
                    changes.push(Delta::NodeRemoved { node: NodeId(1) });
                    Ok(())
                };
                cell.change(change, push).await.unwrap();
            }
            cell.clock.advance(Duration::from_millis(100));
            most = most.max(cell.run(async |tx| journal_bytes(&tx, &cell.space).await).await.unwrap());
            loop {
                let kept = cell.run(async |tx| journal_bytes(&tx, &cell.space).await).await.unwrap();
                let excess = kept.saturating_sub(BOUND / 2);
                let cutoff = cell.run(async |tx| journal_cutoff_bytes(&tx, &cell.space, excess).await).await;
                let Some(cutoff) = cutoff.unwrap() else { break };
                cell.run(async |tx| journal_trim(&tx, &cell.space, cutoff, 1).await).await.unwrap().unwrap();
            }
        }
        assert!(most > BOUND / 2 && most < BOUND, "{most} bytes were kept");
        let (floor, left) = floor_and_left(&cell).await;
        assert!(left.len() >= 2 && left.iter().all(|at| *at > floor), "{} entries are left", left.len());
        // An earlier reader gets an error, and does not continue with a gap.
        let behind = Cursor::start(floor.store_epoch);
        let read = cell.run(async |tx| super::super::journal_tail(&tx, &cell.space, behind, 9).await).await;
        assert!(matches!(read, Err(crate::StoreError::JournalTrimmed { .. })), "{read:?}");
    }

    /// An entry larger than the excess is removed whole, and the last one stays.
    #[tokio::test]
    async fn a_cutoff_by_bytes_never_cuts_an_entry_in_two() {
        let cell = TestCell::new().await;
        for request in 1..4 {
            let actor = "a".repeat(3 * crate::journal::PART_BYTES_MAX);
            let change = Change { request: RequestId(request), actor, action: "test", at_ms: 0 };
            let push = async |_: &Transaction, changes: &mut crate::journal::ChangeSet| {
                changes.push(Delta::NodeRemoved { node: NodeId(1) });
                Ok(())
            };
            cell.change(change, push).await.unwrap();
        }
        for left in [2, 1] {
            let cutoff = cell.run(async |tx| journal_cutoff_bytes(&tx, &cell.space, 1).await).await;
            let cutoff = cutoff.unwrap().unwrap_or(Versionstamp::ZERO);
            cell.run(async |tx| journal_trim(&tx, &cell.space, cutoff, 1).await).await.unwrap();
            assert_eq!(floor_and_left(&cell).await.1.len(), left);
        }
        let none = cell.run(async |tx| journal_cutoff_bytes(&tx, &cell.space, 1).await).await.unwrap();
        assert_eq!(none, None, "the last entry is kept until another follows");
        assert_eq!(cell.run(async |tx| journal_cutoff_bytes(&tx, &cell.space, 0).await).await.unwrap(), None);
    }

    /// Found by a mirror that was behind and got no error about removed entries that it had not read.
    #[tokio::test]
    async fn a_trim_that_commits_late_does_not_take_the_floor_back() {
        let cell = TestCell::new().await;
        delta_append(&cell, 1).await;
        let attempts = std::sync::atomic::AtomicU32::new(0);
        let late = cell.run(async |tx| {
            let trimmed = journal_trim(&tx, &cell.space, Versionstamp::MAX, 1).await?;
            if attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
                delta_append(&cell, 2).await;
                cell.run(async |tx| journal_trim(&tx, &cell.space, Versionstamp::MAX, 1).await).await?;
                delta_append(&cell, 3).await;
            }
            Ok(trimmed)
        });
        // On the retry, it trims what exists by then.
        let trimmed = late.await.unwrap().unwrap();
        assert_eq!(attempts.load(std::sync::atomic::Ordering::SeqCst), 2);
        assert_eq!(floor_and_left(&cell).await, (trimmed, Vec::new()));
    }

    /// However far ahead the cutoff lies, the trim removes nothing that the floor does not cover.
    #[tokio::test]
    async fn what_is_appended_while_a_trim_commits_stays() {
        let cell = TestCell::new().await;
        delta_append(&cell, 1).await;
        let appended = std::sync::atomic::AtomicBool::new(false);
        let trimming = cell.run(async |tx| {
            let trimmed = journal_trim(&tx, &cell.space, Versionstamp::MAX, 1).await?;
            if !appended.swap(true, std::sync::atomic::Ordering::SeqCst) {
                delta_append(&cell, 2).await;
            }
            Ok(trimmed)
        });
        let trimmed = trimming.await.unwrap().unwrap();
        let (floor, left) = floor_and_left(&cell).await;
        assert_eq!((floor, left.len()), (trimmed, 1));
    }
}
