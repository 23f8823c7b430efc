//! `balance`: the same work in the same order under every policy. It measures how evenly each policy loads the nodes
//! until they are full: mean and standard deviation of the allocation per node and dimension, over the work that has
//! arrived.

mod plot;
mod sample;
mod stats;
mod work;

use std::path::PathBuf;

use clap::Args;

use super::cell::ExperimentCell;
use super::policy::{policies_asked, settings};
use super::trace::{TraceDirectories, TraceName};
use crate::result::Results;
use sample::{Curve, Nodes};
use work::BalanceWorkload;

/// Arguments of the comparison.
#[derive(Debug, Args)]
pub(crate) struct BalanceArguments {
    /// Directory of the openb trace
    #[arg(long, value_name = "DIR")]
    openb: Option<PathBuf>,
    /// Directory of the sample of Alibaba's trace of 2018
    #[arg(long, value_name = "DIR")]
    alibaba: Option<PathBuf>,
    /// Policies by name, with commas between them, or `all`
    #[arg(long, default_value = "all", value_name = "NAME")]
    policy: String,
    /// Only this work; without it, all whose trace is given
    #[arg(long, value_enum)]
    work: Vec<TraceName>,
    /// Seed of the order of arrival
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where plots are written, as SVG
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// Arrivals end when they have requested so much of the scarcest dimension.
const UNTIL_PERCENT: f64 = 120.0;
/// Tasks decided in one plan.
const BATCH: usize = 32;

/// Runs the comparison: a line per work and policy, a table per work, and plots on request.
pub(crate) fn run(arguments: &BalanceArguments, results: &mut Results) -> anyhow::Result<()> {
    let policies = policies_asked(&arguments.policy)?;
    let directories =
        TraceDirectories { openb: arguments.openb.as_deref(), alibaba: arguments.alibaba.as_deref() };
    for name in directories.chosen(&arguments.work)? {
        let work =
            BalanceWorkload::of(directories.read(name, arguments.seed)?, arguments.seed, UNTIL_PERCENT);
        let mut curves = Vec::new();
        for &policy in &policies {
            let curve = followed(&work, policy, arguments.seed)?;
            results.line(
                "balance",
                &format!("{}/{policy}", name.text()),
                stats::stats(&work, policy, &curve),
            );
            curves.push((policy, curve));
        }
        results.line("balance", &format!("{}/claims", name.text()), stats::claims(&curves));
        let (header, rows) = stats::table(&curves);
        results.table(&format!("balance: {}", work.about), &header, &rows);
        if let Some(directory) = &arguments.svg {
            plot::written(directory, &name.text(), &curves)?;
        }
    }
    Ok(())
}

/// Lets the work arrive under a policy, and samples the nodes at each per cent.
fn followed(work: &BalanceWorkload, policy: &str, seed: u64) -> anyhow::Result<Curve> {
    let mut cell = ExperimentCell::new(settings(policy)?, &work.nodes, seed)?;
    let mut curve = Curve::default();
    let (mut asked, mut refused, mut next) = (0.0, 0_u64, 1.0);
    for together in work.arriving.chunks(BATCH) {
        let tasks: Vec<_> = together.iter().filter_map(|&number| work.tasks.get(number)).collect();
        let placed = cell.arrive(&tasks)?;
        refused += placed.iter().filter(|node| node.is_none()).count() as u64;
        asked += tasks.iter().map(|task| work.scarce_percent(task)).sum::<f64>();
        while asked >= next {
            curve.sampled(next, refused, &Nodes::of(&cell, work));
            next += 1.0;
        }
    }
    curve.sampled(asked, refused, &Nodes::of(&cell, work));
    curve.nodes_scored_per_decision = cell.counters.nodes_scored as f64 / cell.decisions.max(1) as f64;
    Ok(curve)
}
