//! `resize`: a changed file gives every task of a service other amounts in place, on hollow nodes. It checks at the
//! end that each task has, and each node is charged, what was asked.

use anyhow::{Context as _, ensure};
use borough_client::JobRef;
use borough_proto::v1;
use clap::Args;
use serde_json::json;

use super::{LifecycleArguments, LifecycleCell, RolledOut, USER, rules_ensure, seconds};
use crate::hollow::fleet::Counters;
use crate::result::{Results, Stats, StatsSet as _};
use crate::spec;
use crate::system::SystemOptions;

/// Arguments of the benchmark. How many nodes is `--nodes`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResizeBenchArguments {
    /// Tasks of the service
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) tasks: u32,
    #[command(flatten)]
    pub(super) lifecycle: LifecycleArguments,
}

/// The amounts before and after: the processor time grows and the memory shrinks.
const BEFORE: [u64; 2] = [10, 64 << 20];
const AFTER: [u64; 2] = [20, 48 << 20];

fn amounts([cpu_millis, memory_bytes]: [u64; 2]) -> v1::Resources {
    v1::Resources { cpu_millis, memory_bytes, ..v1::Resources::default() }
}

fn service(tasks: u32, resources: v1::Resources) -> v1::JobSpec {
    let mut task = spec::plain_task(&["serve"], 0, 0);
    task.resources = Some(resources);
    task.ports = vec![spec::main_port()];
    task.health = Some(spec::main_probe());
    spec::service(USER, "resize".to_owned(), tasks, task)
}

/// Runs the benchmark.
///
/// # Errors
/// The rollout failed or took too long, a task has other amounts than asked, one was unavailable, or a rule is broken.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &ResizeBenchArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let (wait, tasks) = (arguments.lifecycle.wait(), arguments.tasks);
    let cell = LifecycleCell::start_hollow(options, &arguments.lifecycle).await?;
    let (first, second) = (service(tasks, amounts(BEFORE)), service(tasks, amounts(AFTER)));
    let RolledOut { job, availability, cost, took } = cell.roll_out(first, second, wait).await?;
    let mut stats = Stats::new();
    stats.set("nodes", json!(options.nodes));
    stats.set("tasks", json!(tasks));
    stats.set("resize_s", json!(seconds(took)));
    let time = cell.cost_end(&cost, tasks, &mut stats).await?;
    let seen = availability.end().await?;
    stats.set("unavailable_seen_max", json!(seen.unavailable_max));
    let fleet = cell.fleet.as_ref().context("the nodes are hollow")?;
    let resized = Counters::get(&fleet.shared.counters.resized);
    stats.set("resized_on_nodes", json!(resized));
    let wrong = charges_wrong(&cell, &job).await?;
    stats.set("charges_wrong", json!(wrong));
    cell.end(time, tasks, &mut stats).await?;
    results.line("resize", "hollow", stats.clone());
    ensure!(wrong == 0, "{wrong} tasks or nodes are charged other amounts than asked");
    ensure!(resized >= u64::from(tasks), "the nodes resized {resized} of {tasks} attempts");
    ensure!(seen.unavailable_max == 0, "{} tasks were unavailable at once", seen.unavailable_max);
    rules_ensure(&stats)
}

/// Counts the tasks that have, or wait for, other amounts than asked, and the nodes that are charged another sum.
async fn charges_wrong(cell: &LifecycleCell, job: &JobRef) -> anyhow::Result<usize> {
    let (asked, (tasks, _)) = (amounts(AFTER), cell.client.task_list_of_job(job).await?);
    let is_right = |task: &&v1::Task| {
        let charge = task.charge.as_ref().map(|charge| [charge.cpu_millis, charge.memory_bytes]);
        charge == Some(AFTER) && task.resize.is_none() && task.incarnation == 1
    };
    let right = tasks.iter().filter(is_right).count();
    let nodes = cell.client.node_list().await?;
    let used = |node: &v1::Node| node.used.as_ref().map(|used| [used.cpu_millis, used.memory_bytes]);
    let expected = |node: &v1::Node| {
        let count = u64::from(node.tasks);
        Some([asked.cpu_millis * count, asked.memory_bytes * count])
    };
    let nodes_wrong = nodes.iter().filter(|node| used(node) != expected(node)).count();
    Ok(tasks.len() - right + nodes_wrong)
}
