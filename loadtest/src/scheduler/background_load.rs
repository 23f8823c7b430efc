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
use super::background::CHURN;
use super::workload::{Workload, node_facts, node_of, unschedulable_spec};
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
    nodes_gone: AtomicU64,
    jobs_stopped: AtomicU64,
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
            nodes_gone: AtomicU64::new(0),
            jobs_stopped: AtomicU64::new(0),
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
        let (mut number, per_s) = (0_u32, self.workload.background.unschedulable_per_s);
        while per_s > 0 && !over.load(Ordering::Relaxed) {
            self.unschedulable_submit(&format!("hopeless-{number}")).await?;
            number += 1;
            tokio::time::sleep(Duration::from_secs(1) / per_s).await;
        }
        Ok(())
    }

    async fn unschedulable_submit(&self, name: &str) -> anyhow::Result<()> {
        self.client.job_submit(job_spec_to_message(&unschedulable_spec(name)?), 0).await?;
        Ok(())
    }

    /// Each round first ends the agent of the last node and stops the last unschedulable job. The cell declares the
    /// node lost after its tolerance.
    async fn churn(&self, over: &AtomicBool) -> anyhow::Result<()> {
        let (mut number, mut last) = (0_u32, None);
        while self.workload.background.churn && !over.load(Ordering::Relaxed) {
            self.churn_end(&mut last).await?;
            let name = format!("churn-{number}");
            let node = (name.clone(), node_facts(number, self.workload.zones));
            let fleet = self.fleet(std::iter::once(node))?;
            self.unschedulable_submit(&name).await?;
            last = Some((name, fleet));
            number += 1;
            tokio::time::sleep(CHURN).await;
        }
        self.churn_end(&mut last).await
    }

    async fn churn_end(&self, last: &mut Option<(String, Fleet)>) -> anyhow::Result<()> {
        if let Some((name, fleet)) = last.take() {
            self.left(fleet).await;
            self.nodes_gone.fetch_add(1, Ordering::Relaxed);
            self.client.job_stop(&JobRef::new("loadtest", name)).await?;
        }
        Ok(())
    }

    /// Stops jobs at a rate of tasks.
    async fn stop(&self, jobs: JobsBefore, over: &AtomicBool) -> anyhow::Result<()> {
        let per_s = self.workload.background.stopped_per_s;
        for (user, name, tasks) in jobs {
            if per_s == 0 || over.load(Ordering::Relaxed) {
                break;
            }
            self.client.job_stop(&JobRef::new(user, name)).await?;
            self.jobs_stopped.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1) * tasks / per_s).await;
        }
        Ok(())
    }

    /// Adds the counters, and the violations that agents of the background load have found.
    pub(super) fn stats(&self, stats: &mut Stats) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let known = stats.get("node_violations").and_then(Value::as_u64).unwrap_or(0);
        stats.set("node_violations", json!(known + of(&self.violations)));
        stats.set("nodes_gone", json!(of(&self.nodes_gone)));
        stats.set("jobs_stopped", json!(of(&self.jobs_stopped)));
    }
}
