//! The background load of a measured workload: unschedulable work, nodes that come and go, tasks that are deleted.
//!
//! As in `scheduler_perf`, each event comes at its interval for as long as the load runs, the first one after one
//! interval.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::confirm::victims_confirm;
use super::events::{BackgroundEvent, BackgroundEvents};
use super::load_jobs::{JobGroup, LoadJob};
use super::workload::{DeletedTasks, Workload, churn_facts, preempting_spec, unschedulable_spec};
use super::world::BenchCell;

/// As `scheduler_perf`'s churn.
pub(super) const CHURN: Duration = Duration::from_secs(1);

/// A background load in a cell of rows.
pub(super) struct BackgroundRun {
    pub world: Arc<BenchCell>,
    pub workload: Workload,
    pub events: Arc<BackgroundEvents>,
    pub over: Arc<AtomicBool>,
}

/// A clock that first ticks after one interval. It drops ticks that come too late, as a ticker of Go does.
pub(super) async fn ticker(each: Duration) -> Interval {
    let mut ticks = interval(each);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // The first tick comes at once.
    ticks.tick().await;
    ticks
}

impl BackgroundRun {
    /// Runs all background load until it is over.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        tokio::try_join!(
            self.unschedulable(),
            self.preempting(),
            self.victims(),
            self.churn(),
            self.deleted()
        )?;
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    async fn unschedulable(&self) -> anyhow::Result<()> {
        let per_s = self.workload.background.unschedulable_per_s;
        if per_s == 0 {
            return Ok(());
        }
        let mut ticks = ticker(Duration::from_secs(1) / per_s).await;
        for number in 0_u32.. {
            ticks.tick().await;
            if self.is_over() {
                break;
            }
            self.world.job_submit(&unschedulable_spec(&format!("background-{number}"))?).await?;
            self.events.happened(BackgroundEvent::UnschedulableAdmitted);
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn preempting(&self) -> anyhow::Result<()> {
        let per_s = self.workload.background.preempting_per_s;
        if per_s == 0 {
            return Ok(());
        }
        let mut ticks = ticker(Duration::from_secs(1) / per_s).await;
        for number in 0_u32.. {
            ticks.tick().await;
            if self.is_over() {
                break;
            }
            let spec = preempting_spec(&format!("background-{number}"))?;
            let id = self.world.job_watch(LoadJob::of(JobGroup::Preempting, &spec, Instant::now()));
            self.world.job_submit_as(&spec, id).await?;
            self.events.happened(BackgroundEvent::PreemptorAdmitted);
        }
        Ok(())
    }

    async fn victims(&self) -> anyhow::Result<()> {
        if self.workload.background.confirms {
            return victims_confirm(&self.world, &self.events, &self.over).await;
        }
        Ok(())
    }

    /// A node and a task come with one tick and go with the next.
    async fn churn(&self) -> anyhow::Result<()> {
        if !self.workload.background.churn {
            return Ok(());
        }
        let mut ticks = ticker(CHURN).await;
        for number in 0_u32.. {
            let name = format!("churn-{number}");
            ticks.tick().await;
            if self.is_over() {
                break;
            }
            self.world.nodes_add(1, |_| (name.clone(), churn_facts())).await?;
            self.events.happened(BackgroundEvent::NodeAdded);
            self.world.job_submit(&unschedulable_spec(&name)?).await?;
            self.events.happened(BackgroundEvent::UnschedulableAdmitted);
            ticks.tick().await;
            if self.is_over() {
                break;
            }
            self.world.node_lose(&name).await?;
            self.events.happened(BackgroundEvent::NodeRemoved);
            self.world.job_stop("loadtest", &name).await?;
            self.events.happened(BackgroundEvent::UnschedulableStopped);
        }
        Ok(())
    }

    /// Deletes tasks that were placed before the measurement, one at a tick.
    async fn deleted(&self) -> anyhow::Result<()> {
        let load = &self.workload.background;
        if load.deleted_per_s == 0 {
            return Ok(());
        }
        let mut ticks = ticker(Duration::from_secs(1) / load.deleted_per_s).await;
        while let Some(placed) = self.world.jobs.oldest_take(JobGroup::Before) {
            ticks.tick().await;
            if self.is_over() {
                break;
            }
            match load.deleted {
                DeletedTasks::End => {
                    let left = self.world.jobs_end(vec![placed]).await?;
                    anyhow::ensure!(left.is_empty(), "a deleted task did not end");
                    self.events.happened(BackgroundEvent::TaskDeleted);
                }
                DeletedTasks::Stay => {
                    self.world.job_stop(&placed.job.user, &placed.job.name).await?;
                    self.events.happened(BackgroundEvent::TaskStopping);
                }
            }
        }
        Ok(())
    }
}
