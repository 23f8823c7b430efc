//! `scheduler`: the scheduler pool over a real store, with nodes as rows: how many tasks per second are admitted,
//! decided, committed durably, and seen back by an independent watcher.
//!
//! As in Kubernetes' `scheduler_perf` the creation of the work overlaps its measurement: the time runs from the first
//! submission to the last placement seen.

mod workload;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use borough_store::check::{CheckMode, cell_check};
use clap::Args;
use procfs::process::Process;
use serde_json::{Map, Value, json};

use crate::kv::EngineKind;
use crate::result::Results;
use workload::{Workload, WorkloadName, hopeless_spec, job_spec, node_facts, vast_facts};
use world::World;

/// Between two looks at how many tasks are placed, for the rate by second.
const SAMPLE: Duration = Duration::from_secs(1);
/// So long without a placement means that the rest never comes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Jobs submitted at once.
const SUBMITTERS: usize = 64;

/// Arguments of `scheduler`.
#[derive(Debug, Args)]
pub struct SchedulerArguments {
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
    /// Tasks of a job
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tasks_per_job: u32,
    /// Hold the whole cell against the store's rules at the end
    #[arg(long)]
    check: bool,
}

/// Runs the benchmark.
pub async fn run(
    scratch: PathBuf,
    arguments: &SchedulerArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let all = <WorkloadName as clap::ValueEnum>::value_variants();
    let chosen = all.iter().filter(|one| arguments.workload.is_empty() || arguments.workload.contains(one));
    for &name in chosen {
        let directory = scratch.join(name.text());
        let figures = workload_run(&directory, arguments, &name.workload()).await?;
        results.line("scheduler", &name.text(), figures);
        std::fs::remove_dir_all(&directory).ok();
    }
    std::fs::remove_dir_all(&scratch).ok();
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn workload_run(
    directory: &Path,
    arguments: &SchedulerArguments,
    workload: &Workload,
) -> anyhow::Result<Map<String, Value>> {
    let mut world = World::new(directory, arguments.cluster.as_deref()).await?;
    world.nodes_add(workload.nodes, |number| (format!("node-{number}"), node_facts(number))).await?;
    if workload.vast_node {
        world.nodes_add(1, |_| ("vast".to_owned(), vast_facts())).await?;
    }
    world.watcher_start().await?;
    world.workers_start(arguments.workers).await?;
    let world = Arc::new(world);
    let (before, tasks) = (workload.tasks_before, workload.tasks);
    jobs_submit(&world, arguments, workload, ("before", before), None).await?;
    world.placed(usize::try_from(before)?, PATIENCE).await?;
    let counters = ["placements", "nodes_scored", "commits", "conflicts"];
    let counted = |world: &World| counters.map(|name| world.counter(name).unwrap_or_default());
    let start = counted(&world);

    let over = Arc::new(AtomicBool::new(false));
    let hopeless =
        tokio::spawn(hopeless_submit(Arc::clone(&world), workload.hopeless_per_s, Arc::clone(&over)));
    let samples = tokio::spawn(sampled(Arc::clone(&world), Arc::clone(&over)));
    let began = Instant::now();
    jobs_submit(&world, arguments, workload, ("measured", tasks), workload.offered_per_s).await?;
    let submitted = began.elapsed();
    world.placed(usize::try_from(before + tasks)?, PATIENCE).await?;
    let elapsed = began.elapsed();
    over.store(true, Ordering::Relaxed);
    hopeless.await??;
    let samples = samples.await?;

    let end = counted(&world);
    let spent = |index: usize| end[index].saturating_sub(start[index]);
    let mut figures = Map::new();
    let mut figure = |name: &str, value: Value| figures.insert(name.to_owned(), value);
    figure("nodes", json!(workload.nodes));
    figure("tasks", json!(tasks));
    figure("tasks_per_job", json!(arguments.tasks_per_job));
    figure("workers", json!(arguments.workers));
    let per_second = |time: Duration| (f64::from(tasks) / time.as_secs_f64()).round();
    figure("placements_per_s", json!(per_second(elapsed)));
    figure("admitted_per_s", json!(per_second(submitted)));
    if let Some(offered) = workload.offered_per_s {
        figure("offered_per_s", json!(offered));
    }
    figure("sampled_mean_per_s", json!(mean(&samples)));
    let scored = f64::from(u32::try_from(spent(1))?) / f64::from(u32::try_from(spent(0).max(1))?);
    figure("nodes_scored_per_decision", json!((scored * 100.0).round() / 100.0));
    figure("commits", json!(spent(2)));
    figure("conflicts", json!(spent(3)));
    figure("peak_rss_mib", json!(peak_rss_mib()?));
    if arguments.check {
        figure("violations", json!(violations(&world).await?));
    }
    let world = Arc::into_inner(world).ok_or_else(|| anyhow::anyhow!("somebody still uses the cell"))?;
    world.end().await;
    Ok(figures)
}

/// Submits jobs until they have `tasks` tasks, as fast as they are taken or at a rate of tasks.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn jobs_submit(
    world: &Arc<World>,
    arguments: &SchedulerArguments,
    workload: &Workload,
    (prefix, tasks): (&str, u32),
    offered_per_s: Option<u32>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut submissions = tokio::task::JoinSet::new();
    let mut left = tasks;
    for number in 0_u32.. {
        let count = left.min(arguments.tasks_per_job);
        if count == 0 {
            break;
        }
        if let Some(rate) = offered_per_s {
            let due = Duration::from_secs_f64(f64::from(tasks - left) / f64::from(rate));
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
        }
        left -= count;
        while submissions.len() >= SUBMITTERS {
            submissions.join_next().await.transpose()?.transpose()?;
        }
        let (world, spec) = (Arc::clone(world), job_spec(&format!("{prefix}-{number}"), count, workload)?);
        submissions.spawn(async move { world.job_submit(&spec).await });
    }
    while let Some(done) = submissions.join_next().await {
        done??;
    }
    Ok(())
}

/// Submits work that fits nowhere, so many jobs a second.
async fn hopeless_submit(world: Arc<World>, per_s: u32, over: Arc<AtomicBool>) -> anyhow::Result<()> {
    let mut number = 0_u32;
    while per_s > 0 && !over.load(Ordering::Relaxed) {
        world.job_submit(&hopeless_spec(&format!("hopeless-{number}"))?).await?;
        number += 1;
        tokio::time::sleep(Duration::from_secs(1) / per_s).await;
    }
    Ok(())
}

/// Tasks placed in each second, as `scheduler_perf` samples them.
async fn sampled(world: Arc<World>, over: Arc<AtomicBool>) -> Vec<usize> {
    let mut samples = Vec::new();
    let mut before = world.seen.count();
    while !over.load(Ordering::Relaxed) {
        tokio::time::sleep(SAMPLE).await;
        let now = world.seen.count();
        samples.push(now - before);
        before = now;
    }
    samples
}

/// The mean of the samples but the first and the last, which are of broken seconds; 0 where there are too few.
fn mean(samples: &[usize]) -> usize {
    let whole = samples.get(1..samples.len().saturating_sub(1)).unwrap_or_default();
    whole.iter().sum::<usize>().checked_div(whole.len()).unwrap_or_default()
}

async fn violations(world: &World) -> anyhow::Result<usize> {
    let space = &world.space;
    let check = world.db.run("cell_check", borough_kv::Idempotency::ReadOnly, |tx, _| async move {
        cell_check(&tx, space, CheckMode::Always).await
    });
    Ok(check.await?.len())
}

fn peak_rss_mib() -> anyhow::Result<u64> {
    Ok(Process::myself()?.status()?.vmhwm.unwrap_or_default() / 1024)
}
