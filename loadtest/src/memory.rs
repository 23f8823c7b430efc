//! `memory`: resident memory of an idle cell: of the control process, of an agent that runs a few tasks, and of the
//! largest shim.

use std::time::Duration;

use anyhow::Context as _;
use borough_client::JobRef;
use borough_proto::v1;
use procfs::process::{Process, all_processes};
use serde_json::json;

use crate::result::{Results, Stats, StatsSet as _};
use crate::spec::micro_service;
use crate::system::{System, SystemOptions};

/// Tasks that run while agents and shims are measured.
const TASKS: u32 = 6;
/// Idle time before the measurement.
const SETTLE: Duration = Duration::from_secs(3);

/// Runs the benchmark.
pub(crate) async fn run(options: &SystemOptions, results: &mut Results) -> anyhow::Result<()> {
    let system = System::start(options).await?;
    tokio::time::sleep(SETTLE).await;
    let control = i32::try_from(system.control_pid())?;
    let idle = rss_kib(&Process::new(control)?)?;
    let notes = options.scratch()?.join("notes");
    std::fs::create_dir_all(&notes)?;
    let client = system.client()?;
    for number in 0..TASKS {
        let spec = micro_service(&format!("memory-{number}"), &notes)?;
        let job = JobRef::new(spec.user.clone(), spec.name.clone());
        client.job_submit(spec, 0).await?;
        loop {
            let (tasks, _) = client.task_list_of_job(&job).await?;
            if tasks.iter().any(|task| task.state == i32::from(v1::TaskState::Running)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    tokio::time::sleep(SETTLE).await;
    let own = options.scratch()?.to_string_lossy().into_owned();
    let ours = |arguments: &[String]| arguments.iter().any(|argument| argument.contains(&own));
    let is_agent = |arguments: &[String]| arguments.get(1).is_some_and(|verb| verb == "agent");
    let is_shim = |arguments: &[String]| arguments.first().is_some_and(|name| name.contains("borough-shim"));
    let agents = rss_of(|arguments| ours(arguments) && is_agent(arguments), control)?;
    let shims = rss_of(|arguments| ours(arguments) && is_shim(arguments), control)?;
    let mib = |kib: u64| f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / 1024.0;
    let rounded = |kib: u64| (mib(kib) * 100.0).round() / 100.0;
    let mut stats = Stats::new();
    stats.set("control_idle_rss_mib", json!(rounded(idle)));
    stats.set("agent_max_rss_mib", json!(rounded(agents.context("no agent was found")?)));
    stats.set("shim_max_rss_mib", json!(rounded(shims.context("no shim was found")?)));
    results.line("memory", "idle-cell", stats);
    Ok(())
}

/// The largest resident memory among the cell's processes whose arguments are `wanted`.
fn rss_of(wanted: impl Fn(&[String]) -> bool, control: i32) -> anyhow::Result<Option<u64>> {
    let mut largest = None;
    for process in all_processes()? {
        // A process may end meanwhile.
        let Ok(process) = process else { continue };
        let (Ok(arguments), Ok(stat)) = (process.cmdline(), process.stat()) else { continue };
        if process.pid == control || stat.pid == 1 || !wanted(&arguments) {
            continue;
        }
        if let Ok(rss) = rss_kib(&process) {
            largest = largest.max(Some(rss));
        }
    }
    Ok(largest)
}

fn rss_kib(process: &Process) -> anyhow::Result<u64> {
    process.status()?.vmrss.context("a process has no resident memory")
}
