//! Storms: every connection breaks at once, and every node comes back with a full report. A storm lasts until all
//! sessions are current: their reports are durable, and the nodes have received their full desired state.

use std::time::Duration;

use borough_client::Client;
use clap::Args;
use serde_json::json;

use super::fill::{Fill, nodes_fill};
use super::fleet::Fleet;
use super::offered::Offered;
use super::per_second;
use super::tally::Stage;
use super::usage::{ProcessUsage, peak_reset, process_peak, process_usage};
use crate::result::{Results, Stats, StatsSet as _, percentiles_of};

/// Idle time before a storm.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the placements of a cell without a storm are measured.
const CALM: Duration = Duration::from_secs(10);

/// What breaks, and what runs meanwhile.
#[derive(Clone, Debug, Args)]
pub(super) struct StormArguments {
    /// Times that all connections are broken at once
    #[arg(long, default_value_t = 0)]
    storms: u32,
    /// Tasks that run on each node, submitted before the first storm
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000), value_name = "COUNT")]
    tasks_per_node: u32,
    /// Tasks of one job, of those that run on the nodes
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "COUNT")]
    tasks_per_job: u32,
    /// Bytes of the environment of each of these jobs
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    spec_bytes: usize,
    /// Small tasks submitted per second during the storms: how fast does the cell place them meanwhile?
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    offered_per_s: u32,
    /// Seconds that the tasks may take to run, and the sessions to be current after a storm
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    wait_s: u64,
}

impl StormArguments {
    /// The time limit for tasks to run, for sessions to be current after a storm, and for a call of the client. It is
    /// long enough for a slow machine.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait_s)
    }

    /// Returns true if jobs are submitted.
    pub(super) fn submits(&self) -> bool {
        self.tasks_per_node > 0 || self.offered_per_s > 0
    }
}

/// State that the storms of a run share.
struct Storms<'a> {
    arguments: &'a StormArguments,
    fleet: &'a Fleet,
    pid: Option<i32>,
    offered: Option<Offered>,
}

/// Fills the nodes and runs every storm. Each adds a line of results.
///
/// # Errors
/// Jobs were refused; tasks did not run, or sessions were not current, within the time.
pub(super) async fn storms_run(
    arguments: &StormArguments,
    fleet: &Fleet,
    client: Option<&Client>,
    pid: Option<i32>,
    results: &mut Results,
) -> anyhow::Result<()> {
    if let Some(client) = client
        && arguments.tasks_per_node > 0
    {
        let &StormArguments { tasks_per_node, tasks_per_job, spec_bytes, .. } = arguments;
        let fill = Fill { per_node: tasks_per_node, per_job: tasks_per_job, spec_bytes };
        let took = nodes_fill(client, fleet, fill, arguments.wait()).await?;
        let tasks = fleet.shared.options.hellos.len().saturating_mul(usize::try_from(tasks_per_node)?);
        let mut stats = shape(arguments, fleet);
        stats.set("tasks", json!(tasks));
        stats.set("to_running_per_s", json!(per_second(tasks, took)));
        if let Some(pid) = pid {
            stats.set("gateway_rss_mib", json!(process_usage(pid)?.rss_bytes >> 20));
        }
        results.line("hollow", "fill", stats);
    }
    let offers = client.filter(|_| arguments.offered_per_s > 0 && arguments.storms > 0);
    let offered = offers.map(|client| Offered::start(client, arguments.offered_per_s)).transpose()?;
    let mut storms = Storms { arguments, fleet, pid, offered };
    for number in 1..=arguments.storms {
        storms.storm(number, results).await?;
    }
    Ok(())
}

fn shape(arguments: &StormArguments, fleet: &Fleet) -> Stats {
    let mut stats = Stats::new();
    let options = &fleet.shared.options;
    stats.set("nodes", json!(options.hellos.len()));
    stats.set("tasks_per_node", json!(arguments.tasks_per_node));
    stats.set("tasks_per_job", json!(arguments.tasks_per_job));
    stats.set("spec_bytes", json!(arguments.spec_bytes));
    stats.set("sessions_per_connection", json!(options.sessions_per_connection));
    stats
}

/// Processor time and memory before a storm.
struct StormBaseline {
    gateway: Option<ProcessUsage>,
    agents: ProcessUsage,
    /// Whether the gateway's peak is that of the storm.
    peak: bool,
}

impl Storms<'_> {
    async fn storm(&mut self, number: u32, results: &mut Results) -> anyhow::Result<()> {
        let mut stats = shape(self.arguments, self.fleet);
        stats.set("storm", json!(number));
        tokio::time::sleep(SETTLE).await;
        self.calm(&mut stats).await?;
        let before = StormBaseline {
            gateway: self.pid.map(process_usage).transpose()?,
            agents: process_usage(own_pid()?)?,
            peak: self.pid.is_some_and(|pid| peak_reset(pid).is_ok()),
        };
        let shared = &self.fleet.shared;
        shared.sent.take();
        shared.received.take();
        self.fleet.storm()?;
        let (took, current) = self.fleet.all_reached(Stage::Current, self.arguments.wait()).await;
        let all = shared.options.hellos.len();
        stats.set("sessions_current", json!(current));
        stats.set("current_s", json!(seconds(took)));
        stats.set("current_per_s", json!(per_second(current, took)));
        percentiles_of(&mut stats, "current", shared.tally.lock().current_us());
        for (name, (bytes, largest)) in [("sent", shared.sent.take()), ("received", shared.received.take())] {
            stats.set(format!("{name}_mib"), json!(bytes >> 20));
            stats.set(format!("{name}_largest_bytes"), json!(largest));
        }
        self.usage(&mut stats, &before)?;
        if let Some(offered) = &mut self.offered {
            stats.extend(offered.look()?);
        }
        results.line("hollow", "storm", stats);
        anyhow::ensure!(current == all, "{current} of {all} sessions were current after {took:?}");
        Ok(())
    }

    /// Placements while all sessions are open.
    async fn calm(&mut self, stats: &mut Stats) -> anyhow::Result<()> {
        let Some(offered) = &mut self.offered else { return Ok(()) };
        offered.look()?;
        tokio::time::sleep(CALM).await;
        stats.set("offered_per_s", json!(self.arguments.offered_per_s));
        stats.extend(offered.look()?.into_iter().map(|(name, value)| (format!("calm_{name}"), value)));
        Ok(())
    }

    /// Processor time of both sides during the storm, and the gateway's memory.
    fn usage(&self, stats: &mut Stats, before: &StormBaseline) -> anyhow::Result<()> {
        let spent = |after: ProcessUsage, before: ProcessUsage| seconds(after.cpu.saturating_sub(before.cpu));
        let agents = process_usage(own_pid()?)?;
        stats.set("agents_cpu_s", json!(spent(agents, before.agents)));
        stats.set("agents_rss_mib", json!(agents.rss_bytes >> 20));
        let (Some(pid), Some(gateway)) = (self.pid, before.gateway) else { return Ok(()) };
        let after = process_usage(pid)?;
        stats.set("gateway_cpu_s", json!(spent(after, gateway)));
        stats.set("gateway_rss_before_mib", json!(gateway.rss_bytes >> 20));
        stats.set("gateway_rss_mib", json!(after.rss_bytes >> 20));
        if before.peak {
            stats.set("gateway_rss_peak_mib", json!(process_peak(pid)? >> 20));
        }
        Ok(())
    }
}

fn own_pid() -> anyhow::Result<i32> {
    Ok(i32::try_from(std::process::id())?)
}

/// Rounds to a hundredth.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
}
