//! `start-latency`: micro workload tasks at a steady rate on real agents. It measures two times from just before the
//! submission. One ends with the first instruction of the task's program. The other ends when a watcher of the names
//! has its endpoint, healthy after its first successful probe. Every task is stopped after that, so that the cell does
//! not fill up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use borough_client::{Client, EndpointItem, JobRef};
use borough_proto::v1;
use clap::Args;
use futures::StreamExt as _;
use serde_json::json;
use tokio::sync::mpsc;

use crate::micro_task::wall_us;
use crate::result::{Results, Stats, StatsSet as _, percentiles};
use crate::spec::micro_service;
use crate::system::{System, SystemOptions};

/// The time limit for the last tasks.
const LAST_WAIT: Duration = Duration::from_secs(60);

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct StartLatencyArguments {
    /// Tasks in all
    #[arg(long, default_value_t = 1_000)]
    tasks: u32,
    /// Tasks submitted per second
    #[arg(long, default_value_t = 20)]
    rate: u32,
}

/// A name that a watcher has seen, and when (microseconds since 1970).
struct SeenName {
    job: String,
    at_us: u64,
}

/// Runs the benchmark.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &StartLatencyArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let system = System::start(options).await?;
    let client = Arc::new(system.client()?);
    let notes = options.scratch()?.join("notes");
    std::fs::create_dir_all(&notes)?;
    let (sender, mut seen) = mpsc::unbounded_channel();
    let watcher = tokio::spawn(watch(Arc::clone(&client), sender));
    let bar = indicatif::ProgressBar::new(u64::from(arguments.tasks));
    let mut submitted: BTreeMap<String, u64> = BTreeMap::new();
    let mut published: BTreeMap<String, u64> = BTreeMap::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / arguments.rate.max(1));
    let mut submissions = Vec::new();
    for number in 0..arguments.tasks {
        ticks.tick().await;
        let name = format!("tiny-{number}");
        let spec = micro_service(&name, &notes)?;
        submitted.insert(name, wall_us());
        let submitter = Arc::clone(&client);
        submissions.push(tokio::spawn(async move { submitter.job_submit(spec, 0).await }));
        while let Ok(next) = seen.try_recv() {
            seen_note(&client, &mut published, next, &bar);
        }
    }
    for submission in submissions {
        submission.await?.context("a submission was refused")?;
    }
    let tasks = usize::try_from(arguments.tasks)?;
    while published.len() < tasks {
        match tokio::time::timeout(LAST_WAIT, seen.recv()).await {
            Ok(Some(next)) => seen_note(&client, &mut published, next, &bar),
            Ok(None) | Err(_) => break,
        }
    }
    bar.finish_and_clear();
    watcher.abort();
    let stats = stats_of(arguments, &submitted, &published, &notes)?;
    results.line("start-latency", "tiny-services", stats);
    if published.len() < tasks {
        bail!("only {} of {tasks} endpoints were seen", published.len());
    }
    Ok(())
}

/// Records the first sight of a name and stops its job.
fn seen_note(
    client: &Client,
    published: &mut BTreeMap<String, u64>,
    seen: SeenName,
    bar: &indicatif::ProgressBar,
) {
    if published.contains_key(&seen.job) {
        return;
    }
    let job = JobRef::new("loadtest", seen.job.clone());
    published.insert(seen.job, seen.at_us);
    bar.inc(1);
    let client = client.clone();
    tokio::spawn(async move {
        // A job that is not stopped ends with the cell.
        client.job_stop(&job).await.ok();
    });
}

async fn watch(client: Arc<Client>, seen: mpsc::UnboundedSender<SeenName>) {
    let healthy = i32::from(v1::Health::Healthy);
    let mut items = client.watch_endpoints("loadtest", "", None);
    while let Some(Ok(item)) = items.next().await {
        if let EndpointItem::Published(endpoint) = item
            && endpoint.health == healthy
            && seen.send(SeenName { job: endpoint.job, at_us: wall_us() }).is_err()
        {
            return;
        }
    }
}

fn stats_of(
    arguments: &StartLatencyArguments,
    submitted: &BTreeMap<String, u64>,
    published: &BTreeMap<String, u64>,
    notes: &Path,
) -> anyhow::Result<Stats> {
    let mut to_exec = Vec::new();
    let mut to_endpoint = Vec::new();
    for (name, &at_us) in submitted {
        let note: PathBuf = notes.join(name);
        if let Ok(text) = std::fs::read_to_string(note) {
            to_exec.push(text.parse::<u64>()?.saturating_sub(at_us));
        }
        if let Some(&seen_us) = published.get(name) {
            to_endpoint.push(seen_us.saturating_sub(at_us));
        }
    }
    let mut stats = Stats::new();
    stats.set("tasks", json!(arguments.tasks));
    stats.set("submitted_per_s", json!(arguments.rate));
    percentiles(&mut stats, "submit_to_exec", &to_exec)?;
    percentiles(&mut stats, "submit_to_endpoint", &to_endpoint)?;
    Ok(stats)
}
