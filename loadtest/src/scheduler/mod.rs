//! `scheduler`: the scheduler pool over a real store, with nodes as rows. It measures how many tasks per second are
//! admitted, decided, committed durably, and seen by an independent watcher. With `--agents` it does the same through a
//! real control process, until simulated agents run them.
//!
//! As in Kubernetes' `scheduler_perf`, the creation of the work overlaps its measurement. A run goes on for a time: the
//! oldest tasks end while others come, so that the cell keeps the fill that the workload names. Then the same load
//! comes at half the rate, and the run measures the time from submission to placement.

mod admission;
mod agents;
mod background;
mod background_load;
mod catalog;
mod confirm;
mod events;
mod flow;
mod gangs;
mod load_jobs;
mod rounds;
mod rules;
mod run_cell;
mod seen;
mod workload;
pub(crate) mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use borough_model::job::JobSpec;
use borough_scheduler_core::ScoringProfile;
use clap::Args;
use procfs::process::Process;
use serde_json::{Value, json};

use crate::hollow::SimulatedFleet;
use crate::kv::EngineKind;
use crate::result::{Results, Stats, StatsSet as _};
use crate::runs::runs_stats;
use crate::system::SystemOptions;
pub(crate) use agents::{CELL, store_check};
use catalog::WorkloadName;
use run_cell::run_once;
use workload::{Batch, Workload};

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
    /// Runs of each workload, each in a cell of its own; the result has medians with the least and the most
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Seconds before the measurement begins; not with agents
    #[arg(long, default_value_t = 2, value_name = "SECONDS", conflicts_with = "agents")]
    warmup_s: u64,
    /// Seconds of the measurement, and again under half the load; not with agents
    #[arg(
        long,
        default_value_t = 10,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "agents"
    )]
    measured_s: u64,
    /// Workers
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Tasks of a job; 1 is what a pod of its own is elsewhere
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tasks_per_job: u32,
    /// Most jobs that one transaction admits, where a gateway has its own bound; not with agents
    #[arg(long, value_name = "N", conflicts_with = "agents", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    jobs_per_commit: Option<u16>,
    /// The longest delay of each commit of a worker, in milliseconds, as of a slow store; not with agents
    #[arg(long, default_value_t = 0, value_name = "MS", conflicts_with = "agents")]
    commit_delay_ms: u64,
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
    anyhow::ensure!(
        arguments.cluster.is_none() || arguments.engine == EngineKind::Fdb,
        "--cluster measures FoundationDB, and the results would say embedded: give --engine fdb with it"
    );
    let all = <WorkloadName as clap::ValueEnum>::value_variants();
    let chosen = all.iter().filter(|one| arguments.workload.is_empty() || arguments.workload.contains(one));
    let mut violations = 0;
    for &name in chosen {
        let workload = name.workload();
        let mut runs = Vec::new();
        for number in 0..arguments.runs {
            let directory = scratch.join(format!("{}-{number}", name.text()));
            let stats = match system {
                Some(system) => agents::workload_run(system, arguments, &workload).await?,
                None => run_once(&directory, arguments, &workload).await?,
            };
            let found = ["violations", "rule_violations", "node_violations"].map(|name| stats.get(name));
            violations += found.into_iter().flatten().filter_map(Value::as_u64).sum::<u64>();
            runs.push(stats);
            std::fs::remove_dir_all(&directory).ok();
        }
        results.line("scheduler", &name.text(), runs_stats(&runs));
    }
    std::fs::remove_dir_all(&scratch).ok();
    anyhow::ensure!(violations == 0, "{violations} violations");
    Ok(())
}

/// Tasks of a job of a batch, unless fewer are left.
fn job_tasks(batch: &Batch, tasks_per_job: u32) -> u32 {
    let of_gang = batch.gang.map(|gang| gang.members);
    let each = batch.tasks_per_job.or(of_gang).unwrap_or(tasks_per_job);
    if batch.one_job { batch.tasks } else { each }.min(batch.tasks).max(1)
}

/// Jobs of one batch, by number and tasks.
fn jobs_of(batch: &Batch, tasks_per_job: u32) -> impl Iterator<Item = (u32, u32)> {
    let (each, tasks) = (job_tasks(batch, tasks_per_job), batch.tasks);
    (0..tasks.div_ceil(each)).map(move |number| (number, each.min(tasks - number * each)))
}

fn shape_stats(arguments: &SchedulerBenchArguments, workload: &Workload) -> Stats {
    let mut stats = Stats::new();
    stats.set("reference", json!(workload.reference));
    stats
        .set("nodes", json!(workload.nodes + u32::from(workload.vast_node) + workload.background.nodes_late));
    stats.set("tasks", json!(workload.measured.tasks));
    stats.set("tasks_per_job", json!(job_tasks(&workload.measured, arguments.tasks_per_job)));
    stats.set("policy", json!(arguments.policy.to_string()));
    stats.set("workers", json!(arguments.workers));
    stats
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
