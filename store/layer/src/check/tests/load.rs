//! Reads cells in chunks while workers, operators and agents change them.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::SeededRng;
use borough_kv::{Database, Engine, FaultEngine, FaultPlan};
use borough_model::{JobId, JournalEntry, RequestId};

use super::super::load::delta_apply;
use super::super::*;
use crate::job::{JobAdmission, jobs_admit};
use crate::journal::{Change, journal_tail, journal_trim};
use crate::placement::tests::Steps;
use crate::placement::tests::world::World;
use crate::request::{RequestDone, requests_finish};
use crate::row::Cursor;
use crate::testing::{TestCell, change, job_spec, name, seeds};

/// Every entry up to `upto`.
pub(crate) async fn entries(world: &World, upto: Cursor) -> Vec<(Cursor, JournalEntry)> {
    let read = world.read(async |tx, space| {
        let page = journal_tail(tx, space, Cursor::start(upto.store_epoch), 1_000_000).await?;
        assert!(!page.more);
        Ok(page.entries)
    });
    read.await.unwrap().into_iter().filter(|(at, _)| *at <= upto).collect()
}

/// The rows that follow from the journal equal those that were read.
pub(crate) fn assert_same(loaded: &CellRows, model: &CellRows, seed: u64) {
    assert_eq!(loaded.nodes, model.nodes, "seed {seed}");
    assert_eq!(loaded.allocs, model.allocs, "seed {seed}");
    assert_eq!(loaded.node_tasks, model.node_tasks, "seed {seed}");
    assert_eq!(loaded.node_names, model.node_names, "seed {seed}");
    assert_eq!(loaded.jobs, model.jobs, "seed {seed}");
    assert_eq!(loaded.specs, model.specs, "seed {seed}");
    assert_eq!(loaded.names, model.names, "seed {seed}");
    assert_eq!(loaded.past, model.past, "seed {seed}");
    assert_eq!(loaded.tasks, model.tasks, "seed {seed}");
    assert_eq!(loaded.gangs, model.gangs, "seed {seed}");
    assert_eq!(loaded.endpoints, model.endpoints, "seed {seed}");
    assert_eq!(loaded.merged_services, model.merged_services, "seed {seed}");
    assert_eq!(loaded.name_revisions, model.name_revisions, "seed {seed}");
}

/// The world's store for a reader that waits before each transaction, so that others make progress.
pub(crate) fn slow(world: &World) -> Database {
    let plan = FaultPlan {
        read_version_slow: 1.0,
        read_version_delay_max: Duration::from_millis(8),
        ..FaultPlan::none()
    };
    let inner = Arc::clone(&world.faults) as Arc<dyn Engine>;
    Database::new(Arc::new(FaultEngine::new(inner, plan, SeededRng::shared(world.seed ^ 7))))
}

/// Loads with chunks of a few rows while the world changes. The rows belong to one position and break no rule.
async fn load_while_it_changes(seed: u64) -> bool {
    let (mut world, mut steps) = (World::new(seed).await, Steps::new());
    for _ in 0..80 {
        steps.step(&mut world).await;
    }
    let (db, space) = (slow(&world), world.space.clone());
    let chunk_rows = usize::try_from(1 + world.below(6)).unwrap();
    let mut entries_seen = Vec::new();
    let loading = cell_rows_load(&db, &space, chunk_rows, |progress| entries_seen.push(progress.entries));
    let going_on = async {
        loop {
            steps.step(&mut world).await;
        }
    };
    let (loaded, at) = tokio::select! {
        loaded = loading => loaded.unwrap(),
        () = going_on => unreachable!("it goes on"),
    };
    let lines: Vec<String> =
        cell_violations(&loaded, CheckMode::Always).iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "seed {seed}:\n{}", lines.join("\n"));
    let mut model = CellRows::default();
    for (cursor, entry) in entries(&world, at).await {
        entry.deltas.into_iter().for_each(|delta| delta_apply(&mut model, cursor, delta));
    }
    assert_same(&loaded, &model, seed);
    entries_seen.last() > entries_seen.get(1)
}

/// One seed alone: `BOROUGH_SEED=<seed> cargo test -p borough-store check::tests`.
#[tokio::test(start_paused = true)]
async fn a_load_in_chunks_is_of_one_position_whatever_happens_meanwhile() {
    for seed in seeds(6) {
        assert!(
            Box::pin(load_while_it_changes(seed)).await,
            "seed {seed}: nothing was written during the load"
        );
    }
}

/// A job that a load has seen has the record of its request, also if it was admitted with others meanwhile. An export
/// without the record would let a repeated submission do its work twice.
#[tokio::test(start_paused = true)]
async fn a_load_has_the_requests_of_jobs_that_are_admitted_together_meanwhile() {
    let plan = FaultPlan {
        read_version_slow: 1.0,
        read_version_delay_max: Duration::from_millis(8),
        ..FaultPlan::none()
    };
    for seed in seeds(20) {
        let cell = TestCell::with_faults(seed, plan.clone()).await;
        let submit = async |batch: u64| {
            let spec = |job: u64| job_spec(name("ada"), name(&format!("job-{job}")));
            let specs: Vec<_> = (batch * 3..batch * 3 + 3).map(|job| (job + 1, spec(job))).collect();
            let (requests, specs) = (specs.iter().map(|(job, _)| u128::from(*job)), &specs);
            let requests: Vec<RequestId> = requests.map(RequestId).collect();
            let entry = RequestId(1_000_000 + u128::from(batch));
            let change = Change { request: entry, ..change(1, "job_submit") };
            let submitted = cell.change(change, async |tx, changes| {
                let jobs = specs.iter().zip(&requests).map(|((job, spec), request)| JobAdmission {
                    spec,
                    candidate: JobId(*job),
                    request: *request,
                    submitted_ms: 1_000,
                });
                let admitted = jobs_admit(tx, changes, &jobs.collect::<Vec<_>>()).await?;
                assert!(admitted.iter().all(Option::is_some));
                let done =
                    requests.iter().map(|&request| RequestDone { request, digest: b"x", result: vec![1] });
                requests_finish(tx, changes.space(), entry, done.collect(), 1 << 40)
            });
            submitted.await.unwrap();
        };
        for batch in 0..4 {
            submit(batch).await;
        }
        let (db, space) = (cell.db.clone(), cell.space.clone());
        let loading = cell_rows_load(&db, &space, 2, |_| {});
        let going_on = async {
            for batch in 4.. {
                submit(batch).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let loaded = tokio::select! {
            loaded = loading => loaded.unwrap().0,
            () = going_on => unreachable!("it goes on"),
        };
        assert!(loaded.jobs.len() > 12, "seed {seed}: nothing was submitted during the load");
        let lacking: Vec<_> =
            loaded.jobs.values().filter(|row| !loaded.requests.contains_key(&row.request)).collect();
        assert!(lacking.is_empty(), "seed {seed}: {lacking:?}");
        assert_eq!(cell_violations(&loaded, CheckMode::Always), [], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_needs_no_more_of_the_journal_than_is_kept() {
    let (mut world, mut steps) = (World::new(3).await, Steps::new());
    for _ in 0..60 {
        steps.step(&mut world).await;
    }
    let half = entries(&world, Cursor { store_epoch: 1, stamp: borough_kv::Versionstamp::MAX }).await;
    let cutoff = half[half.len() / 2].0.stamp;
    world.read(async |tx, space| journal_trim(tx, space, cutoff, 1).await).await.unwrap();
    let (loaded, _) = cell_rows_load(&world.db, &world.space, 5, |_| {}).await.unwrap();
    assert!(!loaded.journal_record.complete && !loaded.journal_record.last.is_empty());
    assert_eq!(cell_violations(&loaded, CheckMode::Always), []);
    let everything = world.rows().await;
    assert_eq!(loaded.tasks, everything.tasks);
    assert_eq!(loaded.quota_used, everything.quota_used);
}

/// A missing cell is an error, not a cell with violations.
#[tokio::test(start_paused = true)]
async fn a_cell_that_is_not_there_is_an_error() {
    let world = World::new(1).await;
    let other = CellSpace::new(crate::testing::name("other"));
    let loaded = cell_rows_load(&world.db, &other, 5, |_| {}).await;
    assert!(matches!(loaded, Err(crate::StoreError::CellUnknown { .. })), "{:?}", loaded.err());
}
