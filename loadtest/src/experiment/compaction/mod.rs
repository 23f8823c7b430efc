//! `compaction`: the smallest cell that the tasks of a trace fit in, as Borg compares its policies (EuroSys 2015,
//! section 5.1). Machines leave the cell in a random order until the tasks no longer fit. Each trial packs from
//! scratch.

mod machines;
mod trial;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::policy::{policies_asked, settings};
use super::seeds::{by_seed, seeds_parsed};
use super::trace::{TraceDirectories, TraceName};
use crate::result::{Results, Stats, stats_named};
use machines::{lower_bound, rank_90};
use trial::{CompactionSetup, compacted};

/// Arguments of the experiment.
#[derive(Debug, Args)]
pub(crate) struct CompactionArguments {
    /// Directory of the openb trace
    #[arg(long, value_name = "DIR")]
    openb: Option<PathBuf>,
    /// Directory of the sample of Alibaba's trace of 2018
    #[arg(long, value_name = "DIR")]
    alibaba: Option<PathBuf>,
    /// Only this trace; without it, all with a directory
    #[arg(long, value_enum)]
    work: Vec<TraceName>,
    /// Policies by name, with commas between them, or `all`
    #[arg(long, default_value = "all", value_name = "NAME")]
    policy: String,
    /// Seeds, first and last
    #[arg(long, default_value = "1-11", value_name = "A-B", value_parser = seeds_parsed)]
    seeds: (u64, u64),
    /// Tasks that may stay pending if they are picky, in thousandths of all
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pending_per_mille: u64,
    /// A task is picky if at most so many thousandths of the machines could take it when they are empty
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=1000))]
    picky_per_mille: u64,
    /// Tasks of the trace that are packed, drawn once; Alibaba's has 50,000
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    tasks: u64,
    /// The search ends when it knows the number of machines to so many
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    within: u64,
}

/// Draws the tasks of a trace that is not used whole. One seed for all trials: they pack the same work.
const WORK_SEED: u64 = 42;

/// Runs the experiment: a line per trace and policy, and a table per trace.
pub(crate) fn run(arguments: &CompactionArguments, results: &mut Results) -> anyhow::Result<()> {
    let policies = policies_asked(&arguments.policy)?;
    let directories =
        TraceDirectories { openb: arguments.openb.as_deref(), alibaba: arguments.alibaba.as_deref() };
    for name in directories.chosen(&arguments.work)? {
        let mut cell = directories.read(name, WORK_SEED)?;
        cell.tasks.truncate(usize::try_from(arguments.tasks)?);
        let mut rows = Vec::new();
        for &policy in &policies {
            let setup = CompactionSetup {
                cell: &cell,
                settings: settings(policy)?,
                pending_per_mille: arguments.pending_per_mille,
                picky_per_mille: arguments.picky_per_mille,
                within: usize::try_from(arguments.within)?,
            };
            let machines = by_seed(arguments.seeds.0..=arguments.seeds.1, |seed| compacted(&setup, seed))?;
            let least = lower_bound(&cell.nodes, &cell.tasks);
            results.line(
                "compaction",
                &format!("{}/{policy}", name.text()),
                stats(&setup, arguments, policy, &machines, least),
            );
            rows.push((policy, machines));
        }
        rows.sort_by_key(|(policy, machines)| (rank_90(machines).unwrap_or(usize::MAX), *policy));
        let header = ["policy", "machines, 90th percentile", "fewest", "most"].map(str::to_owned);
        let row = |(policy, machines): &(&str, Vec<Option<usize>>)| -> Vec<String> {
            let text =
                |number: Option<usize>| number.map_or_else(|| "do not fit".to_owned(), |n| n.to_string());
            let (fewest, most) = extremes(machines);
            vec![(*policy).to_owned(), text(rank_90(machines)), text(fewest), text(most)]
        };
        let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
        results.table(&format!("compaction: {}", cell.about), &header, &rows);
    }
    Ok(())
}

/// The fewest and the most machines of any seed. `None` is more than any number.
fn extremes(machines: &[Option<usize>]) -> (Option<usize>, Option<usize>) {
    let known = || machines.iter().copied().flatten();
    (known().min(), if machines.contains(&None) { None } else { known().max() })
}

fn stats(
    setup: &CompactionSetup<'_>,
    arguments: &CompactionArguments,
    policy: &str,
    machines: &[Option<usize>],
    lower_bound: f64,
) -> Stats {
    let rounded = |value: f64| json!((value * 100.0).round() / 100.0);
    let all: Option<Vec<usize>> = machines.iter().copied().collect();
    let mean = all.map(|all| rounded(all.iter().sum::<usize>() as f64 / all.len().max(1) as f64));
    let (fewest, most) = extremes(machines);
    let stats = [
        ("policy", json!(policy)),
        ("about", json!(setup.cell.about)),
        ("seeds", json!(format!("{}-{}", arguments.seeds.0, arguments.seeds.1))),
        ("machines_p90", json!(rank_90(machines))),
        ("machines_fewest", json!(fewest)),
        ("machines_most", json!(most)),
        ("machines_mean", json!(mean)),
        ("machines", json!(machines)),
        ("machines_of_trace", json!(setup.cell.nodes.len())),
        ("lower_bound_machines", rounded(lower_bound)),
        ("tasks", json!(setup.cell.tasks.len())),
        ("pending_per_mille", json!(setup.pending_per_mille)),
        ("picky_per_mille", json!(setup.picky_per_mille)),
        ("within", json!(setup.within)),
    ];
    stats_named(stats)
}
