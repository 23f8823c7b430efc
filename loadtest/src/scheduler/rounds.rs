//! A load in rounds, for workloads whose measured tasks change the cell: all of them come, are placed, and end. Then
//! the cell returns to what it was before. Only the time from submission to placement counts.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::events::BackgroundEvent;
use super::flow::SubmitRate;
use super::load_jobs::JobGroup;
use super::run_cell::{Measured, RunCell};
use super::seen::count_reached;
use super::workload::node_of;
use super::{PATIENCE, SUBMITTERS, jobs_of};
use crate::result::{Stats, StatsSet as _};

/// How long tasks wait for late nodes, until the workers have seen that none has room.
const NODES_LATE_AFTER: Duration = Duration::from_millis(500);

impl RunCell {
    /// Measures rounds, and then the latency of rounds under half the load. Tasks that wait for late nodes have no
    /// latency of their own.
    pub(super) async fn rounds(&self, stats: &mut Stats) -> anyhow::Result<()> {
        let mut number = 0;
        self.rounds_for(self.warmup, SubmitRate::Fastest, &mut number).await?;
        let from = self.mark();
        let time = self.rounds_for(self.measured, SubmitRate::Fastest, &mut number).await?;
        let found = Measured { time, from, to: self.mark() };
        self.stats(&found, stats);
        let round = u64::from(self.workload.measured.tasks.max(1));
        stats.set("rounds", json!(found.placed() / round));
        if self.workload.background.nodes_late > 0 {
            return Ok(());
        }
        let half = found.half_per_s();
        self.world.jobs.latencies_begin();
        self.rounds_for(self.measured, SubmitRate::PerSecond(half), &mut number).await?;
        self.latency_stats(half, stats)
    }

    /// Runs rounds for so long, at least one. Returns the time of their placements. Only that time counts, except where
    /// tasks wait for late nodes: those rounds consist of waiting.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn rounds_for(
        &self,
        least: Duration,
        rate_wanted: SubmitRate,
        number: &mut u32,
    ) -> anyhow::Result<Duration> {
        let (began, mut taken) = (Instant::now(), Duration::ZERO);
        let waits = self.workload.background.nodes_late > 0;
        loop {
            taken += self.round(rate_wanted, number).await?;
            if if waits { began.elapsed() } else { taken } >= least {
                return Ok(taken);
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn round(&self, rate_wanted: SubmitRate, number: &mut u32) -> anyhow::Result<Duration> {
        let mut began = Instant::now();
        let late = self.workload.background.nodes_late;
        let first = *number;
        self.round_submit(rate_wanted, number).await?;
        if late > 0 {
            // They wait: the measurement is how fast new nodes requeue them.
            tokio::time::sleep(NODES_LATE_AFTER).await;
            began = Instant::now();
            let node = |node: u32| (format!("late-{first}-{node}"), node_of(&self.workload, node));
            self.world.nodes_add(late, node).await?;
            self.events.happened_times(BackgroundEvent::NodeAdded, usize::try_from(late)?);
        }
        self.placed_all().await?;
        let taken = began.elapsed();
        self.ends_all().await?;
        for node in 0..late {
            self.world.node_lose(&format!("late-{first}-{node}")).await?;
            self.events.happened(BackgroundEvent::NodeRemoved);
        }
        self.before_returned().await?;
        Ok(taken)
    }

    /// Submits the measured tasks once.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn round_submit(&self, rate_wanted: SubmitRate, number: &mut u32) -> anyhow::Result<()> {
        let (began, mut sent, mut submissions) = (Instant::now(), 0, JoinSet::new());
        for (_, tasks) in jobs_of(&self.workload.measured, self.job_tasks) {
            let mut due = Instant::now();
            if let SubmitRate::PerSecond(rate) = rate_wanted {
                due = began + Duration::from_secs_f64(f64::from(sent) / rate);
                tokio::time::sleep_until(due.into()).await;
            }
            while submissions.len() >= SUBMITTERS {
                submissions.join_next().await.transpose()?.transpose()?;
            }
            submissions.spawn(self.job_submit(*number, tasks, due)?);
            *number = number.wrapping_add(1);
            sent += tasks;
        }
        while let Some(done) = submissions.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Waits until every earlier task has a place again.
    async fn before_returned(&self) -> anyhow::Result<()> {
        let all = usize::try_from(self.world.jobs.tasks(JobGroup::Before).submitted)?;
        let here = || self.world.jobs.tasks(JobGroup::Before).here;
        count_reached(|| usize::try_from(here()).unwrap_or(usize::MAX), all, PATIENCE).await
    }
}
