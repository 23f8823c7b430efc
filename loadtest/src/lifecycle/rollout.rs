//! `rollout`: a changed file reaches every task of a service behind its health gate. It measures the time against the
//! least that the gate allows, and the commits per task. A watcher of the endpoints counts who is away.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use borough_proto::v1;
use clap::Args;
use serde_json::json;

use super::gate::{HealthGate, UPTIME};
use super::{LifecycleArguments, LifecycleCell, RolledOut, USER, ratio, rules_ensure, seconds};
use crate::result::{Results, Stats, StatsSet as _};
use crate::spec;
use crate::system::SystemOptions;

/// Resources of a task: those of a thousand fit a small machine.
const CPU_MILLIS: u64 = 1;
const MEMORY_BYTES: u64 = 8 << 20;

/// Arguments of the benchmark. How many nodes is `--nodes`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RolloutBenchArguments {
    /// Tasks of the service
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) tasks: u32,
    /// Simulate the nodes and their tasks; without it, agents run real processes
    #[arg(long)]
    pub(super) hollow: bool,
    /// Of a hundred tasks, so many may be unavailable at once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "PERCENT")]
    pub(super) unavailable_percent: u32,
    /// Milliseconds for which a new task must be healthy before it counts
    #[arg(long, default_value_t = 10_000)]
    pub(super) healthy_after_ms: u64,
    #[command(flatten)]
    pub(super) lifecycle: LifecycleArguments,
}

impl RolloutBenchArguments {
    fn gate(&self) -> HealthGate {
        HealthGate {
            tasks: self.tasks,
            unavailable_max: (self.tasks * self.unavailable_percent / 100).max(1),
            uptime: UPTIME,
            healthy_after: Duration::from_millis(self.healthy_after_ms),
        }
    }

    /// The service in one of its releases, which differ in a variable.
    fn spec(&self, release: &str) -> anyhow::Result<v1::JobSpec> {
        let mut task = spec::micro_task(Path::new("started"))?;
        task.resources = Some(v1::Resources {
            cpu_millis: CPU_MILLIS,
            memory_bytes: MEMORY_BYTES,
            ..v1::Resources::default()
        });
        task.environment.insert("RELEASE".to_owned(), release.to_owned());
        let update = v1::UpdateSpec {
            unavailable_percent_max: Some(self.unavailable_percent),
            healthy_after_ms: self.healthy_after_ms,
            failures_max: 2,
            ..v1::UpdateSpec::default()
        };
        Ok(v1::JobSpec {
            update: Some(update),
            ..spec::service(USER, "rollout".to_owned(), self.tasks, task)
        })
    }
}

/// Runs the benchmark.
///
/// # Errors
/// The rollout failed, took too long, had more tasks away than allowed, or a rule is broken.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &RolloutBenchArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let (wait, tasks, gate) = (arguments.lifecycle.wait(), arguments.tasks, arguments.gate());
    let cell = if arguments.hollow {
        LifecycleCell::start_hollow(options, &arguments.lifecycle).await?
    } else {
        LifecycleCell::start_real(options).await?
    };
    let (first, second) = (arguments.spec("one")?, arguments.spec("two")?);
    let RolledOut { availability, cost, took, .. } = cell.roll_out(first, second, wait).await?;
    let mut stats = Stats::new();
    stats.set("nodes", json!(options.nodes));
    stats.set("tasks", json!(tasks));
    stats.set("unavailable_allowed", json!(gate.unavailable_max));
    stats.set("healthy_after_ms", json!(arguments.healthy_after_ms));
    stats.set("batches", json!(gate.batches()));
    stats.set("rollout_s", json!(seconds(took)));
    stats.set("gate_best_s", json!(seconds(gate.best())));
    stats.set("rollout_to_gate_ratio", json!(ratio(took, gate.best())));
    let time = cell.cost_end(&cost, tasks, &mut stats).await?;
    availability.all_available(wait).await?;
    let seen = availability.end().await?;
    stats.set("unavailable_seen_max", json!(seen.unavailable_max));
    stats.set("endpoint_changes", json!(seen.changes));
    cell.end(time, tasks, &mut stats).await?;
    results.line("rollout", if arguments.hollow { "hollow" } else { "real" }, stats.clone());
    // Each task was withdrawn and published again.
    ensure!(seen.changes >= u64::from(tasks) * 2, "the watcher saw {} changes only", seen.changes);
    ensure!(
        seen.unavailable_max <= gate.unavailable_max,
        "{} tasks were unavailable at once, and {} may be",
        seen.unavailable_max,
        gate.unavailable_max
    );
    rules_ensure(&stats)
}
