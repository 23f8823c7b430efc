//! `packing`: the published experiment on the openb trace. Tasks arrive until they have requested 130 % of the cards.
//! None leaves, and a task without a node is dropped. The measure is the allocated part of the cards, in thousandths,
//! once 100 % were requested, and at the end.

mod run;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::arrival::TaskOrder;
use super::openb::{self, OpenbNode};
use super::policy::{policies_asked, settings};
use super::resample::variant_tasks;
use super::seeds::{by_seed, seeds_parsed};
use crate::result::{Results, Stats, stats_named};
use run::{Packed, PackingSetup, pack};

/// Arguments of the experiment.
#[derive(Debug, Args)]
pub(crate) struct PackingArguments {
    /// Directory of the openb trace
    #[arg(long, value_name = "DIR")]
    trace: PathBuf,
    /// Policies by name, with commas between them, or `all`
    #[arg(long, default_value = "all", value_name = "NAME")]
    policy: String,
    /// Variants of the tasks, with commas between them, or `all` that the directory has. `default~cpu-only=25` is
    /// `default` with so many per cent of tasks without cards, drawn from the variant's own. Other parts are `share`,
    /// `whole` and `several`; join them with `+`
    #[arg(long, default_value = "default", value_name = "NAME")]
    variant: String,
    /// Seeds, first and last
    #[arg(long, default_value = "42-51", value_name = "A-B", value_parser = seeds_parsed)]
    seeds: (u64, u64),
    /// Which nodes there are
    #[arg(long, value_enum, default_value_t = PackingNodes::Gpu)]
    cell: PackingNodes,
    /// In which order tasks come
    #[arg(long, value_enum, default_value_t = TaskOrder::TraceThenDrawn)]
    arrivals: TaskOrder,
    /// Demand at which arrivals end, in per cent of the cards
    #[arg(long, default_value_t = 130, value_parser = clap::value_parser!(u64).range(100..=1000))]
    until_percent: u64,
    /// Tasks decided in one plan; the order of arrival is kept within it
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=64))]
    batch: u64,
}

/// The nodes of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PackingNodes {
    /// Those with cards, as in the published experiment
    Gpu,
    /// Those without cards too
    All,
}

/// Runs the experiment and prints a line per variant and policy.
pub(crate) fn run(arguments: &PackingArguments, results: &mut Results) -> anyhow::Result<()> {
    let policies = policies_asked(&arguments.policy)?;
    let variants = match arguments.variant.as_str() {
        "all" => openb::variants(&arguments.trace)?,
        names => names.split(',').map(|name| name.trim().to_owned()).collect(),
    };
    let mut nodes = openb::nodes(&arguments.trace)?;
    nodes.retain(|node| arguments.cell == PackingNodes::All || node.cards > 0);
    for variant in &variants {
        for &policy in &policies {
            let packed = variant_packed(arguments, &nodes, variant, policy)?;
            let stats = stats(arguments, variant, policy, nodes.len(), &packed);
            results.line("packing", &format!("{variant}/{policy}"), stats);
        }
    }
    Ok(())
}

/// All seeds of a variant and policy, by as many threads as there are cores.
fn variant_packed(
    arguments: &PackingArguments,
    nodes: &[OpenbNode],
    variant: &str,
    policy: &str,
) -> anyhow::Result<Vec<Packed>> {
    let tasks = variant_tasks(&arguments.trace, variant)?;
    let setup = PackingSetup {
        nodes,
        tasks: &tasks,
        settings: settings(policy)?,
        order: arguments.arrivals,
        until_per_mille: arguments.until_percent * 10,
        batch: usize::try_from(arguments.batch)?,
    };
    by_seed(arguments.seeds.0..=arguments.seeds.1, |seed| pack(&setup, seed))
}

fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

/// The mean, and the standard deviation over the seeds.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

fn stats(
    arguments: &PackingArguments,
    variant: &str,
    policy: &str,
    nodes: usize,
    packed: &[Packed],
) -> Stats {
    let of = |value: fn(&Packed) -> f64| {
        let values: Vec<f64> = packed.iter().map(value).collect();
        mean_and_deviation(&values)
    };
    let (arrived, arrived_deviation) = of(|packed| packed.arrived_percent);
    let (saturated, saturated_deviation) = of(|packed| packed.saturated_percent);
    let name =
        |value: Option<clap::builder::PossibleValue>| json!(value.map(|value| value.get_name().to_owned()));
    let stats = [
        ("variant", json!(variant)),
        ("policy", json!(policy)),
        ("seeds", json!(format!("{}-{}", arguments.seeds.0, arguments.seeds.1))),
        ("arrived_pct", rounded(arrived)),
        ("saturated_pct", rounded(saturated)),
        ("arrived_pct_deviation", rounded(arrived_deviation)),
        ("saturated_pct_deviation", rounded(saturated_deviation)),
        ("nodes_scored_per_decision", rounded(of(|packed| packed.nodes_scored_per_decision).0)),
        ("seconds", rounded(of(|packed| packed.cpu_s).0 * packed.len() as f64)),
        ("seconds_per_seed", rounded(of(|packed| packed.cpu_s).0)),
        ("nodes", json!(nodes)),
        ("cell", name(arguments.cell.to_possible_value())),
        ("arrivals", name(arguments.arrivals.to_possible_value())),
        ("tasks_arrived", rounded(of(|packed| packed.tasks as f64).0)),
        ("tasks_dropped", rounded(of(|packed| packed.dropped as f64).0)),
        ("cpu_saturated_pct", rounded(of(|packed| packed.cpu_percent).0)),
        ("memory_saturated_pct", rounded(of(|packed| packed.memory_percent).0)),
    ];
    stats_named(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_is_that_of_all_values() {
        let (mean, deviation) = mean_and_deviation(&[1.0, 3.0]);
        assert!((mean - 2.0).abs() < 1e-9 && (deviation - 1.0).abs() < 1e-9);
    }
}
