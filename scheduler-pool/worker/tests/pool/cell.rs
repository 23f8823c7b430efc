//! A cell on a store in memory, with workers as tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng, SeededRng};
use borough_kv::{Database, FaultPlan, Idempotency, Transaction, Versionstamp};
use borough_model::job::{JobKind, JobSpec};
use borough_model::node::NodeFacts;
use borough_model::task::{EndReason, Exit, Health};
use borough_model::{JobId, JournalEntry, NodeId, Resources, TaskRow, TaskState};
use borough_scheduler::{GANG_COMMIT_MAX, SLICE_TASKS, Worker, WorkerConfig, WorkerMetrics};
use borough_store::cell::{CellMeta, CellState, cell_gate_set};
use borough_store::check::{CheckMode, Violation, cell_check};
use borough_store::job::{job_by_name, job_get, job_priority_set, job_submit};
use borough_store::journal::{Change, ChangeSet, JournalShare};
use borough_store::keys::{self, Prefix, RangeOptions, TaskKey};
use borough_store::lease::{SchedulerShard, WorkerStatus, scheduler_shards};
use borough_store::node::{
    NodeRegistration, SessionFence, node_list, node_register, node_reported, node_writer,
};
use borough_store::task::{ReportPhase, TaskReport, task_report_apply};
use borough_store::{CellSpace, StoreError, StoreResult};
use borough_testkit::{
    MemoryStore, OffClock, OpenCell, Role, VirtualClock, begun, below, cell_time, change, job_spec,
    metrics_text, name, node_facts,
};

/// Milliseconds without a heartbeat after which a shard may be taken.
pub(crate) const LEASE_MS: u64 = 5_000;
/// Longer than any wait takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Slow commits and slow read versions: workers plan while others commit.
pub(crate) fn slow() -> FaultPlan {
    FaultPlan {
        commit_slow: 1.0,
        commit_delay_max: Duration::from_millis(400),
        read_version_slow: 1.0,
        read_version_delay_max: Duration::from_millis(300),
        ..FaultPlan::none()
    }
}

pub(crate) struct Cell {
    /// The cell without faults.
    quiet: OpenCell,
    /// The store as workers see it.
    db_of_workers: Database,
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
    pub(crate) async fn new(seed: u64) -> Self {
        Self::with_faults(seed, FaultPlan::none()).await
    }

    /// The same, in a store with the faults of `plan` for workers.
    pub(crate) async fn with_faults(seed: u64, plan: FaultPlan) -> Self {
        Self::with_settings(seed, plan, CellMeta::default()).await
    }

    /// The same with other settings.
    pub(crate) async fn with_settings(seed: u64, plan: FaultPlan, meta: CellMeta) -> Self {
        let (clock, rng) = (VirtualClock::at(1_000_000), SeededRng::shared(seed));
        let store = MemoryStore::new(Arc::clone(&clock), Arc::clone(&rng));
        Self {
            quiet: OpenCell::create(store.quiet(), &meta).await,
            db_of_workers: store.faulty(plan, SeededRng::shared(seed)),
            stamps: Arc::clone(&clock),
            clock_of_workers: Arc::clone(&clock),
            clock,
            rng,
            share: JournalShare::default(),
            metrics: WorkerMetrics::default(),
        }
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        below(&*self.rng, bound)
    }

    /// The time since the beginning.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let from = self.now();
        while !holds().await {
            assert!(self.now() - from < PATIENCE, "never: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn worker(&self, place: u32, shards: u32, schedulers: &[&str]) -> Role {
        self.worker_of(self.worker_config(place, shards, schedulers))
    }

    /// Starts a worker that divides jobs of more than so many tasks.
    pub(crate) fn worker_slicing(&self, place: u32, shards: u32, slice_tasks: u32) -> Role {
        self.worker_of(WorkerConfig { slice_tasks, ..self.worker_config(place, shards, &["default"]) })
    }

    /// Starts a worker that places gangs of more than so many members by holds.
    pub(crate) fn worker_gathering(&self, place: u32, gang_commit_max: usize) -> Role {
        self.worker_of(WorkerConfig { gang_commit_max, ..self.worker_config(place, 1, &["default"]) })
    }

    fn worker_config(&self, place: u32, shards: u32, schedulers: &[&str]) -> WorkerConfig {
        WorkerConfig {
            space: self.quiet.space.clone(),
            shards,
            place,
            schedulers: schedulers.iter().map(|text| name(text)).collect(),
            holder: format!("worker-{place}-{:016x}", self.rng.next_u64()),
            lease_ms: LEASE_MS,
            generation: 0,
            batch_tasks_max: 64,
            slice_tasks: SLICE_TASKS,
            gang_commit_max: GANG_COMMIT_MAX,
            share: self.share.clone(),
        }
    }

    fn worker_of(&self, config: WorkerConfig) -> Role {
        let (db, clock, rng) =
            (self.db_of_workers.clone(), Arc::clone(&self.clock_of_workers), Arc::clone(&self.rng));
        let metrics = self.metrics.clone();
        let start = move || {
            let (config, db, metrics) = (config.clone(), db.clone(), metrics.clone());
            Worker::start(config, db, Arc::clone(&clock), Arc::clone(&rng), metrics)
        };
        Role::begin(|cancelled| async move { begun(start).await.run(cancelled).await })
    }

    /// The holder of each shard of a scheduler.
    pub(crate) async fn holders(&self, scheduler: &str) -> BTreeMap<u32, String> {
        let shards = self.shards().await.into_iter().filter(|shard| shard.scheduler == scheduler);
        let held = shards.filter(|shard| !shard.lease.holder.is_empty());
        held.map(|shard| (shard.shard, shard.lease.holder)).collect()
    }

    /// The numbers of the leases by which workers stand by.
    pub(crate) async fn standby(&self) -> Vec<u32> {
        self.shards().await.into_iter().filter(|shard| shard.standby).map(|shard| shard.shard).collect()
    }

    /// The reports of shard holders about themselves.
    pub(crate) async fn statuses(&self) -> Vec<WorkerStatus> {
        self.shards().await.into_iter().filter_map(|shard| shard.status).collect()
    }

    async fn shards(&self) -> Vec<SchedulerShard> {
        self.quiet.read(async |tx, space| scheduler_shards(tx, space).await).await.unwrap()
    }

    /// How many tasks have a node.
    pub(crate) async fn placed(&self) -> usize {
        self.tasks().await.into_iter().filter(|row| row.node.is_some()).count()
    }

    /// The workers that committed each batch of placements, in order.
    pub(crate) async fn placed_in_order(&self) -> Vec<String> {
        let entries = self.journal().await.into_iter();
        entries.filter(|entry| entry.action == "placement_commit").map(|entry| entry.actor).collect()
    }

    /// The action of every entry, with its stamp, in order.
    pub(crate) async fn actions(&self) -> Vec<(Versionstamp, String)> {
        let entries = self.quiet.journal().await.into_iter();
        entries.map(|(cursor, entry)| (cursor.stamp, entry.action)).collect()
    }

    /// Opens, drains or closes the cell. Returns the stamp of the change; setting the same state has none.
    pub(crate) async fn gate_set(&self, state: CellState) -> Versionstamp {
        let at_ms = self.clock.wall_ms();
        self.written("gate", async |tx, space| cell_gate_set(tx, space, state, at_ms).await).await
    }

    /// A transaction of a party other than a worker. Returns its stamp.
    pub(crate) async fn written<T>(
        &self,
        action: &'static str,
        closure: impl AsyncFn(&Transaction, &CellSpace) -> StoreResult<T>,
    ) -> Versionstamp {
        let (space, closure) = (&self.quiet.space, &closure);
        let write = self
            .quiet
            .db
            .run_committed(action, Idempotency::Natural, |tx, _| async move { closure(&tx, space).await });
        write.await.unwrap().1.stamp.unwrap()
    }

    /// Switches a job between two priorities, which fails the placements of its tasks in flight.
    pub(crate) async fn priority_turn(&self, job: &str) {
        let job = self.job(job).await;
        self.change("priority", async |tx, changes| {
            let before = job_get(tx, changes.space(), job).await?.priority;
            job_priority_set(tx, changes, job, if before == 150 { 151 } else { 150 }).await
        })
        .await;
    }

    /// How many batches have lost a guard.
    pub(crate) fn conflicts(&self) -> u64 {
        self.counter("conflicts")
    }

    /// A counter of the workers.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let text = metrics_text(|registry| self.metrics.register(registry));
        let start = format!("borough_scheduler_{name}_total ");
        text.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse().unwrap()
    }

    /// How many tasks may start.
    pub(crate) async fn assigned(&self) -> usize {
        self.tasks().await.into_iter().filter(|row| row.state == TaskState::Assigned).count()
    }

    pub(crate) async fn journal(&self) -> Vec<JournalEntry> {
        self.quiet.journal().await.into_iter().map(|(_, entry)| entry).collect()
    }

    /// The violations in the cell, now that nothing happens.
    pub(crate) async fn violations(&self) -> Vec<Violation> {
        self.quiet.read(async |tx, space| cell_check(tx, space, CheckMode::Settled).await).await.unwrap()
    }

    /// Admits a gang of so many tasks, all of which must fit.
    pub(crate) async fn gang_submit(&self, job: &str, count: u32, cpu_millis: u64) {
        self.gang_submit_at(job, (count, count), cpu_millis, 100).await;
    }

    /// Admits a job of so many tasks at a priority. A given number of them must fit.
    pub(crate) async fn gang_submit_at(
        &self,
        job: &str,
        (count, least): (u32, u32),
        cpu_millis: u64,
        priority: u32,
    ) {
        let mut spec = job_spec("ann", job, JobKind::Batch);
        (spec.count, spec.min_member, spec.priority) = (count, least, priority);
        spec.task.resources.cpu_millis = cpu_millis;
        self.spec_submit(&spec).await;
    }

    /// Admits a job of so many tasks of a hundredth of a core.
    pub(crate) async fn large_submit(&self, job: &str, count: u32) {
        let mut spec = job_spec("ann", job, JobKind::Batch);
        spec.count = count;
        spec.task.resources = Resources { cpu_millis: 10, memory_bytes: 1 << 20, ..Resources::default() };
        self.spec_submit(&spec).await;
    }

    /// Admits a job to a queue, with so many tasks of a whole node each.
    pub(crate) async fn queue_submit(&self, job: &str, queue: &str, count: u32) {
        let mut spec = job_spec("ann", job, JobKind::Batch);
        (spec.count, spec.queue) = (count, Some(queue.to_owned()));
        spec.task.resources.cpu_millis = 64_000;
        self.spec_submit(&spec).await;
    }

    /// The job of a name.
    pub(crate) async fn job(&self, job: &str) -> JobId {
        self.job_of("ann", job).await
    }

    /// The job of a user and a name.
    pub(crate) async fn job_of(&self, user: &str, job: &str) -> JobId {
        let (user, job) = (&name(user), &name(job));
        let found = self.quiet.read(async |tx, space| job_by_name(tx, space, user, job).await);
        found.await.unwrap().id
    }

    /// Every task that has a row.
    pub(crate) async fn tasks(&self) -> Vec<TaskRow> {
        let rows = self.quiet.read(async |tx, space| {
            keys::range::<TaskKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await
        });
        rows.await.unwrap().into_iter().map(|(_, row)| row).collect()
    }

    /// From now on gateways and workers run on machines with wrong wall clocks, and follow the cell's time.
    pub(crate) async fn clocks_off(&mut self, gateway_ms: i64, worker_ms: i64) {
        let OpenCell { db, space } = &self.quiet;
        let machine = |off_ms| OffClock::new(Arc::clone(&self.clock), off_ms);
        let stamps = cell_time(machine(gateway_ms), db, space).await;
        self.clock_of_workers = cell_time(machine(worker_ms), db, space).await;
        self.stamps = stamps;
    }

    /// An agent reports that an attempt is released.
    pub(crate) async fn leave(&self, row: &TaskRow) {
        self.ends(row, EndReason::Stopped).await;
    }

    /// An agent reports that an attempt has failed and is released.
    pub(crate) async fn fails(&self, row: &TaskRow) {
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
            start_failure: None,
        };
        let report = TaskReport {
            task: row.id,
            incarnation: row.incarnation,
            phase: ReportPhase::Released,
            process: None,
            cores: Vec::new(),
            health: Health::Unknown,
            exit: Some(exit),
            resize: None,
            helpers: Vec::new(),
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
    pub(crate) async fn change<T>(
        &self,
        action: &'static str,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> T {
        self.quiet.change(self.change_of(action), closure).await.unwrap()
    }

    fn change_of(&self, action: &'static str) -> Change {
        change(u128::from(self.rng.next_u64()), action, self.stamps.wall_ms())
    }

    pub(crate) async fn node_add(&self) {
        let id = NodeId(self.rng.next_u64().max(1));
        let capacity = Resources {
            cpu_millis: 64_000,
            memory_bytes: 256 << 30,
            disk_bytes: 1 << 40,
            ..Resources::default()
        };
        let facts = NodeFacts { port_last: 20_999, ..node_facts(capacity) };
        let arrival = NodeRegistration::new(name(&format!("node-{:x}", id.0)), facts, id, 1);
        self.change("node", async |tx, changes| {
            let (_, writer) = node_register(tx, changes, &arrival).await?;
            node_reported(&writer, changes, &[]).await
        })
        .await;
    }

    /// Admits a job of one small task.
    pub(crate) async fn job_submit(&self, job: &str, scheduler: Option<&str>) {
        self.job_submit_sized(job, scheduler, 100).await;
    }

    /// The same with a task of so many thousandths of a core.
    pub(crate) async fn job_submit_sized(&self, job: &str, scheduler: Option<&str>, cpu_millis: u64) {
        let mut spec = job_spec("ann", job, JobKind::Service);
        spec.scheduler = scheduler.map(name);
        spec.task.resources.cpu_millis = cpu_millis;
        self.spec_submit(&spec).await;
    }

    pub(crate) async fn node_names(&self) -> Vec<String> {
        let nodes = self.quiet.read(async |tx, space| node_list(tx, space).await);
        nodes.await.unwrap().into_iter().map(|row| row.name.to_string()).collect()
    }

    pub(crate) async fn spec_submit(&self, spec: &JobSpec) {
        let change = self.change_of("job");
        let candidate = JobId(self.rng.next_u64().max(1));
        let submit = self.quiet.write(async |tx, space| {
            let mut changes = ChangeSet::begin_open(tx, space, &change).await?;
            job_submit(tx, &mut changes, spec, candidate).await?;
            changes.append(tx)
        });
        submit.await.unwrap();
    }
}
