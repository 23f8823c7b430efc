//! Several producers, a trimmer, a new epoch in between, and a reader, over a store that fails every other operation.
//! Every gap is reported to the reader, and in the end it has seen the last entry of each producer.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use borough_kv::{FaultPlan, Versionstamp};
use borough_model::node::NodeAlloc;
use borough_model::{Delta, JobId, NodeId};

use super::*;
use crate::error::{StoreError, StoreResult};
use crate::gate::cell_gate_read;
use crate::keys::{self, NodeAllocKey};
use crate::testing::{LATE, TestCell, change, seeds, store_epoch_begin};

const PRODUCERS: u64 = 3;
const ENTRIES: u64 = 25;

/// Padding for some entries, so that they have several parts.
const BALLAST: usize = 2 * PART_BYTES_MAX / 10;

/// Counts up in the producer's own row, and records it in the journal.
async fn produce(cell: &TestCell, producer: u64) -> StoreResult<()> {
    let (key, node) = (NodeAllocKey { node: NodeId(producer) }, NodeId(producer));
    cell.change(change(u128::from(producer), "count"), async |tx, changes| {
        let before = keys::read(tx, &cell.space, &key).await?.unwrap_or_default();
        let alloc = NodeAlloc { epoch: before.epoch + 1, ..before };
        keys::write(tx, &cell.space, &key, &alloc)?;
        let large = alloc.epoch % 8 == producer;
        changes.push(Delta::NodeAlloc { node, alloc });
        if large {
            let large = |job| Delta::JobRemoved { job: JobId(u64::MAX - job), name: None };
            (0..).take(BALLAST).map(large).for_each(|delta| changes.push(delta));
        }
        Ok(())
    })
    .await
}

/// What a reader has seen.
struct Reader {
    after: Cursor,
    seen: BTreeMap<NodeId, u64>,
    /// Producers of which entries may be missing, by the reports to the reader.
    reported_gaps: Vec<NodeId>,
}

impl Reader {
    fn missed(&mut self, after: Cursor) {
        self.after = after;
        self.reported_gaps = (0..PRODUCERS).map(NodeId).collect();
    }

    /// Reads a page. Returns true if it was the last.
    async fn read(&mut self, cell: &TestCell, seed: u64) -> bool {
        let after = self.after;
        let page = match cell.run(async |tx| journal_tail(&tx, &cell.space, after, 3).await).await {
            Ok(page) => page,
            Err(StoreError::JournalTrimmed { floor, .. }) => {
                self.missed(floor);
                return false;
            }
            Err(StoreError::ForeignEpoch { current, .. }) => {
                self.missed(Cursor::start(current));
                return false;
            }
            Err(StoreError::Kv(_)) => return false,
            Err(error) => panic!("seed {seed}: {error:?}"),
        };
        for (at, entry) in &page.entries {
            assert!(*at > self.after, "seed {seed}: {at} after {}", self.after);
            self.after = *at;
            for delta in &entry.deltas {
                let Delta::NodeAlloc { node, alloc } = delta else { continue };
                let before = self.seen.insert(*node, alloc.epoch).unwrap_or_default();
                let next = alloc.epoch == before + 1;
                let jump = alloc.epoch > before && self.reported_gaps.contains(node);
                assert!(next || jump, "seed {seed}: {node} counts {} after {before}", alloc.epoch);
                self.reported_gaps.retain(|gap| gap != node);
            }
        }
        !page.more
    }
}

/// Trims half of the entries, and once begins a new epoch.
async fn disturb(cell: &TestCell, round: u64) {
    let trim = cell.run(async |tx| {
        let head = journal_head(&tx, &cell.space).await?;
        let floor = journal_floor(&tx, &cell.space).await?;
        let low = floor.filter(|floor| floor.trimmed_to.store_epoch == head.store_epoch);
        let low = low.map_or(0, |floor| floor.trimmed_to.stamp.version());
        let cutoff = low.midpoint(head.stamp.version().max(low));
        journal_trim(&tx, &cell.space, Versionstamp::new(cutoff, 0), 1).await
    });
    trim.await.ok();
    if round == 5 {
        let begin = cell.run(async |tx| {
            let epoch = cell_gate_read(&tx, &cell.space).await?.store_epoch;
            store_epoch_begin(&tx, &cell.space, epoch.min(1)).await
        });
        begin.await.ok();
    }
}

/// One seed alone: `BOROUGH_SEED=<seed> cargo test -p borough-store journal`.
#[tokio::test(start_paused = true)]
async fn every_gap_is_reported_to_its_reader() {
    let (mut epochs, mut gaps) = (0, 0);
    for seed in seeds(15) {
        let cell = Rc::new(TestCell::with_faults(seed, FaultPlan::heavy()).await);
        let everybody = tokio::task::LocalSet::new();
        for producer in 0..PRODUCERS {
            let cell = Rc::clone(&cell);
            everybody.spawn_local(async move {
                for _ in 0..ENTRIES {
                    produce(&cell, producer).await.ok();
                    cell.clock.advance(std::time::Duration::from_millis(3));
                    tokio::time::sleep(std::time::Duration::from_millis(1 + producer)).await;
                }
            });
        }
        let disturbed = Rc::clone(&cell);
        everybody.spawn_local(async move {
            for round in 0..10 {
                tokio::time::sleep(std::time::Duration::from_millis(7)).await;
                disturb(&disturbed, round).await;
            }
        });
        let mut reader = Reader { after: Cursor::start(1), seen: BTreeMap::new(), reported_gaps: Vec::new() };
        let reading = everybody.run_until(async {
            for _ in 0..40 {
                reader.read(&cell, seed).await;
                gaps += usize::from(!reader.reported_gaps.is_empty());
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        });
        reading.await;
        everybody.await;
        tokio::time::sleep(LATE).await;
        while !reader.read(&cell, seed).await {}
        epochs += u32::from(reader.after.store_epoch > 1);
        for producer in 0..PRODUCERS {
            let key = NodeAllocKey { node: NodeId(producer) };
            let stored = loop {
                if let Ok(stored) = cell.run(async |tx| keys::read(&tx, &cell.space, &key).await).await {
                    break stored.unwrap_or_default().epoch;
                }
            };
            // The reader was informed of everything trimmed before it was read. That may include a producer's last
            // entry.
            let seen = reader.seen.get(&NodeId(producer)).copied().unwrap_or_default();
            let is_reported = reader.reported_gaps.contains(&NodeId(producer));
            assert!(
                seen == stored || (is_reported && seen < stored),
                "seed {seed}: {producer} is at {stored}, seen {seen}"
            );
        }
    }
    assert!(
        std::env::var("BOROUGH_SEED").is_ok() || (epochs > 5 && gaps > 0),
        "{epochs} epochs, {gaps} gaps"
    );
}

/// The journal, backwards in pages of `limit`.
async fn backwards(cell: &TestCell, limit: usize) -> Vec<(Cursor, borough_model::JournalEntry)> {
    let (mut entries, mut end) = (Vec::new(), Bound::Unbounded);
    loop {
        let page = cell.run(async |tx| journal_before(&tx, &cell.space, end, limit).await).await.unwrap();
        assert!(page.entries.len() <= limit, "a page has at most its limit");
        entries.extend(page.entries);
        let Some(next) = page.next else { return entries };
        end = Bound::Excluded(next);
    }
}

/// Entries of one part and of several come whole, the newest first, whatever the pages are.
#[tokio::test]
async fn the_journal_is_read_backwards_as_forwards() {
    let cell = TestCell::new().await;
    for round in 0..12 {
        produce(&cell, round % PRODUCERS).await.unwrap();
    }
    let all = cell.run(async |tx| {
        let begin = Cursor::start(cell_gate_read(&tx, &cell.space).await?.store_epoch);
        journal_tail(&tx, &cell.space, begin, usize::MAX).await
    });
    let mut expected = all.await.unwrap().entries;
    assert!(expected.iter().any(|(_, entry)| entry.deltas.len() > 1_000), "none has several parts");
    expected.reverse();
    for limit in [1, 2, 5, 100] {
        assert_eq!(backwards(&cell, limit).await, expected, "pages of {limit}");
    }
    let (newest, second) = (expected[0].0, expected[1].0);
    let page = async |end| cell.run(async |tx| journal_before(&tx, &cell.space, end, 1).await).await.unwrap();
    assert_eq!(page(Bound::Included(newest)).await.entries[0].0, newest);
    assert_eq!(page(Bound::Excluded(newest)).await.entries[0].0, second);
    let foreign = Bound::Included(Cursor::start(77));
    let refused = cell.run(async |tx| journal_before(&tx, &cell.space, foreign, 1).await).await;
    assert!(matches!(refused, Err(StoreError::ForeignEpoch { .. })), "{refused:?}");
}

/// A journal of a year that nobody has trimmed, an entry of 90 kB a day. It goes in steps, each of which
/// clears no more than its bound.
#[tokio::test]
async fn a_journal_of_a_year_is_trimmed_in_bounded_steps() {
    const DAYS: i64 = 365;
    const DAY_MS: i64 = 24 * 3_600_000;
    /// What a step removes at most.
    const STEP_BYTES: u64 = 12 << 20;
    let cell = TestCell::new().await;
    let text = "x".repeat(90_000);
    for day in 0..DAYS {
        let request = borough_model::RequestId(u128::try_from(day).unwrap());
        let at = Change { request, actor: text.clone(), action: "test", at_ms: 1_000 + day * DAY_MS };
        let told = cell.change(at, async |_, changes| {
            changes.push(Delta::NodeRemoved { node: NodeId(1), name: None });
            Ok(())
        });
        told.await.unwrap();
        cell.clock.advance(std::time::Duration::from_secs(24 * 3_600));
    }
    let goal = TrimGoal { retention_ms: 3_600_000, now_ms: 1_000 + DAYS * DAY_MS, excess: 0 };
    let mut meter = JournalMeter::default();
    let look = cell.run(async |tx| meter.look(&tx, &cell.space).await).await.unwrap();
    meter.note(look);
    let (meter, mut steps) = (&meter, Vec::new());
    loop {
        let step = cell.run(async |tx| {
            let Some(cutoff) = journal_cutoff(&tx, &cell.space, &goal, meter).await? else { return Ok(None) };
            Ok(journal_trim(&tx, &cell.space, cutoff.keep_from, 1).await?.map(|_| cutoff.bytes))
        });
        match step.await.unwrap() {
            Some(bytes) => steps.push(bytes),
            None => break,
        }
    }
    assert!(steps.iter().all(|bytes| *bytes <= STEP_BYTES), "{steps:?}");
    assert!((3..=4).contains(&steps.len()), "{steps:?}");
    let floor = cell.run(async |tx| journal_floor(&tx, &cell.space).await).await.unwrap().unwrap();
    let left = cell.run(async |tx| journal_tail(&tx, &cell.space, floor.trimmed_to, 10).await).await.unwrap();
    assert_eq!(left.entries.len(), 1, "the last entry stays");
}
