//! A listing in chunks at different versions, then a replay: the state equals the store's.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::JobId;
use borough_model::job::{GoneVersions, JobKind, JobSpec};
use proptest::prelude::*;

use super::workload::Workload;
use crate::error::{StoreError, StoreResult};
use crate::job::{job_get, job_labels_set, job_submit, job_versions_forget};
use crate::journal::{Listed, Page, cell_list_chunked, journal_tail, journal_trim};
use crate::keys::{self, JournalKey, Prefix, RangeOptions};
use crate::mirror::MirrorState;
use crate::row::{Cursor, JournalPart};
use crate::task::is_on_node;
use crate::testing::{TestCell, change, name};

async fn page(cell: &TestCell, after: Cursor, limit: usize) -> StoreResult<Page> {
    cell.run(async |tx| journal_tail(&tx, &cell.space, after, limit).await).await
}

/// Applies pages from `after` to the end of the journal, each `times` times.
async fn replay(
    cell: &TestCell,
    state: &mut MirrorState,
    after: Cursor,
    limit: usize,
    times: usize,
) -> StoreResult<()> {
    state.replay_from(after);
    let mut after = after;
    loop {
        let page = page(cell, after, limit).await?;
        after = page.next;
        for _ in 0..times {
            for (cursor, entry) in &page.entries {
                state.apply(*cursor, entry);
            }
        }
        state.gate_note(page.gate.row());
        if !page.more {
            return Ok(());
        }
    }
}

/// Asserts that two states are equal. On failure it names the first difference, since whole states are long.
fn same(left: &MirrorState, right: &MirrorState, seed: u64) {
    if left == right {
        return;
    }
    let lines =
        |state: &MirrorState| -> Vec<String> { format!("{state:#?}").lines().map(str::to_owned).collect() };
    let (left, right) = (lines(left), lines(right));
    let at = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
    let around = |lines: &[String]| lines[at.saturating_sub(8)..lines.len().min(at + 4)].join("\n");
    panic!("seed {seed}, line {at}:\n{}\n--- the store:\n{}", around(&left), around(&right));
}

/// The state of a store that nobody changes meanwhile.
async fn quiet(cell: &TestCell) -> MirrorState {
    let mut state = MirrorState::default();
    let from = cell_list_chunked(&cell.db, &cell.space, 1_000, |listed| state.list(listed)).await.unwrap();
    replay(cell, &mut state, from, 1_000, 1).await.unwrap();
    state
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// Lists in small chunks with changes in between, replays, and compares.
async fn compare(seed: u64, before: u64, chunk_rows: usize, limit: usize) {
    let cell = TestCell::new().await;
    let mut workload = Workload::new(seed);
    for _ in 0..before {
        workload.step(&cell).await;
    }
    let mut state = MirrorState::default();
    let from = cell_list_chunked(&cell.db, &cell.space, chunk_rows, |listed| {
        state.list(listed);
        for _ in 0..workload.below(3) {
            // A change between two chunks, on a runtime of its own: a step may pause before a retry, and the timer of
            // the waiting runtime would never wake it.
            let step = || runtime().block_on(workload.step(&cell));
            std::thread::scope(|scope| scope.spawn(step).join()).unwrap();
        }
    });
    let from = from.await.unwrap();
    for _ in 0..workload.below(5) {
        workload.step(&cell).await;
    }
    replay(&cell, &mut state, from, limit, 1 + (seed % 2) as usize).await.unwrap();
    same(&state, &quiet(&cell).await, seed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever changes while chunks are read, listing and replay end with the store's own state.
    #[test]
    fn listing_and_replay_end_with_the_state_of_the_store(
        seed: u64, before in 0..60_u64, chunk_rows in 1..6_usize, limit in 1..20_usize,
    ) {
        runtime().block_on(compare(seed, before, chunk_rows, limit));
    }
}

/// Tailing from the very beginning gives the same as listing.
#[tokio::test]
async fn the_whole_journal_is_the_whole_state() {
    let cell = TestCell::new().await;
    let mut workload = Workload::new(3);
    for _ in 0..200 {
        workload.step(&cell).await;
    }
    let mut state = MirrorState::default();
    replay(&cell, &mut state, Cursor::start(1), 7, 1).await.unwrap();
    assert_eq!(state, quiet(&cell).await);
    let tasks = cell.run(async |tx| super::workload::count::<crate::keys::TaskKey>(&tx, &cell.space).await);
    assert_eq!(state.tasks().len(), tasks.await.unwrap());
    for node in state.nodes().keys() {
        assert!(state.node_tasks(*node).all(|row| row.node == Some(*node) && is_on_node(row.state)));
    }
}

/// A reader before the floor gets an error, at its first read and later. A reader at the floor continues.
#[tokio::test]
async fn a_trim_is_never_a_gap() {
    let cell = TestCell::new().await;
    let mut workload = Workload::new(5);
    for _ in 0..20 {
        workload.step(&cell).await;
    }
    let first = page(&cell, Cursor::start(1), 5).await.unwrap();
    assert!(first.more && first.entries.len() == 5);
    let (at_fifth, _) = first.entries[4];
    let tenth = page(&cell, at_fifth, 5).await.unwrap().entries[4].0;
    let trim =
        async |cutoff| cell.run(async |tx| journal_trim(&tx, &cell.space, cutoff, 1).await).await.unwrap();
    assert_eq!(trim(tenth.stamp).await.map(|at| at < tenth), Some(true), "the cutoff itself is kept");
    assert_eq!(trim(tenth.stamp).await, None, "nothing left to trim");
    let error = page(&cell, at_fifth, 5).await.unwrap_err();
    let StoreError::JournalTrimmed { floor, .. } = error else { panic!("{error}") };
    let rest = page(&cell, floor, 100).await.unwrap();
    assert_eq!(rest.entries[0].0, tenth);
    assert!(!rest.more);
    workload.step(&cell).await;
    assert_eq!(page(&cell, rest.next, 100).await.unwrap().entries.len(), 1);
}

/// A cell whose journal is a year old: an entry a day, of which none can be read any more. Whoever opens the cell lists
/// it and reads none of them.
#[tokio::test]
async fn a_cell_with_a_journal_of_a_year_is_opened_without_reading_it() {
    let cell = TestCell::new().await;
    let mut workload = Workload::new(21);
    for _ in 0..365 {
        workload.step(&cell).await;
        cell.clock.advance(std::time::Duration::from_secs(24 * 3_600));
    }
    let state = quiet(&cell).await;
    let damaged = cell.run(async |tx| {
        let rows =
            keys::range::<JournalKey>(&tx, &cell.space, &Prefix::all(), RangeOptions::snapshot()).await?;
        for (key, part) in &rows {
            // A part is missing: whoever reads the entry fails.
            keys::write(
                &tx,
                &cell.space,
                key,
                &JournalPart { parts: part.parts + 1, bytes: part.bytes.clone() },
            )?;
        }
        Ok(rows.len())
    });
    assert!(damaged.await.unwrap() > 100);
    assert!(page(&cell, Cursor::start(1), 10).await.is_err(), "it cannot be read");
    same(&quiet(&cell).await, &state, 21);
}

/// A listing may read a version before it is forgotten, and an entry that made it is replayed behind it.
#[tokio::test]
async fn versions_that_are_forgotten_during_a_listing_are_in_no_mirror() {
    let (cell, job) = (TestCell::new().await, JobId(1));
    let command = vec!["true".to_owned()];
    let spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, command);
    let submitted =
        cell.change(change(1, "job_submit"), async |tx, changes| job_submit(tx, changes, &spec, job).await);
    submitted.await.unwrap();
    for number in 1..60_u128 {
        let label = BTreeMap::from([("release".to_owned(), number.to_string())]);
        let labelled = cell.change(change(number + 1, "job_label"), async |tx, changes| {
            job_labels_set(tx, changes, job, &label, &BTreeSet::new()).await
        });
        labelled.await.unwrap();
    }
    let forget = async || {
        let row = cell.run(async |tx| job_get(&tx, &cell.space, job).await).await.unwrap();
        let known: BTreeSet<u32> = (1..=60).collect();
        let gone = GoneVersions::decide(&row, &known, &[7].into()).unwrap();
        let forgotten = cell.change(change(99, "job_versions_forget"), async |tx, changes| {
            job_versions_forget(tx, changes, job, row.revision, &gone, &known).await
        });
        assert_eq!(forgotten.await.unwrap(), 39);
    };
    let (mut state, mut specs) = (MirrorState::default(), 0_u32);
    let from = cell_list_chunked(&cell.db, &cell.space, 1, |listed| {
        specs += u32::from(matches!(listed, Listed::Spec { .. }));
        state.list(listed);
        if specs == 10 {
            specs += 1;
            std::thread::scope(|scope| scope.spawn(|| runtime().block_on(forget())).join()).unwrap();
        }
    });
    let from = from.await.unwrap();
    replay(&cell, &mut state, from, 5, 1).await.unwrap();
    let expected = quiet(&cell).await;
    let kept: Vec<u32> = [7].into_iter().chain(41..=60).collect();
    assert_eq!(expected.spec_versions(job).collect::<Vec<_>>(), kept);
    same(&state, &expected, 0);
    assert!(state.jobs_with_many_versions().is_empty());
    // All of it, from the very beginning.
    let mut followed = MirrorState::default();
    replay(&cell, &mut followed, Cursor::start(1), 7, 2).await.unwrap();
    same(&followed, &expected, 0);
    assert!(followed.jobs_with_many_versions().is_empty());
}
