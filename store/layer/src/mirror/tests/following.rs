//! The follower keeps up, sends events without gap or overlap, and lists again when it must.

use std::time::Duration;

use borough_kv::env::{Clock, SeededRng};
use borough_kv::{Idempotency, Versionstamp};
use tokio::time::timeout;

use super::workload::Workload;
use crate::cell::cell_gate_set;
use crate::error::StoreError;
use crate::journal::{cell_list_chunked, journal_head, journal_trim};
use crate::mirror::{MirrorEvent, MirrorFollower, MirrorHandle, MirrorOptions, MirrorState, Resume};
use crate::row::{CellState, Cursor};
use crate::testing::{TestCell, store_epoch_begin};

/// Far longer than any step here takes; with a paused clock it costs nothing.
const PATIENCE: Duration = Duration::from_secs(600);

fn follow(cell: &TestCell, options: MirrorOptions) -> MirrorHandle {
    let clock = std::sync::Arc::clone(&cell.clock) as std::sync::Arc<dyn Clock>;
    MirrorFollower::spawn_with(cell.db.clone(), cell.space.clone(), clock, SeededRng::shared(1), options)
}

async fn head(cell: &TestCell) -> Cursor {
    cell.run(async |tx| journal_head(&tx, &cell.space).await).await.unwrap()
}

/// The state of the store, which the mirror should show.
async fn expected(cell: &TestCell) -> MirrorState {
    let mut state = MirrorState::default();
    let from = cell_list_chunked(&cell.db, &cell.space, 1_000, |listed| state.list(listed)).await.unwrap();
    state.replay_from(from);
    state
}

async fn caught_up(cell: &TestCell, mirror: &MirrorHandle) {
    timeout(PATIENCE, mirror.wait_for(head(cell).await)).await.unwrap().unwrap();
    let mut expected = expected(cell).await;
    let shown = mirror.read(MirrorState::clone);
    expected.gate_note(shown.gate().unwrap());
    assert_eq!(shown, expected);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_keeps_up_and_sends_every_entry_once() {
    let cell = TestCell::new().await;
    let mut workload = Workload::new(11);
    for _ in 0..30 {
        workload.step(&cell).await;
    }
    let mirror = follow(&cell, MirrorOptions { chunk_rows: 3, page_entries: 4, ..MirrorOptions::default() });
    timeout(PATIENCE, mirror.ready()).await.unwrap();
    let (mut seen, mut subscription) = mirror.subscribe_with(MirrorState::clone);
    for round in 0..40 {
        workload.step(&cell).await;
        if round % 7 == 0 {
            caught_up(&cell, &mirror).await;
        }
    }
    caught_up(&cell, &mirror).await;
    let last = head(&cell).await;
    while seen.cursor() < last {
        let event = timeout(PATIENCE, subscription.next()).await.unwrap().unwrap();
        let MirrorEvent::Entry { cursor, entry } = event else { panic!("nothing was missed") };
        assert!(seen.apply(cursor, &entry), "delivered twice or out of order: {cursor}");
    }
    assert_eq!(seen, mirror.read(MirrorState::clone));
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_must_resync() {
    let cell = TestCell::new().await;
    let mut workload = Workload::new(12);
    let mirror = follow(&cell, MirrorOptions { events_max: 4, ..MirrorOptions::default() });
    timeout(PATIENCE, mirror.ready()).await.unwrap();
    let mut subscription = mirror.subscribe();
    for _ in 0..40 {
        workload.step(&cell).await;
    }
    caught_up(&cell, &mirror).await;
    assert!(matches!(subscription.next().await, Some(MirrorEvent::Resync)));
    assert!(subscription.next().await.is_none(), "a resync ends the subscription");
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_from_memory_as_far_back_as_it_reaches() {
    let cell = TestCell::new().await;
    let mut workload = Workload::new(13);
    let mirror = follow(&cell, MirrorOptions { deltas_max: 40, ..MirrorOptions::default() });
    timeout(PATIENCE, mirror.ready()).await.unwrap();
    let start = mirror.cursor();
    workload.step(&cell).await;
    caught_up(&cell, &mirror).await;
    let Resume::Ready { backlog, .. } = mirror.resume(start) else { panic!("it is in memory") };
    assert_eq!(backlog.len(), usize::from(head(&cell).await > start));
    for _ in 0..60 {
        workload.step(&cell).await;
    }
    caught_up(&cell, &mirror).await;
    assert!(matches!(mirror.resume(start), Resume::TooOld));
    let Resume::Ready { backlog, mut subscription } = mirror.resume(mirror.cursor()) else { panic!("now") };
    assert!(backlog.is_empty());
    let before = head(&cell).await;
    while head(&cell).await == before {
        workload.step(&cell).await;
    }
    let event = timeout(PATIENCE, subscription.next()).await.unwrap();
    assert!(matches!(event, Some(MirrorEvent::Entry { cursor, .. }) if cursor == head(&cell).await));
    let ahead = Cursor { stamp: Versionstamp::MAX, ..mirror.cursor() };
    assert!(matches!(mirror.resume(ahead), Resume::Ahead));
    assert!(matches!(mirror.resume(Cursor::start(0)), Resume::ForeignEpoch { current: 1 }));
}

/// Everything is trimmed while the follower does not read: it lists again, and notifies its subscribers.
#[tokio::test(start_paused = true)]
async fn a_trimmed_mirror_lists_again() {
    let cell = TestCell::new().await;
    let mut workload = Workload::new(14);
    let mirror = follow(&cell, MirrorOptions::default());
    timeout(PATIENCE, mirror.ready()).await.unwrap();
    let mut subscription = mirror.subscribe();
    // Nothing else runs between these steps: the store in memory answers without yielding.
    for _ in 0..20 {
        workload.step(&cell).await;
    }
    let trimmed = cell.run(async |tx| journal_trim(&tx, &cell.space, Versionstamp::MAX, 1).await);
    assert!(trimmed.await.unwrap().is_some());
    let event = timeout(PATIENCE, subscription.next()).await.unwrap();
    assert!(matches!(event, Some(MirrorEvent::Resync)));
    caught_up(&cell, &mirror).await;
}

/// A new epoch of the store: the mirror begins again, and positions of the old epoch are refused.
#[tokio::test(start_paused = true)]
async fn a_mirror_begins_again_with_a_new_epoch() {
    let cell = TestCell::new().await;
    let mut workload = Workload::new(15);
    for _ in 0..20 {
        workload.step(&cell).await;
    }
    let mirror = follow(&cell, MirrorOptions::default());
    timeout(PATIENCE, mirror.ready()).await.unwrap();
    let old = mirror.cursor();
    let gate = cell.run(async |tx| store_epoch_begin(&tx, &cell.space, 1).await).await.unwrap();
    assert_eq!(gate.store_epoch, 2);
    timeout(PATIENCE, mirror.wait_for(Cursor::start(2))).await.unwrap().unwrap();
    assert!(matches!(mirror.wait_for(old).await, Err(StoreError::ForeignEpoch { current: 2, .. })));
    assert!(matches!(mirror.resume(old), Resume::ForeignEpoch { current: 2 }));
    workload.step(&cell).await;
    caught_up(&cell, &mirror).await;
}

/// The timer shows a changed gate at the latest. Staleness is measured by the clock and ends with a read.
#[tokio::test(start_paused = true)]
async fn the_gate_and_the_age_of_the_state_are_known() {
    let cell = TestCell::new().await;
    let mirror = follow(&cell, MirrorOptions::default());
    timeout(PATIENCE, mirror.ready()).await.unwrap();
    cell.run(async |tx| cell_gate_set(&tx, &cell.space, CellState::Draining, 5).await).await.unwrap();
    cell.clock.advance(Duration::from_secs(3));
    assert_eq!(mirror.staleness(), Duration::from_secs(3));
    let seen = async {
        while mirror.gate().is_none_or(|gate| gate.state != CellState::Draining) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, seen).await.unwrap();
    assert_eq!(mirror.staleness(), Duration::ZERO);
}

/// Dropping the last handle ends the follower and releases the store's handle.
#[tokio::test(start_paused = true)]
async fn the_last_handle_ends_the_follower() {
    let cell = TestCell::new().await;
    let mirror = follow(&cell, MirrorOptions::default());
    timeout(PATIENCE, mirror.ready()).await.unwrap();
    let mut subscription = mirror.subscribe();
    drop(mirror.clone());
    assert!(mirror.is_ready());
    drop(mirror);
    let ended = timeout(PATIENCE, subscription.next()).await.unwrap();
    assert!(ended.is_none());
    let read = cell.db.run("test", Idempotency::ReadOnly, |tx, _| async move { tx.get(b"x").await });
    assert!(read.await.unwrap().is_none());
}
