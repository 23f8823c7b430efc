//! Many jobs that stop at once.

use std::sync::Arc;
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_kv::env::SeededRng;
use borough_model::job::{JobKind, JobState};
use borough_model::{JobId, Name};
use borough_store::cell::CellMeta;
use borough_store::check::{CheckMode, cell_check, cell_rows_read};
use borough_store::job::{job_stop, job_submit};
use borough_store::journal::{Cursor, journal_tail};
use borough_store::mirror::MirrorFollower;
use borough_testkit::{MemoryStore, OpenCell, Role, VirtualClock, cell_time, change, job_spec};

const JOBS: u64 = 1_000;

/// They end in a few transactions, each with one action, and every one of them ends.
#[tokio::test(start_paused = true)]
async fn jobs_that_stop_at_once_end_together() {
    let clock = VirtualClock::at(1_000_000_000);
    let store = MemoryStore::new(Arc::clone(&clock), SeededRng::shared(1));
    let cell = OpenCell::create(store.quiet(), &CellMeta::default()).await;
    for id in 1..=JOBS {
        let mut spec = job_spec("ada", "brief", JobKind::Batch);
        spec.name = Name::new(format!("brief-{id}")).unwrap();
        let stopped = cell.change(change(id.into(), "stop", clock.wall_ms()), async |tx, changes| {
            job_submit(tx, changes, &spec, JobId(id)).await?;
            job_stop(tx, changes, JobId(id)).await
        });
        stopped.await.unwrap();
    }
    let time = cell_time(Arc::clone(&clock), &cell.db, &cell.space).await;
    let rng = SeededRng::shared(2);
    let (db, space) = (cell.db.clone(), cell.space.clone());
    let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&time), Arc::clone(&rng));
    let config = ControllerConfig {
        space,
        holder: "controller".to_owned(),
        lease_ms: 5_000,
        generation: 0,
        tick: Duration::from_secs(1),
        garbage: GarbageMetrics::default(),
    };
    let controller = Controller::new(config, db, mirror, time, rng);
    let controller = Role::begin(|cancelled| controller.run(cancelled));
    let from = clock.monotonic();
    loop {
        let rows = cell.read(async |tx, space| cell_rows_read(tx, space).await).await.unwrap();
        let ended = rows.jobs.values().filter(|row| matches!(row.state, JobState::Ended { .. })).count();
        if ended == 1_000 {
            break;
        }
        let since = clock.monotonic().saturating_sub(from);
        assert!(since < Duration::from_secs(600), "{ended} jobs have ended");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    controller.end().await;
    let entries = cell.read(async |tx, space| {
        let epoch = borough_store::cell::cell_gate_read(tx, space).await?.store_epoch;
        journal_tail(tx, space, Cursor::start(epoch), 100_000).await
    });
    let entries = entries.await.unwrap().entries;
    let ends = entries.iter().filter(|(_, entry)| entry.action == "job_end").count();
    assert!((1..=20).contains(&ends), "{ends} entries for the ends of 1,000 jobs");
    let broken = cell.read(async |tx, space| cell_check(tx, space, CheckMode::Settled).await).await;
    assert_eq!(broken.unwrap(), []);
}
