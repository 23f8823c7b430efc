//! All disturbances of the cell: owners and operators that change their minds, roles and nodes that fail.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::Rng;
use borough_kv::{ErrorCode, Transaction};
use borough_model::job::{
    After, AfterCondition, Constraint, ConstraintOperator, HealthCheck, JobKind, JobSpec, JobState, PortSpec,
    PreemptionSpec, Probe, UpdateSpec,
};
use borough_model::{JobId, NodeId, TaskId};
use borough_store::job::{job_priority_set, job_scale, job_stop, job_submit};
use borough_store::journal::ChangeSet;
use borough_store::node::{node_cordon, node_drain, node_uncordon};
use borough_store::rollout::{RolloutOrder, rollout_order};
use borough_store::task::{task_attempt_stop, task_restart};
use borough_store::{StoreError, StoreResult};
use borough_testkit::{Role, below, index, job_spec, name, rng_of};

use crate::agent::Machines;
use crate::cell::{Cell, LOST_AFTER_MS, WORKERS};

/// Nodes of the cell.
pub(crate) const NODES: usize = 6;
/// Disturbances in one run.
const STEPS: u32 = 110;

pub(crate) struct Disturber {
    cell: Arc<Cell>,
    machines: Arc<Machines>,
    rng: Arc<dyn Rng>,
    workers: Vec<Role>,
    controllers: Vec<Role>,
}

impl Disturber {
    pub(crate) fn new(cell: &Arc<Cell>, machines: &Arc<Machines>, seed: u64) -> Self {
        let workers = (0..WORKERS).map(|place| cell.worker(place, false)).collect();
        let controllers = vec![cell.controller(), cell.controller()];
        let (cell, machines, rng) = (Arc::clone(cell), Arc::clone(machines), rng_of(seed, 50));
        Self { cell, machines, rng, workers, controllers }
    }

    fn below(&self, bound: u64) -> u64 {
        below(&*self.rng, bound)
    }

    fn index(&self, length: usize) -> usize {
        index(&*self.rng, length)
    }

    /// Fills the cell, then disturbs it step by step.
    pub(crate) async fn run(&mut self) {
        for _ in 0..8 {
            self.submit().await;
        }
        for _ in 0..STEPS {
            tokio::time::sleep(Duration::from_millis(self.below(350))).await;
            self.step().await;
        }
    }

    /// Restores every node and role, at full speed.
    pub(crate) async fn calm(&mut self) {
        self.machines.silent.lock().clear();
        self.machines.calm.store(true, std::sync::atomic::Ordering::Relaxed);
        for place in 0..WORKERS {
            self.worker_replace(place, false).await;
        }
    }

    /// Ends every role in order.
    pub(crate) async fn end(self) {
        for role in self.workers.into_iter().chain(self.controllers) {
            assert!(!role.is_over(), "a role has ended by itself");
            role.end().await;
        }
    }

    async fn step(&mut self) {
        match self.below(31) {
            0..=4 => self.submit().await,
            5..=8 => self.scale().await,
            9..=11 => {
                self.job_change("job_stop", async |tx, changes, job| {
                    job_stop(tx, changes, job).await.map(drop)
                })
                .await
            }
            12 => self.priority_set().await,
            13 => self.task_restart().await,
            14 | 15 => {
                self.node_change("node_cordon", async |tx, changes, node| {
                    node_cordon(tx, changes, node).await.map(drop)
                })
                .await
            }
            16 => {
                self.node_change("node_drain", async |tx, changes, node| {
                    node_drain(tx, changes, node).await.map(drop)
                })
                .await
            }
            17..=19 => {
                self.node_change("node_uncordon", async |tx, changes, node| {
                    node_uncordon(tx, changes, node).await.map(drop)
                })
                .await
            }
            20 => {
                let (place, slow) = (u32::try_from(self.index(4)).unwrap(), self.below(2) == 0);
                self.worker_replace(place, slow).await;
            }
            21 => {
                let at = self.index(self.controllers.len());
                self.controllers.swap_remove(at).kill().await;
                self.controllers.push(self.cell.controller());
            }
            22 => drop(self.machines.reboot.lock().insert(self.index(NODES))),
            23 => self.node_silence(),
            24 | 25 => {
                self.job_change("rollout_promote", async |tx, changes, job| {
                    rollout_order(tx, changes, job, RolloutOrder::Promote, None).await.map(drop)
                })
                .await
            }
            26 | 27 => self.surging_drain().await,
            _ => self.priorities_shuffle().await,
        }
    }

    /// A worker dies with its leases; another one replaces it.
    async fn worker_replace(&mut self, place: u32, slow: bool) {
        let at = usize::try_from(place).unwrap();
        let new = self.cell.worker(place, slow);
        std::mem::replace(&mut self.workers[at], new).kill().await;
    }

    /// A node is silent for a while, usually long enough to be lost.
    fn node_silence(&self) {
        let node = self.index(NODES);
        let long = Duration::from_millis(LOST_AFTER_MS / 2 + self.below(2 * LOST_AFTER_MS));
        if self.machines.silent.lock().insert(node) {
            let machines = Arc::clone(&self.machines);
            tokio::spawn(async move {
                tokio::time::sleep(long).await;
                machines.silent.lock().remove(&node);
            });
        }
    }

    async fn submit(&self) {
        let (spec, candidate) = (self.spec(), JobId(self.cell.id()));
        let submitted = self.cell.change("user/test", "job_submit", async |tx, changes| {
            job_submit(tx, changes, &spec, candidate).await
        });
        answered("job_submit", submitted.await);
    }

    async fn scale(&self) {
        let count = u32::try_from(self.below(9)).unwrap();
        self.job_change("job_scale", async |tx, changes, job| {
            job_scale(tx, changes, job, count).await.map(drop)
        })
        .await;
    }

    async fn priority_set(&self) {
        let priority = self.priority();
        self.job_change("job_priority", async |tx, changes, job| {
            job_priority_set(tx, changes, job, priority).await.map(drop)
        })
        .await;
    }

    /// Each commit may change who can preempt whom, so that evictions rest on outdated priorities.
    async fn priorities_shuffle(&self) {
        for _ in 0..12 {
            tokio::time::sleep(Duration::from_millis(self.below(40))).await;
            self.priority_set().await;
        }
    }

    async fn job_change(
        &self,
        action: &'static str,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet, JobId) -> StoreResult<()>,
    ) {
        let jobs: Vec<JobId> = self.cell.mirror.read(|state| {
            let alive = state.jobs().values().filter(|job| !matches!(job.state, JobState::Ended { .. }));
            alive.map(|job| job.id).collect()
        });
        if jobs.is_empty() {
            return;
        }
        let job = jobs[self.index(jobs.len())];
        let changed =
            self.cell.change("user/test", action, async |tx, changes| closure(tx, changes, job).await);
        answered(action, changed.await);
    }

    async fn node_change(
        &self,
        action: &'static str,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet, NodeId) -> StoreResult<()>,
    ) {
        let nodes: Vec<NodeId> = self.cell.mirror.read(|state| state.nodes().keys().copied().collect());
        if nodes.is_empty() {
            return;
        }
        let node = nodes[self.index(nodes.len())];
        let changed =
            self.cell.change("user/test", action, async |tx, changes| closure(tx, changes, node).await);
        answered(action, changed.await);
    }

    /// Drains a node of a job that surges for moves, once the job is at rest. Without this it hardly ever happens: an
    /// accident comes before the surge is over.
    async fn surging_drain(&self) {
        let nodes: Vec<NodeId> = self.cell.mirror.read(|state| {
            let surges = |job: &JobId| {
                let job = state.jobs().get(job)?;
                let spec = state.spec_of(job)?;
                let rolls = job.rollout.as_ref().is_some_and(|rollout| rollout.state.is_open());
                Some(spec.surge(job.count) > 0 && !rolls)
            };
            let tasks = state.tasks().values();
            let healthy = tasks.filter(|task| task.is_healthy() && surges(&task.id.job).unwrap_or(false));
            healthy.filter_map(|task| task.node).collect()
        });
        let Some(node) = nodes.get(self.index(nodes.len().max(1))).copied() else { return };
        let drained = self.cell.change("user/test", "node_drain", async |tx, changes| {
            node_drain(tx, changes, node).await.map(drop)
        });
        answered("node_drain", drained.await);
        tokio::time::sleep(Duration::from_secs(4)).await;
    }

    async fn task_restart(&self) {
        let tasks: Vec<TaskId> = self.cell.mirror.read(|state| state.tasks().keys().copied().collect());
        if tasks.is_empty() {
            return;
        }
        let task = tasks[self.index(tasks.len())];
        let action = if self.below(2) == 0 { "task_restart" } else { "task_attempt_stop" };
        let ended = self.cell.change("user/test", action, async |tx, changes| match action {
            "task_restart" => task_restart(tx, changes, task).await,
            _ => task_attempt_stop(tx, changes, task).await,
        });
        answered(action, ended.await);
    }

    fn priority(&self) -> u32 {
        u32::try_from(50 + 50 * self.below(6)).unwrap()
    }

    /// A random job: services and batches of three users, with and without ports and probes. Some are gangs, have a
    /// fixed port or a hard constraint, or wait for another job.
    fn spec(&self) -> JobSpec {
        let user = ["ada", "bob", "eve"][self.index(3)];
        let job = format!("job-{}", self.below(5));
        let kind = if self.below(3) < 2 { JobKind::Service } else { JobKind::Batch };
        let mut spec = job_spec(user, &job, kind);
        spec.count = u32::try_from(self.below(8)).unwrap();
        spec.priority = self.priority();
        // Some are patient, so that their tasks still exist when the node is back.
        spec.lost_after_ms = (self.below(3) == 0).then_some(4 * LOST_AFTER_MS);
        spec.preemption = match self.below(6) {
            0 => Some(PreemptionSpec { never: true, ..PreemptionSpec::default() }),
            1 => Some(PreemptionSpec { down_max: Some(1), ..PreemptionSpec::default() }),
            _ => None,
        };
        spec.restart.backoff_initial_ms = 100;
        spec.restart.backoff_max_ms = 1_000;
        // A rollout must be over before a run's patience is.
        let unavailable_max = (self.below(2) == 0).then(|| 1 + u32::try_from(self.below(3)).unwrap());
        spec.update = Some(UpdateSpec { healthy_after_ms: 500, unavailable_max, ..UpdateSpec::default() });
        spec.progress_deadline_ms = Some(15_000);
        spec.task.resources.cpu_millis = 100 * (1 + self.below(9));
        spec.task.resources.memory_bytes = (32 << 20) * (1 + self.below(8));
        match self.below(8) {
            0..=3 => spec.task.ports = vec![PortSpec { name: name("http"), number: None }],
            4 => {
                let open = |text| PortSpec { name: name(text), number: None };
                spec.task.ports = vec![open("http"), open("admin")];
            }
            5 => spec.task.ports = vec![PortSpec { name: name("http"), number: Some(8_080) }],
            _ => {}
        }
        if !spec.task.ports.is_empty() && self.below(2) == 0 {
            spec.task.health = Some(HealthCheck::of(Probe::Tcp { port: name("http") }));
        }
        match self.below(8) {
            0 | 3 => {
                spec.count += 3;
                spec.min_member = 2 + u32::try_from(self.below(2)).unwrap();
            }
            1 => spec.constraints = vec![rack_in(&["a", "b"])],
            2 => {
                let after = After { job: name("job-0"), condition: AfterCondition::Finished };
                spec.after = if spec.name == after.job { Vec::new() } else { vec![after] };
            }
            _ => {}
        }
        if spec.kind == JobKind::Service && !spec.is_gang() && self.below(2) == 0 {
            spec.update = spec.update.map(|update| UpdateSpec { surge_max: Some(1), ..update });
        }
        if spec.kind == JobKind::Service && !spec.is_gang() && self.below(4) == 0 {
            let disruptions_max = Some(u32::try_from(self.below(3)).unwrap());
            spec.update = spec.update.map(|update| UpdateSpec { disruptions_max, ..update });
        }
        if spec.kind == JobKind::Service && !spec.is_gang() && spec.count > 0 && self.below(3) == 0 {
            let auto_promote = self.below(2) == 0;
            spec.update = spec.update.map(|update| UpdateSpec { canaries: 1, auto_promote, ..update });
        }
        spec
    }
}

fn rack_in(racks: &[&str]) -> Constraint {
    Constraint {
        attribute: "rack".to_owned(),
        operator: ConstraintOperator::In,
        values: racks.iter().map(|rack| (*rack).to_owned()).collect(),
        preference: None,
    }
}

/// A refusal counts as success: operations come at any time. So does an unknown result.
fn answered<T>(action: &str, result: StoreResult<T>) {
    match result {
        Ok(_)
        | Err(
            StoreError::Refused { .. }
            | StoreError::NotFound { .. }
            | StoreError::NeedsUpdate { .. }
            | StoreError::AlreadyExists { .. }
            | StoreError::InvalidSpec { .. },
        ) => {}
        Err(StoreError::Kv(error)) if error.code == ErrorCode::TransactionTimedOut => {}
        Err(error) => panic!("{action}: {error:?}"),
    }
}
