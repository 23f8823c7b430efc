//! A small cell under faults, with all actions besides placement.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_kv::env::{ManualClock, Rng, SeededRng};
use borough_kv::{Database, FaultEngine, FaultPlan, Idempotency, Transaction};
use borough_model::job::{HealthCheck, JobKind, JobSpec, PortSpec, Probe, RolloutFailure, UpdateSpec};
use borough_model::node::NodeFacts;
use borough_model::{JobId, NodeId, RequestId};

use crate::cell::cell_create;
use crate::check::{CellRows, CheckMode, cell_rows_read, cell_violations};
use crate::error::{StoreError, StoreResult};
use crate::job::{
    job_dependencies_check, job_priority_set, job_scale, job_stop, job_submit, job_tasks_gone, jobs_remove,
};
use crate::journal::{Change, ChangeSet};
use crate::keys::CellSpace;
use crate::node::{
    NodeRegistration, SessionFence, node_cordon, node_declare_lost, node_live_read, node_live_renew,
    node_register, node_reported, node_uncordon, node_writer,
};
use crate::rollout::{RolloutOrder, rollout_done, rollout_fail, rollout_order};
use crate::row::CellMeta;
use crate::task::{
    task_node_lost, task_reschedule_lost, task_restart, task_stop_begin, task_unwanted_stop,
    task_wanted_revive,
};
use crate::testing::{TestStore, change, name, node_facts};

pub(crate) const NODES: u64 = 4;

/// A cell, its seed, and its time.
pub(crate) struct World {
    pub(crate) db: Database,
    pub(crate) faults: Arc<FaultEngine>,
    pub(crate) space: CellSpace,
    pub(crate) seed: u64,
    rng: Arc<dyn Rng>,
    pub(crate) now_ms: i64,
    requests: AtomicU64,
    /// States of tasks, jobs and endpoints that occurred, so that a test can check its coverage.
    pub(crate) seen: BTreeSet<String>,
}

impl World {
    /// An open cell with a few ready nodes.
    pub(crate) async fn new(seed: u64) -> Self {
        let plan = FaultPlan {
            timed_out_then_commit: 0.0,
            read_version_slow: 0.0,
            no_commit_then_unknown: 0.1,
            commit_then_unknown: 0.1,
            ..FaultPlan::standard()
        };
        let store = TestStore::new(ManualClock::at(1_000), seed, plan, seed ^ 1);
        let space = CellSpace::new(name("alpha"));
        let rng = SeededRng::shared(seed ^ 2);
        let world = Self {
            db: store.faulty(),
            faults: store.faults,
            space,
            seed,
            rng,
            now_ms: 1_000,
            requests: AtomicU64::new(1),
            seen: BTreeSet::new(),
        };
        let created =
            world.read(async |tx, space| cell_create(tx, space, &CellMeta::default(), 1_000).await).await;
        assert!(matches!(created, Ok(_) | Err(StoreError::AlreadyExists { .. })), "{created:?}");
        for node in 1..=NODES {
            world.node_return(NodeId(node)).await;
        }
        world
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.rng.next_u64() % bound.max(1)
    }

    pub(crate) fn one_of<T: Clone>(&self, items: &[T]) -> Option<T> {
        let at = usize::try_from(self.below(u64::try_from(items.len()).unwrap_or(0))).unwrap_or(0);
        items.get(at).cloned()
    }

    /// A new id of a request or batch.
    pub(crate) fn request(&self) -> RequestId {
        RequestId(u128::from(self.requests.fetch_add(1, Ordering::Relaxed)))
    }

    /// Runs a transaction that appends nothing.
    pub(crate) async fn read<T>(
        &self,
        closure: impl AsyncFn(&Transaction, &CellSpace) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let (closure, space) = (&closure, &self.space);
        self.db.run("test", Idempotency::Natural, |tx, _| async move { closure(&tx, space).await }).await
    }

    /// Runs a transaction with its entry, concurrently with others. A refusal counts as success: operations come at any
    /// time.
    pub(crate) async fn change<T>(
        &self,
        action: &'static str,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> Option<T> {
        let change = Change { at_ms: self.now_ms, ..change(self.request().0, action) };
        let (closure, space, change) = (&closure, &self.space, &change);
        let run = self.db.run(action, Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let value = closure(&tx, &mut changes).await?;
            changes.append(&tx)?;
            // Commits of others in the meantime must not matter.
            tokio::time::sleep(Duration::from_millis(self.below(4))).await;
            Ok::<T, StoreError>(value)
        });
        match run.await {
            Ok(value) => Some(value),
            Err(
                StoreError::Refused { .. }
                | StoreError::NotFound { .. }
                | StoreError::NeedsUpdate { .. }
                | StoreError::InvalidSpec { .. },
            ) => None,
            Err(error) => panic!("seed {}: {action}: {error:?}", self.seed),
        }
    }

    pub(crate) async fn rows(&self) -> CellRows {
        self.read(async |tx, space| cell_rows_read(tx, space).await).await.unwrap()
    }

    /// Fails with all violations, and records the states.
    pub(crate) async fn check(&mut self, mode: CheckMode, after: &str) {
        let rows = self.rows().await;
        let lines: Vec<String> = cell_violations(&rows, mode).iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "seed {} after {after}:\n{}", self.seed, lines.join("\n"));
        let states = rows.tasks.values().map(|row| format!("{:?} {:?}", row.state, row.verdict));
        let endpoints = rows.endpoints.values().map(|row| format!("published {:?}", row.endpoint.health));
        let jobs = rows.jobs.values().map(|job| format!("{:?}", job.state));
        self.seen.extend(states.chain(endpoints).chain(jobs));
    }

    /// A random job: a few small tasks with ports, some with a health check, some batch.
    fn spec(&self) -> JobSpec {
        let user = name(["ada", "bob"][usize::try_from(self.below(2)).unwrap()]);
        let job = name(&format!("job-{}", self.below(5)));
        let kind = if self.below(2) == 0 { JobKind::Service } else { JobKind::Batch };
        let mut spec = JobSpec::defaults(user, job, kind, vec!["run".to_owned()]);
        spec.count = [0, 1, 1, 2, 3, 5][usize::try_from(self.below(6)).unwrap()];
        spec.priority = u32::try_from(100 + self.below(200)).unwrap();
        spec.restart.attempts_max = Some(u32::try_from(self.below(2)).unwrap());
        spec.restart.backoff_initial_ms = 100;
        spec.restart.backoff_max_ms = 1_000;
        if self.below(2) == 0 {
            spec.task.ports = vec![PortSpec { name: name("http"), number: None }];
            spec.task.health = Some(HealthCheck::of(Probe::Tcp { port: name("http") }));
        }
        spec.task.resources.cpu_millis = 200 + 100 * self.below(8);
        if kind == JobKind::Service && self.below(2) == 0 {
            let surge_max = Some(u32::try_from(self.below(3)).unwrap());
            spec.update = Some(UpdateSpec { surge_max, ..UpdateSpec::default() });
        }
        spec
    }

    /// Some action of owners, operators or controllers.
    pub(crate) async fn operate(&self) -> &'static str {
        let rows = self.rows().await;
        let jobs: Vec<JobId> = rows.jobs.keys().copied().collect();
        let job = self.one_of(&jobs).unwrap_or(JobId(0));
        let node = NodeId(1 + self.below(NODES));
        let number = u32::try_from(self.below(7)).unwrap();
        match self.below(19) {
            0..=2 => {
                let (spec, candidate) = (self.spec(), JobId(self.rng.next_u64()));
                self.change("submit", async |tx, changes| job_submit(tx, changes, &spec, candidate).await)
                    .await;
                "submit"
            }
            3 => {
                self.change("scale", async |tx, changes| job_scale(tx, changes, job, number).await).await;
                "scale"
            }
            4 => {
                let priority = 100 + 40 * number;
                self.change("priority", async |tx, changes| {
                    job_priority_set(tx, changes, job, priority).await
                })
                .await;
                "priority"
            }
            5 => {
                self.change("stop", async |tx, changes| job_stop(tx, changes, job).await).await;
                "stop"
            }
            6 => {
                self.sweep(job).await;
                "sweep"
            }
            7 => {
                self.change("remove", async |tx, changes| jobs_remove(tx, changes, &[job], usize::MAX).await)
                    .await;
                "remove"
            }
            8 => {
                self.change("cordon", async |tx, changes| node_cordon(tx, changes, node).await).await;
                "cordon"
            }
            9 => {
                self.change("uncordon", async |tx, changes| node_uncordon(tx, changes, node).await).await;
                "uncordon"
            }
            10 => self.task_operate(&rows).await,
            17 | 18 => {
                let revision = rows.jobs.get(&job).map_or(0, |row| row.revision);
                self.rollout_operate(job, revision).await;
                "rollout"
            }
            11..=13 => {
                self.node_lose(node).await;
                "lose"
            }
            _ => {
                self.node_return(node).await;
                "return"
            }
        }
    }

    /// A rollout ends in some way, however far it is.
    async fn rollout_operate(&self, job: JobId, revision: u64) {
        let failure = RolloutFailure::TaskFails { index: 0, failures: 3 };
        self.change("rollout", async |tx, changes| match self.below(4) {
            0 => rollout_order(tx, changes, job, RolloutOrder::Undo(None), None).await.map(drop),
            1 => rollout_fail(tx, changes, job, revision, failure).await,
            _ => rollout_done(tx, changes, job, revision, 0).await,
        })
        .await;
    }

    async fn task_operate(&self, rows: &CellRows) -> &'static str {
        let tasks: Vec<_> = rows.tasks.values().map(|row| (row.id, row.incarnation)).collect();
        let Some(attempt) = self.one_of(&tasks) else { return "nothing" };
        if self.below(2) == 0 {
            self.change("restart", async |tx, changes| task_restart(tx, changes, attempt.0).await).await;
            return "restart";
        }
        let reason = borough_model::task::StopReason::Drained;
        self.change("drain", async |tx, changes| task_stop_begin(tx, changes, &[attempt], reason).await)
            .await;
        "drain"
    }

    /// The controller's sweep over a job.
    pub(crate) async fn sweep(&self, job: JobId) {
        self.change("dependencies", async |tx, changes| job_dependencies_check(tx, changes, job).await).await;
        let mut after = None;
        loop {
            let sweep = self
                .change("unwanted", async |tx, changes| task_unwanted_stop(tx, changes, job, after, 2).await);
            after = sweep.await.and_then(|sweep| sweep.next);
            if after.is_none() {
                break;
            }
        }
        self.change("revive", async |tx, changes| task_wanted_revive(tx, changes, job, None, 100).await)
            .await;
        self.change("gone", async |tx, changes| job_tasks_gone(tx, changes, job).await).await;
    }

    async fn node_lose(&self, node: NodeId) {
        let observed = self.read(async |tx, space| node_live_read(tx, space, node).await).await.unwrap();
        let observed = observed.as_ref();
        self.change("lost", async |tx, changes| node_declare_lost(tx, changes, node, observed).await).await;
        let mut after = None;
        loop {
            let sweep = self
                .change("lost", async |tx, changes| task_node_lost(tx, changes, node, after, 2).await)
                .await;
            after = sweep.and_then(|sweep| sweep.next);
            if after.is_none() {
                break;
            }
        }
        let rows = self.rows().await;
        let lost: Vec<_> = rows.tasks.values().filter(|row| row.node == Some(node)).collect();
        let attempts: Vec<_> =
            lost.iter().map(|row| (row.id, row.incarnation)).filter(|_| self.below(2) == 0).collect();
        self.change("reschedule", async |tx, changes| {
            task_reschedule_lost(tx, changes, node, &attempts).await
        })
        .await;
    }

    /// The node registers (again), and is ready if it has no old attempts.
    pub(crate) async fn node_return(&self, node: NodeId) {
        let facts = NodeFacts { port_last: 20_011, ..node_facts(2_000) };
        let registration = NodeRegistration::new(name(&format!("n{}", node.0)), facts, node, 1);
        let beat = self.rng.next_u64();
        self.change("register", async |tx, changes| {
            let (_, writer) = node_register(tx, changes, &registration).await?;
            node_live_renew(&writer, changes.space(), beat, 0, None).await
        })
        .await;
        let fence = SessionFence { node, session: 1 };
        self.change("reported", async |tx, changes| {
            let writer = node_writer(tx, changes.space(), fence).await?;
            let writer = writer.ok_or_else(|| StoreError::refused("the node has no session"))?;
            node_reported(&writer, changes, &[]).await
        })
        .await;
    }
}
