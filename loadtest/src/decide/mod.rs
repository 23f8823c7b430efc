//! `decide`: the scheduler's core alone, on one processor and without a store. It measures how fast the core places
//! tasks, and how much memory its snapshot takes. The loop is a worker's: batches of the same size, and every committed
//! row is applied before the next batch.

pub(crate) mod drive;
mod memory;
mod rules;
pub(crate) mod workload;

use std::collections::BTreeMap;

use borough_scheduler::BATCH_TASKS_MAX;
use borough_scheduler_core::{CellSettings, ScoringProfile};
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::result::{Results, Stats, StatsSet as _, stats_named};
use crate::runs::runs_stats;
use drive::{Driven, drive};
use workload::DecideCell;

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct DecideArguments {
    /// Only this workload; all of them where none is given
    #[arg(long, value_enum)]
    workload: Vec<DecideWorkload>,
    /// Tasks in a batch at most; the default is a worker's
    #[arg(long, default_value_t = BATCH_TASKS_MAX)]
    batch: usize,
    /// Runs of each workload except `memory` and `scale`; the result has medians with the least and the most
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Scoring policy of the cell; the default is that of a new cell
    #[arg(long, value_name = "NAME")]
    policy: Option<ScoringProfile>,
    /// Seed of the shapes of nodes and tasks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// NUMA domains of each node of `scale`, where every second class then asks to stay within one
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16))]
    numa_domains: u32,
}

impl DecideArguments {
    /// The cell with the policy that is measured.
    fn scored(&self, cell: DecideCell) -> DecideCell {
        let profile = self.policy.unwrap_or(cell.settings.profile);
        DecideCell { settings: CellSettings { profile, ..cell.settings }, ..cell }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DecideWorkload {
    /// Bytes of the snapshot per node and per task
    Memory,
    /// 10,000 nodes, 100,000 tasks of 10 classes
    TenClasses,
    /// 10,000 nodes, 100,000 tasks of 1,000 classes with hard and soft constraints
    ThousandClasses,
    /// 10,000 nodes, 100,000 tasks in jobs of one, of 4,000 classes that take turns
    ManyClasses,
    /// 10,000 nodes, 150,000 mixed tasks, from an empty snapshot
    FullCell,
    /// The same 20,000 tasks on half-full cells of 1,000, 10,000 and 100,000 nodes
    Scale,
    /// 15,000 nodes, 30,000 tasks, each bound to one node by its name
    Daemons,
    /// 5,000 nodes, 3,000 tasks of which no two may share a node
    AntiAffinity,
    /// 5,000 nodes in one zone, 10,000 tasks that must be near each other there
    Affinity,
    /// 5,000 nodes, 2,000 tasks of 40 users that keep apart from each other over users
    AntiAffinityUsers,
    /// 5,000 nodes in three zones, 10,000 tasks with a skew of at most 5
    Spreading,
    /// 4,000 nodes, 4,000 tasks with a skew of at most 1 over the nodes
    Inclusion,
    /// 10,000 nodes, 20,000 tasks that fit nowhere beside 50,000 that do
    Unschedulable,
}

/// Sizes of the cells of `scale`.
const SCALE_NODES: [u32; 3] = [1_000, 10_000, 100_000];
/// Fewest rounds over the sizes, and seconds of deciding of each that are enough.
const SCALE_ROUNDS_MIN: u64 = 5;
const SCALE_ROUNDS_MAX: u64 = 25;
const SCALE_S_MIN: f64 = 0.5;

/// Runs the benchmark.
pub(crate) fn run(arguments: &DecideArguments, results: &mut Results) -> anyhow::Result<()> {
    let all = DecideWorkload::value_variants();
    // Memory first: later it would reuse memory that the other workloads have freed.
    let chosen = all.iter().filter(|one| arguments.workload.is_empty() || arguments.workload.contains(one));
    for &one in chosen {
        match one {
            DecideWorkload::Memory => {
                results.line("decide", "memory", memory::measured(arguments.seed)?);
            }
            DecideWorkload::Scale => scale(arguments, results)?,
            DecideWorkload::TenClasses => line(arguments, results, "ten-classes", &workload::ten_classes)?,
            DecideWorkload::ThousandClasses => {
                line(arguments, results, "thousand-classes", &workload::thousand_classes)?;
            }
            DecideWorkload::ManyClasses => line(arguments, results, "many-classes", &workload::many_classes)?,
            DecideWorkload::FullCell => line(arguments, results, "full-cell", &workload::full_cell)?,
            DecideWorkload::Daemons => line(arguments, results, "daemons", &workload::daemons)?,
            DecideWorkload::AntiAffinity => line(arguments, results, "anti-affinity", &rules::anti_affinity)?,
            DecideWorkload::Affinity => line(arguments, results, "affinity", &rules::affinity)?,
            DecideWorkload::AntiAffinityUsers => {
                line(arguments, results, "anti-affinity-users", &rules::anti_affinity_users)?;
            }
            DecideWorkload::Spreading => line(arguments, results, "spreading", &rules::spreading)?,
            DecideWorkload::Inclusion => line(arguments, results, "inclusion", &rules::inclusion)?,
            DecideWorkload::Unschedulable => {
                line(arguments, results, "unschedulable", &workload::unschedulable)?;
            }
        }
    }
    Ok(())
}

fn line(
    arguments: &DecideArguments,
    results: &mut Results,
    name: &str,
    made: &dyn Fn(u64) -> DecideCell,
) -> anyhow::Result<()> {
    let cell = arguments.scored(made(arguments.seed));
    let mut runs = Vec::new();
    for _ in 0..arguments.runs {
        runs.push(stats(&drive(&cell, arguments.batch)?, arguments.batch));
    }
    let mut stats = runs_stats(&runs);
    stats.set("policy", json!(arguments.policy.unwrap_or_default().to_string()));
    results.line("decide", name, stats);
    Ok(())
}

/// One line per size, and one that compares them. One run takes milliseconds, too short on a busy machine. The sizes
/// therefore take turns, with other seeds, until each has enough runs, and the median counts.
fn scale(arguments: &DecideArguments, results: &mut Results) -> anyhow::Result<()> {
    let mut samples: BTreeMap<u32, Vec<Driven>> = BTreeMap::new();
    for round in 0..SCALE_ROUNDS_MAX {
        for nodes in SCALE_NODES {
            let seed = arguments.seed + round;
            let workload = arguments.scored(workload::scale(seed, nodes, arguments.numa_domains));
            samples.entry(nodes).or_default().push(drive(&workload, arguments.batch)?);
        }
        let least = samples.values().map(|of_size| of_size.iter().map(|driven| driven.decide_s).sum::<f64>());
        if least.fold(f64::INFINITY, f64::min) >= SCALE_S_MIN && round + 1 >= SCALE_ROUNDS_MIN {
            break;
        }
    }
    let mut costs = Vec::new();
    for (nodes, mut of_size) in samples {
        of_size.sort_by(|left, right| {
            left.decide_ns_per_placement().total_cmp(&right.decide_ns_per_placement())
        });
        let at = |part: usize| of_size.get((of_size.len() * part / 100).min(of_size.len() - 1));
        let cost = |part| at(part).map_or(0.0, Driven::decide_ns_per_placement);
        costs.push(cost(50));
        let mut stats = at(50).map(|driven| stats(driven, arguments.batch)).unwrap_or_default();
        stats.set("samples", json!(of_size.len()));
        stats.set("numa_domains", json!(arguments.numa_domains));
        stats.set("decide_ns_per_placement_p10", json!(cost(10).round()));
        stats.set("decide_ns_per_placement_p90", json!(cost(90).round()));
        results.line("decide", &format!("scale-{nodes}"), stats);
    }
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = costs.iter().copied().fold(0.0, f64::max);
    let mut stats = Stats::new();
    stats.set("numa_domains", json!(arguments.numa_domains));
    stats.set("cost_most_over_least", json!(rounded(most / least)));
    results.line("decide", "scale", stats);
    Ok(())
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn stats(driven: &Driven, batch: usize) -> Stats {
    let placed = driven.placed.max(1) as f64;
    let per_placement = |count: u64| json!(rounded(count as f64 / placed));
    let stats = [
        ("nodes", json!(driven.nodes)),
        ("tasks", json!(driven.tasks)),
        ("batch", json!(batch)),
        ("placed", json!(driven.placed)),
        ("batches", json!(driven.batches)),
        ("decisions_per_s", json!((placed / driven.decide_s.max(1e-9)).round())),
        ("decide_cpu_s", json!(rounded(driven.decide_s))),
        ("decide_ns_per_placement", json!(driven.decide_ns_per_placement().round())),
        ("queue_cpu_s", json!(rounded(driven.queue_s))),
        ("plan_cpu_s", json!(rounded(driven.plan_s))),
        ("remember_cpu_s", json!(rounded(driven.remember_s))),
        ("follow_ns_per_placement", json!((driven.follow_s * 1e9 / placed).round())),
        ("listing_cpu_s", json!(rounded(driven.listing_s))),
        ("total_cpu_s", json!(rounded(driven.listing_s + driven.decide_s + driven.follow_s))),
        ("nodes_scored_per_placement", per_placement(driven.counters.nodes_scored)),
        ("nodes_examined_per_placement", per_placement(driven.counters.nodes_examined)),
        ("classes_per_batch", json!(rounded(driven.counters.classes as f64 / driven.batches.max(1) as f64))),
        ("cpu_allocated_percent", json!(rounded(driven.cpu_allocated * 100.0))),
    ];
    stats_named(stats)
}
