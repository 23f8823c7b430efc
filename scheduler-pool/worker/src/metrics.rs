//! Live metrics of workers, for Prometheus.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_scheduler_core::{OpenQueue, PendingReason, Plan};
use borough_store::lease::{SCHEDULER_DEFAULT, WorkerStatus};
use borough_store::placement::PlacementBatch;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::commit::CommitOutcome;

/// Labels of one worker's shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardLabels {
    cell: String,
    worker: String,
    scheduler: String,
    shard: u32,
}

/// Labels of the reasons why a shard's tasks wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    cell: String,
    worker: String,
    scheduler: String,
    shard: u32,
    reason: &'static str,
}

type Live = Family<ShardLabels, Gauge>;

/// Gauges that workers set with each heartbeat, by shard.
#[derive(Clone, Debug, Default)]
struct LiveMetrics {
    waiting: Live,
    unschedulable: Live,
    rate: Live,
    conflicts: Live,
    scored: Live,
    cached: Live,
    age_ms: Live,
    part_nodes: Live,
    batch_tasks: Live,
    shards: Live,
    pending: Family<ReasonLabels, Gauge>,
}

/// The metrics of a process's workers: common counters, and gauges of each. Clones share them.
#[derive(Clone, Debug)]
pub struct WorkerMetrics {
    placements: Counter,
    commits: Counter,
    conflicts: Counter,
    planned_ahead: Counter,
    unplaced: Counter,
    evictions: Counter,
    nodes_scored: Counter,
    plan_seconds: Histogram,
    commit_seconds: Histogram,
    live: LiveMetrics,
}

impl Default for WorkerMetrics {
    fn default() -> Self {
        let buckets = || Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        Self {
            placements: Counter::default(),
            commits: Counter::default(),
            conflicts: Counter::default(),
            planned_ahead: Counter::default(),
            unplaced: Counter::default(),
            evictions: Counter::default(),
            nodes_scored: Counter::default(),
            plan_seconds: buckets(),
            commit_seconds: buckets(),
            live: LiveMetrics::default(),
        }
    }
}

impl WorkerMetrics {
    /// Shows the figures in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("borough_scheduler");
        registry.register("placements", "tasks placed", self.placements.clone());
        registry.register("commits", "batches committed", self.commits.clone());
        registry.register("conflicts", "batches that lost a guard", self.conflicts.clone());
        registry.register(
            "planned_ahead",
            "batches planned during the commit of the batch before",
            self.planned_ahead.clone(),
        );
        registry.register("unplaced", "planned tasks that fit no node", self.unplaced.clone());
        registry.register("evictions", "tasks evicted for other tasks", self.evictions.clone());
        registry.register("nodes_scored", "nodes scored", self.nodes_scored.clone());
        registry.register("plan_seconds", "time to plan a batch", self.plan_seconds.clone());
        registry.register("commit_seconds", "time to commit a batch", self.commit_seconds.clone());
        let live = &self.live;
        let shards = [
            ("worker_waiting", "tasks of the shard that wait for their turn", &live.waiting),
            ("worker_unschedulable", "unschedulable tasks of the shard", &live.unschedulable),
            ("worker_rate_per_ks", "tasks placed per thousand seconds, lately", &live.rate),
            ("worker_conflicts", "batches of the worker that lost a guard", &live.conflicts),
            ("worker_scored_per_mille", "thousandths of a node scored per task", &live.scored),
            ("worker_cached_per_mille", "searches per thousand that continued an earlier one", &live.cached),
            ("worker_age_ms", "age of what the worker knows", &live.age_ms),
            ("worker_part_nodes", "nodes that the worker prefers", &live.part_nodes),
            ("worker_batch_tasks", "the most tasks in a batch", &live.batch_tasks),
            ("worker_shards", "shards that the worker holds", &live.shards),
        ];
        for (name, help, family) in shards {
            registry.register(name, help, family.clone());
        }
        registry.register(
            "pending_tasks",
            "tasks of the shard without a node, by reason",
            live.pending.clone(),
        );
    }

    /// Sets a worker's gauges for a shard, with the reasons why its tasks wait.
    pub(crate) fn status_set(
        &self,
        cell: &str,
        queue: &OpenQueue,
        status: &WorkerStatus,
        reasons: &BTreeMap<PendingReason, u64>,
    ) {
        let scheduler = queue.scheduler.as_ref().map_or(SCHEDULER_DEFAULT, |name| name.as_str());
        let labels = ShardLabels {
            cell: cell.to_owned(),
            worker: status.holder.clone(),
            scheduler: scheduler.to_owned(),
            shard: queue.shard,
        };
        let live = &self.live;
        let set = |family: &Live, value: u64| {
            family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&live.waiting, status.waiting);
        set(&live.unschedulable, status.unschedulable);
        set(&live.rate, status.rate_per_ks);
        set(&live.conflicts, status.conflicts);
        set(&live.scored, status.scored_per_mille);
        set(&live.cached, u64::from(status.cached_per_mille));
        set(&live.age_ms, status.age_ms);
        set(&live.part_nodes, u64::from(status.part_nodes));
        set(&live.batch_tasks, u64::from(status.batch_tasks));
        set(&live.shards, u64::from(status.shards));
        for reason in PendingReason::ALL {
            let ShardLabels { cell, worker, scheduler, shard } = labels.clone();
            let tasks = reasons.get(&reason).copied().unwrap_or(0);
            let labels = ReasonLabels { cell, worker, scheduler, shard, reason: reason.as_str() };
            live.pending.get_or_create(&labels).set(i64::try_from(tasks).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn planned(&self, plan: &Plan, took: Duration) {
        let unplaced: usize = plan.unplaced.iter().map(|unplaced| unplaced.tasks.len()).sum();
        self.unplaced.inc_by(u64::try_from(unplaced).unwrap_or(u64::MAX));
        self.nodes_scored.inc_by(plan.counters.nodes_scored);
        self.plan_seconds.observe(took.as_secs_f64());
    }

    /// Counts a batch that was planned ahead and is about to be committed.
    pub(crate) fn planned_ahead(&self) {
        self.planned_ahead.inc();
    }

    /// Counts a gang of so many members that gathered.
    pub(crate) fn gathered(&self, members: usize) {
        self.commits.inc();
        self.placements.inc_by(u64::try_from(members).unwrap_or(u64::MAX));
    }

    pub(crate) fn committed(&self, batch: &PlacementBatch, outcome: &CommitOutcome, took: Duration) {
        self.commit_seconds.observe(took.as_secs_f64());
        match outcome {
            CommitOutcome::Committed => {
                self.commits.inc();
                self.placements.inc_by(u64::try_from(batch.placements.len()).unwrap_or(u64::MAX));
                self.evictions.inc_by(u64::try_from(batch.evictions.len()).unwrap_or(u64::MAX));
            }
            CommitOutcome::Conflict(_) => drop(self.conflicts.inc()),
            CommitOutcome::NotCommitted => {}
        }
    }
}
