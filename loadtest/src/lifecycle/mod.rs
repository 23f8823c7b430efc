//! The lifecycle of jobs on the production program: rollouts, resizes in place, and daemon jobs. Each benchmark starts
//! a cell with real or hollow nodes, measures one change of a job, and then reads the journal that the cell has left.

mod availability;
mod commits;
pub(crate) mod daemon;
mod gate;
pub(crate) mod resize;
pub(crate) mod rollout;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use borough_agent::hollow::HollowHealth;
use borough_client::{CellItem, Client, JobRef};
use borough_kv::env::SystemClock;
use borough_proto::v1;
use borough_proto::v1::watch_response::Change;
use clap::Args;
use futures::StreamExt as _;
use serde_json::json;

use crate::hollow::fleet::Fleet;
use crate::hollow::metrics::Samples;
use crate::hollow::usage::{ProcessUsage, process_usage};
use crate::hollow::{SimulatedFleet, fleet_options, fleet_stats, hello};
use crate::result::{Stats, StatsSet as _};
use crate::scheduler::{CELL, store_check};
use crate::system::{System, SystemOptions};
use availability::AvailabilityWatch;
use commits::{CommitCounts, CommitTime};

/// The user of the jobs.
const USER: &str = "loadtest";
/// Idle time before a change is measured.
const SETTLE: Duration = Duration::from_secs(5);

/// What bounds a run, and how hollow nodes behave.
#[derive(Clone, Debug, Args)]
pub(crate) struct LifecycleArguments {
    /// Seconds after which each step of the run has failed: the start of the tasks, and the measured change
    #[arg(long, default_value_t = 1_800, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    wait_s: u64,
    #[command(flatten)]
    simulated: SimulatedFleet,
}

impl LifecycleArguments {
    fn wait(&self) -> Duration {
        Duration::from_secs(self.wait_s)
    }
}

/// A cell with a client, and its hollow nodes if it has no real ones.
struct LifecycleCell {
    system: System,
    client: Client,
    fleet: Option<Fleet>,
}

impl LifecycleCell {
    /// Starts a cell with the real agents of the options.
    async fn start_real(options: &SystemOptions) -> anyhow::Result<Self> {
        let system = System::start(options).await?;
        let client = system.client()?;
        Ok(Self { system, client, fleet: None })
    }

    /// Starts a cell with as many hollow nodes instead.
    async fn start_hollow(options: &SystemOptions, arguments: &LifecycleArguments) -> anyhow::Result<Self> {
        let system = System::start(&SystemOptions { nodes: 0, ..options.clone() }).await?;
        let client = system.client_with(|config| config.deadline = arguments.wait())?;
        let fleet = nodes_join(&system, 0..options.nodes, arguments)?;
        fleet.all_connected(arguments.wait()).await?;
        Ok(Self { system, client, fleet: Some(fleet) })
    }

    /// Runs `first` until all of its tasks are available, replaces it by `second`, and measures until that is rolled
    /// out.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn roll_out(
        &self,
        first: v1::JobSpec,
        second: v1::JobSpec,
        wait: Duration,
    ) -> anyhow::Result<RolledOut> {
        let (job, tasks) = (JobRef::new(first.user.clone(), first.name.clone()), first.count);
        self.client.job_submit(first, 0).await?;
        let availability = AvailabilityWatch::start(self.system.client()?, &job, tasks);
        availability.all_available(wait).await?;
        tokio::time::sleep(SETTLE).await;

        availability.begin();
        let cost = self.cost_begin().await?;
        let began = Instant::now();
        let submitted = self.client.job_submit(second, 0).await?;
        rollout_done(&self.client, &submitted, wait).await?;
        Ok(RolledOut { job, availability, cost, took: began.elapsed() })
    }

    /// Begins to measure.
    async fn cost_begin(&self) -> anyhow::Result<ChangeCost> {
        // The time of the cell may lie behind that of this process. The cell was idle for longer than this.
        let behind_ms = i64::try_from(SETTLE.as_millis() / 2)?;
        let from_ms = SystemClock::shared().wall_ms() - behind_ms;
        Ok(ChangeCost { from_ms, look: self.look().await? })
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn look(&self) -> anyhow::Result<ControlLook> {
        let usage = process_usage(i32::try_from(self.system.control_pid())?)?;
        let (_, token) = self.system.access()?;
        let shown = Samples::read(&self.system.http()?, &token).await?;
        Ok(ControlLook { at: Instant::now(), usage, shown })
    }

    /// Adds what a change of so many tasks has cost since `begin`. Returns when its commits were made.
    async fn cost_end(
        &self,
        begin: &ChangeCost,
        tasks: u32,
        stats: &mut Stats,
    ) -> anyhow::Result<CommitTime> {
        let (before, after) = (&begin.look, self.look().await?);
        let cpu = after.usage.cpu.saturating_sub(before.usage.cpu);
        stats.set("control_cpu_s", json!(seconds(cpu)));
        let each = cpu.as_micros() / u128::from(tasks.max(1));
        stats.set("control_cpu_us_per_task", json!(u64::try_from(each)?));
        let time = after.at.saturating_duration_since(before.at);
        let thousandths = cpu.as_micros() * 1_000 / time.as_micros().max(1);
        stats.set("control_cpu_millis", json!(u64::try_from(thousandths)?));
        stats.set("control_rss_mib", json!(after.usage.rss_bytes >> 20));
        stats.set("store_transactions", json!(after.shown.transactions_since(&before.shown)));
        Ok(CommitTime { from_ms: begin.from_ms, until_ms: SystemClock::shared().wall_ms() })
    }

    /// Ends the cell. Adds what its nodes have counted, the commits of a time, and the broken rules of its store.
    async fn end(mut self, time: CommitTime, tasks: u32, stats: &mut Stats) -> anyhow::Result<()> {
        // The nodes stay until the control process has ended: a node whose session ends in order is tainted.
        if let Some(fleet) = &self.fleet {
            fleet_stats(stats, fleet)?;
        }
        self.system.control_end()?;
        if let Some(fleet) = self.fleet.take() {
            fleet.end().await;
        }
        CommitCounts::read(&self.system, time).await?.stats(tasks, stats);
        store_check(&self.system, stats).await
    }
}

/// The control process at a moment.
struct ControlLook {
    at: Instant,
    usage: ProcessUsage,
    shown: Samples,
}

/// The control process before a change.
struct ChangeCost {
    from_ms: i64,
    look: ControlLook,
}

/// A rollout that was measured.
struct RolledOut {
    job: JobRef,
    /// Goes on until it is ended.
    availability: AvailabilityWatch,
    cost: ChangeCost,
    took: Duration,
}

/// Starts hollow nodes with these numbers. They behave as real agents in what a change of a job waits for.
fn nodes_join(
    system: &System,
    numbers: std::ops::Range<u32>,
    arguments: &LifecycleArguments,
) -> anyhow::Result<Fleet> {
    let (gateways, token) = system.access()?;
    let hellos = numbers.map(|number| hello(CELL, format!("hollow-{number}"), number)).collect();
    let mut options = fleet_options(gateways, Some(token), hellos, &arguments.simulated)?;
    options.times.health = HollowHealth::AsAssigned;
    Fleet::start(options)
}

/// Waits until the rollout of the version of a job is done. Follows the rows of the job from `cursor` on.
///
/// # Errors
/// The rollout failed, the watch ended, or it took longer than `wait`.
async fn rollout_done(
    client: &Client,
    submitted: &v1::SubmitJobResponse,
    wait: Duration,
) -> anyhow::Result<()> {
    let job = submitted.job.as_ref().context("the answer has no job")?;
    let (version, job) = (job.spec_version, JobRef::new(job.user.clone(), job.name.clone()));
    let filter =
        v1::WatchFilter { user: job.user.clone(), job: job.name.clone(), jobs: true, ..Default::default() };
    let mut items = client.watch_cell(filter, submitted.cursor.clone());
    let over = async {
        while let Some(item) = items.next().await {
            let change = match item? {
                CellItem::Change(change) => change.change,
                CellItem::Bookmark(_) | CellItem::Absent(_) => continue,
                CellItem::Resync(why) => bail!("the watch of the job fell behind: {why}"),
            };
            let Some(Change::Job(row)) = change else { continue };
            let Some(rollout) = row.rollout.filter(|rollout| rollout.version >= version) else { continue };
            ensure!(rollout.reverts == 0 && rollout.failure.is_empty(), "it failed: {}", rollout.failure);
            if rollout.state() == v1::RolloutState::Done {
                return Ok(());
            }
        }
        bail!("the watch of the job has ended")
    };
    let over: anyhow::Result<()> = tokio::time::timeout(wait, over)
        .await
        .with_context(|| format!("the rollout of {job} was not done within {wait:?}"))?;
    over
}

/// Fails if the nodes or the store have found a broken rule.
fn rules_ensure(stats: &Stats) -> anyhow::Result<()> {
    for name in ["node_violations", "violations", "rule_violations"] {
        let count = stats.get(name).and_then(serde_json::Value::as_u64).unwrap_or_default();
        ensure!(count == 0, "{count} {name}: {stats:?}");
    }
    Ok(())
}

/// Seconds with three digits.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000.0).round() / 1_000.0
}

/// A ratio with three digits.
fn ratio(time: Duration, best: Duration) -> f64 {
    (time.as_secs_f64() / best.as_secs_f64().max(0.001) * 1_000.0).round() / 1_000.0
}
