//! `resident`: the bytes that each role of a cell keeps per task. The benchmark fills a cell on the embedded engine
//! with running tasks. It then follows the journal as the roles of one process do, and measures what each of them
//! allocates.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{Database, Idempotency};
use borough_model::job::{JobKind, JobSpec, JobState, job_new};
use borough_model::node::{NodeAlloc, NodeRow};
use borough_model::task::{Charge, ChargeOwner, Endpoint, Health, PortAssignment, TaskRow, TaskState};
use borough_model::{Delta, Incarnation, JobId, Name, NodeId, RequestId, Resources, TaskId};
use borough_scheduler::{CellView, snapshot_of_mirror};
use borough_scheduler_core::{CellSettings, ShardDivision};
use borough_store::cell::{CellMeta, cell_create};
use borough_store::job::job_submit;
use borough_store::journal::{Change, ChangeSet, Cursor, JournalShare, journal_tail_shared};
use borough_store::keys::{self, EndpointKey, JobRowKey, NodeAllocKey, NodeKey, NodeTaskKey, TaskKey};
use borough_store::mirror::MirrorState;
use borough_store::name::EndpointRow;
use borough_store::{CellSpace, StoreError};
use clap::Args;
use serde_json::json;

use crate::result::{Results, Stats, StatsSet as _};
use crate::soak::resident_bytes;

/// Tasks that one transaction writes: about what the limit of a transaction's bytes allows.
const TASKS_PER_COMMIT: u32 = 500;
/// The action of the entries that register nodes.
const NODES_ACTION: &str = "node_register";
/// Entries that the roles read at once.
const PAGE_ENTRIES: usize = 64;

/// The size of the cell.
#[derive(Debug, Args)]
pub(crate) struct ResidentArguments {
    /// Tasks that run
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    tasks: u32,
    /// Tasks of a job
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=500), value_name = "TASKS")]
    tasks_per_job: u32,
    /// Nodes on which they run
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "NODES")]
    on_nodes: u32,
    /// Whether each job has a command, labels and an environment of its own
    #[arg(long)]
    distinct: bool,
}

/// The bytes that this process has allocated and not freed, by its allocator.
pub(crate) fn allocated_bytes() -> anyhow::Result<i64> {
    tikv_jemalloc_ctl::epoch::advance().map_err(|error| anyhow::anyhow!("{error}"))?;
    let bytes = tikv_jemalloc_ctl::stats::allocated::read().map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(i64::try_from(bytes)?)
}

/// What the bytes are counted for: a task counts with its share of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Node,
    Task,
}

/// What a role has allocated, and the time it took to follow.
#[derive(Clone, Copy, Debug, Default)]
struct RoleCost {
    bytes: i64,
    time: Duration,
}

/// The costs by role.
#[derive(Debug, Default)]
struct RoleCosts(BTreeMap<(&'static str, Subject), RoleCost>);

impl RoleCosts {
    /// Does a step of a role and adds what it costs.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    fn step<T>(&mut self, role: &'static str, of: Subject, step: impl FnOnce() -> T) -> anyhow::Result<T> {
        let (before, began) = (allocated_bytes()?, Instant::now());
        let done = step();
        let (took, after) = (began.elapsed(), allocated_bytes()?);
        let cost = self.0.entry((role, of)).or_default();
        cost.bytes += after - before;
        cost.time += took;
        Ok(done)
    }
}

/// The cell in this process.
struct ResidentCell {
    db: Database,
    space: CellSpace,
    at_ms: i64,
    arguments: ResidentFill,
}

#[derive(Clone, Copy, Debug)]
struct ResidentFill {
    tasks: u32,
    tasks_per_job: u32,
    nodes: u32,
    distinct: bool,
}

impl ResidentCell {
    fn change(&self, number: u32, action: &'static str) -> Change {
        let request = RequestId(u128::from(number) + 1);
        Change { request, actor: "loadtest".to_owned(), action, at_ms: self.at_ms }
    }

    fn node_of(&self, task: u32) -> NodeId {
        NodeId(1_000_000 + u64::from(task % self.arguments.nodes))
    }

    fn node_name(node: NodeId) -> anyhow::Result<Name> {
        Ok(Name::new(format!("node-{}", node.0))?)
    }

    /// The nodes with their commitments.
    async fn nodes_write(&self) -> anyhow::Result<()> {
        let ResidentFill { tasks, nodes, .. } = self.arguments;
        let each = tasks.div_ceil(nodes);
        let numbers: Vec<u32> = (0..nodes).collect();
        for (commit, part) in (0_u32..).zip(numbers.chunks(500)) {
            let change = &self.change(commit, NODES_ACTION);
            let mut rows = Vec::new();
            for &number in part {
                let id = self.node_of(number);
                let used = resources(u64::from(each));
                let alloc = NodeAlloc { epoch: 1, used, tasks: each, ..NodeAlloc::default() };
                rows.push((node_row(id, Self::node_name(id)?), alloc));
            }
            let rows = &rows;
            let written = self.db.run("fill_nodes", Idempotency::Natural, |tx, _| async move {
                let mut changes = ChangeSet::begin(&tx, &self.space, change).await?;
                for (row, alloc) in rows {
                    keys::write(&tx, &self.space, &NodeKey { node: row.id }, row)?;
                    keys::write(&tx, &self.space, &NodeAllocKey { node: row.id }, alloc)?;
                    changes.push(Delta::Node { row: row.clone() });
                    changes.push(Delta::NodeAlloc { node: row.id, alloc: alloc.clone() });
                }
                changes.append(&tx)?;
                Ok::<_, StoreError>(())
            });
            written.await?;
        }
        Ok(())
    }

    /// The jobs with their running tasks and endpoints.
    async fn jobs_write(&self) -> anyhow::Result<()> {
        let ResidentFill { tasks, tasks_per_job, .. } = self.arguments;
        let jobs = tasks.div_ceil(tasks_per_job);
        let per_commit = (TASKS_PER_COMMIT / tasks_per_job).max(1);
        let numbers: Vec<u32> = (0..jobs).collect();
        for (commit, part) in (0_u32..).zip(numbers.chunks(per_commit as usize)) {
            let change = &self.change(1_000_000 + commit, "task_report");
            let specs: Vec<JobSpec> =
                part.iter().map(|&number| self.spec(number)).collect::<Result<_, _>>()?;
            let specs = &specs;
            let written = self.db.run("fill_jobs", Idempotency::Natural, |tx, _| async move {
                let mut changes = ChangeSet::begin(&tx, &self.space, change).await?;
                for (&number, spec) in part.iter().zip(specs) {
                    let id = JobId(1 + u64::from(number));
                    job_submit(&tx, &mut changes, spec, id).await?;
                    let mut row = job_new(id, spec, change.request, self.at_ms);
                    (row.state, row.revision) = (JobState::Running, 2);
                    keys::write(&tx, &self.space, &JobRowKey { job: id }, &row)?;
                    changes.push(Delta::Job { row: row.into(), spec: None });
                    for index in 0..tasks_per_job {
                        self.task_write(&tx, &mut changes, spec, TaskId { job: id, index })?;
                    }
                }
                changes.append(&tx)?;
                Ok::<_, StoreError>(())
            });
            written.await?;
        }
        Ok(())
    }

    fn spec(&self, number: u32) -> anyhow::Result<JobSpec> {
        let (user, name) = (Name::new("loadtest")?, Name::new(format!("job-{number}"))?);
        let mut spec = JobSpec::defaults(user, name, JobKind::Service, vec!["/srv/bin/serve".to_owned()]);
        spec.count = self.arguments.tasks_per_job;
        spec.task.resources = resources(1);
        if self.arguments.distinct {
            spec.task.command.push(format!("--number={number}"));
            spec.labels.insert("number".to_owned(), number.to_string());
            spec.task.environment.insert("NUMBER".to_owned(), number.to_string());
        }
        Ok(spec)
    }

    fn task_write(
        &self,
        tx: &borough_kv::Transaction,
        changes: &mut ChangeSet,
        spec: &JobSpec,
        id: TaskId,
    ) -> Result<(), StoreError> {
        let number = u32::try_from(id.job.0 - 1).unwrap_or(0) * self.arguments.tasks_per_job + id.index;
        let node = self.node_of(number);
        let refused = |error: anyhow::Error| StoreError::refused(error.to_string());
        let port = PortAssignment { name: Name::new("http").map_err(|e| refused(e.into()))?, number: 20_001 };
        let mut row = TaskRow::never_placed(id);
        (row.state, row.node, row.health) = (TaskState::Running, Some(node), Health::Healthy);
        (row.incarnation, row.spec_version, row.revision) = (Incarnation(1), 1, 4);
        (row.changed_ms, row.started_ms, row.pid) = (self.at_ms, Some(self.at_ms), Some(4_711));
        row.charge = Charge { owner: ChargeOwner::Task, resources: resources(1) };
        row.ports = vec![port];
        let endpoint = Endpoint {
            task: id,
            user: spec.user.clone(),
            job: spec.name.clone(),
            incarnation: row.incarnation,
            host: "10.20.30.40".to_owned(),
            ports: row.ports.clone(),
            health: row.health,
            weight: 1,
            node: Self::node_name(node).map_err(refused)?,
            healthy_since_ms: 0,
            domains: Vec::new(),
        };
        let key = EndpointKey { user: spec.user.clone(), job: spec.name.clone(), index: id.index };
        keys::write(tx, &self.space, &TaskKey::of(id), &row)?;
        keys::write(tx, &self.space, &NodeTaskKey::of(node, id), &())?;
        let named = EndpointRow { endpoint: endpoint.clone(), revision: row.revision };
        keys::write(tx, &self.space, &key, &named)?;
        changes.push(Delta::Task { row });
        changes.push(Delta::Endpoint { endpoint, revision: named.revision });
        Ok(())
    }

    /// Follows the whole journal as a mirror and two workers of one process do.
    async fn followed(&self, costs: &mut RoleCosts) -> anyhow::Result<(MirrorState, [CellView; 2])> {
        let mut mirror = MirrorState::default();
        let view = || CellView::new(CellSettings::default(), ShardDivision::of(1));
        let mut workers = [view(), view()];
        let mut after = Cursor::start(1);
        loop {
            // Of its own for each page: what a process keeps of its journal does not depend on the tasks.
            let share = &JournalShare::default();
            let page = self.db.run("loadtest_tail", Idempotency::ReadOnly, |tx, _| async move {
                journal_tail_shared(&tx, &self.space, after, PAGE_ENTRIES, share).await
            });
            let page = page.await?;
            if after == Cursor::start(1) {
                mirror.replay_from(after);
            }
            after = page.next;
            for (cursor, entry) in &page.entries {
                let of = if entry.action == NODES_ACTION { Subject::Node } else { Subject::Task };
                costs.step("mirror", of, || mirror.apply(*cursor, entry))?;
                let [first, second] = &mut workers;
                costs.step("worker_1", of, || first.apply(entry))?;
                costs.step("worker_2", of, || second.apply(entry))?;
            }
            if !page.more {
                return Ok((mirror, workers));
            }
        }
    }
}

fn resources(tasks: u64) -> Resources {
    Resources { cpu_millis: 100 * tasks, memory_bytes: tasks << 26, ..Resources::default() }
}

fn node_row(id: NodeId, name: Name) -> NodeRow {
    let mut row = crate::decide::workload::node_row(id.0, 32, 128);
    (row.id, row.name, row.revision) = (id, name, 1);
    row
}

/// Runs the benchmark in `scratch`, which is removed afterwards.
///
/// # Errors
/// The store failed.
pub(crate) async fn run(
    scratch: &Path,
    arguments: &ResidentArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let measured = measured(&scratch.join("store"), arguments, results).await;
    std::fs::remove_dir_all(scratch).ok();
    measured
}

async fn measured(store: &Path, arguments: &ResidentArguments, results: &mut Results) -> anyhow::Result<()> {
    let clock = SystemClock::shared();
    let (rng, _) = SeededRng::from_kernel();
    let mut costs = RoleCosts::default();
    let begun = allocated_bytes()?;
    let engine = EmbeddedEngine::open(OpenOptions::new(store, Arc::clone(&clock), rng))?;
    let ResidentArguments { tasks, tasks_per_job, on_nodes, distinct } = *arguments;
    let fill = ResidentFill { tasks, tasks_per_job, nodes: on_nodes, distinct };
    let cell = ResidentCell {
        db: Database::new(Arc::new(engine.clone())),
        space: CellSpace::new(Name::new("bench")?),
        at_ms: clock.wall_ms(),
        arguments: fill,
    };
    let create = cell.db.run("cell_create", Idempotency::Natural, |tx, _| {
        let (space, at_ms) = (&cell.space, cell.at_ms);
        async move { cell_create(&tx, space, &CellMeta::default(), at_ms).await }
    });
    create.await?;
    cell.nodes_write().await?;
    cell.jobs_write().await?;
    let engine_bytes = allocated_bytes()? - begun;
    let (mirror, workers) = cell.followed(&mut costs).await?;
    let snapshot =
        costs.step("question", Subject::Task, || snapshot_of_mirror(&mirror, CellSettings::default()))?;
    let known = workers.iter().map(|worker| worker.snapshot.tables().node_count()).min();
    let mut stats = Stats::new();
    stats.set("tasks", json!(mirror.tasks().len()));
    stats.set("jobs", json!(mirror.jobs().len()));
    stats.set("nodes", json!(known.context("no worker")?.min(snapshot.tables().node_count())));
    stats.set("engine_bytes_per_task", json!(engine_bytes / i64::from(tasks)));
    for ((role, of), cost) in &costs.0 {
        let (name, count) = match of {
            Subject::Node => ("node", on_nodes),
            Subject::Task => ("task", tasks),
        };
        stats.set(format!("{role}_bytes_per_{name}"), json!(cost.bytes / i64::from(count)));
        stats.set(format!("{role}_ns_per_{name}"), json!(cost.time.as_nanos() / u128::from(count)));
    }
    stats.set("rss_mib", json!(resident_bytes()? >> 20));
    let workload = if distinct { "distinct" } else { "equal" };
    results.line("resident", workload, stats);
    engine.close().await;
    Ok(())
}
