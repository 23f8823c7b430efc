//! The loop of one worker: read at R, plan, commit at R; wait until something changes. It makes no choices of its own.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency, Version, Watch};
use borough_model::{Delta, JobId, JobRow, RequestId};
use borough_scheduler_core::{
    BatchSize, CellSettings, OpenQueue, PLAN_SEED, PendingQueue, PendingReason, Plan, StartOffset, plan_from,
};
use borough_store::cell::{GateOpen, cell_meta_read};
use borough_store::journal::{CHUNK_ROWS, Cursor, Listed, cell_list_chunked};
use borough_store::lease::WorkerStatus;
use borough_store::request::request_id_random;
use borough_store::{StoreError, StoreResult, error_chain};
use futures::future::select_all;
use tokio_util::sync::CancellationToken;

use crate::ahead::{PlannedBatch, PlansAhead};
use crate::batch::{BatchStamp, batch_of_plan, gangs_split, victims_running};
use crate::config::WorkerConfig;
use crate::listed::settings_of_meta;
use crate::metrics::WorkerMetrics;
use crate::read::{CellRead, WatchRequest, Watched, cell_read, cell_watch, rows_read};
use crate::shard::{SchedulerShards, ShardHeld};
use crate::stats::WorkerStats;
use crate::view::CellView;

/// How often the rest of a conflicting batch is tried again before everything is planned again. If several workers fill
/// one node, they commit one at a time. Waiting for one's turn is cheaper than planning again.
pub const SURVIVOR_ATTEMPTS: u32 = 12;
/// The most tasks that a worker decides at once.
pub const BATCH_TASKS_MAX: usize = 1_024;
/// Longest wait without a read: a watch may be late, or lost.
const SLEEP_MAX: Duration = Duration::from_millis(1_500);
/// Pause after an error of the store.
const ERROR_PAUSE: Duration = Duration::from_millis(200);

/// The most members of a gang in one commit: all their writes stay well within what a transaction may hold.
pub const GANG_COMMIT_MAX: usize = 2_000;

/// What a worker does after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundOutcome {
    /// Something was committed, or must be read again at once.
    Again,
    /// Nothing to do before something changes, or before this wall time (milliseconds since 1970).
    Idle(Option<i64>),
}

/// The shard that a worker works for in a round, and the one whose turn is the next round.
#[derive(Clone, Copy)]
struct ShardTurn<'a> {
    held: &'a ShardHeld,
    next: &'a ShardHeld,
}

/// The next tasks of a queue, with their plan and how long it took.
pub(crate) struct QueuePlan {
    pub queue: PendingQueue,
    pub plan: Plan,
    pub took: Duration,
}

/// Plans and commits for the shards that it holds. [`Worker::run`] runs it.
pub struct Worker {
    pub(crate) config: WorkerConfig,
    pub(crate) db: Database,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) metrics: WorkerMetrics,
    pub(crate) shards: SchedulerShards,
    pub(crate) view: CellView,
    cursor: Cursor,
    pub(crate) batch_size: BatchSize,
    pub(crate) stats: WorkerStats,
    /// The last read: its version, and its time by the monotonic clock.
    read_last: (Version, Duration),
    /// Whether the cell's settings have changed since the last listing.
    settings_changed: bool,
    /// The number of rounds so far.
    turn: usize,
    /// Conflicts in a row. They change the search seed, so that workers that collided search elsewhere.
    pub(crate) collisions: u64,
    /// The batch that was planned during the last commit.
    pub(crate) ahead: PlansAhead,
}

impl Worker {
    /// A worker over `db`, after a listing of the cell.
    pub async fn start(
        config: WorkerConfig,
        db: Database,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        metrics: WorkerMetrics,
    ) -> StoreResult<Self> {
        let shards = SchedulerShards::new(&config);
        let settings = CellSettings::default();
        let cursor = Cursor::start(0);
        let view = CellView::new(settings, config.division());
        let (batch_size, read_last) = (BatchSize::new(config.batch_tasks_max), (0, clock.monotonic()));
        let stats = WorkerStats::default();
        let mut worker = Self {
            config,
            db,
            clock,
            rng,
            metrics,
            shards,
            view,
            cursor,
            batch_size,
            stats,
            read_last,
            settings_changed: false,
            turn: 0,
            collisions: 0,
            ahead: PlansAhead::default(),
        };
        worker.list().await?;
        Ok(worker)
    }

    /// Works until cancelled, then releases its shards. Boxed, so that it is compiled here and not again in each
    /// program.
    pub fn run(self, cancelled: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.work(cancelled))
    }

    async fn work(mut self, cancelled: CancellationToken) {
        while !cancelled.is_cancelled() {
            let outcome = tokio::select! {
                outcome = self.round() => outcome,
                () = cancelled.cancelled() => break,
            };
            let sleep = match outcome {
                Ok(RoundOutcome::Again) => continue,
                Ok(RoundOutcome::Idle(until_ms)) => self.sleep(until_ms).await,
                Err(StoreError::JournalTrimmed { .. } | StoreError::ForeignEpoch { .. }) => self.list().await,
                Err(error) => Err(error),
            };
            if let Err(error) = sleep {
                tracing::warn!(worker = ?self.config, error = %error_chain(&error), "scheduler round failed");
                tokio::select! {
                    () = tokio::time::sleep(ERROR_PAUSE) => {}
                    () = cancelled.cancelled() => {}
                }
            }
        }
        self.shards.release(&self.db).await;
    }

    /// Lists the cell again, from nothing.
    async fn list(&mut self) -> StoreResult<()> {
        let space = &self.config.space;
        let meta = self.db.run("cell_meta_read", Idempotency::ReadOnly, |tx, _| async move {
            cell_meta_read(&tx, space).await
        });
        let meta = meta.await?;
        let mut view = CellView::new(settings_of_meta(&meta), self.config.division());
        // A job is planned only with its spec, so its row waits for it.
        let mut jobs: BTreeMap<JobId, Arc<JobRow>> = BTreeMap::new();
        let mut bases = Vec::new();
        self.cursor = cell_list_chunked(&self.db, space, CHUNK_ROWS, |listed| match listed {
            Listed::Row(delta) => match *delta {
                Delta::Job { row, .. } => drop(jobs.insert(row.id, row)),
                delta => view.apply_delta(&delta),
            },
            Listed::JobName { .. } => {}
            Listed::Spec { job, version, spec } => {
                let Some(row) = jobs.get(&job) else { return };
                if row.version_beside() == Some(version) && row.spec_version != version {
                    bases.push((job, version, spec));
                } else if row.spec_version == version {
                    view.apply_delta(&Delta::Job { row: row.clone(), spec: Some(spec) });
                }
            }
        })
        .await?;
        for (job, version, spec) in bases {
            view.snapshot.job_base_upsert(job, version, &spec);
        }
        self.view = view;
        self.ahead = PlansAhead::default();
        self.divide();
        Ok(())
    }

    /// Divides the jobs as the pools of their schedulers do. Only a change costs anything.
    fn divide(&mut self) {
        let snapshot = &mut self.view.snapshot;
        self.shards.divisions().for_each(|(scheduler, shards)| snapshot.divide(scheduler, shards));
    }

    async fn round(&mut self) -> StoreResult<RoundOutcome> {
        let ahead = self.ahead.next.take();
        self.tend().await?;
        self.divide();
        let read = self.read().await?;
        if std::mem::take(&mut self.settings_changed) {
            // A snapshot keeps the settings that it was made with.
            self.list().await?;
            return Ok(RoundOutcome::Again);
        }
        let mut round = RoundOutcome::Idle(None);
        // A cell that is being drained or has moved accepts nothing new. A change of its gate wakes nobody; the next
        // read finds it.
        let Ok(gate) = read.gate.open() else { return Ok(round) };
        let mut shards = self.shards.held_at(&read);
        // The shards take turns, so that one with endless work does not keep the others waiting.
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn.checked_rem(shards.len()).unwrap_or(0);
        shards.rotate_left(first);
        let Some(next) = shards.get(1).or_else(|| shards.first()) else { return Ok(round) };
        let mut ahead = self.ahead_at(ahead, shards.first());
        for held in &shards {
            let next = self.shard_round(ShardTurn { held, next }, ahead.take(), &gate).await?;
            round = earlier(round, next);
            if round == RoundOutcome::Again {
                // The read is no longer the newest: the other shards' batches would only conflict.
                break;
            }
        }
        Ok(round)
    }

    pub(crate) async fn tend(&mut self) -> StoreResult<()> {
        let Self { config, shards, stats, view, clock, metrics, batch_size, .. } = self;
        let (version, read_at) = self.read_last;
        let (now, at_ms) = (clock.monotonic(), clock.wall_ms());
        let (held, (part, parts)) = (shards.count(), shards.part());
        let mut status = |queue: &OpenQueue| {
            let reasons = view.snapshot.queue_reasons(queue);
            let waiting = reasons.get(&PendingReason::Turn).copied().unwrap_or(0);
            let unschedulable = reasons.values().sum::<u64>().saturating_sub(waiting);
            let (first, last) = StartOffset { part, parts, ..StartOffset::undivided(0) }
                .cut(view.snapshot.tables().node_count());
            let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let age = now.saturating_sub(read_at);
            let status = WorkerStatus {
                holder: config.holder.clone(),
                at_ms,
                waiting,
                unschedulable,
                read_version: u64::try_from(version).unwrap_or_default(),
                age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
                part_first: small(first),
                part_nodes: small(last - first),
                batch_tasks: small(batch_size.batch()),
                shards: small(held),
                ..stats.status(now)
            };
            metrics.status_set(&config.space.to_string(), queue, &status, &reasons);
            status
        };
        shards.tend(&self.db, &**clock, &mut status).await
    }

    pub(crate) async fn read(&mut self) -> StoreResult<CellRead> {
        let leases = self.shards.keys();
        let config = &self.config;
        let read = cell_read(&self.db, &config.space, self.cursor, &leases, &config.share).await?;
        read.entries.iter().for_each(|entry| self.view.apply(entry));
        self.assumed_forget();
        let deltas = read.entries.iter().flat_map(|entry| &entry.deltas);
        self.settings_changed |= deltas.into_iter().any(|delta| matches!(delta, Delta::CellSettings { .. }));
        self.cursor = read.next;
        self.read_last = (read.version, self.clock.monotonic());
        Ok(read)
    }

    /// Records a gang that gathered so many members; none: it did not gather.
    pub(crate) fn gathered(&mut self, members: usize) {
        if members == 0 {
            self.stats.conflicted();
            self.collisions = self.collisions.saturating_add(1);
            return;
        }
        self.collisions = 0;
        self.stats.committed(members);
        self.metrics.gathered(members);
    }

    /// Plans for a shard and commits, or commits the batch that was planned ahead for it.
    async fn shard_round(
        &mut self,
        turn: ShardTurn<'_>,
        ahead: Option<PlannedBatch>,
        gate: &GateOpen,
    ) -> StoreResult<RoundOutcome> {
        if self.gangs_step(turn.held).await? {
            return Ok(RoundOutcome::Again);
        }
        let Some(ahead) = ahead else { return self.plan_round(turn, gate).await };
        self.metrics.planned_ahead();
        self.batch_round(ahead, turn.next, gate).await?;
        Ok(RoundOutcome::Again)
    }

    /// Plans the next tasks of a queue on the snapshot as it is.
    pub(crate) fn queue_plan(&mut self, queue: &OpenQueue, now_ms: i64) -> QueuePlan {
        let queue = self.view.snapshot.pending_in(queue, now_ms, self.batch_size.batch());
        let started = self.clock.monotonic();
        let seed = PLAN_SEED.wrapping_add(self.collisions);
        let (part, parts) = self.shards.part();
        let start_offset = StartOffset { seed, part, parts, beyond: self.batch_size.beyond() };
        let plan = if queue.tasks.is_empty() {
            Plan::default()
        } else {
            plan_from(self.view.snapshot.tables(), &queue, now_ms, start_offset, &mut self.view.cache)
        };
        QueuePlan { queue, plan, took: self.clock.monotonic().saturating_sub(started) }
    }

    /// Counts a plan that is used.
    pub(crate) fn planned(&mut self, plan: &Plan, took: Duration) {
        self.stats.planned(plan);
        self.metrics.planned(plan, took);
    }

    async fn plan_round(&mut self, turn: ShardTurn<'_>, gate: &GateOpen) -> StoreResult<RoundOutcome> {
        let (held, now_ms) = (turn.held, self.clock.wall_ms());
        let QueuePlan { queue, mut plan, took } = self.queue_plan(&held.queue, now_ms);
        if queue.tasks.is_empty() {
            return Ok(RoundOutcome::Idle(queue.later_ms));
        }
        self.view.snapshot.remember(&plan, now_ms);
        self.planned(&plan, took);
        let large = gangs_split(&mut plan, self.config.gang_commit_max);
        let stamp = BatchStamp { id: self.request_id(), lease: held.key.clone(), at_ms: now_ms };
        let running = rows_read(&self.db, &self.config.space, &victims_running(&plan)).await?;
        let (batch, refused) = batch_of_plan(&plan, &self.view, stamp, &running);
        for (task, error) in refused {
            tracing::error!(%task, %error, "the state machine refused a planned placement");
        }
        if batch.placements.is_empty() && large.is_empty() {
            let more = queue.more || plan.preemption_cut;
            return Ok(if more { RoundOutcome::Again } else { RoundOutcome::Idle(queue.later_ms) });
        }
        if !batch.placements.is_empty() {
            let planned = PlannedBatch::new(held, plan, batch, &queue, self.view.snapshot.tables());
            self.batch_round(planned, turn.next, gate).await?;
        }
        for gang in large {
            // To gather takes long: the plan ahead would be too old.
            self.ahead.next = None;
            if self.gather(held, &gang).await? == 0 {
                // The next read shows the obstacle.
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
        Ok(RoundOutcome::Again)
    }

    /// Waits until the journal moves, `until_ms`, the next renewal of a lease, or the longest time without a read.
    async fn sleep(&mut self, until_ms: Option<i64>) -> StoreResult<()> {
        let wanted = WatchRequest { after: self.cursor, heads: self.shards.heads() };
        let watches = match cell_watch(&self.db, &self.config.space, &wanted).await? {
            Watched::Waits(watches) => watches,
            Watched::Behind => return Ok(()),
            Watched::LeasesMoved => {
                self.shards.look_again();
                return Ok(());
            }
        };
        let wait = until_ms.map_or(SLEEP_MAX, |until| {
            let left = u64::try_from(until.saturating_sub(self.clock.wall_ms())).unwrap_or_default();
            Duration::from_millis(left.max(1))
        });
        let jitter = Duration::from_millis(self.rng.next_u64() % 100);
        let wait = wait.min(self.shards.tend_after()).min(SLEEP_MAX).saturating_add(jitter);
        tokio::select! {
            // An error of a watch means no more than its end: read.
            _ = watches.journal => {}
            () = one_of(watches.heads) => self.shards.look_again(),
            () = tokio::time::sleep(wait) => {}
        }
        Ok(())
    }

    pub(crate) fn request_id(&self) -> RequestId {
        request_id_random(&*self.rng)
    }
}

/// Waits until one of the watches ends; for ever if there is none.
async fn one_of(watches: Vec<Watch>) {
    if watches.is_empty() {
        std::future::pending::<()>().await;
    } else {
        drop(select_all(watches).await);
    }
}

fn earlier(left: RoundOutcome, right: RoundOutcome) -> RoundOutcome {
    match (left, right) {
        (RoundOutcome::Again, _) | (_, RoundOutcome::Again) => RoundOutcome::Again,
        (RoundOutcome::Idle(left), RoundOutcome::Idle(right)) => RoundOutcome::Idle(match (left, right) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        }),
    }
}
