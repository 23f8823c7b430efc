//! `idle`: what a cell writes and uses while nothing happens. All its processes count: the control process, the agents
//! and the shims of running tasks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use borough_client::JobRef;
use clap::Args;
use procfs::process::{Process, all_processes};
use serde_json::json;

use crate::result::{Results, Stats, StatsSet as _};
use crate::spec;
use crate::system::{System, SystemOptions};

/// Until the writes of the start are over.
const SETTLE: Duration = Duration::from_secs(20);
/// Interval of checks of a condition.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct IdleArguments {
    /// For how long is measured
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    seconds: u64,
    /// Tasks that run meanwhile
    #[arg(long, default_value_t = 0)]
    tasks: u32,
}

/// What one process has used since its start.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    /// Written to a disk: pages that it made dirty.
    written_bytes: u64,
    cpu_ticks: u64,
}

/// Runs the benchmark.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &IdleArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let system = System::start(options).await?;
    tasks_start(&system, arguments.tasks).await?;
    tokio::time::sleep(SETTLE).await;
    let (begin, before) = (Instant::now(), processes_used(options)?);
    tokio::time::sleep(Duration::from_secs(arguments.seconds)).await;
    let (time, after) = (begin.elapsed(), processes_used(options)?);
    let control = i32::try_from(system.control_pid())?;
    let since = |pid: &i32| {
        let (after, before) =
            (after.get(pid).copied().unwrap_or_default(), before.get(pid).copied().unwrap_or_default());
        Used {
            written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
            cpu_ticks: after.cpu_ticks.saturating_sub(before.cpu_ticks),
        }
    };
    let all = after.keys().map(since).fold(Used::default(), |sum, each| Used {
        written_bytes: sum.written_bytes + each.written_bytes,
        cpu_ticks: sum.cpu_ticks + each.cpu_ticks,
    });
    let control = since(&control);
    let milliseconds = u64::try_from(time.as_millis().max(1))?;
    let ticks_per_s = procfs::ticks_per_second().max(1);
    let mut stats = Stats::new();
    stats.set("nodes", json!(options.nodes));
    stats.set("tasks", json!(arguments.tasks));
    stats.set("processes", json!(after.len()));
    stats.set("measured_s", json!(time.as_secs()));
    for (name, used) in [("control", control), ("all", all)] {
        stats.set(format!("{name}_written_bytes_per_s"), json!(used.written_bytes * 1_000 / milliseconds));
        let cpu_us = used.cpu_ticks * 1_000_000 / ticks_per_s;
        stats.set(format!("{name}_cpu_us_per_s"), json!(cpu_us * 1_000 / milliseconds));
    }
    results.line("idle", "dev", stats);
    Ok(())
}

/// Runs a service of so many tasks.
async fn tasks_start(system: &System, tasks: u32) -> anyhow::Result<()> {
    if tasks == 0 {
        return Ok(());
    }
    let task = spec::plain_task(&["sleep", "86400"], 5, 8 << 20);
    let spec = spec::service("loadtest", "idle".to_owned(), tasks, task);
    let job = JobRef::new(spec.user.clone(), spec.name.clone());
    let client = system.client()?;
    client.job_submit(spec, 0).await?;
    loop {
        let shown = client.job_get(&job).await?.job;
        if shown.and_then(|job| job.tasks).is_some_and(|counts| counts.running == tasks) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What the processes of the cell have used: all whose arguments name its folder, and what these started.
fn processes_used(options: &SystemOptions) -> anyhow::Result<BTreeMap<i32, Used>> {
    let own = options.scratch()?.to_string_lossy().into_owned();
    let mut used = BTreeMap::new();
    // A process may end meanwhile.
    for process in all_processes()?.flatten() {
        let Ok(arguments) = process.cmdline() else { continue };
        if process.pid == Process::myself()?.pid || !arguments.iter().any(|argument| argument.contains(&own))
        {
            continue;
        }
        if let (Ok(io), Ok(stat)) = (process.io(), process.stat()) {
            let written_bytes = io.write_bytes.saturating_sub(io.cancelled_write_bytes);
            used.insert(process.pid, Used { written_bytes, cpu_ticks: stat.utime + stat.stime });
        }
    }
    Ok(used)
}
