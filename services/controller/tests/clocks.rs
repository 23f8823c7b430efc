//! A controller on a machine whose wall clock is wrong, or jumps: retention times are kept anyway.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig};
use borough_kv::env::{Clock, SeededRng};
use borough_kv::{Database, EmbeddedEngine, Idempotency};
use borough_model::job::{JobKind, JobSpec};
use borough_model::{JobId, Name, RequestId};
use borough_store::cell::{CellClock, CellMeta, StoreOpened, cell_create};
use borough_store::job::{job_get, job_stop, job_submit, job_tasks_gone};
use borough_store::journal::{Change, ChangeSet};
use borough_store::mirror::MirrorFollower;
use borough_store::{CellSpace, StoreResult};
use tokio_util::sync::CancellationToken;

const HOUR_MS: i64 = 3_600_000;
/// The retention of an ended job.
const KEPT: Duration = Duration::from_secs(600);
const JOB: JobId = JobId(1);

/// A machine with the runtime's time and a wall clock that is off.
struct Machine {
    begin: tokio::time::Instant,
    off_ms: AtomicI64,
}

impl Machine {
    #[expect(clippy::disallowed_methods, reason = "the runtime's clock is the test's")]
    fn new(off_ms: i64) -> Arc<Self> {
        Arc::new(Self { begin: tokio::time::Instant::now(), off_ms: AtomicI64::new(off_ms) })
    }
}

impl Clock for Machine {
    fn monotonic(&self) -> Duration {
        self.begin.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        1_000_000_000
            + i64::try_from(self.begin.elapsed().as_millis()).unwrap()
            + self.off_ms.load(Ordering::SeqCst)
    }
}

/// The time of the cell on a machine, followed as a control role follows it.
async fn cell_time(machine: Arc<Machine>, db: &Database, space: &CellSpace) -> Arc<dyn Clock> {
    let time = CellClock::new(machine);
    time.begin(db, space, StoreOpened::Shared).await.unwrap();
    let (followed, db, space) = (Arc::clone(&time), db.clone(), space.clone());
    tokio::spawn(async move { followed.follow(db, space).await });
    time
}

/// A job that ends now, by the clock of the process that ends it.
async fn job_ended(db: &Database, space: &CellSpace, clock: &dyn Clock) {
    let name = |text: &str| Name::new(text).unwrap();
    let mut spec = JobSpec::defaults(name("ada"), name("done"), JobKind::Batch, vec!["true".to_owned()]);
    spec.count = 1;
    let change = &Change {
        request: RequestId(1),
        actor: "test".to_owned(),
        action: "job_end",
        at_ms: clock.wall_ms(),
    };
    let spec = &spec;
    let ended = db.run("test", Idempotency::Natural, |tx, _| async move {
        let mut changes = ChangeSet::begin(&tx, space, change).await?;
        job_submit(&tx, &mut changes, spec, JOB).await?;
        job_stop(&tx, &mut changes, JOB).await?;
        job_tasks_gone(&tx, &mut changes, JOB).await?;
        changes.append(&tx)?;
        StoreResult::Ok(())
    });
    ended.await.unwrap();
}

async fn is_kept(db: &Database, space: &CellSpace) -> bool {
    let read = db.run("test", Idempotency::ReadOnly, |tx, _| async move { job_get(&tx, space, JOB).await });
    read.await.is_ok()
}

/// For how long a controller keeps a job if its machine is off by `off_ms`, and meanwhile jumps by as much the other
/// way.
async fn kept_for(off_ms: i64) -> Duration {
    let (right, off) = (Machine::new(0), Machine::new(off_ms));
    let (clock, rng) = (Arc::<Machine>::clone(&right) as Arc<dyn Clock>, SeededRng::shared(1));
    let db = Database::new(Arc::new(EmbeddedEngine::ephemeral(Arc::clone(&clock), Arc::clone(&rng))));
    let space = &CellSpace::new(Name::new("alpha").unwrap());
    let kept_ms = u64::try_from(KEPT.as_millis()).unwrap();
    let meta = &CellMeta { job_retention_ms: kept_ms, ..CellMeta::default() };
    let made =
        db.run("test", Idempotency::Natural, |tx, _| async move { cell_create(&tx, space, meta, 1).await });
    made.await.unwrap();
    let gateway = cell_time(Arc::clone(&right), &db, space).await;
    let time = cell_time(Arc::clone(&off), &db, space).await;
    let config = ControllerConfig {
        space: space.clone(),
        holder: "controller-1".to_owned(),
        lease_ms: 5_000,
        generation: 0,
        tick: Duration::from_secs(1),
    };
    let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&time), Arc::clone(&rng));
    let cancelled = CancellationToken::new();
    let controller = Controller::new(config, db.clone(), mirror, time, rng).run(cancelled.clone());
    let controller = tokio::spawn(controller);
    job_ended(&db, space, &*gateway).await;
    let from = right.monotonic();
    while is_kept(&db, space).await {
        let since = right.monotonic().saturating_sub(from);
        assert!(since < 4 * KEPT, "clock off by {off_ms}: kept for ever");
        if since > KEPT / 2 {
            off.off_ms.store(-off_ms, Ordering::SeqCst);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let since = right.monotonic().saturating_sub(from);
    cancelled.cancel();
    controller.await.unwrap();
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
