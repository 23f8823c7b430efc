//! Live figures of a worker, for Prometheus.

use std::time::Duration;

use borough_scheduler_core::Plan;
use borough_store::placement::PlacementBatch;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::commit::Committed;

/// The figures of one worker. Clones count together.
#[derive(Clone, Debug)]
pub struct WorkerMetrics {
    placements: Counter,
    commits: Counter,
    conflicts: Counter,
    unplaced: Counter,
    nodes_scored: Counter,
    plan_seconds: Histogram,
    commit_seconds: Histogram,
}

impl Default for WorkerMetrics {
    fn default() -> Self {
        let buckets = || Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        Self {
            placements: Counter::default(),
            commits: Counter::default(),
            conflicts: Counter::default(),
            unplaced: Counter::default(),
            nodes_scored: Counter::default(),
            plan_seconds: buckets(),
            commit_seconds: buckets(),
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
        registry.register("unplaced", "tasks looked at that fitted nowhere", self.unplaced.clone());
        registry.register("nodes_scored", "nodes scored", self.nodes_scored.clone());
        registry.register("plan_seconds", "time to plan a batch", self.plan_seconds.clone());
        registry.register("commit_seconds", "time to commit a batch", self.commit_seconds.clone());
    }

    pub(crate) fn planned(&self, plan: &Plan, took: Duration) {
        let unplaced: usize = plan.unplaced.iter().map(|unplaced| unplaced.tasks.len()).sum();
        self.unplaced.inc_by(u64::try_from(unplaced).unwrap_or(u64::MAX));
        self.nodes_scored.inc_by(plan.counters.nodes_scored);
        self.plan_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn committed(&self, batch: &PlacementBatch, outcome: &Committed, took: Duration) {
        self.commit_seconds.observe(took.as_secs_f64());
        match outcome {
            Committed::Yes => {
                self.commits.inc();
                self.placements.inc_by(u64::try_from(batch.placements.len()).unwrap_or(u64::MAX));
            }
            Committed::Conflict(_) => drop(self.conflicts.inc()),
            Committed::No => {}
        }
    }
}
