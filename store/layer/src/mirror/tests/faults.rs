//! The mirror over a store that does everything that the contract allows, with several producers at once.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, SeededRng};
use borough_kv::{FaultPlan, Versionstamp};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::workload::Workload;
use crate::journal::{cell_list_chunked, journal_head, journal_trim};
use crate::mirror::{MirrorEvent, MirrorFollower, MirrorOptions, MirrorState};
use crate::testing::{LATE, TestCell, seeds};

/// With `trims`, everything is trimmed again and again, so that tails and listings must begin again. Returns how often
/// a subscriber had to resync.
async fn converge(seed: u64, trims: bool) -> u32 {
    let mut resyncs = 0;
    let cell = Arc::new(TestCell::with_faults(seed, FaultPlan::heavy()).await);
    let clock = Arc::clone(&cell.clock) as Arc<dyn Clock>;
    let options = MirrorOptions { chunk_rows: 4, page_entries: 3, ..MirrorOptions::default() };
    let mirror = MirrorFollower::spawn_with(
        cell.db.clone(),
        cell.space.clone(),
        clock,
        SeededRng::shared(seed),
        options,
    );
    let mut producers = JoinSet::new();
    for producer in 0..4 {
        let cell = Arc::clone(&cell);
        producers.spawn_local(async move {
            let mut workload = Workload::new(seed.wrapping_mul(31).wrapping_add(producer));
            for _ in 0..25 {
                // A time-out is an answer too; the commit that it left in flight is awaited below.
                let _ = workload.try_step(&cell).await;
                tokio::task::yield_now().await;
            }
        });
    }
    if trims {
        let cell = Arc::clone(&cell);
        producers.spawn_local(async move {
            for round in 0..12_u64 {
                tokio::time::sleep(Duration::from_millis(round * 17)).await;
                let trimming =
                    cell.run(async |tx| journal_trim(&tx, &cell.space, Versionstamp::MAX, 1).await);
                let _ = trimming.await;
            }
        });
    }
    mirror.ready().await;
    let (mut seen, mut subscription) = mirror.subscribe_with(MirrorState::clone);
    while producers.join_next().await.is_some() {}
    tokio::time::sleep(LATE).await;
    let head = loop {
        if let Ok(head) = cell.run(async |tx| journal_head(&tx, &cell.space).await).await {
            break head;
        }
    };
    timeout(Duration::from_secs(3_600), mirror.wait_for(head)).await.unwrap().unwrap();
    let mut expected = loop {
        let mut state = MirrorState::default();
        let listing = cell_list_chunked(&cell.db, &cell.space, 5, |listed| state.list(listed));
        if let Ok(from) = listing.await {
            state.replay_from(from);
            break state;
        }
    };
    let shown = mirror.read(MirrorState::clone);
    expected.gate_note(shown.gate().unwrap());
    assert!(shown == expected, "seed {seed}: the mirror is not the store");
    while seen.cursor() < head {
        match timeout(Duration::from_secs(60), subscription.next()).await.unwrap().unwrap() {
            MirrorEvent::Entry { cursor, entry } => {
                assert!(seen.apply(cursor, &entry), "seed {seed}: delivered twice");
            }
            MirrorEvent::Resync => {
                assert!(trims, "seed {seed}: nothing was trimmed");
                resyncs += 1;
                (seen, subscription) = mirror.subscribe_with(MirrorState::clone);
            }
        }
    }
    assert!(seen == shown, "seed {seed}: what subscribers have seen is not the state");
    resyncs
}

/// `BOROUGH_SEED=<seed> cargo test -p borough-store mirror::tests::faults` repeats one run.
#[tokio::test(start_paused = true)]
async fn a_mirror_converges_whatever_the_store_does() {
    let seeds = seeds(20);
    let mut resyncs = 0;
    for &seed in &seeds {
        tokio::task::LocalSet::new().run_until(converge(seed, false)).await;
        resyncs += tokio::task::LocalSet::new().run_until(converge(seed, true)).await;
    }
    assert!(resyncs > 0 || seeds.len() == 1, "trims were never met");
}
