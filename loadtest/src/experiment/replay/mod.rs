//! `replay`: Alibaba's stream of batch work through a store and the production workers, with time compressed. Each row
//! is submitted at its time, and its tasks end after their duration. It measures how long tasks wait, how many wait,
//! and what is allocated meanwhile. Nodes are only rows; ends are reported as a gateway reports them.

mod ending;
mod stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use borough_model::Name;
use borough_model::job::{JobKind, JobSpec};
use borough_model::node::NodeFacts;
use borough_model::resource::Resources;
use borough_scheduler_core::ScoringProfile;
use clap::Args;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::alibaba::{BatchRow, MACHINE_CORES, MACHINE_MEMORY_MIB, rows};
use super::cell::MIB;
use crate::result::{Results, Stats, StatsSet as _, percentiles_of};
use crate::scheduler::world::{BenchCell, BenchStore};
use crate::spec;
use stream::{ReplaySample, ReplayStream};

/// Arguments of the replay.
#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// Directory of the sample of Alibaba's trace of 2018
    #[arg(long, value_name = "DIR")]
    trace: PathBuf,
    /// So many times faster than it was
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    compress: u32,
    /// Part of each row's instances, in per cent, at least one
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    instances_percent: u32,
    /// Machines; by default as many as are half full on average
    #[arg(long)]
    machines: Option<u32>,
    /// Only the first hours of the trace
    #[arg(long)]
    hours: Option<f64>,
    /// Workers
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Hold the whole cell against the store's rules at the end
    #[arg(long)]
    check: bool,
}

const SAMPLE: Duration = Duration::from_secs(1);
/// If nothing ends for so long, the rest never will.
const PATIENCE: Duration = Duration::from_secs(60);
/// Jobs submitted at once.
const SUBMITTERS: usize = 64;
/// The most points of a curve in one line.
const POINTS_MAX: usize = 60;

/// The input of a replay.
struct ReplayPlan {
    rows: Vec<BatchRow>,
    machines: u32,
    compress: f64,
}

/// Runs the replay.
pub(crate) async fn run(
    scratch: PathBuf,
    arguments: &ReplayArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let plan = planned(arguments)?;
    let stats = replayed(&scratch, arguments, plan).await;
    std::fs::remove_dir_all(&scratch).ok();
    let stats = stats?;
    let violations = stats.get("violations").and_then(Value::as_u64).unwrap_or(0);
    results.line("replay", "alibaba2018", stats);
    anyhow::ensure!(violations == 0, "{violations} violations");
    Ok(())
}

fn planned(arguments: &ReplayArguments) -> anyhow::Result<ReplayPlan> {
    let mut rows = rows(&arguments.trace)?;
    let until_s = arguments.hours.map_or(f64::INFINITY, |hours| hours * 3600.0);
    rows.retain(|row| row.submit_s <= until_s);
    for row in &mut rows {
        let part = u64::from(row.instances) * u64::from(arguments.instances_percent);
        row.instances = u32::try_from(part.div_ceil(100).max(1))?;
    }
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        anyhow::bail!("the trace has no rows")
    };
    let span_s = (last.submit_s - first.submit_s).max(1.0);
    let mean = |amount: fn(&BatchRow) -> f64| {
        rows.iter().map(|row| amount(row) * row.duration_s * f64::from(row.instances)).sum::<f64>() / span_s
    };
    let of_memory = mean(|row| row.memory_fraction);
    let of_cpu = mean(|row| row.cpu_millis as f64 / (MACHINE_CORES * 1000) as f64);
    let half_full = (of_memory.max(of_cpu) * 2.0).ceil().max(1.0) as u32;
    let machines = arguments.machines.unwrap_or(half_full);
    Ok(ReplayPlan { rows, machines, compress: f64::from(arguments.compress) })
}

fn machine_facts() -> NodeFacts {
    let capacity = Resources {
        cpu_millis: MACHINE_CORES * 1000,
        memory_bytes: MACHINE_MEMORY_MIB * MIB,
        ..Resources::default()
    };
    spec::machine_facts(capacity)
}

fn job_spec(number: usize, row: &BatchRow) -> anyhow::Result<JobSpec> {
    let name = Name::new(stream::job_name(number))?;
    let mut spec =
        JobSpec::defaults(Name::new("alibaba")?, name, JobKind::Batch, vec!["/bin/true".to_owned()]);
    spec.count = row.instances;
    let memory_bytes = row.memory_mib() * MIB;
    spec.task.resources = Resources { cpu_millis: row.cpu_millis, memory_bytes, ..Resources::default() };
    Ok(spec)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn replayed(directory: &Path, arguments: &ReplayArguments, plan: ReplayPlan) -> anyhow::Result<Stats> {
    let mut world = BenchCell::new(&BenchStore::embedded(directory), ScoringProfile::default()).await?;
    world.nodes_add(plan.machines, |number| (format!("machine-{number}"), machine_facts())).await?;
    let stream = Arc::new(ReplayStream::new(&plan.rows, plan.compress, Instant::now()));
    let follower = Arc::clone(&stream);
    world.follow(move |deltas| follower.deltas_apply(deltas)).await?;
    world.workers_start(arguments.workers).await?;
    let world = Arc::new(world);
    stream.begin(Instant::now());
    let ending = tokio::spawn(ending::ended(Arc::clone(&world), Arc::clone(&stream)));
    let sampling = tokio::spawn(sampled(Arc::clone(&stream)));
    let submitted = submitted(&world, &stream, &plan.rows).await;
    if submitted.is_ok() {
        stream.over(PATIENCE).await?;
    }
    stream.close();
    submitted?;
    ending.await??;
    let samples = sampling.await?;
    let mut stats = stats(arguments, &plan, &stream, &samples)?;
    if arguments.check {
        world.check(&mut stats).await?;
    }
    world.end().await?;
    Ok(stats)
}

/// Submits each row at its time, or as soon after it as the cell accepts it.
async fn submitted(
    world: &Arc<BenchCell>,
    stream: &Arc<ReplayStream>,
    rows: &[BatchRow],
) -> anyhow::Result<()> {
    let mut submissions = JoinSet::new();
    for (number, row) in rows.iter().enumerate() {
        tokio::time::sleep(stream.until(row.submit_s)).await;
        while submissions.len() >= SUBMITTERS {
            submissions.join_next().await.transpose()?.transpose()?;
        }
        let (spec, world) = (job_spec(number, row)?, Arc::clone(world));
        stream.submitting(number);
        submissions.spawn(async move { world.job_submit(&spec).await });
    }
    while let Some(done) = submissions.join_next().await {
        done??;
    }
    Ok(())
}

async fn sampled(stream: Arc<ReplayStream>) -> Vec<ReplaySample> {
    let mut samples = Vec::new();
    while !stream.closed() {
        tokio::time::sleep(SAMPLE).await;
        samples.push(stream.sample());
    }
    samples
}

fn stats(
    arguments: &ReplayArguments,
    plan: &ReplayPlan,
    stream: &ReplayStream,
    samples: &[ReplaySample],
) -> anyhow::Result<Stats> {
    let mut stats = Stats::new();
    let capacity_cpu = f64::from(plan.machines) * (MACHINE_CORES * 1000) as f64;
    let capacity_memory = f64::from(plan.machines) * MACHINE_MEMORY_MIB as f64;
    let rounded = |value: f64| (value * 100.0).round() / 100.0;
    let cpu: Vec<f64> =
        samples.iter().map(|sample| rounded(sample.cpu_millis as f64 * 100.0 / capacity_cpu)).collect();
    let memory: Vec<f64> =
        samples.iter().map(|sample| rounded(sample.memory_mib as f64 * 100.0 / capacity_memory)).collect();
    let waiting: Vec<f64> = samples.iter().map(|sample| sample.waiting as f64).collect();
    let mean = |values: &[f64]| rounded(values.iter().sum::<f64>() / values.len().max(1) as f64);
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let totals = stream.totals();
    let seconds = totals.seconds;
    stats.set("rows", json!(plan.rows.len()));
    stats.set("tasks", json!(totals.tasks));
    stats.set("machines", json!(plan.machines));
    stats.set("compress", json!(arguments.compress));
    stats.set("instances_percent", json!(arguments.instances_percent));
    stats.set("workers", json!(arguments.workers));
    stats.set("seconds", json!(rounded(seconds)));
    stats.set("placed", json!(totals.placed));
    stats.set("ended", json!(totals.ended));
    stats.set("placed_per_s", json!((totals.placed as f64 / seconds.max(1e-9)).round()));
    stats.set("submitted_late_max_ms", json!(totals.late_max_ms));
    stats.set("waiting_mean", json!(mean(&waiting)));
    stats.set("waiting_max", json!(most(&waiting)));
    stats.set("cpu_pct_mean", json!(mean(&cpu)));
    stats.set("cpu_pct_max", json!(most(&cpu)));
    stats.set("memory_pct_mean", json!(mean(&memory)));
    stats.set("memory_pct_max", json!(most(&memory)));
    let every = samples.len().div_ceil(POINTS_MAX).max(1);
    let curve = |values: &[f64]| json!(values.iter().step_by(every).copied().collect::<Vec<f64>>());
    stats.set("sample_every_s", json!(every));
    stats.set("cpu_pct", curve(&cpu));
    stats.set("memory_pct", curve(&memory));
    stats.set("waiting", curve(&waiting));
    percentiles_of(&mut stats, "submit_to_placed", &stream.latencies());
    percentiles_of(&mut stats, "first_task_placed", &stream.latencies_first());
    Ok(stats)
}
