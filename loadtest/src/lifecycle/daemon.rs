//! `daemon`: a daemon job begins on every hollow node, and then on nodes that join.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use borough_client::JobRef;
use borough_proto::v1;
use clap::Args;
use serde_json::json;

use super::{LifecycleArguments, LifecycleCell, SETTLE, USER, nodes_join, rules_ensure, seconds};
use crate::hollow::fleet::{Counters, Fleet};
use crate::result::{Results, Stats, StatsSet as _};
use crate::spec;
use crate::system::SystemOptions;

/// Interval of checks of a condition.
const LOOK: Duration = Duration::from_millis(5);
/// Interval of asking the gateway, which counts every task of the job for an answer.
const ASK: Duration = Duration::from_millis(200);

/// Arguments of the benchmark. How many nodes is `--nodes`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DaemonBenchArguments {
    /// Nodes that join when every node has its task
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(super) joining: u32,
    #[command(flatten)]
    pub(super) lifecycle: LifecycleArguments,
}

fn daemon() -> v1::JobSpec {
    let task = spec::plain_task(&["serve"], 10, 16 << 20);
    let service = spec::service(USER, "daemon".to_owned(), 0, task);
    v1::JobSpec { kind: v1::JobKind::Daemon.into(), ..service }
}

/// Runs the benchmark.
///
/// # Errors
/// A node got no task in time, or more than one, or a rule is broken.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &DaemonBenchArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let (wait, nodes) = (arguments.lifecycle.wait(), options.nodes);
    let cell = LifecycleCell::start_hollow(options, &arguments.lifecycle).await?;
    let fleet = cell.fleet.as_ref().context("the nodes are hollow")?;
    let spec = daemon();
    let job = JobRef::new(spec.user.clone(), spec.name.clone());
    tokio::time::sleep(SETTLE).await;
    let cost = cell.cost_begin().await?;
    let began = Instant::now();
    cell.client.job_submit(spec, 0).await?;
    let (first, all) = running_reached(fleet, nodes, began, wait).await?;
    let mut stats = Stats::new();
    stats.set("nodes", json!(nodes));
    stats.set("submit_to_first_running_s", json!(seconds(first)));
    stats.set("submit_to_all_running_s", json!(seconds(all)));
    let per_s = f64::from(nodes) / all.as_secs_f64().max(0.001);
    stats.set("starts_per_s", json!(per_s.round()));
    let time = cell.cost_end(&cost, nodes, &mut stats).await?;
    running_known(&cell, &job, nodes, wait).await?;
    stats.set("submit_to_all_known_s", json!(seconds(began.elapsed())));

    tokio::time::sleep(SETTLE).await;
    let began = Instant::now();
    let joined = nodes_join(&cell.system, nodes..nodes + arguments.joining, &arguments.lifecycle)?;
    let (first, all) = running_reached(&joined, arguments.joining, began, wait).await?;
    stats.set("joined_nodes", json!(arguments.joining));
    stats.set("join_to_first_running_s", json!(seconds(first)));
    stats.set("join_to_all_running_s", json!(seconds(all)));
    running_known(&cell, &job, nodes + arguments.joining, wait).await?;
    let begun = Counters::get(&fleet.shared.counters.begun) + Counters::get(&joined.shared.counters.begun);
    let (joined_violations, texts) = joined.shared.checker.violations();
    cell.end(time, nodes, &mut stats).await?;
    joined.end().await;
    results.line("daemon", "hollow", stats.clone());
    ensure!(begun == u64::from(nodes + arguments.joining), "{begun} attempts began on the nodes");
    ensure!(joined_violations == 0, "{joined_violations} violations: {}", texts.join("; "));
    rules_ensure(&stats)
}

/// Waits until so many tasks run on the nodes. Returns how long the first one took, and all of them.
async fn running_reached(
    fleet: &Fleet,
    count: u32,
    began: Instant,
    wait: Duration,
) -> anyhow::Result<(Duration, Duration)> {
    let mut first = None;
    loop {
        let running = Counters::get(&fleet.shared.counters.running);
        if running > 0 || count == 0 {
            first.get_or_insert_with(|| began.elapsed());
        }
        if running >= u64::from(count) {
            let all = began.elapsed();
            return Ok((first.unwrap_or(all), all));
        }
        ensure!(began.elapsed() < wait, "{running} of {count} nodes ran their task within {wait:?}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the gateway reports so many tasks as running.
async fn running_known(cell: &LifecycleCell, job: &JobRef, count: u32, wait: Duration) -> anyhow::Result<()> {
    let known = async {
        loop {
            let shown = cell.client.job_get(job).await?.job;
            if shown.and_then(|job| job.tasks).is_some_and(|tasks| tasks.running == count) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(ASK).await;
        }
    };
    tokio::time::timeout(wait, known).await.context("the gateway did not report all tasks as running")?
}
