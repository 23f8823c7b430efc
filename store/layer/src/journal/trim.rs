//! Trims the journal: retention has priority over slow readers. The floor is written with the clear, and every tail
//! reads it.

use borough_kv::{RangeRequest, Transaction, Version, Versionstamp};

use super::meter::{JournalMeter, JournalSegment, journal_oldest};
use super::{Cursor, JournalFloor, journal_head};
use crate::error::StoreResult;
use crate::gate::cell_gate_read;
use crate::keys::{self, AuditHeadKey, CellSpace, JournalFloorKey, JournalKey, Key, Prefix};

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
    let request = RangeRequest::between(begin.clone(), end.clone());
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

/// What is removed from a journal, the oldest entries first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimGoal {
    /// Entries stay at least this long, unless they are too many.
    pub retention_ms: u64,
    /// The cell's time, in milliseconds since 1970.
    pub now_ms: i64,
    /// Bytes that go, however young they are.
    pub excess: u64,
}

/// Where a journal is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalCutoff {
    /// The first stamp to keep. An entry may have it or not.
    pub keep_from: Versionstamp,
    /// Bytes of the segments before it. A part of a segment counts as nothing.
    pub bytes: u64,
}

/// Where to cut for `goal`, or as far as one transaction goes, and no further than the audit is sealed. Whole segments
/// of `meter` go until the excess is gone, and everything that is too old. Their entries are not read. The last entry
/// stays. `None` if nothing can be removed, or if the meter has not looked at this journal.
pub async fn journal_cutoff(
    tx: &Transaction,
    space: &CellSpace,
    goal: &TrimGoal,
    meter: &JournalMeter,
) -> StoreResult<Option<JournalCutoff>> {
    let head = journal_head(tx, space).await?;
    if !meter.knows(&head) {
        return Ok(None);
    }
    let aged = aged_before(tx, space, goal).await?;
    if goal.excess == 0 && aged.is_none() {
        return Ok(None);
    }
    let Some(oldest) = journal_oldest(tx, space, head.store_epoch).await? else { return Ok(None) };
    let segments = meter.segments().filter(|segment| segment.end > oldest).copied();
    let cutoff = segments_cut(segments, goal.excess, aged.unwrap_or(Versionstamp::ZERO));
    let sealed = sealed_to(tx, space, head.store_epoch).await?;
    let keep_from = cutoff.keep_from.min(head.stamp).min(sealed.map_or(Versionstamp::MAX, successor));
    Ok((keep_from > oldest).then_some(JournalCutoff { keep_from, ..cutoff }))
}

/// The last entry of this epoch whose calls are sealed; `None` if nobody seals here yet.
async fn sealed_to(
    tx: &Transaction,
    space: &CellSpace,
    store_epoch: u64,
) -> StoreResult<Option<Versionstamp>> {
    let head = keys::read_snapshot(tx, space, &AuditHeadKey {}).await?;
    let position = head.map(|head| head.position).filter(|position| position.store_epoch == store_epoch);
    Ok(position.map(|position| position.stamp))
}

/// Where to cut the segments of a journal, the oldest first: behind those that hold the first `excess` bytes, and at
/// `aged` at least. A step goes no further than the segments of [`CUTOFF_BYTES`], and than one segment that is larger.
fn segments_cut(
    segments: impl Iterator<Item = JournalSegment>,
    excess: u64,
    aged: Versionstamp,
) -> JournalCutoff {
    let mut cutoff = JournalCutoff { keep_from: Versionstamp::ZERO, bytes: 0 };
    for segment in segments {
        let bytes = cutoff.bytes.saturating_add(segment.bytes);
        if cutoff.bytes > 0 && bytes > CUTOFF_BYTES {
            return cutoff;
        }
        if cutoff.bytes >= excess && segment.end > aged {
            break;
        }
        cutoff = JournalCutoff { keep_from: segment.end, bytes };
    }
    // The age may lie within the next segment.
    JournalCutoff { keep_from: cutoff.keep_from.max(aged), ..cutoff }
}

/// A stamp before which every entry is old by versions, and the last one also by its writer's wall time. Both must show
/// it, since wall clocks may jump, and versions jump at a restart. Reads few entries, however many there are.
async fn aged_before(
    tx: &Transaction,
    space: &CellSpace,
    goal: &TrimGoal,
) -> StoreResult<Option<Versionstamp>> {
    let retention_ms = i64::try_from(goal.retention_ms).unwrap_or(i64::MAX);
    let old_ms = goal.now_ms.saturating_sub(retention_ms);
    let aged = trim_cutoff(tx.read_version().await?, goal.retention_ms);
    let is_old = |(_, at_ms): &&(Versionstamp, i64)| *at_ms < old_ms;
    let newest = entries_before(tx, space, aged).await?;
    let mut young = match newest.first() {
        None => return Ok(None),
        Some(last) if is_old(&last) => return Ok(Some(aged)),
        Some((stamp, _)) => stamp.version(),
    };
    // Old by versions, young by the wall clock: what is old by both lies between the floor and this entry.
    let floor = journal_floor(tx, space).await?.map(|floor| floor.trimmed_to);
    let mut old = newest.iter().find(is_old).map(|(stamp, _)| *stamp);
    let mut from = old.map_or_else(|| floor.map_or(0, |floor| floor.stamp.version()), Versionstamp::version);
    while young.saturating_sub(from) > AGE_STEP {
        let middle = from.saturating_add(young.saturating_sub(from) / 2);
        let found = entries_before(tx, space, Versionstamp::new(middle, 0)).await?;
        match found.iter().find(is_old) {
            None if !found.is_empty() => young = middle,
            last => {
                old = last.map(|(stamp, _)| *stamp).max(old);
                from = middle;
            }
        }
    }
    Ok(old.map(successor))
}

/// The first stamp after `stamp`.
pub(super) fn successor(stamp: Versionstamp) -> Versionstamp {
    match stamp.batch_index().checked_add(1) {
        Some(index) => Versionstamp::new(stamp.version(), index),
        None => Versionstamp::new(stamp.version().saturating_add(1), 0),
    }
}

/// The stamps and wall times of the last entries before `stamp`, the newest first. Of several, one is likely to come
/// from a writer whose clock is right.
async fn entries_before(
    tx: &Transaction,
    space: &CellSpace,
    stamp: Versionstamp,
) -> StoreResult<Vec<(Versionstamp, i64)>> {
    let store_epoch = cell_gate_read(tx, space).await?.store_epoch;
    let begin = Prefix::<JournalKey>::of(&store_epoch).range(space).start;
    let end = JournalKey { store_epoch, stamp, part: 0 }.encode(space);
    if end <= begin {
        return Ok(Vec::new());
    }
    let request = RangeRequest::between(begin, end).reverse().limit(AGE_ENTRIES).snapshot();
    let mut entries: Vec<(Versionstamp, i64)> = Vec::new();
    for (key, _) in tx.range_all(request).await? {
        let stamp = JournalKey::decode(space, &key)?.stamp;
        if entries.last().is_some_and(|(last, _)| *last == stamp) {
            continue;
        }
        let entry = super::tail::journal_entry(tx, space, Cursor { store_epoch, stamp }).await?;
        entries.extend(entry.map(|entry| (stamp, entry.at_ms)));
    }
    Ok(entries)
}

/// Rows of entries that one probe of the age reads.
const AGE_ENTRIES: usize = 8;

/// Bytes that one transaction removes, so that no step takes the embedded engine long.
const CUTOFF_BYTES: u64 = 12 << 20;

/// Versions, in microseconds, within which a cutoff by age is found.
const AGE_STEP: i64 = 1_000_000;

/// The floor: the last position that was removed, if any.
pub async fn journal_floor(tx: &Transaction, space: &CellSpace) -> StoreResult<Option<JournalFloor>> {
    keys::read(tx, space, &JournalFloorKey {}).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use borough_model::{Delta, NodeId, RequestId};

    use super::*;
    use proptest::prelude::*;

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
            let removed = Delta::NodeRemoved { node: NodeId(1), name: None };
            cell.change(change(at_ms), async |_, changes| {
                changes.push(removed.clone());
                Ok(())
            })
            .await
            .unwrap();
            cell.clock.advance(Duration::from_secs(10));
        }
        let cutoff = async |retention_ms, now_ms| {
            let goal = TrimGoal { retention_ms, now_ms, excess: 0 };
            cutoff_fresh(&cell, goal).await.map(|cutoff| cutoff.keep_from)
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
        assert_eq!(cutoff(0, 9_000).await, None, "the last entry is kept until another follows");
    }

    async fn delta_append(cell: &TestCell, request: u128) {
        delta_append_at(cell, request, 0).await;
    }

    async fn delta_append_at(cell: &TestCell, request: u128, at_ms: i64) {
        let at = Change { request: RequestId(request), actor: "test".to_owned(), action: "test", at_ms };
        let telling = cell.change(at, async |_, changes| {
            changes.push(Delta::NodeRemoved { node: NodeId(1), name: None });
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

    /// A cell that was closed for long opens with a large journal. One cut finds the age, whatever the wall clocks of
    /// writers have shown meanwhile, and does not decode every entry for it.
    #[tokio::test]
    async fn a_cut_finds_the_age_among_many_entries_and_clocks_that_jump() {
        let cell = TestCell::new().await;
        for second in 0..400_i64 {
            // Every seventh writer is an hour ahead. By its wall time, its entries are never old here.
            let ahead_ms = if second % 7 == 3 { 3_600_000 } else { 0 };
            delta_append_at(&cell, second.unsigned_abs().into(), second * 1_000 + ahead_ms).await;
            cell.clock.advance(Duration::from_secs(1));
        }
        for retention_s in [350_i64, 200, 100, 10] {
            let goal =
                TrimGoal { retention_ms: retention_s.unsigned_abs() * 1_000, now_ms: 400_000, excess: 0 };
            trim_to(&cell, cutoff_fresh(&cell, goal).await.unwrap()).await;
            let page = cell.run(async |tx| {
                let floor = journal_floor(&tx, &cell.space).await?.unwrap().trimmed_to;
                super::super::journal_tail(&tx, &cell.space, floor, 1_000).await
            });
            let left: Vec<i64> = page
                .await
                .unwrap()
                .entries
                .iter()
                .map(|(_, entry)| entry.at_ms % 3_600_000 / 1_000)
                .collect();
            let oldest = 400 - retention_s;
            // A cut may leave one more entry than it must, where a clock that is ahead hides the age of the one before.
            let first = left.first().copied().unwrap();
            assert!(
                (oldest - 2..=oldest + 1).contains(&first),
                "{retention_s} s: the first is of second {first}"
            );
            assert_eq!(left, (first..400).collect::<Vec<_>>());
        }
    }

    /// The cutoff of a process that has just begun.
    async fn cutoff_fresh(cell: &TestCell, goal: TrimGoal) -> Option<JournalCutoff> {
        let mut meter = JournalMeter::default();
        measured(cell, &mut meter).await;
        cell.run(async |tx| journal_cutoff(&tx, &cell.space, &goal, &meter).await).await.unwrap()
    }

    /// The cutoff by bytes alone: no entry is old.
    async fn cutoff_of(cell: &TestCell, excess: u64, meter: &JournalMeter) -> Option<JournalCutoff> {
        let goal = TrimGoal { retention_ms: u64::MAX, now_ms: 0, excess };
        cell.run(async |tx| journal_cutoff(&tx, &cell.space, &goal, meter).await).await.unwrap()
    }

    async fn trim_to(cell: &TestCell, cutoff: JournalCutoff) {
        let trim = cell.run(async |tx| journal_trim(&tx, &cell.space, cutoff.keep_from, 1).await);
        trim.await.unwrap().unwrap();
    }

    async fn measured(cell: &TestCell, meter: &mut JournalMeter) -> u64 {
        let look = cell.run(async |tx| meter.look(&tx, &cell.space).await).await.unwrap();
        meter.note(look)
    }

    /// Writers keep writing while a trimmer enforces a bound. Only the last entries are kept, the bound holds at every
    /// pass, and the floor covers everything removed.
    #[tokio::test]
    async fn a_journal_under_sustained_writes_stays_within_its_bound() {
        const BOUND: u64 = 200_000;
        const ENTRY: usize = 20_000;
        /// A round of writes, with keys and parts.
        const ROUND: u64 = 90_000;
        let cell = TestCell::new().await;
        let (mut most, mut meter) = (0, JournalMeter::default());
        for round in 0..60_u32 {
            for writer in 0..4 {
                let actor = "a".repeat(ENTRY);
                let request = RequestId(u128::from(round * 4 + writer));
                let change = Change { request, actor, action: "test", at_ms: 0 };
                let push = async |_: &Transaction, changes: &mut crate::journal::ChangeSet| {
                    changes.push(Delta::NodeRemoved { node: NodeId(1), name: None });
                    Ok(())
                };
                cell.change(change, push).await.unwrap();
            }
            cell.clock.advance(Duration::from_millis(100));
            let kept = measured(&cell, &mut meter).await;
            // A process that has just begun measures the same, except for the part that is being removed.
            let fresh = measured(&cell, &mut JournalMeter::default()).await;
            assert!(fresh <= kept && kept <= fresh + ROUND, "{fresh} bytes, and {kept} by the meter");
            most = most.max(fresh);
            let mut excess = fresh.saturating_sub(BOUND / 2);
            while let Some(cutoff) = cutoff_of(&cell, excess, &meter).await {
                trim_to(&cell, cutoff).await;
                excess = excess.saturating_sub(cutoff.bytes);
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

    /// Appends an entry of so many bytes.
    async fn bytes_append(cell: &TestCell, request: u128, bytes: usize, at_ms: i64) {
        let change = Change { request: RequestId(request), actor: "a".repeat(bytes), action: "test", at_ms };
        let push = async |_: &Transaction, changes: &mut crate::journal::ChangeSet| {
            changes.push(Delta::NodeRemoved { node: NodeId(1), name: None });
            Ok(())
        };
        cell.change(change, push).await.unwrap();
    }

    /// Counts the entries, however many bytes they have.
    async fn entries_count(cell: &TestCell) -> usize {
        let rows = cell.run(async |tx| {
            let store_epoch = cell_gate_read(&tx, &cell.space).await?.store_epoch;
            let all = Prefix::<JournalKey>::of(&store_epoch).range(&cell.space);
            Ok(tx.range_all(RangeRequest::between(all.start, all.end).snapshot()).await?)
        });
        let rows = rows.await.unwrap();
        rows.iter().filter(|(key, _)| JournalKey::decode(&cell.space, key).unwrap().part == 0).count()
    }

    /// An entry larger than the excess is removed whole, and the last one stays.
    #[tokio::test]
    async fn a_cutoff_by_bytes_never_cuts_an_entry_in_two() {
        let cell = TestCell::new().await;
        let mut meter = JournalMeter::default();
        for request in 1..4 {
            bytes_append(&cell, request, 3 * crate::journal::PART_BYTES_MAX, 0).await;
            measured(&cell, &mut meter).await;
        }
        for left in [2, 1] {
            trim_to(&cell, cutoff_of(&cell, 1, &meter).await.unwrap()).await;
            assert_eq!(floor_and_left(&cell).await.1.len(), left);
        }
        assert_eq!(cutoff_of(&cell, 1, &meter).await, None, "the last entry is kept until another follows");
        assert_eq!(cutoff_of(&cell, 0, &meter).await, None);
        assert_eq!(cutoff_of(&cell, 1, &JournalMeter::default()).await, None, "it has not looked");
    }

    /// Entries are longer than a segment, so its ends lie within them. No segment ends within an entry.
    #[tokio::test]
    async fn segments_hold_whole_entries() {
        let cell = TestCell::new().await;
        for request in 1..6 {
            bytes_append(&cell, request, 5_500_000, 0).await;
        }
        let mut meter = JournalMeter::default();
        let all = measured(&cell, &mut meter).await;
        let mut gone = 0;
        for left in (1..5).rev() {
            let cutoff = cutoff_of(&cell, 1, &meter).await.unwrap();
            trim_to(&cell, cutoff).await;
            gone += cutoff.bytes;
            assert_eq!(entries_count(&cell).await, left);
            assert_eq!(measured(&cell, &mut JournalMeter::default()).await, all - gone);
        }
        assert_eq!(cutoff_of(&cell, 1, &meter).await, None);
    }

    /// Rows of entries in the middle are gone, which nothing but a read of them would find.
    #[tokio::test]
    async fn a_cut_reads_none_of_the_entries_that_it_removes() {
        let cell = TestCell::new().await;
        for request in 1..=60 {
            bytes_append(&cell, request, 300_000, 1_000).await;
            cell.clock.advance(Duration::from_secs(1));
        }
        let mut meter = JournalMeter::default();
        let kept = measured(&cell, &mut meter).await;
        let page = cell.run(async |tx| {
            let begin = Cursor::start(journal_head(&tx, &cell.space).await?.store_epoch);
            super::super::journal_tail(&tx, &cell.space, begin, 5).await
        });
        let entries = page.await.unwrap().entries;
        let (first, last) = (entries[1].0, entries[4].0);
        let key = |at: Cursor| {
            JournalKey { store_epoch: at.store_epoch, stamp: at.stamp, part: 0 }.encode(&cell.space)
        };
        cell.run(async |tx| Ok(tx.clear_range(&key(first), &key(last))?)).await.unwrap();
        let cutoff = cutoff_of(&cell, kept, &meter).await.unwrap();
        assert!(cutoff.bytes > CUTOFF_BYTES / 2 && cutoff.bytes <= CUTOFF_BYTES, "{cutoff:?}");
        let before = usize::try_from(cutoff.bytes).unwrap() / 300_000;
        let left = 60 - before;
        trim_to(&cell, cutoff).await;
        assert!(entries_count(&cell).await.abs_diff(left) <= 1, "{before} entries were to go");
    }

    proptest! {
        /// A step goes as far as its goal or its bound, and no further than both allow.
        #[test]
        fn a_step_cuts_at_the_goal_or_at_its_bound(
            sizes in prop::collection::vec(1..6_000_000_u64, 0..12),
            excess in 0..40_000_000_u64,
            aged in 0..130_i64,
        ) {
            let at = |version| Versionstamp::new(version, 0);
            let segments: Vec<JournalSegment> = (1_i64..)
                .zip(&sizes)
                .map(|(number, bytes)| JournalSegment { end: at(number * 10), bytes: *bytes })
                .collect();
            let cutoff = segments_cut(segments.iter().copied(), excess, at(aged));
            // Byte by byte: what must go, and what one step may take.
            let (mut wanted, mut passed) = (at(aged), 0);
            for segment in &segments {
                if passed < excess {
                    wanted = wanted.max(segment.end);
                }
                passed += segment.bytes;
            }
            let taken = segments.iter().filter(|segment| segment.end <= cutoff.keep_from);
            prop_assert_eq!(taken.clone().map(|segment| segment.bytes).sum::<u64>(), cutoff.bytes);
            prop_assert!(cutoff.keep_from <= wanted, "nothing else goes");
            prop_assert!(cutoff.bytes <= CUTOFF_BYTES || taken.count() == 1);
            let next = segments.iter().find(|segment| segment.end > cutoff.keep_from);
            let full = next.is_some_and(|next| cutoff.bytes + next.bytes > CUTOFF_BYTES);
            prop_assert!(cutoff.keep_from == wanted || full && cutoff.bytes > 0);
        }
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
