//! Garbage collection of a cell by several controllers at once, of which one leads.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_kv::env::{Clock, SeededRng};
use borough_model::job::{After, AfterCondition, JobKind, VERSIONS_KEPT_MAX};
use borough_model::{Delta, JobId, Name, RequestId};
use borough_store::cell::CellMeta;
use borough_store::check::{CheckMode, cell_check};
use borough_store::job::{job_get, job_history, job_labels_set, job_stop, job_submit, job_tasks_gone};
use borough_store::mirror::MirrorFollower;
use borough_store::request::{RequestBegun, request_begin, request_finish};
use borough_testkit::{MemoryStore, OpenCell, Role, VirtualClock, cell_time, change, job_spec, metrics_text};

/// A cell and the processes that are beside each other in it.
struct GarbageWorld {
    cell: OpenCell,
    clock: Arc<dyn Clock>,
    controllers: Vec<Role>,
    garbage: GarbageMetrics,
}

impl GarbageWorld {
    async fn new(meta: &CellMeta, controllers: u64) -> Self {
        let clock = VirtualClock::at(1_000_000_000);
        let store = MemoryStore::new(Arc::clone(&clock), SeededRng::shared(1));
        let cell = OpenCell::create(store.quiet(), meta).await;
        let (mut roles, garbage) = (Vec::new(), GarbageMetrics::default());
        for place in 0..controllers {
            let OpenCell { db, space } = &cell;
            let time = cell_time(Arc::clone(&clock), db, space).await;
            let config = ControllerConfig {
                space: space.clone(),
                holder: format!("controller-{place}"),
                lease_ms: 5_000,
                generation: 0,
                tick: Duration::from_secs(1),
                garbage: garbage.clone(),
            };
            let rng = SeededRng::shared(10 + place);
            let mirror =
                MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&time), Arc::clone(&rng));
            let controller = Controller::new(config, db.clone(), mirror, time, rng);
            roles.push(Role::begin(|cancelled| controller.run(cancelled)));
        }
        Self { cell, clock, controllers: roles, garbage }
    }

    /// Submits and ends a job, and remembers an answer.
    async fn job_ended(&self, id: u64) {
        let mut spec = job_spec("ada", "done", JobKind::Batch);
        spec.name = Name::new(format!("done-{id}")).unwrap();
        let (job, request) = (JobId(id), RequestId(u128::from(id)));
        let at_ms = self.clock.wall_ms();
        let ended = self.cell.change(change(request.0, "job_end", at_ms), async |tx, changes| {
            job_submit(tx, changes, &spec, job).await?;
            job_stop(tx, changes, job).await?;
            job_tasks_gone(tx, changes, job).await?;
            request_finish(tx, changes.space(), request, b"digest", b"answer", at_ms + 60_000)
        });
        ended.await.unwrap();
    }

    async fn jobs(&self) -> usize {
        self.cell.read(async |tx, space| cell_check_jobs(tx, space).await).await.unwrap()
    }

    async fn jobs_until(&self, wanted: impl Fn(usize) -> bool) -> Duration {
        let from = self.clock.monotonic();
        loop {
            let (jobs, since) = (self.jobs().await, self.clock.monotonic().saturating_sub(from));
            if wanted(jobs) {
                return since;
            }
            assert!(since < Duration::from_secs(3_600), "{jobs} jobs are left");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn end(self) {
        let broken = self.cell.read(async |tx, space| cell_check(tx, space, CheckMode::Settled).await).await;
        assert_eq!(broken.unwrap(), []);
        for controller in self.controllers {
            controller.end().await;
        }
    }
}

async fn cell_check_jobs(
    tx: &borough_kv::Transaction,
    space: &borough_store::CellSpace,
) -> borough_store::StoreResult<usize> {
    Ok(borough_store::check::cell_rows_read(tx, space).await?.jobs.len())
}

/// Every job is removed once, whoever comes first, and the answers with them.
#[tokio::test(start_paused = true)]
async fn controllers_remove_what_is_past_its_retention_together() {
    const JOBS: u64 = 400;
    let meta = CellMeta { job_retention_ms: 120_000, ..CellMeta::default() };
    let world = GarbageWorld::new(&meta, 3).await;
    for id in 1..=JOBS {
        world.job_ended(id).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.jobs().await, usize::try_from(JOBS).unwrap(), "they are kept for two minutes");
    world.jobs_until(|jobs| jobs == 0).await;
    let journal = world.cell.journal().await;
    let removed = journal.iter().flat_map(|(_, entry)| &entry.deltas).filter_map(|delta| match delta {
        Delta::JobRemoved { job, .. } => Some(*job),
        _ => None,
    });
    let removed: Vec<JobId> = removed.collect();
    assert_eq!(removed.len(), removed.iter().collect::<BTreeSet<_>>().len(), "none is removed twice");
    assert_eq!(removed.len(), usize::try_from(JOBS).unwrap());
    let known = world.cell.read(async |tx, space| request_begin(tx, space, RequestId(7), b"digest").await);
    assert_eq!(known.await.unwrap(), RequestBegun::Fresh, "its answer has expired");
    let text = metrics_text(|registry| world.garbage.register(registry));
    let line = format!("borough_garbage_removed_total{{cell=\"{}\",kind=\"jobs\"}} {JOBS}", world.cell.space);
    assert!(text.contains(&line), "{text}");
    world.end().await;
}

/// A tenant who ends jobs faster than their retention fills nothing: the oldest go early.
#[tokio::test(start_paused = true)]
async fn a_cell_keeps_only_so_many_ended_jobs_however_young_they_are() {
    let meta = CellMeta { ended_jobs_max: Some(160), ..CellMeta::default() };
    let world = GarbageWorld::new(&meta, 2).await;
    for id in 1..=1_000 {
        world.job_ended(id).await;
        if id % 100 == 0 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let jobs = world.jobs().await;
            assert!(jobs <= 160, "{jobs} are kept after {id}");
        }
    }
    // A part gives up its share, and another collector may do so at the same time: some go early, and many stay.
    let jobs = world.jobs().await;
    assert!(jobs >= 60, "{jobs} of 160 are kept");
    let kept = world.cell.read(async |tx, space| borough_store::check::cell_rows_read(tx, space).await).await;
    let oldest = kept.unwrap().jobs.keys().next().copied().unwrap();
    assert!(oldest > JobId(600), "the oldest go first, and {oldest} is left");
    world.end().await;
}

/// A job that waits for two others starts when the second has ended, however long ago the first one did.
#[tokio::test(start_paused = true)]
async fn an_ended_job_stays_while_another_one_waits_for_it() {
    let meta = CellMeta { job_retention_ms: 60_000, ..CellMeta::default() };
    let world = GarbageWorld::new(&meta, 2).await;
    let mut waiting = job_spec("ada", "then", JobKind::Batch);
    waiting.after = ["done-1", "later"]
        .map(|job| After { job: Name::new(job).unwrap(), condition: AfterCondition::Finished })
        .into();
    let at_ms = world.clock.wall_ms();
    let submitted = world.cell.change(change(99, "job_submit", at_ms), async |tx, changes| {
        job_submit(tx, changes, &waiting, JobId(99)).await
    });
    submitted.await.unwrap();
    world.job_ended(1).await;
    world.job_ended(2).await;
    world.jobs_until(|jobs| jobs == 2).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let kept = world.cell.read(async |tx, space| job_get(tx, space, JobId(1)).await).await.unwrap();
    assert_eq!(kept.name.as_str(), "done-1", "the one that is awaited stays");
    let at_ms = world.clock.wall_ms();
    let stopped = world.cell.change(change(100, "job_end", at_ms), async |tx, changes| {
        job_stop(tx, changes, JobId(99)).await?;
        job_tasks_gone(tx, changes, JobId(99)).await
    });
    stopped.await.unwrap();
    world.jobs_until(|jobs| jobs == 0).await;
    world.end().await;
}

/// A job that gets labels for years does not grow for ever: the store keeps its newest versions.
#[tokio::test(start_paused = true)]
async fn old_versions_of_a_job_are_forgotten() {
    let world = GarbageWorld::new(&CellMeta::default(), 2).await;
    let (spec, at_ms) = (job_spec("ada", "web", JobKind::Service), world.clock.wall_ms());
    let submitted = world.cell.change(change(1, "job_submit", at_ms), async |tx, changes| {
        job_submit(tx, changes, &spec, JobId(1)).await
    });
    submitted.await.unwrap();
    let kept = async || {
        let (user, name) = (&spec.user, &spec.name);
        let history = world.cell.read(async |tx, space| job_history(tx, space, user, name, 10).await);
        history.await.unwrap().into_iter().map(|known| known.version).collect::<Vec<_>>()
    };
    for number in 1..100_u128 {
        let label = BTreeMap::from([("release".to_owned(), number.to_string())]);
        let labelled = world.cell.change(change(number + 1, "job_label", at_ms), async |tx, changes| {
            job_labels_set(tx, changes, JobId(1), &label, &BTreeSet::new()).await
        });
        labelled.await.unwrap();
        if number % 10 == 0 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(kept().await.len() <= VERSIONS_KEPT_MAX, "after {number}: {:?}", kept().await);
        }
    }
    let (newest, versions) = ((81..=100).rev().collect::<Vec<u32>>(), kept().await);
    assert!(versions.starts_with(&newest), "{versions:?}");
    let text = metrics_text(|registry| world.garbage.register(registry));
    let gone = 100 - versions.len();
    let line =
        format!("borough_garbage_removed_total{{cell=\"{}\",kind=\"versions\"}} {gone}", world.cell.space);
    assert!(text.contains(&line), "{line} in {text}");
    world.end().await;
}
