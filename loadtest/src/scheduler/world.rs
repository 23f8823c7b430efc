//! A cell for the scheduler alone: its store, nodes as rows, the production workers, and an independent watcher.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{Clock, Rng, SeededRng, SystemClock};
use borough_kv::{Database, Engine, FaultEngine, FaultPlan, Idempotency};
use borough_model::node::{NodeFacts, Taint, TaintEffect};
use borough_model::task::{Attempt, EndReason, Exit, Health};
use borough_model::{Delta, JobId, JobSpec, Name, NodeId, TaskId};
use borough_scheduler::{BATCH_TASKS_MAX, GANG_COMMIT_MAX, Worker, WorkerConfig, WorkerMetrics};
use borough_scheduler_core::{SLICE_TASKS, ScoringProfile};
use borough_store::cell::{CellMeta, cell_create};
use borough_store::check::{CheckMode, cell_check};
use borough_store::job::{job_by_name, job_stop, jobs_remove};
use borough_store::journal::{
    CHUNK_ROWS, Change, ChangeSet, Cursor, JournalShare, cell_list_chunked, journal_head, journal_tail,
    journal_watch,
};
use borough_store::mirror::MirrorState;
use borough_store::node::{
    NodeRegistration, SessionFence, node_by_name, node_declare_lost, node_live_read, node_register,
    node_reported, node_taints_set, node_writer,
};
use borough_store::request::request_id_random;
use borough_store::task::{ReportPhase, TaskReport, task_report_apply};
use borough_store::{CellSpace, StoreError, StoreResult};
use futures::future::try_join_all;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::admission::{BenchAdmissions, BenchSubmission};
use super::load_jobs::{LoadJob, LoadJobs, PlacedJob};
use super::rules::rules_check;
use crate::result::{Stats, StatsSet as _};

/// Nodes registered in one transaction.
const NODES_PER_COMMIT: u32 = 200;
/// Entries a watcher reads at once.
const PAGE_ENTRIES: usize = 1_024;
const LEASE_MS: u64 = 5_000;
/// Ends of tasks, and removals of jobs, in one transaction.
const ENDS_PER_COMMIT: usize = 64;
/// Concurrent transactions of one end.
const ENDS_COMMITS: usize = 8;

/// The session of every node's agent.
const SESSION: u64 = 1;

/// The store of a cell.
pub(crate) struct BenchStore<'a> {
    /// The directory of the embedded engine.
    pub directory: &'a Path,
    /// A FoundationDB cluster, instead of the embedded engine.
    pub cluster: Option<&'a str>,
    /// The longest delay of each commit of a worker.
    pub commit_delay_max: Duration,
}

impl<'a> BenchStore<'a> {
    /// The embedded engine in a directory.
    pub(crate) fn embedded(directory: &'a Path) -> Self {
        Self { directory, cluster: None, commit_delay_max: Duration::ZERO }
    }
}

/// A cell for the scheduler alone.
pub(crate) struct BenchCell {
    pub db: Database,
    /// The store as workers see it.
    db_of_workers: Database,
    pub space: CellSpace,
    /// What the watcher has seen.
    pub(super) jobs: Arc<LoadJobs>,
    metrics: WorkerMetrics,
    admissions: BenchAdmissions,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    cancelled: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    embedded: Option<EmbeddedEngine>,
}

/// A change of the benchmark's user, with an id of its own.
fn change_of(rng: &dyn Rng, clock: &dyn Clock, action: &'static str) -> Change {
    let request = request_id_random(rng);
    Change { request, actor: "user/loadtest".to_owned(), action, at_ms: clock.wall_ms() }
}

impl BenchCell {
    /// An empty cell.
    pub(crate) async fn new(store: &BenchStore<'_>, policy: ScoringProfile) -> anyhow::Result<Self> {
        let clock = SystemClock::shared();
        let (rng, _) = SeededRng::from_kernel();
        let (engine, embedded): (Arc<dyn Engine>, _) = match store.cluster {
            Some(cluster) => (borough_fdb::open(cluster)?, None),
            None => {
                let options =
                    OpenOptions::new(store.directory.join("store"), Arc::clone(&clock), Arc::clone(&rng));
                let engine = EmbeddedEngine::open(options)?;
                (Arc::new(engine.clone()), Some(engine))
            }
        };
        let db = Database::new(Arc::clone(&engine));
        let commit_delay_max = store.commit_delay_max;
        let db_of_workers = if commit_delay_max.is_zero() {
            db.clone()
        } else {
            let delays = FaultPlan { commit_slow: 1.0, commit_delay_max, ..FaultPlan::none() };
            Database::new(Arc::new(FaultEngine::new(engine, delays, Arc::clone(&rng))))
        };
        // A unique name: a cluster may be shared, and keeps the keys of an earlier run.
        let space = CellSpace::new(Name::new(format!("loadtest-{:016x}", rng.next_u64()))?);
        let meta = CellMeta {
            failure_domains: vec!["rack".to_owned()],
            profile: policy.to_string(),
            ..CellMeta::default()
        };
        let (at_ms, made) = (clock.wall_ms(), &space);
        let create = db.run("cell_create", Idempotency::Natural, |tx, _| {
            let meta = meta.clone();
            async move { cell_create(&tx, made, &meta, at_ms).await }
        });
        create.await?;
        let cancelled = CancellationToken::new();
        let (jobs, metrics, tasks) = (Arc::default(), WorkerMetrics::default(), Vec::new());
        let admissions = BenchAdmissions::default();
        Ok(Self {
            db,
            db_of_workers,
            space,
            jobs,
            metrics,
            admissions,
            clock,
            rng,
            cancelled,
            tasks,
            embedded,
        })
    }

    /// Admits at most so many jobs in one transaction. With 1, each begins at once, whatever others do.
    pub(super) fn jobs_per_commit(&mut self, most: usize) {
        self.admissions = BenchAdmissions::with_most(most);
    }

    /// The author of a transaction.
    pub(crate) fn change(&self, action: &'static str) -> Change {
        change_of(&*self.rng, &*self.clock, action)
    }

    /// Registers nodes that are ready, named by their numbers.
    pub(crate) async fn nodes_add(
        &self,
        count: u32,
        facts: impl Fn(u32) -> (String, NodeFacts),
    ) -> anyhow::Result<()> {
        for first in (0..count).step_by(usize::try_from(NODES_PER_COMMIT)?) {
            let mut nodes = Vec::new();
            for number in first..count.min(first + NODES_PER_COMMIT) {
                let (name, facts) = facts(number);
                let candidate = NodeId(self.rng.next_u64().max(1));
                nodes.push(NodeRegistration::new(Name::new(name)?, facts, candidate, SESSION));
            }
            let (change, space, nodes) = (&self.change("node_register"), &self.space, &nodes);
            let register = self.db.run("node_register", Idempotency::Natural, |tx, _| async move {
                let mut changes = ChangeSet::begin(&tx, space, change).await?;
                for arrival in nodes {
                    let (_, writer) = node_register(&tx, &mut changes, arrival).await?;
                    node_reported(&writer, &mut changes, &[]).await?;
                }
                changes.append(&tx)
            });
            register.await?;
        }
        Ok(())
    }

    /// Keeps new tasks off the nodes of these names.
    pub(crate) async fn nodes_taint(&self, names: &[String]) -> anyhow::Result<()> {
        let taint = Taint {
            key: "loadtest".to_owned(),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
            added_ms: self.clock.wall_ms(),
        };
        for names in names.chunks(usize::try_from(NODES_PER_COMMIT)?) {
            let (change, space) = (&self.change("node_taint"), &self.space);
            let names = &names.iter().map(|name| Name::new(name.as_str())).collect::<Result<Vec<_>, _>>()?;
            let taints = std::slice::from_ref(&taint);
            let taint = self.db.run("node_taint", Idempotency::Natural, |tx, _| async move {
                let mut changes = ChangeSet::begin(&tx, space, change).await?;
                for name in names {
                    let node = node_by_name(&tx, space, name).await?.id;
                    node_taints_set(&tx, &mut changes, node, taints, &[]).await?;
                }
                changes.append(&tx)
            });
            taint.await?;
        }
        Ok(())
    }

    /// Admits a job, as a gateway does.
    pub(crate) async fn job_submit(&self, spec: &JobSpec) -> StoreResult<()> {
        self.job_submit_as(spec, JobId(self.rng.next_u64().max(1))).await
    }

    /// Counts a job as submitted, and lets the watcher follow its tasks. Returns its id for [`Self::job_submit_as`].
    pub(super) fn job_watch(&self, job: LoadJob) -> JobId {
        let candidate = JobId(self.rng.next_u64().max(1));
        self.jobs.submitted(candidate, job);
        candidate
    }

    /// Admits a job under an id that was never used before.
    pub(super) async fn job_submit_as(&self, spec: &JobSpec, candidate: JobId) -> StoreResult<()> {
        let submission = BenchSubmission { spec: spec.clone(), candidate, change: self.change("job_submit") };
        let (clock, rng) = (Arc::clone(&self.clock), Arc::clone(&self.rng));
        let change = move || change_of(&*rng, &*clock, "job_submit");
        self.admissions.admit(&self.db, &self.space, submission, change).await
    }

    /// Jobs that were admitted by themselves after a shared transaction, so far.
    pub(super) fn admitted_alone(&self) -> u64 {
        self.admissions.alone()
    }

    /// Stops a job.
    pub(crate) async fn job_stop(&self, user: &str, name: &str) -> anyhow::Result<()> {
        let (user, name) = (&Name::new(user)?, &Name::new(name)?);
        let (change, space) = (&self.change("job_stop"), &self.space);
        let stop = self.db.run("job_stop", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin_open(&tx, space, change).await?;
            let job = job_by_name(&tx, space, user, name).await?;
            job_stop(&tx, &mut changes, job.id).await?;
            changes.append(&tx)
        });
        Ok(stop.await?)
    }

    /// Declares a node lost, as if it had been switched off long ago.
    pub(crate) async fn node_lose(&self, name: &str) -> anyhow::Result<()> {
        let name = &Name::new(name)?;
        let (change, space) = (&self.change("node_lost"), &self.space);
        let lose = self.db.run("node_lost", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin_open(&tx, space, change).await?;
            let node = node_by_name(&tx, space, name).await?.id;
            let live = node_live_read(&tx, space, node).await?;
            node_declare_lost(&tx, &mut changes, node, live.as_ref()).await?;
            changes.append(&tx)
        });
        Ok(lose.await?)
    }

    /// Starts the watcher: it follows the journal as any client would, and does not know the workers.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    pub(super) async fn watcher_start(&mut self) -> anyhow::Result<()> {
        let jobs = Arc::clone(&self.jobs);
        self.follow(move |deltas| jobs.note(deltas, Instant::now())).await
    }

    /// Visits every delta from now on, page by page.
    pub(crate) async fn follow(
        &mut self,
        visit: impl FnMut(&mut dyn Iterator<Item = &Delta>) + Send + 'static,
    ) -> anyhow::Result<()> {
        let space = &self.space;
        let head = self.db.run("journal_head", Idempotency::ReadOnly, |tx, _| async move {
            journal_head(&tx, space).await
        });
        let cursor = head.await?;
        let (db, space) = (self.db.clone(), self.space.clone());
        let cancelled = self.cancelled.clone();
        self.tasks.push(tokio::spawn(async move {
            tokio::select! {
                () = watch(db, space, cursor, visit) => {}
                () = cancelled.cancelled() => {}
            }
        }));
        Ok(())
    }

    /// Starts the workers and waits until each has listed the cell.
    pub(crate) async fn workers_start(&mut self, workers: u32) -> anyhow::Result<()> {
        let share = JournalShare::default();
        for place in 0..workers {
            let config = WorkerConfig {
                space: self.space.clone(),
                shards: workers,
                place,
                schedulers: vec![Name::new("default")?],
                holder: format!("scheduler-{place}-{:016x}", self.rng.next_u64()),
                lease_ms: LEASE_MS,
                generation: 0,
                batch_tasks_max: BATCH_TASKS_MAX,
                slice_tasks: SLICE_TASKS,
                gang_commit_max: GANG_COMMIT_MAX,
                share: share.clone(),
            };
            let db = self.db_of_workers.clone();
            let (clock, rng) = (Arc::clone(&self.clock), Arc::clone(&self.rng));
            let worker = Worker::start(config, db, clock, rng, self.metrics.clone()).await?;
            self.tasks.push(tokio::spawn(worker.run(self.cancelled.clone())));
        }
        Ok(())
    }

    /// The workers' counters by name, as `/metrics` shows them.
    pub(crate) fn counter(&self, name: &str) -> anyhow::Result<u64> {
        Ok(self.metric(&format!("{name}_total"))?.parse()?)
    }

    /// The sum of a histogram of the workers, by name.
    pub(crate) fn histogram_sum(&self, name: &str) -> anyhow::Result<f64> {
        Ok(self.metric(&format!("{name}_sum"))?.parse()?)
    }

    fn metric(&self, name: &str) -> anyhow::Result<String> {
        let mut registry = Registry::default();
        self.metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        let line = format!("borough_scheduler_{name} ");
        let value = text.lines().find_map(|text| text.strip_prefix(&line));
        Ok(value.context("a metric that is not there")?.trim().to_owned())
    }

    /// Checks the whole cell against the store's rules, and its tasks against their own.
    pub(crate) async fn check(&self, stats: &mut Stats) -> anyhow::Result<()> {
        cell_stats(&self.db, &self.space, stats).await
    }

    /// Writes reports of nodes' sessions in one transaction, as a gateway does.
    pub(crate) async fn tasks_report(
        &self,
        change: &Change,
        by_node: &BTreeMap<NodeId, Vec<TaskReport>>,
    ) -> StoreResult<()> {
        let space = &self.space;
        let written = self.db.run("task_report", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            for (&node, reports) in by_node {
                let fence = SessionFence { node, session: SESSION };
                let Some(writer) = node_writer(&tx, space, fence).await? else { continue };
                task_report_apply(&writer, &mut changes, reports).await?;
            }
            changes.append(&tx)
        });
        written.await
    }

    /// Ends all tasks of jobs with success, as agents report it, and then removes the jobs, as the controller does.
    /// Returns those that could not be removed, because a task has another attempt by now.
    pub(super) async fn jobs_end(&self, jobs: Vec<PlacedJob>) -> anyhow::Result<Vec<PlacedJob>> {
        let mut attempts: Vec<(TaskId, Attempt)> =
            jobs.iter().flat_map(|job| &job.attempts).copied().collect();
        // Two transactions then rarely change the same node.
        attempts.sort_by_key(|(task, attempt)| (attempt.node, *task));
        for ended in attempts.chunks(ENDS_PER_COMMIT * ENDS_COMMITS) {
            let commits: Vec<_> =
                ended.chunks(ENDS_PER_COMMIT).map(|ended| self.attempts_end(ended)).collect();
            try_join_all(commits).await?;
        }
        let mut left = Vec::new();
        for ids in jobs.chunks(ENDS_PER_COMMIT) {
            let ids: &Vec<JobId> = &ids.iter().map(|job| job.id).collect();
            let (change, space) = (&self.change("jobs_remove"), &self.space);
            let remove = self.db.run("jobs_remove", Idempotency::Natural, |tx, _| async move {
                let mut changes = ChangeSet::begin(&tx, space, change).await?;
                let removed = jobs_remove(&tx, &mut changes, ids, usize::MAX).await?;
                changes.append(&tx)?;
                Ok::<_, StoreError>(removed.left)
            });
            left.extend(remove.await?);
        }
        let (left, gone): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| left.contains(&job.id));
        gone.iter().for_each(|job| self.jobs.ended(job));
        Ok(left)
    }

    async fn attempts_end(&self, ended: &[(TaskId, Attempt)]) -> StoreResult<()> {
        let change = &self.change("task_report");
        let mut by_node: BTreeMap<NodeId, Vec<TaskReport>> = BTreeMap::new();
        for &(task, attempt) in ended {
            by_node.entry(attempt.node).or_default().push(end_report(task, attempt, change.at_ms));
        }
        self.tasks_report(change, &by_node).await
    }

    /// Ends workers and watcher, and closes the store.
    ///
    /// # Errors
    /// Another part of the benchmark still uses the cell.
    pub(crate) async fn end(self: Arc<Self>) -> anyhow::Result<()> {
        let cell = Arc::into_inner(self).context("somebody still uses the cell")?;
        cell.cancelled.cancel();
        for task in cell.tasks {
            task.await.ok();
        }
        if let Some(embedded) = cell.embedded {
            embedded.close().await;
        }
        Ok(())
    }
}

/// The report of an attempt that has ended with success.
fn end_report(task: TaskId, attempt: Attempt, at_ms: i64) -> TaskReport {
    let Attempt { node, incarnation } = attempt;
    let exit = Exit {
        reason: EndReason::Exited,
        code: Some(0),
        signal: None,
        message: String::new(),
        at_ms,
        incarnation,
        node: Some(node),
        start_failure: None,
    };
    TaskReport {
        task,
        incarnation,
        phase: ReportPhase::Released,
        process: Some((1, at_ms)),
        health: Health::Unknown,
        cores: Vec::new(),
        exit: Some(exit),
        resize: None,
        helpers: Vec::new(),
    }
}

/// Violations of the store's rules, and of the tasks' own.
pub(crate) async fn cell_stats(db: &Database, space: &CellSpace, stats: &mut Stats) -> anyhow::Result<()> {
    let check = db.run("cell_check", Idempotency::ReadOnly, |tx, _| async move {
        cell_check(&tx, space, CheckMode::Always).await
    });
    stats.set("violations", json!(check.await?.len()));
    let mut state = MirrorState::default();
    cell_list_chunked(db, space, CHUNK_ROWS, |listed| state.list(listed)).await?;
    let found = rules_check(&state);
    stats.set("rule_violations", json!(found.count));
    if found.count > 0 {
        stats.set("rule_violations_first", json!(found.texts));
    }
    Ok(())
}

/// Follows the journal without end. After an error of the store it reads again.
async fn watch(
    db: Database,
    space: CellSpace,
    cursor: Cursor,
    mut visit: impl FnMut(&mut dyn Iterator<Item = &Delta>) + Send,
) {
    let mut after = cursor;
    loop {
        let space = &space;
        let read = db.run("loadtest_tail", Idempotency::ReadOnly, |tx, _| async move {
            let watch = journal_watch(&tx, space).await?;
            let page = journal_tail(&tx, space, after, PAGE_ENTRIES).await?;
            Ok::<_, StoreError>((page, watch))
        });
        let Ok((page, watch)) = read.await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        visit(&mut page.entries.iter().flat_map(|(_, entry)| &entry.deltas));
        after = page.next;
        if !page.more {
            // A watch may be late: read anyway.
            tokio::time::timeout(Duration::from_millis(500), watch).await.ok();
        }
    }
}
