//! A cell on a store in memory, with workers as tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng, SeededRng};
use borough_kv::{Database, EmbeddedEngine, FaultEngine, FaultPlan, Idempotency, Transaction, Versionstamp};
use borough_model::job::{JobKind, JobSpec};
use borough_model::node::NodeFacts;
use borough_model::task::{EndReason, Exit, Health};
use borough_model::{JobId, JournalEntry, Name, NodeId, RequestId, Resources, TaskRow, TaskState};
use borough_scheduler::{GANG_COMMIT_MAX, Worker, WorkerConfig, WorkerMetrics};
use borough_store::cell::{CellClock, CellMeta, CellState, StoreOpened, cell_create, cell_gate_set};
use borough_store::check::{CheckMode, Violation, cell_check};
use borough_store::job::{job_by_name, job_get, job_priority_set, job_submit};
use borough_store::journal::{Change, ChangeSet, Cursor, JournalShare, journal_tail};
use borough_store::keys::{self, Prefix, RangeOptions, TaskKey};
use borough_store::lease::{WorkerStatus, scheduler_shards};
use borough_store::node::{
    NodeRegistration, SessionFence, node_list, node_register, node_reported, node_writer,
};
use borough_store::task::{ReportPhase, TaskReport, task_report_apply};
use borough_store::{CellSpace, StoreError, StoreResult};
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Milliseconds without a heartbeat after which a shard may be taken.
pub const LEASE_MS: u64 = 5_000;
/// Longer than any wait takes.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
struct VirtualClock(tokio::time::Instant);

impl Clock for VirtualClock {
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        1_000_000 + i64::try_from(self.0.elapsed().as_millis()).unwrap()
    }
}

/// A wall clock that is wrong.
struct OffClock {
    clock: Arc<dyn Clock>,
    off_ms: i64,
}

impl Clock for OffClock {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn wall_ms(&self) -> i64 {
        self.clock.wall_ms() + self.off_ms
    }
}

/// Runs a test in time that passes only while every task waits.
pub fn in_simulated_time(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test);
}

pub struct Role {
    task: JoinHandle<()>,
    cancelled: CancellationToken,
}

impl Role {
    /// Kills it: nothing is released.
    pub fn abort(self) {
        self.task.abort();
    }

    /// Ends it in order.
    pub async fn end(self) {
        self.cancelled.cancel();
        self.task.await.unwrap();
    }
}

pub struct Cell {
    db: Database,
    /// The store as workers see it.
    db_of_workers: Database,
    space: CellSpace,
    clock: Arc<dyn Clock>,
    /// The clock by which gateways stamp, and workers too.
    stamps: Arc<dyn Clock>,
    clock_of_workers: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    share: JournalShare,
    metrics: WorkerMetrics,
}

impl Cell {
    /// An open cell without nodes.
    pub async fn new(seed: u64) -> Self {
        Self::with_faults(seed, FaultPlan::none()).await
    }

    /// The same, in a store with the faults of `plan` for workers.
    pub async fn with_faults(seed: u64, plan: FaultPlan) -> Self {
        Self::with_settings(seed, plan, CellMeta::default()).await
    }

    /// The same with other settings.
    pub async fn with_settings(seed: u64, plan: FaultPlan, meta: CellMeta) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the runtime's clock is the test's")]
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock(tokio::time::Instant::now()));
        let rng = SeededRng::shared(seed);
        let engine = Arc::new(EmbeddedEngine::ephemeral(Arc::clone(&clock), Arc::clone(&rng)));
        let db = Database::new(Arc::<EmbeddedEngine>::clone(&engine));
        let faults = FaultEngine::new(engine, plan, SeededRng::shared(seed));
        let db_of_workers = Database::new(Arc::new(faults));
        let space = CellSpace::new(Name::new("alpha").unwrap());
        let (made, meta) = (&space, &meta);
        let create = db.run("cell_create", Idempotency::Natural, |tx, _| async move {
            cell_create(&tx, made, meta, 1_000).await
        });
        create.await.unwrap();
        Self {
            db,
            db_of_workers,
            space,
            stamps: Arc::clone(&clock),
            clock_of_workers: Arc::clone(&clock),
            clock,
            rng,
            share: JournalShare::default(),
            metrics: WorkerMetrics::default(),
        }
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.rng.next_u64() % bound
    }

    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Waits until a condition holds.
    pub async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let from = self.now();
        while !holds().await {
            assert!(self.now() - from < PATIENCE, "never: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn worker(&self, place: u32, shards: u32, schedulers: &[&str]) -> Role {
        self.worker_of(place, shards, schedulers, GANG_COMMIT_MAX)
    }

    /// Starts a worker that places gangs of more than so many members by holds.
    pub fn worker_gathering(&self, place: u32, gang_commit_max: usize) -> Role {
        self.worker_of(place, 1, &["default"], gang_commit_max)
    }

    fn worker_of(&self, place: u32, shards: u32, schedulers: &[&str], gang_commit_max: usize) -> Role {
        let config = WorkerConfig {
            space: self.space.clone(),
            shards,
            place,
            schedulers: schedulers.iter().map(|name| Name::new(*name).unwrap()).collect(),
            holder: format!("worker-{place}-{:016x}", self.rng.next_u64()),
            lease_ms: LEASE_MS,
            generation: 0,
            batch_tasks_max: 64,
            gang_commit_max,
            share: self.share.clone(),
        };
        let (db, clock, rng) =
            (self.db_of_workers.clone(), Arc::clone(&self.clock_of_workers), Arc::clone(&self.rng));
        let (metrics, cancelled) = (self.metrics.clone(), CancellationToken::new());
        let token = cancelled.clone();
        let task = tokio::spawn(async move {
            loop {
                let (config, db, metrics) = (config.clone(), db.clone(), metrics.clone());
                match Worker::start(config, db, Arc::clone(&clock), Arc::clone(&rng), metrics).await {
                    Ok(worker) => return worker.run(token).await,
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        });
        Role { task, cancelled }
    }

    /// The holder of each shard of a scheduler.
    pub async fn holders(&self, scheduler: &str) -> BTreeMap<u32, String> {
        let shards = self.shards().await.into_iter().filter(|shard| shard.scheduler == scheduler);
        let held = shards.filter(|shard| !shard.lease.holder.is_empty());
        held.map(|shard| (shard.shard, shard.lease.holder)).collect()
    }

    /// The reports of shard holders about themselves.
    pub async fn statuses(&self) -> Vec<WorkerStatus> {
        self.shards().await.into_iter().filter_map(|shard| shard.status).collect()
    }

    async fn shards(&self) -> Vec<borough_store::lease::SchedulerShard> {
        let space = &self.space;
        let read = self
            .db
            .run("shards", Idempotency::ReadOnly, |tx, _| async move { scheduler_shards(&tx, space).await });
        read.await.unwrap()
    }

    /// How many tasks have a node.
    pub async fn placed(&self) -> usize {
        let space = &self.space;
        let rows = self.db.run("tasks", Idempotency::ReadOnly, |tx, _| async move {
            keys::range::<TaskKey>(&tx, space, &Prefix::all(), RangeOptions::snapshot()).await
        });
        rows.await.unwrap().into_iter().filter(|(_, row)| row.node.is_some()).count()
    }

    /// The workers that committed each batch of placements, in order.
    pub async fn placed_in_order(&self) -> Vec<String> {
        let space = &self.space;
        let page = self.db.run("journal", Idempotency::ReadOnly, |tx, _| async move {
            journal_tail(&tx, space, Cursor::start(1), 100_000).await
        });
        let entries = page.await.unwrap().entries.into_iter();
        entries
            .filter(|(_, entry)| entry.action == "placement_commit")
            .map(|(_, entry)| entry.actor)
            .collect()
    }

    /// The action of every entry, with its stamp, in order.
    pub async fn actions(&self) -> Vec<(Versionstamp, String)> {
        let space = &self.space;
        let page = self.db.run("journal", Idempotency::ReadOnly, |tx, _| async move {
            journal_tail(&tx, space, Cursor::start(1), 100_000).await
        });
        let entries = page.await.unwrap().entries.into_iter();
        entries.map(|(cursor, entry)| (cursor.stamp, entry.action)).collect()
    }

    /// Opens, drains or closes the cell. Returns the stamp of the change; setting the same state has none.
    pub async fn gate_set(&self, state: CellState) -> Versionstamp {
        let (space, at_ms) = (&self.space, self.clock.wall_ms());
        let set = self.db.run_committed("gate", Idempotency::Natural, |tx, _| async move {
            cell_gate_set(&tx, space, state, at_ms).await
        });
        set.await.unwrap().1.stamp.unwrap()
    }

    /// Switches a job between two priorities, which fails the placements of its tasks in flight.
    pub async fn priority_turn(&self, job: &str) {
        let job = self.job(job).await;
        self.change("priority", async |tx, changes| {
            let before = job_get(tx, changes.space(), job).await?.priority;
            job_priority_set(tx, changes, job, if before == 150 { 151 } else { 150 }).await
        })
        .await;
    }

    /// How many batches have lost a guard.
    pub fn conflicts(&self) -> u64 {
        let mut registry = Registry::default();
        self.metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("borough_scheduler_conflicts_total "));
        line.unwrap().parse().unwrap()
    }

    /// How many tasks may start.
    pub async fn assigned(&self) -> usize {
        let space = &self.space;
        let rows = self.db.run("tasks", Idempotency::ReadOnly, |tx, _| async move {
            keys::range::<TaskKey>(&tx, space, &Prefix::all(), RangeOptions::snapshot()).await
        });
        rows.await.unwrap().into_iter().filter(|(_, row)| row.state == TaskState::Assigned).count()
    }

    pub async fn journal(&self) -> Vec<Arc<JournalEntry>> {
        let space = &self.space;
        let page = self.db.run("journal", Idempotency::ReadOnly, |tx, _| async move {
            journal_tail(&tx, space, Cursor::start(1), 100_000).await
        });
        page.await.unwrap().entries.into_iter().map(|(_, entry)| Arc::new(entry)).collect()
    }

    /// The violations in the cell, now that nothing happens.
    pub async fn violations(&self) -> Vec<Violation> {
        let space = &self.space;
        let check = self.db.run("check", Idempotency::ReadOnly, |tx, _| async move {
            cell_check(&tx, space, CheckMode::Settled).await
        });
        check.await.unwrap()
    }

    /// Admits a gang of so many tasks, all of which must fit.
    pub async fn gang_submit(&self, job: &str, count: u32, cpu_millis: u64) {
        self.gang_submit_at(job, (count, count), cpu_millis, 100).await;
    }

    /// Admits a job of so many tasks at a priority. A given number of them must fit.
    pub async fn gang_submit_at(
        &self,
        job: &str,
        (count, least): (u32, u32),
        cpu_millis: u64,
        priority: u32,
    ) {
        let (user, job) = (Name::new("ann").unwrap(), Name::new(job).unwrap());
        let mut spec = JobSpec::defaults(user, job, JobKind::Batch, vec!["true".to_owned()]);
        (spec.count, spec.min_member, spec.priority) = (count, least, priority);
        spec.task.resources.cpu_millis = cpu_millis;
        self.spec_submit(&spec).await;
    }

    /// Admits a job to a queue, with so many tasks of a whole node each.
    pub async fn queue_submit(&self, job: &str, queue: &str, count: u32) {
        let (user, job) = (Name::new("ann").unwrap(), Name::new(job).unwrap());
        let mut spec = JobSpec::defaults(user, job, JobKind::Batch, vec!["true".to_owned()]);
        (spec.count, spec.queue) = (count, Some(queue.to_owned()));
        spec.task.resources.cpu_millis = 64_000;
        self.spec_submit(&spec).await;
    }

    /// The job of a name.
    pub async fn job(&self, job: &str) -> JobId {
        let (space, user, job) = (&self.space, &Name::new("ann").unwrap(), &Name::new(job).unwrap());
        let found = self.db.run("job", Idempotency::ReadOnly, |tx, _| async move {
            job_by_name(&tx, space, user, job).await
        });
        found.await.unwrap().id
    }

    /// Every task that has a row.
    pub async fn tasks(&self) -> Vec<TaskRow> {
        let space = &self.space;
        let rows = self.db.run("tasks", Idempotency::ReadOnly, |tx, _| async move {
            keys::range::<TaskKey>(&tx, space, &Prefix::all(), RangeOptions::snapshot()).await
        });
        rows.await.unwrap().into_iter().map(|(_, row)| row).collect()
    }

    /// From now on gateways and workers run on machines with wrong wall clocks, and follow the cell's time.
    pub async fn clocks_off(&mut self, gateway_ms: i64, worker_ms: i64) {
        let mut clocks = Vec::new();
        for off_ms in [gateway_ms, worker_ms] {
            let clock = CellClock::new(Arc::new(OffClock { clock: Arc::clone(&self.clock), off_ms }));
            clock.begin(&self.db, &self.space, StoreOpened::Shared).await.unwrap();
            let (followed, db, space) = (Arc::clone(&clock), self.db.clone(), self.space.clone());
            tokio::spawn(async move { followed.follow(db, space).await });
            clocks.push(clock);
        }
        self.clock_of_workers = clocks.remove(1);
        self.stamps = clocks.remove(0);
    }

    /// An agent reports that an attempt is released.
    pub async fn leave(&self, row: &TaskRow) {
        self.ends(row, EndReason::Stopped).await;
    }

    /// An agent reports that an attempt has failed and is released.
    pub async fn fails(&self, row: &TaskRow) {
        self.ends(row, EndReason::Signaled).await;
    }

    async fn ends(&self, row: &TaskRow, reason: EndReason) {
        let Some(node) = row.node else { return };
        let exit = Exit {
            reason,
            code: None,
            signal: Some(15),
            message: String::new(),
            at_ms: self.clock.wall_ms(),
            incarnation: row.incarnation,
            node: Some(node),
        };
        let report = TaskReport {
            task: row.id,
            incarnation: row.incarnation,
            phase: ReportPhase::Released,
            process: None,
            cores: Vec::new(),
            health: Health::Unknown,
            exit: Some(exit),
        };
        let fence = SessionFence { node, session: 1 };
        self.change("task_report", async |tx, changes| {
            let writer = node_writer(tx, changes.space(), fence).await?;
            let writer = writer.ok_or_else(|| StoreError::refused("the node has no session"))?;
            task_report_apply(&writer, changes, std::slice::from_ref(&report)).await
        })
        .await;
    }

    /// A change by a party other than a worker.
    pub async fn change<T>(
        &self,
        action: &'static str,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> T {
        let (change, space, closure) = (&self.change_of(action), &self.space, &closure);
        let changed = self.db.run(action, Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let value = closure(&tx, &mut changes).await?;
            changes.append(&tx)?;
            Ok::<_, StoreError>(value)
        });
        changed.await.unwrap()
    }

    fn change_of(&self, action: &'static str) -> Change {
        let request = RequestId(u128::from(self.rng.next_u64()));
        Change { request, actor: "user/test".to_owned(), action, at_ms: self.stamps.wall_ms() }
    }

    pub async fn node_add(&self) {
        let id = NodeId(self.rng.next_u64().max(1));
        let facts = NodeFacts {
            capacity: Resources {
                cpu_millis: 64_000,
                memory_bytes: 256 << 30,
                disk_bytes: 1 << 40,
                ..Resources::default()
            },
            port_first: 20_000,
            port_last: 20_999,
            attributes: BTreeMap::new(),
            host: "127.0.0.1".to_owned(),
            boot_id: "boot".to_owned(),
            agent_version: "test".to_owned(),
            cards: Vec::new(),
            domains: Vec::new(),
        };
        let name = Name::new(format!("node-{:x}", id.0)).unwrap();
        let arrival = NodeRegistration::new(name, facts, id, 1);
        let (change, space, arrival) = (&self.change_of("node"), &self.space, &arrival);
        let register = self.db.run("node", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let (_, writer) = node_register(&tx, &mut changes, arrival).await?;
            node_reported(&writer, &mut changes, &[]).await?;
            changes.append(&tx)?;
            Ok::<_, StoreError>(())
        });
        register.await.unwrap();
    }

    /// Admits a job of one small task.
    pub async fn job_submit(&self, job: &str, scheduler: Option<&str>) {
        self.job_submit_sized(job, scheduler, 100).await;
    }

    /// The same with a task of so many thousandths of a core.
    pub async fn job_submit_sized(&self, job: &str, scheduler: Option<&str>, cpu_millis: u64) {
        let (user, job) = (Name::new("ann").unwrap(), Name::new(job).unwrap());
        let mut spec = JobSpec::defaults(user, job, JobKind::Service, vec!["true".to_owned()]);
        spec.scheduler = scheduler.map(|name| Name::new(name).unwrap());
        spec.task.resources.cpu_millis = cpu_millis;
        self.spec_submit(&spec).await;
    }

    pub async fn node_names(&self) -> Vec<String> {
        let space = &self.space;
        let nodes =
            self.db.run("nodes", Idempotency::ReadOnly, |tx, _| async move { node_list(&tx, space).await });
        nodes.await.unwrap().into_iter().map(|row| row.name.to_string()).collect()
    }

    pub async fn spec_submit(&self, spec: &JobSpec) {
        let (change, space) = (&self.change_of("job"), &self.space);
        let candidate = JobId(self.rng.next_u64().max(1));
        let submit = self.db.run("job", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin_open(&tx, space, change).await?;
            job_submit(&tx, &mut changes, spec, candidate).await?;
            changes.append(&tx)?;
            Ok::<_, StoreError>(())
        });
        submit.await.unwrap();
    }
}
