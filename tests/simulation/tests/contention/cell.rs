//! One cell in this process: the production roles over an engine with faults, on a virtual clock.

use std::sync::Arc;
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig};
use borough_kv::env::{Clock, Rng, SeededRng};
use borough_kv::{Database, EmbeddedEngine, FaultEngine, FaultPlan, Idempotency, Transaction};
use borough_model::queue::{QueueSpec, SHARE_WHOLE};
use borough_model::{Delta, JournalEntry, Name, RequestId};
use borough_scheduler::{Worker, WorkerConfig, WorkerMetrics};
use borough_store::cell::{CellMeta, cell_create};
use borough_store::federation::store_generation_begin;
use borough_store::journal::{Change, ChangeSet, Cursor, JournalShare, journal_head, journal_tail};
use borough_store::mirror::{MirrorFollower, MirrorHandle};
use borough_store::quota::{QuotaRow, quota_set};
use borough_store::{CellSpace, StoreError, StoreResult};
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use borough_simulation::audit::{Auditor, QUOTAS};

/// Workers of the cell, and shards of its jobs.
pub const WORKERS: u32 = 4;
/// Milliseconds without a heartbeat after which another worker or controller takes over.
const LEASE_MS: u64 = 1_500;
/// Milliseconds of silence after which a node is lost.
pub const LOST_AFTER_MS: u64 = 3_000;
/// Milliseconds a job is kept after its end: longer than any node is silent.
const JOB_RETENTION_MS: u64 = 25_000;
/// Entries of the journal per page.
const PAGE_ENTRIES: usize = 1_024;

/// The runtime's time, which advances while every task waits.
struct VirtualClock(tokio::time::Instant);

impl Clock for VirtualClock {
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        1_000_000_i64.saturating_add(i64::try_from(self.0.elapsed().as_millis()).unwrap())
    }
}

/// A cell with everything that it runs on.
pub struct Cell {
    pub space: CellSpace,
    pub clock: Arc<dyn Clock>,
    /// With the faults of the seed.
    pub db: Database,
    /// Without faults: for the audit.
    pub quiet: Database,
    pub mirror: MirrorHandle,
    seed: u64,
    engine: Arc<EmbeddedEngine>,
    ids: Arc<dyn Rng>,
    generation: u64,
    share: JournalShare,
    metrics: WorkerMetrics,
    pub registry: Registry,
}

/// Random numbers for one purpose of one seed.
pub fn rng_of(seed: u64, purpose: u64) -> Arc<dyn Rng> {
    SeededRng::shared(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose)
}

/// A number below `bound`.
pub fn below(rng: &dyn Rng, bound: u64) -> u64 {
    rng.next_u64() % bound.max(1)
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
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
    pub async fn new(seed: u64) -> Arc<Self> {
        #[expect(clippy::disallowed_methods, reason = "the runtime's clock is the test's")]
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock(tokio::time::Instant::now()));
        let engine = Arc::new(EmbeddedEngine::ephemeral(Arc::clone(&clock), rng_of(seed, 1)));
        let quiet = Database::new(Arc::<EmbeddedEngine>::clone(&engine));
        let faults = FaultEngine::new(Arc::<EmbeddedEngine>::clone(&engine), plan_of(seed), rng_of(seed, 2));
        let db = Database::new(Arc::new(faults));
        let space = CellSpace::new(name("alpha"));
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
        let (space_ref, meta) = (&space, &meta);
        let generation = quiet.run("cell_create", Idempotency::Natural, |tx, _| async move {
            cell_create(&tx, space_ref, meta, 1_000).await?;
            for (user, band, tasks_max) in QUOTAS {
                let limit = QuotaRow { tasks_max: Some(tasks_max), ..QuotaRow::default() };
                quota_set(&tx, space_ref, &name(user), band, Some(&limit)).await?;
            }
            Ok::<_, StoreError>(store_generation_begin(&tx, 1_000).await?.generation)
        });
        let generation = generation.await.unwrap();
        let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&clock), rng_of(seed, 3));
        let (metrics, mut registry) = (WorkerMetrics::default(), Registry::default());
        metrics.register(&mut registry);
        let ids = rng_of(seed, 4);
        let share = JournalShare::default();
        Arc::new(Self {
            space,
            clock,
            db,
            quiet,
            mirror,
            seed,
            engine,
            ids,
            generation,
            share,
            metrics,
            registry,
        })
    }

    pub fn id(&self) -> u64 {
        self.ids.next_u64()
    }

    /// A separate store handle, on which commits are in flight for up to `longest`.
    fn slow(&self, longest: Duration) -> Database {
        let plan = FaultPlan { commit_slow: 0.5, commit_delay_max: longest, ..plan_of(self.seed) };
        let rng = rng_of(self.seed, self.id());
        Database::new(Arc::new(FaultEngine::new(Arc::<EmbeddedEngine>::clone(&self.engine), plan, rng)))
    }

    /// Starts worker `place`. A `slow` one has commits in flight for longer than its lease.
    pub fn worker(self: &Arc<Self>, place: u32, slow: bool) -> Role {
        let config = WorkerConfig {
            space: self.space.clone(),
            shards: WORKERS,
            place,
            schedulers: vec![borough_model::Name::new("default").unwrap()],
            holder: format!("scheduler-{place}-{:016x}", self.id()),
            lease_ms: LEASE_MS,
            generation: self.generation,
            batch_tasks_max: 16,
            // Every other cell has its gangs gather by holds.
            gang_commit_max: if self.seed.is_multiple_of(2) { 16 } else { 1 },
            share: self.share.clone(),
        };
        let db = if slow { self.slow(Duration::from_millis(2 * LEASE_MS)) } else { self.db.clone() };
        let (cell, cancelled) = (Arc::clone(self), CancellationToken::new());
        let token = cancelled.clone();
        let task = tokio::spawn(async move {
            loop {
                let (clock, rng) = (Arc::clone(&cell.clock), rng_of(cell.seed, cell.id()));
                let started = Worker::start(config.clone(), db.clone(), clock, rng, cell.metrics.clone());
                match started.await {
                    Ok(worker) => return worker.run(token).await,
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        });
        Role { task, cancelled }
    }

    pub fn controller(self: &Arc<Self>) -> Role {
        let config = ControllerConfig {
            space: self.space.clone(),
            holder: format!("controller-{:016x}", self.id()),
            lease_ms: LEASE_MS,
            generation: self.generation,
            tick: Duration::from_millis(300),
        };
        let (clock, rng) = (Arc::clone(&self.clock), rng_of(self.seed, self.id()));
        let controller = Controller::new(config, self.db.clone(), self.mirror.clone(), clock, rng);
        let cancelled = CancellationToken::new();
        let task = tokio::spawn(controller.run(cancelled.clone()));
        Role { task, cancelled }
    }

    /// Runs a transaction with its entry on the store with faults. Returns its value, and the position from which a
    /// mirror shows it.
    pub async fn change<T>(
        &self,
        actor: &str,
        action: &'static str,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<(T, Cursor)> {
        let request = RequestId((u128::from(self.id()) << 64) | u128::from(self.id()));
        let change = Change { request, actor: actor.to_owned(), action, at_ms: self.clock.wall_ms() };
        let (closure, space, change) = (&closure, &self.space, &change);
        let run = self.db.run_committed(action, Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let value = closure(&tx, &mut changes).await?;
            // This stamp does not cover writes of an earlier try.
            let head = match changes.deltas().is_empty() {
                true => journal_head(&tx, space).await?,
                false => Cursor::start(changes.store_epoch()),
            };
            changes.append(&tx)?;
            Ok::<_, StoreError>((value, head))
        });
        let ((value, head), committed) = run.await?;
        let stamp = committed.stamp.map(|stamp| Cursor { stamp, ..head });
        Ok((value, stamp.unwrap_or(head)))
    }

    /// Replays the whole journal.
    pub async fn audit(&self) -> Auditor {
        let space = &self.space;
        let mut auditor = Auditor::new(WORKERS, queues_of(self.seed));
        let mut after = Cursor::start(1);
        loop {
            let page = self.quiet.run("audit", Idempotency::ReadOnly, |tx, _| async move {
                journal_tail(&tx, space, after, PAGE_ENTRIES).await
            });
            let page = page.await.unwrap();
            for (_, entry) in &page.entries {
                auditor.entry(entry);
                if std::env::var_os("BOROUGH_JOURNAL").is_some() {
                    entry_print(auditor.entries(), entry);
                }
            }
            after = page.next;
            if !page.more {
                return auditor;
            }
        }
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

pub struct Role {
    task: JoinHandle<()>,
    cancelled: CancellationToken,
}

impl Role {
    /// Ends it as a crash does: it releases nothing.
    pub async fn kill(self) {
        self.task.abort();
        // An abort is the expected result.
        self.task.await.ok();
    }

    /// Ends it in order.
    pub async fn stop(self) {
        self.cancelled.cancel();
        self.task.await.unwrap();
    }

    /// Returns true if it has ended by itself, which no role does.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}
