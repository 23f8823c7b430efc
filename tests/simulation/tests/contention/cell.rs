//! One cell in this process: the production roles over an engine with faults, on a virtual clock.

use std::sync::Arc;
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, FaultPlan, Transaction};
use borough_model::queue::{QueueSpec, SHARE_WHOLE};
use borough_model::{Delta, JournalEntry};
use borough_scheduler::{SLICE_TASKS, Worker, WorkerConfig, WorkerMetrics};
use borough_store::StoreResult;
use borough_store::cell::CellMeta;
use borough_store::check::{CellRows, cell_rows_read};
use borough_store::federation::store_generation_begin;
use borough_store::journal::{Change, ChangeSet, Cursor, JournalShare};
use borough_store::mirror::{MirrorFollower, MirrorHandle};
use borough_store::quota::{QuotaRow, quota_set};
use borough_testkit::{MemoryStore, OpenCell, Role, VirtualClock, begun, change, name, rng_of};

use borough_simulation::audit::{Auditor, QUOTAS};

/// Workers of the cell, and shards of its jobs.
pub(crate) const WORKERS: u32 = 4;
/// Milliseconds without a heartbeat after which another worker or controller takes over.
const LEASE_MS: u64 = 1_500;
/// Milliseconds of silence after which a node is lost.
pub(crate) const LOST_AFTER_MS: u64 = 3_000;
/// Milliseconds a job is kept after its end: longer than any node is silent.
const JOB_RETENTION_MS: u64 = 25_000;

/// A cell with everything that it runs on.
pub(crate) struct Cell {
    pub clock: Arc<dyn Clock>,
    /// With the faults of the seed.
    pub faulty: OpenCell,
    /// Without faults: for the audit.
    quiet: OpenCell,
    pub mirror: MirrorHandle,
    seed: u64,
    store: MemoryStore,
    ids: Arc<dyn Rng>,
    generation: u64,
    share: JournalShare,
    pub metrics: WorkerMetrics,
}

/// Most runs have the standard faults, every fifth the heavy ones. In all of them commits are in flight for a while, so
/// that others come between.
fn plan_of(seed: u64) -> FaultPlan {
    let plan = if seed % 5 == 4 { FaultPlan::heavy() } else { FaultPlan::standard() };
    FaultPlan { commit_slow: 0.7, commit_delay_max: Duration::from_millis(25), ..plan }
}

/// The queues of a cell, which reclaim their guarantees. Each third cell has some.
fn queues_of(seed: u64) -> Vec<QueueSpec> {
    let queue = |path: &str, guaranteed_per_mille| QueueSpec {
        path: path.to_owned(),
        weight: 1,
        guaranteed_per_mille,
        limit_per_mille: SHARE_WHOLE,
    };
    match seed % 3 {
        2 => vec![queue("ada", 400), queue("lab", 300), queue("lab/bob", 200)],
        _ => Vec::new(),
    }
}

impl Cell {
    pub(crate) async fn new(seed: u64) -> Arc<Self> {
        let clock = VirtualClock::at(1_000_000);
        let store = MemoryStore::new(Arc::clone(&clock), rng_of(seed, 1));
        let meta = CellMeta {
            lost_after_ms: LOST_AFTER_MS,
            job_retention_ms: JOB_RETENTION_MS,
            failure_domains: vec!["rack".to_owned()],
            ..CellMeta::default()
        };
        let queues = queues_of(seed);
        let queueing = if queues.is_empty() { meta.queueing.clone() } else { "hierarchical".to_owned() };
        let reclaim = (!queues.is_empty()).then_some(true);
        let meta = CellMeta { queueing, queues, reclaim, ..meta };
        let created = OpenCell::create_with(store.quiet(), &meta, async |tx, space| {
            for (user, band, tasks_max) in QUOTAS {
                let limit = QuotaRow { tasks_max: Some(tasks_max), ..QuotaRow::default() };
                quota_set(tx, space, &name(user), band, Some(&limit)).await?;
            }
            Ok(store_generation_begin(tx, 1_000).await?.generation)
        });
        let (quiet, generation) = created.await;
        let faulty = quiet.over(store.faulty(plan_of(seed), rng_of(seed, 2)));
        let (db, space) = (faulty.db.clone(), faulty.space.clone());
        let mirror = MirrorFollower::spawn(db, space, Arc::clone(&clock), rng_of(seed, 3));
        let (ids, share, metrics) = (rng_of(seed, 4), JournalShare::default(), WorkerMetrics::default());
        Arc::new(Self { clock, faulty, quiet, mirror, seed, store, ids, generation, share, metrics })
    }

    pub(crate) fn id(&self) -> u64 {
        self.ids.next_u64()
    }

    /// A separate store handle, on which commits are in flight for up to `longest`.
    fn slow(&self, longest: Duration) -> Database {
        let plan = FaultPlan { commit_slow: 0.5, commit_delay_max: longest, ..plan_of(self.seed) };
        self.store.faulty(plan, rng_of(self.seed, self.id()))
    }

    /// Starts worker `place`. A `slow` one has commits in flight for longer than its lease.
    pub(crate) fn worker(self: &Arc<Self>, place: u32, slow: bool) -> Role {
        let config = WorkerConfig {
            space: self.faulty.space.clone(),
            shards: WORKERS,
            place,
            schedulers: vec![name("default")],
            holder: format!("scheduler-{place}-{:016x}", self.id()),
            lease_ms: LEASE_MS,
            generation: self.generation,
            batch_tasks_max: 16,
            // Every other cell has its gangs gather by holds.
            slice_tasks: SLICE_TASKS,
            gang_commit_max: if self.seed.is_multiple_of(2) { 16 } else { 1 },
            share: self.share.clone(),
        };
        let db = if slow { self.slow(Duration::from_millis(2 * LEASE_MS)) } else { self.faulty.db.clone() };
        let cell = Arc::clone(self);
        let start = move || {
            let (clock, rng) = (Arc::clone(&cell.clock), rng_of(cell.seed, cell.id()));
            Worker::start(config.clone(), db.clone(), clock, rng, cell.metrics.clone())
        };
        Role::begin(|cancelled| async move { begun(start).await.run(cancelled).await })
    }

    pub(crate) fn controller(self: &Arc<Self>) -> Role {
        let config = ControllerConfig {
            space: self.faulty.space.clone(),
            holder: format!("controller-{:016x}", self.id()),
            lease_ms: LEASE_MS,
            generation: self.generation,
            tick: Duration::from_millis(300),
            garbage: GarbageMetrics::default(),
        };
        let (clock, rng) = (Arc::clone(&self.clock), rng_of(self.seed, self.id()));
        let (db, mirror) = (self.faulty.db.clone(), self.mirror.clone());
        Role::begin(|cancelled| Controller::new(config, db, mirror, clock, rng).run(cancelled))
    }

    /// Runs a transaction with its entry on the store with faults. Returns its value, and the position from which a
    /// mirror shows it.
    pub(crate) async fn change<T>(
        &self,
        actor: &str,
        action: &'static str,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<(T, Cursor)> {
        let request = (u128::from(self.id()) << 64) | u128::from(self.id());
        let change = change(request, action, self.clock.wall_ms());
        let change = Change { actor: actor.to_owned(), ..change };
        self.faulty.change_at(change, closure).await
    }

    /// Every row, without faults.
    pub(crate) async fn rows(&self) -> CellRows {
        self.quiet.read(async |tx, space| cell_rows_read(tx, space).await).await.unwrap()
    }

    /// Replays the whole journal.
    pub(crate) async fn audit(&self) -> Auditor {
        let mut auditor = Auditor::new(WORKERS, queues_of(self.seed));
        for (_, entry) in self.quiet.journal().await {
            auditor.entry(&entry);
            if std::env::var_os("BOROUGH_JOURNAL").is_some() {
                entry_print(auditor.entries(), &entry);
            }
        }
        auditor
    }
}

/// Prints an entry on one line, for the analysis of a run.
#[expect(clippy::print_stdout, reason = "asked for by BOROUGH_JOURNAL")]
fn entry_print(number: usize, entry: &JournalEntry) {
    let deltas = entry.deltas.iter().map(|delta| match delta {
        Delta::Task { row } => {
            format!("{} {:?} attempt {} on {:?}", row.id, row.state, row.incarnation, row.node)
        }
        Delta::Node { row } => {
            format!("{} {:?} takes {} drains {}", row.id, row.state, row.schedulable, row.draining)
        }
        Delta::Job { row, .. } => {
            format!("{} {}/{} {:?} of {}", row.id, row.user, row.name, row.state, row.count)
        }
        other => format!("{:?}", other.key()),
    });
    let deltas: Vec<String> = deltas.collect();
    println!("{number} {} {} {}: {}", entry.at_ms, entry.actor, entry.action, deltas.join("; "));
}
