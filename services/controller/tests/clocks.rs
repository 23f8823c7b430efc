//! A controller on a machine whose wall clock is wrong, or jumps: retention times are kept anyway.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::sync::Arc;
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_kv::env::{Clock, SeededRng};
use borough_model::JobId;
use borough_model::job::JobKind;
use borough_store::cell::CellMeta;
use borough_store::job::{job_get, job_stop, job_submit, job_tasks_gone};
use borough_store::mirror::MirrorFollower;
use borough_testkit::{MemoryStore, OffClock, OpenCell, Role, VirtualClock, cell_time, change, job_spec};

const HOUR_MS: i64 = 3_600_000;
/// The retention of an ended job.
const KEPT: Duration = Duration::from_secs(600);
const JOB: JobId = JobId(1);

/// A job that ends now, by the clock of the process that ends it.
async fn job_ended(cell: &OpenCell, clock: &dyn Clock) {
    let spec = job_spec("ada", "done", JobKind::Batch);
    let ended = cell.change(change(1, "job_end", clock.wall_ms()), async |tx, changes| {
        job_submit(tx, changes, &spec, JOB).await?;
        job_stop(tx, changes, JOB).await?;
        job_tasks_gone(tx, changes, JOB).await
    });
    ended.await.unwrap();
}

async fn is_kept(cell: &OpenCell) -> bool {
    cell.read(async |tx, space| job_get(tx, space, JOB).await).await.is_ok()
}

/// For how long a controller keeps a job if its machine is off by `off_ms`, and meanwhile jumps by as much the other
/// way.
async fn kept_for(off_ms: i64) -> Duration {
    // So late that no wall clock shows a time before 1970.
    let right = VirtualClock::at(1_000_000_000);
    let (off, rng) = (OffClock::new(Arc::clone(&right), off_ms), SeededRng::shared(1));
    let store = MemoryStore::new(Arc::clone(&right), Arc::clone(&rng));
    let kept_ms = u64::try_from(KEPT.as_millis()).unwrap();
    let meta = CellMeta { job_retention_ms: kept_ms, ..CellMeta::default() };
    let cell = OpenCell::create(store.quiet(), &meta).await;
    let OpenCell { db, space } = &cell;
    let gateway = cell_time(Arc::clone(&right), db, space).await;
    let time = cell_time(Arc::<OffClock>::clone(&off), db, space).await;
    let config = ControllerConfig {
        space: space.clone(),
        holder: "controller-1".to_owned(),
        lease_ms: 5_000,
        generation: 0,
        tick: Duration::from_secs(1),
        garbage: GarbageMetrics::default(),
    };
    let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&time), Arc::clone(&rng));
    let controller = Controller::new(config, db.clone(), mirror, time, rng);
    let controller = Role::begin(|cancelled| controller.run(cancelled));
    job_ended(&cell, &*gateway).await;
    let from = right.monotonic();
    while is_kept(&cell).await {
        let since = right.monotonic().saturating_sub(from);
        assert!(since < 4 * KEPT, "clock off by {off_ms}: kept for ever");
        if since > KEPT / 2 {
            off.jump(-off_ms);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let since = right.monotonic().saturating_sub(from);
    controller.end().await;
    since
}

#[tokio::test(start_paused = true)]
async fn an_ended_job_is_kept_for_its_time_whatever_the_wall_clock_of_the_controller_shows() {
    for off_ms in [0, HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS] {
        let kept = kept_for(off_ms).await;
        let (least, most) = (KEPT.mul_f64(0.8), KEPT.mul_f64(1.25) + Duration::from_secs(60));
        assert!(
            (least..=most).contains(&kept),
            "clock off by {off_ms}: kept for {kept:?} instead of {KEPT:?}"
        );
    }
}
