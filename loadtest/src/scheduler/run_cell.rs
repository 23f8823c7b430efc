//! One run of a workload in a cell of rows: what is placed before, the warm-up, the measured time, and half the load.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use borough_model::job::{JobSpec, RestartMode};
use serde_json::json;

use super::background::BackgroundRun;
use super::events::{BackgroundEvents, EventCounts};
use super::load_jobs::{GroupTasks, JobGroup, LoadJob};
use super::seen::count_reached;
use super::workload::{Workload, gate_spec, node_of, vast_facts};
use super::world::{BenchCell, BenchStore};
use super::{PATIENCE, SchedulerBenchArguments, job_tasks, jobs_submit, peak_rss_mib, shape_stats};
use crate::result::{Stats, StatsSet as _, percentiles};

/// Counters of the workers.
const COUNTERS: [&str; 6] = ["placements", "nodes_scored", "commits", "conflicts", "evictions", "unplaced"];

/// Histograms of the workers, with the names of their results.
const HISTOGRAMS: [(&str, &str); 2] = [("plan_seconds", "plan_s"), ("commit_seconds", "commit_s")];

/// A cell with a workload.
pub(super) struct RunCell {
    pub world: Arc<BenchCell>,
    pub workload: Workload,
    pub events: Arc<BackgroundEvents>,
    pub over: Arc<AtomicBool>,
    pub warmup: Duration,
    pub measured: Duration,
    /// Tasks of each measured job.
    pub job_tasks: u32,
}

/// What a measurement has found.
pub(super) struct Measured {
    /// The time in which tasks were offered and placed.
    pub time: Duration,
    pub from: RunMark,
    pub to: RunMark,
}

impl Measured {
    /// The measured tasks that were placed.
    pub(super) fn placed(&self) -> u64 {
        self.to.tasks.placed.saturating_sub(self.from.tasks.placed)
    }

    /// Half of what was placed per second.
    pub(super) fn half_per_s(&self) -> f64 {
        (self.placed() as f64 / self.time.as_secs_f64().max(0.001) / 2.0).max(1.0)
    }
}

/// All counts of one moment.
#[derive(Clone, Copy)]
pub(super) struct RunMark {
    pub at: Instant,
    tasks: GroupTasks,
    gated: GroupTasks,
    events: EventCounts,
    counters: [u64; COUNTERS.len()],
    /// The time that all workers have spent so far.
    seconds: [f64; HISTOGRAMS.len()],
}

/// Runs a workload once.
pub(super) async fn run_once(
    directory: &Path,
    arguments: &SchedulerBenchArguments,
    workload: &Workload,
) -> anyhow::Result<Stats> {
    let store = BenchStore {
        directory,
        cluster: arguments.cluster.as_deref(),
        commit_delay_max: Duration::from_millis(arguments.commit_delay_ms),
    };
    let mut world = BenchCell::new(&store, arguments.policy).await?;
    if let Some(most) = arguments.jobs_per_commit {
        world.jobs_per_commit(usize::from(most));
    }
    let node = |number: u32| (format!("node-{number}"), node_of(workload, number));
    world.nodes_add(workload.nodes, node).await?;
    world.nodes_taint(&(0..workload.tainted).map(|number| node(number).0).collect::<Vec<_>>()).await?;
    if workload.vast_node {
        world.nodes_add(1, |_| ("vast".to_owned(), vast_facts())).await?;
    }
    world.watcher_start().await?;
    world.workers_start(arguments.workers).await?;
    let cell = Arc::new(RunCell {
        world: Arc::new(world),
        workload: workload.clone(),
        events: Arc::default(),
        over: Arc::default(),
        warmup: Duration::from_secs(arguments.warmup_s),
        measured: Duration::from_secs(arguments.measured_s),
        job_tasks: job_tasks(&workload.measured, arguments.tasks_per_job),
    });
    let mut stats = shape_stats(arguments, workload);
    cell.before_place(arguments).await?;
    let background = BackgroundRun {
        world: Arc::clone(&cell.world),
        workload: workload.clone(),
        events: Arc::clone(&cell.events),
        over: Arc::clone(&cell.over),
    };
    let background = tokio::spawn(background.run());
    let load = if workload.by_rounds() { cell.rounds(&mut stats).await } else { cell.flow(&mut stats).await };
    cell.over.store(true, Ordering::Relaxed);
    background.await??;
    load?;
    stats.set("peak_rss_mib", json!(peak_rss_mib()?));
    stats.set("admitted_alone", json!(cell.world.admitted_alone()));
    if arguments.check {
        cell.world.check(&mut stats).await?;
    }
    let world = Arc::clone(&cell.world);
    drop(cell);
    world.end().await?;
    Ok(stats)
}

impl RunCell {
    /// The counts of now.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    pub(super) fn mark(&self) -> RunMark {
        RunMark {
            at: Instant::now(),
            tasks: self.world.jobs.tasks(JobGroup::Measured),
            gated: self.world.jobs.tasks(JobGroup::Gated),
            events: self.events.counts(),
            counters: COUNTERS.map(|name| self.world.counter(name).unwrap_or_default()),
            seconds: HISTOGRAMS.map(|(name, _)| self.world.histogram_sum(name).unwrap_or_default()),
        }
    }

    /// The counts of the measured tasks.
    pub(super) fn tasks(&self) -> GroupTasks {
        self.world.jobs.tasks(JobGroup::Measured)
    }

    /// Submits the measured job of a number, which is due at a moment.
    pub(super) fn job_submit(
        &self,
        number: u32,
        tasks: u32,
        due: Instant,
    ) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + Send + use<>> {
        let spec = self.workload.measured.job_spec(number, tasks)?;
        Ok(self.spec_submit(JobGroup::Measured, spec, due))
    }

    fn spec_submit(
        &self,
        group: JobGroup,
        mut spec: JobSpec,
        due: Instant,
    ) -> impl Future<Output = anyhow::Result<()>> + Send + use<> {
        // A task that ends is not started again: its job ends with it.
        spec.restart.mode = RestartMode::Never;
        // Counted before the submission is under way, so that nobody submits more than the cell may have.
        let id = self.world.job_watch(LoadJob::of(group, &spec, due));
        let world = Arc::clone(&self.world);
        async move { Ok(world.job_submit_as(&spec, id).await?) }
    }

    /// Places the tasks that exist before the measurement, and admits the gated ones.
    async fn before_place(&self, arguments: &SchedulerBenchArguments) -> anyhow::Result<()> {
        if self.workload.before.iter().any(|batch| batch.gated) {
            self.world.job_submit(&gate_spec()?).await?;
        }
        let mut placed = 0;
        for batch in &self.workload.before {
            let group = if batch.gated { JobGroup::Gated } else { JobGroup::Before };
            placed += if batch.gated { 0 } else { usize::try_from(batch.tasks)? };
            let due = self.mark().at;
            jobs_submit(arguments, batch, None, |spec| self.spec_submit(group, spec, due)).await?;
            let before = || self.world.jobs.tasks(JobGroup::Before).placed;
            count_reached(|| usize::try_from(before()).unwrap_or(usize::MAX), placed, PATIENCE).await?;
        }
        Ok(())
    }

    /// Adds what happened between two marks.
    pub(super) fn stats(&self, found: &Measured, stats: &mut Stats) {
        let Measured { time, from, to } = found;
        let seconds = time.as_secs_f64().max(0.001);
        let per_s = |tasks: u64| json!((tasks as f64 / seconds).round());
        let rounded = |value: f64| json!((value * 100.0).round() / 100.0);
        stats.set("warmup_s", json!(self.warmup.as_secs()));
        stats.set("measured_s", rounded(seconds));
        stats.set("placed", json!(found.placed()));
        stats.set("placements_per_s", per_s(found.placed()));
        stats.set("admitted_per_s", per_s(to.tasks.submitted - from.tasks.submitted));
        if let Some(offered) = self.workload.offered_per_s {
            stats.set("offered_per_s", json!(offered));
        }
        if to.gated.submitted > 0 {
            stats.set("gated_tasks", json!(to.gated.waiting()));
        }
        to.events.stats(from.events, &self.workload.background, stats);
        let spent = |index: usize| to.counters[index].saturating_sub(from.counters[index]);
        stats.set("nodes_scored_per_decision", rounded(spent(1) as f64 / spent(0).max(1) as f64));
        stats.set("commits", json!(spent(2)));
        stats.set("conflicts", json!(spent(3)));
        for (index, (_, name)) in HISTOGRAMS.into_iter().enumerate() {
            stats.set(name, rounded(to.seconds[index] - from.seconds[index]));
        }
        for (name, index) in [("evictions", 4), ("unplaced", 5)] {
            if spent(index) > 0 {
                stats.set(name, json!(spent(index)));
            }
        }
    }

    /// Adds the time from the moment a task was due for submission until the watcher saw its placement.
    pub(super) fn latency_stats(&self, offered_per_s: f64, stats: &mut Stats) -> anyhow::Result<()> {
        stats.set("half_offered_per_s", json!(offered_per_s.round()));
        percentiles(stats, "half_submit_to_placed", &self.world.jobs.latencies_end())
    }
}
