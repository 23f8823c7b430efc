//! `hollow`: simulated agents in one process that speak the real protocol with a real gateway. They hold sessions,
//! simulate tasks, reconnect in storms, and check the control plane's guarantees.
//!
//! It runs against a cell of its own, or with `--gateway` against any cell.

pub(crate) mod check;
mod fill;
pub(crate) mod fleet;
mod hold;
pub(crate) mod metrics;
mod node;
mod offered;
mod storm;
mod tally;
mod traffic;
mod turnover;
pub(crate) mod usage;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use borough_agent::hollow::{HollowHealth, HollowTimes};
use borough_client::{Client, ClientConfig, ClientToken};
use borough_kv::env::{Rng, SeededRng, SystemClock};
use borough_model::node::AGENT_RESIZE;
use borough_proto::v1;
use clap::Args;
use serde_json::json;

use crate::result::{Results, Stats, StatsSet as _, percentiles_of};
use crate::system::{System, SystemOptions};
use fleet::{Counters, Fleet, FleetOptions};
use metrics::Samples;
use storm::{StormArguments, storms_run};
use turnover::TurnoverArguments;
use usage::{ProcessUsage, process_usage};

/// Idle time that is measured after all sessions are open.
const SETTLE: Duration = Duration::from_secs(5);

const GIB: u64 = 1 << 30;
/// Processors of a node, in thousandths.
const CPU_MILLIS: u64 = 4_000;
/// Memory of a node.
const MEMORY_BYTES: u64 = 32 * GIB;

/// Arguments of `hollow`. How many nodes is `--nodes`.
#[derive(Debug, Args)]
pub(crate) struct HollowArguments {
    /// A gateway of a running cell, as HOST:PORT, several with commas; without one a cell is started
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    gateway: Vec<String>,
    /// The cell behind --gateway
    #[arg(long, default_value = "bench", value_name = "NAME")]
    cell: String,
    /// File with the token for --gateway
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The gateway's process, where it runs on this machine: its memory and processor time are measured
    #[arg(long, value_name = "PID")]
    gateway_pid: Option<i32>,
    /// Names of the nodes begin with this
    #[arg(long, default_value = "hollow-", value_name = "TEXT")]
    prefix: String,
    /// Seconds the sessions are held; without it until a signal where --gateway is given, else 20
    #[arg(long, value_name = "SECONDS")]
    duration: Option<u64>,
    /// The time limit for opening all sessions, in seconds
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    patience: u64,
    #[command(flatten)]
    storms: StormArguments,
    #[command(flatten)]
    turnover: TurnoverArguments,
    #[command(flatten)]
    simulated: SimulatedFleet,
}

/// What is simulated, and how connections are shared.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimulatedFleet {
    /// Sessions that share a connection; a real agent has its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub sessions_per_connection: u32,
    /// Milliseconds from the order to a task's process, as FIRST-LAST
    #[arg(long, default_value = "5-50", value_parser = range, value_name = "RANGE")]
    pub start_ms: RangeInclusive<u64>,
    /// Milliseconds until a task ends by itself; without it, it runs until it is stopped
    #[arg(long, value_parser = range, value_name = "RANGE")]
    pub run_ms: Option<RangeInclusive<u64>>,
    /// Milliseconds from SIGTERM to a task's end
    #[arg(long, default_value = "5-50", value_parser = range, value_name = "RANGE")]
    pub stop_ms: RangeInclusive<u64>,
    /// Of a hundred tasks that end by themselves, so many exit with 1
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub failed_percent: u64,
    /// The cell's own tolerance of silence, in milliseconds: what a node lets others do after it
    #[arg(long, default_value_t = 30_000)]
    pub lost_after_ms: u64,
}

impl SimulatedFleet {
    /// The durations of simulated steps.
    pub(crate) fn times(&self) -> HollowTimes {
        HollowTimes {
            start_ms: self.start_ms.clone(),
            run_ms: self.run_ms.clone(),
            stop_ms: self.stop_ms.clone(),
            failed_percent: self.failed_percent,
            health: HollowHealth::AtOnce,
        }
    }
}

/// A range of milliseconds: `5-50`, or one number.
fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first <= last { Ok(first..=last) } else { Err(format!("{first} is more than {last}")) }
}

/// The first message of a node of the usual shape: 4 cores, 32 GiB, in one of three zones and a rack of forty.
pub(crate) fn hello(cell: &str, node: String, number: u32) -> v1::Hello {
    let capacity = v1::Resources {
        cpu_millis: CPU_MILLIS,
        memory_bytes: MEMORY_BYTES,
        disk_bytes: 500 * GIB,
        ..v1::Resources::default()
    };
    let attributes = [
        ("zone", format!("zone-{}", number % 3)),
        ("rack", format!("rack-{}", number / 40)),
        (AGENT_RESIZE, "yes".to_owned()),
    ];
    v1::Hello {
        cell: cell.to_owned(),
        node,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: "hollow".to_owned(),
        capacity: Some(capacity),
        port_first: 20_000,
        port_last: 29_999,
        attributes: attributes.map(|(key, value)| (key.to_owned(), value)).into(),
        // An address of its own, since nodes of one address share its ports.
        host: std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string(),
        agent_key: agent_key(cell, number),
        ..v1::Hello::default()
    }
}

/// The key of a node's agent, the same in every run: a later run finds the nodes of an earlier one.
fn agent_key(cell: &str, number: u32) -> bytes::Bytes {
    let hash =
        cell.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    ((u128::from(hash) << 64) | u128::from(number)).to_be_bytes().to_vec().into()
}

/// Options of a fleet of `hellos`.
pub(crate) fn fleet_options(
    gateways: Vec<String>,
    token: Option<String>,
    hellos: Vec<v1::Hello>,
    simulated: &SimulatedFleet,
) -> anyhow::Result<FleetOptions> {
    let (rng, _) = SeededRng::from_kernel();
    let hellos = hellos.into_iter().map(|hello| v1::Hello { instance: rng.next_u64().max(1), ..hello });
    let hellos = hellos.collect();
    Ok(FleetOptions {
        gateways,
        token,
        hellos,
        sessions_per_connection: usize::try_from(simulated.sessions_per_connection)?,
        times: simulated.times(),
        lost_after: Duration::from_millis(simulated.lost_after_ms),
        clock: SystemClock::shared(),
        rng: rng as Arc<dyn Rng>,
    })
}

/// Runs the benchmark.
pub(crate) async fn run(
    options: Option<&SystemOptions>,
    nodes: u32,
    arguments: &HollowArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let hellos = |cell: &str| {
        (0..nodes).map(|number| hello(cell, format!("{}{number}", arguments.prefix), number)).collect()
    };
    let Some(options) = options else {
        let token = arguments.token_file.as_ref().map(std::fs::read_to_string).transpose()?;
        let token = token.map(|text| text.trim().to_owned());
        let gateways = arguments.gateway.iter().map(|gateway| format!("http://{gateway}")).collect();
        let cell = &arguments.cell;
        let options = fleet_options(gateways, token, hellos(cell), &arguments.simulated)?;
        let submits = arguments.storms.submits() || arguments.turnover.submits();
        let client = submits.then(|| gateway_client(arguments)).transpose()?;
        let control = ControlProcess { pid: arguments.gateway_pid, http: None, store: None };
        let fleet = measured(options, client, &control, arguments, results).await?;
        fleet.end().await;
        return Ok(());
    };
    let mut system = System::start(options).await?;
    let (gateways, token) = system.access()?;
    let options = fleet_options(gateways, Some(token.clone()), hellos("bench"), &arguments.simulated)?;
    let pid = i32::try_from(system.control_pid())?;
    let store = Some(system.store_directory());
    let control = ControlProcess { pid: Some(pid), http: Some((system.http()?, token)), store };
    let client = system.client_with(|config| config.deadline = arguments.storms.wait())?;
    let fleet = measured(options, Some(client), &control, arguments, results).await?;
    // The nodes stay: a node whose session has ended in order would take no task.
    let restarted = match arguments.turnover.sample() {
        Some(_) => hold::restart(&mut system, results).await,
        None => Ok(()),
    };
    fleet.end().await;
    restarted
}

/// The control process that is measured.
struct ControlProcess {
    /// If it runs on this machine.
    pid: Option<i32>,
    /// Where it shows its metrics, as `http://HOST:PORT`, and the token for them.
    http: Option<(String, String)>,
    /// The directory of its embedded store.
    store: Option<PathBuf>,
}

/// A client of the cell behind `--gateway`.
fn gateway_client(arguments: &HollowArguments) -> anyhow::Result<Client> {
    let mut config = ClientConfig::new(arguments.gateway.clone(), "loadtest", &arguments.cell);
    config.token = arguments.token_file.clone().map(ClientToken::File);
    config.deadline = arguments.storms.wait();
    let (rng, _) = SeededRng::from_kernel();
    Ok(Client::new(config, rng)?)
}

/// Returns true if this run needs a cell of its own.
pub(crate) fn is_own(arguments: &HollowArguments) -> bool {
    arguments.gateway.is_empty()
}

async fn measured(
    options: FleetOptions,
    client: Option<Client>,
    control: &ControlProcess,
    arguments: &HollowArguments,
    results: &mut Results,
) -> anyhow::Result<Fleet> {
    let (nodes, pid) = (options.hellos.len(), control.pid);
    let look = |pid: Option<i32>| pid.map(process_usage).transpose();
    let empty = look(pid)?;
    let fleet = Fleet::start(options)?;
    let took = fleet.all_connected(Duration::from_secs(arguments.patience)).await?;
    let connected = look(pid)?;
    let mut stats = Stats::new();
    stats.set("nodes", json!(nodes));
    stats.set("sessions_per_connection", json!(arguments.simulated.sessions_per_connection));
    stats.set("registered_per_s", json!(per_second(nodes, took)));
    cost(&mut stats, "registration", nodes, empty, connected);
    storms_run(&arguments.storms, &fleet, client.as_ref(), pid, results).await?;
    tokio::time::sleep(SETTLE).await;
    let (before, reports) = (look(pid)?, Counters::get(&fleet.shared.counters.reports));
    let shown = metrics_read(control).await?;
    let held = hold::hold(arguments, &fleet, client.as_ref(), control, results).await?;
    let after = look(pid)?;
    if let (Some(before), Some(after)) = (shown, metrics_read(control).await?) {
        after.rates(&before, held, &mut stats);
    }
    stats.set("held_s", json!(held.as_secs()));
    let reports = Counters::get(&fleet.shared.counters.reports) - reports;
    stats.set("reports_per_s", json!(per_second(usize::try_from(reports)?, held)));
    if let (Some(before), Some(after)) = (before, after) {
        let cpu_us = after.cpu.saturating_sub(before.cpu).as_micros();
        let session_seconds = held.as_secs().max(1) * u64::try_from(nodes.max(1))?;
        let each_us = cpu_us / u128::from(session_seconds);
        stats.set("gateway_cpu_us_per_session_s", json!(u64::try_from(each_us)?));
        let thousandths = cpu_us * 1_000 / held.as_micros().max(1);
        stats.set("control_cpu_millis", json!(u64::try_from(thousandths)?));
        let written = after.written_bytes.saturating_sub(before.written_bytes);
        stats.set("control_written_bytes_per_s", json!(written / held.as_secs().max(1)));
        stats.set("gateway_rss_mib", json!(after.rss_bytes >> 20));
        let empty = empty.map_or(0, |empty| empty.rss_bytes);
        let each = after.rss_bytes.saturating_sub(empty) / u64::try_from(nodes.max(1))?;
        stats.set("gateway_bytes_per_session", json!(each));
    }
    fleet_stats(&mut stats, &fleet)?;
    let violations = fleet.shared.checker.violations();
    results.line("hollow", "sessions", stats);
    anyhow::ensure!(violations.0 == 0, "{} violations: {}", violations.0, violations.1.join("; "));
    Ok(fleet)
}

async fn metrics_read(control: &ControlProcess) -> anyhow::Result<Option<Samples>> {
    match &control.http {
        Some((http, token)) => Samples::read(http, token).await.map(Some),
        None => Ok(None),
    }
}

fn per_second(count: usize, time: Duration) -> u64 {
    let count = u128::try_from(count).unwrap_or(u128::MAX);
    u64::try_from(count.saturating_mul(1_000_000) / time.as_micros().max(1)).unwrap_or(u64::MAX)
}

/// Processor time of the gateway per session between two measurements.
fn cost(
    stats: &mut Stats,
    name: &str,
    nodes: usize,
    before: Option<ProcessUsage>,
    after: Option<ProcessUsage>,
) {
    if let (Some(before), Some(after)) = (before, after) {
        let us = after.cpu.saturating_sub(before.cpu).as_micros();
        let each = us / u128::try_from(nodes.max(1)).unwrap_or(1);
        stats.set(format!("{name}_gateway_cpu_us"), json!(u64::try_from(each).unwrap_or(u64::MAX)));
    }
}

/// Adds the nodes' counters.
pub(crate) fn fleet_stats(stats: &mut Stats, fleet: &Fleet) -> anyhow::Result<()> {
    let counters = &fleet.shared.counters;
    for (name, counter) in [
        ("sessions_broken", &counters.broken),
        ("attempts_begun", &counters.begun),
        ("attempts_released", &counters.released),
        ("attempts_late", &counters.late),
        ("messages_refused", &counters.refused),
    ] {
        stats.set(name, json!(Counters::get(counter)));
    }
    percentiles_of(stats, "report_applied", &fleet.shared.applied_us.lock());
    let (violations, texts) = fleet.shared.checker.violations();
    stats.set("node_violations", json!(violations));
    if violations > 0 {
        stats.set("node_violations_first", json!(texts));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_two_numbers_or_one() {
        assert_eq!(range("5-50"), Ok(5..=50));
        assert_eq!(range("7"), Ok(7..=7));
        assert!(range("9-1").is_err() && range("a-b").is_err() && range("").is_err());
    }
}
