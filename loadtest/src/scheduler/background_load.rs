//! The background load of a workload measured with agents: through the public API, and by agents that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use borough_client::{Client, JobRef};
use borough_model::node::NodeFacts;
use borough_proto::convert::job_spec_to_message;
use borough_proto::v1;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::SchedulerBenchArguments;
use super::agents::hello;
use super::background::{CHURN, ticker};
use super::events::{BackgroundEvent, BackgroundEvents, EventCounts};
use super::workload::{DeletedTasks, Workload, churn_facts, node_of, unschedulable_spec};
use crate::hollow::fleet::Fleet;
use crate::hollow::{SimulatedFleet, fleet_options};
use crate::result::{Stats, StatsSet as _};
use crate::system::System;

/// Concurrent requests when many nodes are tainted.
const TAINTS_AT_ONCE: usize = 64;

/// User, name and tasks of the earlier jobs.
pub(super) type JobsBefore = Vec<(String, String, u32)>;

/// A cell with its background load.
pub(super) struct BackgroundCell {
    client: Client,
    workload: Workload,
    gateways: Vec<String>,
    token: String,
    simulated: SimulatedFleet,
    /// Violations that agents of the background load have found.
    violations: AtomicU64,
    pub(super) events: BackgroundEvents,
}

impl BackgroundCell {
    /// The background load of `workload`, in the cell of `system`.
    pub(super) fn new(
        system: &System,
        client: &Client,
        arguments: &SchedulerBenchArguments,
        workload: &Workload,
    ) -> anyhow::Result<Self> {
        let (gateways, token) = system.access()?;
        Ok(Self {
            client: client.clone(),
            workload: workload.clone(),
            gateways,
            token,
            simulated: arguments.simulated.clone(),
            violations: AtomicU64::new(0),
            events: BackgroundEvents::default(),
        })
    }

    /// Keeps tasks off the nodes that do not count.
    pub(super) async fn nodes_taint(&self) -> anyhow::Result<()> {
        let taint = v1::Taint {
            key: "loadtest".to_owned(),
            effect: v1::TaintEffect::NoSchedule.into(),
            ..v1::Taint::default()
        };
        let tainted = stream::iter(0..self.workload.tainted).map(|number| {
            let (client, taint) = (self.client.clone(), taint.clone());
            async move { client.node_taint(&format!("node-{number}"), vec![taint]).await }
        });
        tainted.buffer_unordered(TAINTS_AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        Ok(())
    }

    fn fleet(&self, nodes: impl Iterator<Item = (String, NodeFacts)>) -> anyhow::Result<Fleet> {
        let hellos = nodes.map(|(name, facts)| hello(name, facts)).collect();
        Fleet::start(fleet_options(self.gateways.clone(), Some(self.token.clone()), hellos, &self.simulated)?)
    }

    /// Starts the nodes that the measured tasks wait for.
    pub(super) fn nodes_late(&self, count: u32) -> anyhow::Result<Fleet> {
        let node = |number: u32| (format!("late-{number}"), node_of(&self.workload, number));
        self.fleet((0..count).map(node))
    }

    /// Ends agents of the background load, and keeps the violations that they have found.
    pub(super) async fn left(&self, fleet: Fleet) {
        let (violations, _) = fleet.shared.checker.violations();
        self.violations.fetch_add(violations, Ordering::Relaxed);
        fleet.end().await;
    }

    /// Runs all background load until it is `over`.
    pub(super) async fn run(self: Arc<Self>, jobs: JobsBefore, over: Arc<AtomicBool>) -> anyhow::Result<()> {
        tokio::try_join!(self.unschedulable(&over), self.churn(&over), self.stop(jobs, &over))?;
        Ok(())
    }

    async fn unschedulable(&self, over: &AtomicBool) -> anyhow::Result<()> {
        let per_s = self.workload.background.unschedulable_per_s;
        if per_s == 0 {
            return Ok(());
        }
        let mut ticks = ticker(Duration::from_secs(1) / per_s).await;
        for number in 0_u32.. {
            ticks.tick().await;
            if over.load(Ordering::Relaxed) {
                break;
            }
            self.unschedulable_submit(&format!("hopeless-{number}")).await?;
        }
        Ok(())
    }

    async fn unschedulable_submit(&self, name: &str) -> anyhow::Result<()> {
        self.client.job_submit(job_spec_to_message(&unschedulable_spec(name)?), 0).await?;
        self.events.happened(BackgroundEvent::UnschedulableAdmitted);
        Ok(())
    }

    /// A node and a task come with one tick and go with the next. The cell declares the node lost after its tolerance.
    async fn churn(&self, over: &AtomicBool) -> anyhow::Result<()> {
        if !self.workload.background.churn {
            return Ok(());
        }
        let mut ticks = ticker(CHURN).await;
        for number in 0_u32.. {
            let name = format!("churn-{number}");
            ticks.tick().await;
            if over.load(Ordering::Relaxed) {
                break;
            }
            let fleet = self.fleet(std::iter::once((name.clone(), churn_facts())))?;
            self.events.happened(BackgroundEvent::NodeAdded);
            self.unschedulable_submit(&name).await?;
            ticks.tick().await;
            self.left(fleet).await;
            self.events.happened(BackgroundEvent::NodeRemoved);
            self.client.job_stop(&JobRef::new("loadtest", name)).await?;
            self.events.happened(BackgroundEvent::UnschedulableStopped);
        }
        Ok(())
    }

    /// Stops jobs at a rate of tasks.
    async fn stop(&self, jobs: JobsBefore, over: &AtomicBool) -> anyhow::Result<()> {
        let load = &self.workload.background;
        if load.deleted_per_s == 0 {
            return Ok(());
        }
        let mut ticks = ticker(Duration::from_secs(1) / load.deleted_per_s).await;
        for (user, name, tasks) in jobs {
            for _ in 0..tasks {
                ticks.tick().await;
            }
            if over.load(Ordering::Relaxed) {
                break;
            }
            self.client.job_stop(&JobRef::new(user, name)).await?;
            let event = match load.deleted {
                DeletedTasks::End => BackgroundEvent::TaskDeleted,
                DeletedTasks::Stay => BackgroundEvent::TaskStopping,
            };
            self.events.happened_times(event, usize::try_from(tasks)?);
        }
        Ok(())
    }

    /// Adds the counters, and the violations that agents of the background load have found.
    pub(super) fn stats(&self, stats: &mut Stats) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let known = stats.get("node_violations").and_then(Value::as_u64).unwrap_or(0);
        stats.set("node_violations", json!(known + of(&self.violations)));
        self.events.counts().stats(EventCounts::default(), &self.workload.background, stats);
    }
}
