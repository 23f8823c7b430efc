//! `logs`: what it costs to follow the output of a job of many tasks.

use std::time::{Duration, Instant};

use anyhow::ensure;
use borough_client::JobRef;
use clap::Args;
use serde_json::json;

use crate::result::{Results, StatsSet as _};
use crate::spec;
use crate::system::{System, SystemOptions};
use crate::verb::{MeasuredVerb, verb_cost};

/// Interval of looks at the job.
const LOOK: Duration = Duration::from_millis(500);
/// The time limit for all tasks to run.
const WAIT: Duration = Duration::from_secs(600);

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    /// Tasks of the job: real processes of real agents
    #[arg(long, default_value_t = 1_000)]
    tasks: u32,
    /// Lines that each task has written
    #[arg(long, default_value_t = 100)]
    lines: u32,
}

/// Runs the benchmark.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &LogsArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let system = System::start(options).await?;
    let started = tasks_start(&system, arguments).await?;
    let lines_max = usize::try_from(arguments.tasks * arguments.lines)?;
    let verb = MeasuredVerb { words: &["job", "logs", "-f", "many"], header: 0, lines_max: Some(lines_max) };
    let mut stats = tokio::task::block_in_place(|| verb_cost(options, &system, verb))?;
    stats.set("tasks", json!(arguments.tasks));
    stats.set("tasks_started_ms", json!(u64::try_from(started.as_millis())?));
    results.line("logs", "follow-job", stats);
    Ok(())
}

/// Starts the tasks, and waits until all of them run. Returns how long that took.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn tasks_start(system: &System, arguments: &LogsArguments) -> anyhow::Result<Duration> {
    let client = system.client()?;
    let script = format!(
        "i=0; while [ $i -lt {} ]; do echo line $i of $BOROUGH_INDEX; i=$((i+1)); done; exec sleep 3600",
        arguments.lines
    );
    let task = spec::plain_task(&["sh", "-c", &script], 1, 2 << 20);
    let spec = spec::service("loadtest", "many".to_owned(), arguments.tasks, task);
    let job = JobRef::new(spec.user.clone(), spec.name.clone());
    let begin = Instant::now();
    client.job_submit(spec, 0).await?;
    loop {
        let shown = client.job_get(&job).await?.job;
        let running = shown.and_then(|job| job.tasks).map_or(0, |tasks| tasks.running);
        if running >= arguments.tasks {
            return Ok(begin.elapsed());
        }
        ensure!(begin.elapsed() < WAIT, "{running} of {} tasks run after {WAIT:?}", arguments.tasks);
        tokio::time::sleep(LOOK).await;
    }
}
