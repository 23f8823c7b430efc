//! `recovery`: the control process is killed and started again. It measures the time from the start of the new process
//! until a client sees that a task submitted after the kill is assigned to a node.

use std::time::{Duration, Instant};

use anyhow::bail;
use borough_client::JobRef;
use borough_proto::v1;
use clap::Args;
use serde_json::json;

use crate::result::{Results, Stats, StatsSet as _, percentiles};
use crate::spec::micro_service;
use crate::system::{System, SystemOptions};

/// The time limit of a recovery.
const RECOVERY_WAIT: Duration = Duration::from_secs(60);

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct RecoveryArguments {
    /// Kills
    #[arg(long, default_value_t = 10)]
    kills: u32,
    /// Jobs that run meanwhile
    #[arg(long, default_value_t = 50)]
    jobs: u32,
}

/// Runs the benchmark.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &RecoveryArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut system = System::start(options).await?;
    let notes = options.scratch()?.join("notes");
    std::fs::create_dir_all(&notes)?;
    let client = system.client()?;
    for number in 0..arguments.jobs {
        client.job_submit(micro_service(&format!("there-{number}"), &notes)?, 0).await?;
    }
    let mut samples = Vec::new();
    for number in 0..arguments.kills {
        system.control_kill()?;
        let begin = Instant::now();
        system.control_restart()?;
        let spec = micro_service(&format!("after-{number}"), &notes)?;
        placed(&system, spec, begin).await?;
        samples.push(u64::try_from(begin.elapsed().as_micros())?);
    }
    let mut stats = Stats::new();
    stats.set("jobs", json!(arguments.jobs));
    percentiles(&mut stats, "start_to_placement", &samples)?;
    results.line("recovery", "kill-control", stats);
    Ok(())
}

/// Waits until a job that is submitted now has a task with a node.
///
/// # Errors
/// Nothing was placed in time.
pub(crate) async fn placed(system: &System, spec: v1::JobSpec, begin: Instant) -> anyhow::Result<()> {
    let job = JobRef::new(spec.user.clone(), spec.name.clone());
    let mut submitted = false;
    loop {
        if begin.elapsed() > RECOVERY_WAIT {
            bail!("nothing was placed within {RECOVERY_WAIT:?}");
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        // The port may be another one, so the client is made again until it answers.
        let Ok(client) = system.client_once() else { continue };
        submitted = submitted || client.job_submit(spec.clone(), 0).await.is_ok();
        if !submitted {
            continue;
        }
        let Ok((tasks, _)) = client.task_list_of_job(&job).await else { continue };
        if tasks.iter().any(|task| !task.node.is_empty()) {
            return Ok(());
        }
    }
}
