//! `scheduler`: the scheduler pool over a real store, with nodes as rows. It measures how many tasks per second are
//! admitted, decided, committed durably, and seen by an independent watcher. With `--agents` it does the same through a
//! real control process, until simulated agents run them.
//!
//! As in Kubernetes' `scheduler_perf`, the creation of the work overlaps its measurement: time runs from the first
//! submission to the last observed placement.

mod agents;
mod background;
mod background_load;
mod catalog;
mod confirm;
mod events;
mod gangs;
mod load_jobs;
mod rules;
mod seen;
mod workload;
pub(crate) mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use borough_model::job::{JobSpec, RestartMode};
use borough_scheduler_core::ScoringProfile;
use clap::Args;
use procfs::process::Process;
use serde_json::{Value, json};

use crate::hollow::SimulatedFleet;
use crate::kv::EngineKind;
use crate::result::{Results, Stats, StatsSet as _};
use crate::system::SystemOptions;
use background::Background;
use catalog::WorkloadName;
use events::{BackgroundEvents, EventCounts};
use load_jobs::{JobGroup, LoadJob};
use seen::count_reached;
use workload::{Batch, Workload, gate_spec, node_of, vast_facts};
use world::BenchCell;

/// Interval of counting placed tasks, for the rate per second.
const SAMPLE: Duration = Duration::from_secs(1);
/// If nothing is placed for so long, the rest never will be.
const PATIENCE: Duration = Duration::from_secs(60);
/// Jobs submitted at once.
const SUBMITTERS: usize = 64;

/// Arguments of `scheduler`.
#[derive(Debug, Args)]
pub(crate) struct SchedulerBenchArguments {
    /// What is measured; everything where none is named
    #[arg(long, value_enum)]
    workload: Vec<WorkloadName>,
    /// The engine
    #[arg(long, value_enum, default_value = "embedded")]
    pub engine: EngineKind,
    /// The cluster file, or connection string, of a FoundationDB cluster
    #[arg(long, value_name = "FILE", required_if_eq("engine", "fdb"))]
    cluster: Option<String>,
    /// Workers
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Tasks of a job; 1 is what a pod of its own is elsewhere
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tasks_per_job: u32,
    /// The cell's scoring profile; not with agents
    #[arg(long, default_value = "borg-hybrid", value_name = "NAME", conflicts_with = "agents")]
    policy: ScoringProfile,
    /// Hold the whole cell against the store's rules, and the tasks against their own, at the end
    #[arg(long)]
    check: bool,
    /// Through a real control process, until simulated agents run the tasks
    #[arg(long, conflicts_with = "cluster")]
    pub agents: bool,
    #[command(flatten)]
    simulated: SimulatedFleet,
}

impl SchedulerBenchArguments {
    /// The number of workers.
    pub(crate) fn workers(&self) -> u32 {
        self.workers
    }
}

/// Runs the benchmark. `system` starts control processes, where agents are asked for.
pub(crate) async fn run(
    scratch: PathBuf,
    arguments: &SchedulerBenchArguments,
    system: Option<&SystemOptions>,
    results: &mut Results,
) -> anyhow::Result<()> {
    let all = <WorkloadName as clap::ValueEnum>::value_variants();
    let chosen = all.iter().filter(|one| arguments.workload.is_empty() || arguments.workload.contains(one));
    let mut violations = 0;
    for &name in chosen {
        let directory = scratch.join(name.text());
        let workload = name.workload();
        let stats = match system {
            Some(system) => agents::workload_run(system, arguments, &workload).await?,
            None => workload_run(&directory, arguments, &workload).await?,
        };
        let found = ["violations", "rule_violations", "node_violations"].map(|name| stats.get(name));
        violations += found.into_iter().flatten().filter_map(Value::as_u64).sum::<u64>();
        results.line("scheduler", &name.text(), stats);
        std::fs::remove_dir_all(&directory).ok();
    }
    std::fs::remove_dir_all(&scratch).ok();
    anyhow::ensure!(violations == 0, "{violations} violations");
    Ok(())
}

/// Jobs of one batch, by number and tasks.
fn jobs_of(batch: &Batch, tasks_per_job: u32) -> impl Iterator<Item = (u32, u32)> {
    let of_gang = batch.gang.map(|gang| gang.members);
    let each = batch.tasks_per_job.or(of_gang).unwrap_or(tasks_per_job);
    let each = if batch.one_job { batch.tasks } else { each }.max(1);
    let tasks = batch.tasks;
    (0..tasks.div_ceil(each)).map(move |number| (number, each.min(tasks - number * each)))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn workload_run(
    directory: &Path,
    arguments: &SchedulerBenchArguments,
    workload: &Workload,
) -> anyhow::Result<Stats> {
    let mut world = BenchCell::new(directory, arguments.cluster.as_deref(), arguments.policy).await?;
    let node = |number: u32| (format!("node-{number}"), node_of(workload, number));
    world.nodes_add(workload.nodes, node).await?;
    world.nodes_taint(&(0..workload.tainted).map(|number| node(number).0).collect::<Vec<_>>()).await?;
    if workload.vast_node {
        world.nodes_add(1, |_| ("vast".to_owned(), vast_facts())).await?;
    }
    world.watcher_start().await?;
    world.workers_start(arguments.workers).await?;
    let world = Arc::new(world);
    before_place(&world, arguments, workload).await?;
    let counters = ["placements", "nodes_scored", "commits", "conflicts", "evictions"];
    let counted = |world: &BenchCell| counters.map(|name| world.counter(name).unwrap_or_default());
    let start = counted(&world);

    let over = Arc::new(AtomicBool::new(false));
    let events = Arc::new(BackgroundEvents::default());
    let background = Background {
        world: Arc::clone(&world),
        workload: workload.clone(),
        events: Arc::clone(&events),
        over: Arc::clone(&over),
    };
    let background = tokio::spawn(background.run());
    let samples = tokio::spawn(sampled(placed_counted(&world), Arc::clone(&over)));
    let mut began = Instant::now();
    jobs_submit(arguments, &workload.measured, workload.offered_per_s, |spec| {
        job_submit(&world, JobGroup::Measured, spec)
    })
    .await?;
    let submitted = began.elapsed();
    if workload.background.nodes_late > 0 {
        // They wait: the measurement is how fast new nodes requeue them.
        tokio::time::sleep(Duration::from_secs(2)).await;
        began = Instant::now();
        world.nodes_add(workload.background.nodes_late, node).await?;
    }
    count_reached(placed_counted(&world), usize::try_from(workload.measured.tasks)?, PATIENCE).await?;
    let elapsed = began.elapsed();
    over.store(true, Ordering::Relaxed);
    background.await??;
    let samples = samples.await?;

    let mut stats = shape_stats(arguments, workload);
    events.counts().stats(EventCounts::default(), &workload.background, &mut stats);
    rate_stats(&mut stats, workload, elapsed, submitted, &samples);
    let end = counted(&world);
    let spent = |index: usize| end[index].saturating_sub(start[index]);
    let scored = f64::from(u32::try_from(spent(1))?) / f64::from(u32::try_from(spent(0).max(1))?);
    stats.set("nodes_scored_per_decision", json!((scored * 100.0).round() / 100.0));
    stats.set("commits", json!(spent(2)));
    stats.set("conflicts", json!(spent(3)));
    if spent(4) > 0 {
        stats.set("evictions", json!(spent(4)));
    }
    stats.set("peak_rss_mib", json!(peak_rss_mib()?));
    if arguments.check {
        world.check(&mut stats).await?;
    }
    world.end().await?;
    Ok(stats)
}

/// Counts the measured tasks that the watcher has seen placed.
fn placed_counted(world: &BenchCell) -> impl Fn() -> usize + Send + use<> {
    let jobs = Arc::clone(&world.jobs);
    move || usize::try_from(jobs.tasks(JobGroup::Measured).placed).unwrap_or(usize::MAX)
}

/// Places the tasks that exist before the measurement, and admits the gated ones.
async fn before_place(
    world: &Arc<BenchCell>,
    arguments: &SchedulerBenchArguments,
    workload: &Workload,
) -> anyhow::Result<()> {
    if workload.before.iter().any(|batch| batch.gated) {
        world.job_submit(&gate_spec()?).await?;
    }
    let mut placed = 0;
    for batch in &workload.before {
        let group = if batch.gated { JobGroup::Gated } else { JobGroup::Before };
        jobs_submit(arguments, batch, None, |spec| job_submit(world, group, spec)).await?;
        placed += if batch.gated { 0 } else { usize::try_from(batch.tasks)? };
        let counted = || usize::try_from(world.jobs.tasks(JobGroup::Before).placed).unwrap_or(usize::MAX);
        count_reached(counted, placed, PATIENCE).await?;
    }
    Ok(())
}

fn shape_stats(arguments: &SchedulerBenchArguments, workload: &Workload) -> Stats {
    let mut stats = Stats::new();
    stats.set("reference", json!(workload.reference));
    stats
        .set("nodes", json!(workload.nodes + u32::from(workload.vast_node) + workload.background.nodes_late));
    stats.set("tasks", json!(workload.measured.tasks));
    let tasks_per_job = if workload.measured.one_job {
        workload.measured.tasks
    } else {
        workload.measured.gang.map_or(arguments.tasks_per_job, |gang| gang.members)
    };
    stats.set("tasks_per_job", json!(tasks_per_job));
    stats.set("policy", json!(arguments.policy.to_string()));
    stats.set("workers", json!(arguments.workers));
    stats
}

fn rate_stats(
    stats: &mut Stats,
    workload: &Workload,
    elapsed: Duration,
    submitted: Duration,
    samples: &[usize],
) {
    let per_second = |time: Duration| (f64::from(workload.measured.tasks) / time.as_secs_f64()).round();
    stats.set("placements_per_s", json!(per_second(elapsed)));
    stats.set("admitted_per_s", json!(per_second(submitted)));
    if let Some(offered) = workload.offered_per_s {
        stats.set("offered_per_s", json!(offered));
    }
    stats.set("sampled_mean_per_s", json!(mean(samples)));
}

/// Submits the jobs of a batch with `submit`, as fast as they are accepted or at a rate of tasks.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn jobs_submit<Fut>(
    arguments: &SchedulerBenchArguments,
    batch: &Batch,
    offered_per_s: Option<u32>,
    submit: impl Fn(JobSpec) -> Fut,
) -> anyhow::Result<()>
where
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let began = Instant::now();
    let mut submissions = tokio::task::JoinSet::new();
    let mut sent = 0_u32;
    for (number, count) in jobs_of(batch, arguments.tasks_per_job) {
        if let Some(rate) = offered_per_s {
            let due = Duration::from_secs_f64(f64::from(sent) / f64::from(rate));
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
        }
        sent += count;
        while submissions.len() >= SUBMITTERS {
            submissions.join_next().await.transpose()?.transpose()?;
        }
        submissions.spawn(submit(batch.job_spec(number, count)?));
    }
    while let Some(done) = submissions.join_next().await {
        done??;
    }
    Ok(())
}

/// Submits a job to a store.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
fn job_submit(
    world: &Arc<BenchCell>,
    group: JobGroup,
    mut spec: JobSpec,
) -> impl Future<Output = anyhow::Result<()>> + Send + use<> {
    // A task that ends is not started again: its job ends with it.
    spec.restart.mode = RestartMode::Never;
    let (world, job) = (Arc::clone(world), LoadJob::of(group, &spec, Instant::now()));
    async move { Ok(world.job_submit_watched(&spec, job).await?) }
}

/// Tasks counted in each second, as `scheduler_perf` samples them.
async fn sampled(counted: impl Fn() -> usize, over: Arc<AtomicBool>) -> Vec<usize> {
    let mut samples = Vec::new();
    let mut before = counted();
    while !over.load(Ordering::Relaxed) {
        tokio::time::sleep(SAMPLE).await;
        let now = counted();
        samples.push(now.saturating_sub(before));
        before = now;
    }
    samples
}

/// The mean of the samples without the first and the last, which cover parts of a second; 0 if there are too few.
fn mean(samples: &[usize]) -> usize {
    let whole = samples.get(1..samples.len().saturating_sub(1)).unwrap_or_default();
    whole.iter().sum::<usize>().checked_div(whole.len()).unwrap_or_default()
}

fn peak_rss_mib() -> anyhow::Result<u64> {
    Ok(Process::myself()?.status()?.vmhwm.unwrap_or_default() / 1024)
}
