//! A load that goes on: tasks are submitted all the time, and the oldest ones end, so that the cell keeps its fill.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::load_jobs::{JobGroup, PlacedJob};
use super::run_cell::{Measured, RunCell};
use super::seen::count_reached;
use super::{PATIENCE, SUBMITTERS};
use crate::result::Stats;

/// Tasks ended at once, unless one job has more.
const ENDS_AT_ONCE: usize = 512;
/// Concurrent transactions that end tasks.
const ENDERS: usize = 4;
/// Pause while nothing can be done.
const PAUSE: Duration = Duration::from_millis(1);

/// How fast tasks are offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SubmitRate {
    /// As fast as they are admitted, with at most as many tasks as the workload names.
    Fastest,
    /// So many tasks per second.
    PerSecond(f64),
}

/// The bounds of the measured tasks in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LoadFill {
    /// No task is submitted above this.
    alive_max: u64,
    /// No task ends while as many, or fewer, have a place.
    resident_min: u64,
}

impl LoadFill {
    /// The bounds for jobs of so many tasks in a workload of so many measured ones. A workload of Kubernetes grows from
    /// none to all of its tasks. This one stays between half of them and all.
    ///
    /// If two jobs are more than all tasks, one is placed while the other leaves.
    fn of(tasks: u32, job_tasks: u32) -> Self {
        let (tasks, job_tasks) = (u64::from(tasks), u64::from(job_tasks));
        if 2 * job_tasks > tasks {
            return Self { alive_max: 2 * job_tasks, resident_min: 0 };
        }
        Self { alive_max: tasks, resident_min: tasks / 2 }
    }
}

impl RunCell {
    /// Measures the workload as it goes on, and then its latency under half the load.
    pub(super) async fn flow(&self, stats: &mut Stats) -> anyhow::Result<()> {
        let ended = AtomicBool::new(false);
        let phases = async {
            let phases = self.phases(stats).await;
            ended.store(true, Ordering::Relaxed);
            phases
        };
        tokio::try_join!(phases, self.ends(&ended))?;
        Ok(())
    }

    async fn phases(&self, stats: &mut Stats) -> anyhow::Result<()> {
        let rate_wanted = self
            .workload
            .offered_per_s
            .map_or(SubmitRate::Fastest, |rate| SubmitRate::PerSecond(f64::from(rate)));
        let mut number = 0;
        let found = {
            let until = self.mark().at + self.warmup + self.measured;
            let measured = async {
                tokio::time::sleep(self.warmup).await;
                let from = self.mark();
                tokio::time::sleep(self.measured).await;
                let to = self.mark();
                Ok(Measured { time: to.at - from.at, from, to })
            };
            tokio::try_join!(measured, self.submit(rate_wanted, until, &mut number))?.0
        };
        self.stats(&found, stats);
        self.placed_all().await?;

        let half = found.half_per_s();
        let until = self.mark().at + self.warmup + self.measured;
        let latencies = async {
            tokio::time::sleep(self.warmup).await;
            self.world.jobs.latencies_begin();
            Ok(())
        };
        tokio::try_join!(latencies, self.submit(SubmitRate::PerSecond(half), until, &mut number))?;
        self.placed_all().await?;
        self.latency_stats(half, stats)
    }

    /// Waits until every submitted task has been placed.
    pub(super) async fn placed_all(&self) -> anyhow::Result<()> {
        let all = usize::try_from(self.tasks().submitted)?;
        let placed = || usize::try_from(self.tasks().placed).unwrap_or(usize::MAX);
        count_reached(placed, all, PATIENCE).await
    }

    /// Submits jobs from `number` on until a moment. While more than twice the tasks of the workload wait for a place,
    /// it submits none.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    pub(super) async fn submit(
        &self,
        rate_wanted: SubmitRate,
        until: Instant,
        number: &mut u32,
    ) -> anyhow::Result<()> {
        let fill = LoadFill::of(self.workload.measured.tasks, self.job_tasks);
        let (began, mut sent, mut submissions) = (Instant::now(), 0.0, JoinSet::new());
        while Instant::now() < until {
            let mut due = Instant::now();
            if let SubmitRate::PerSecond(rate) = rate_wanted {
                due = began + Duration::from_secs_f64(sent / rate);
                if due >= until {
                    break;
                }
                tokio::time::sleep_until(due.into()).await;
                if self.tasks().waiting() > 2 * fill.alive_max {
                    // The cell does not keep up. Its latency shows it, since a job stays due at its moment.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            } else if self.tasks().alive() + u64::from(self.job_tasks) > fill.alive_max {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            while submissions.len() >= SUBMITTERS {
                submissions.join_next().await.transpose()?.transpose()?;
            }
            submissions.spawn(self.job_submit(*number, self.job_tasks, due)?);
            *number = number.wrapping_add(1);
            sent += f64::from(self.job_tasks);
        }
        while let Some(done) = submissions.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Ends the oldest jobs whenever more tasks than the least have a place.
    async fn ends(&self, over: &AtomicBool) -> anyhow::Result<()> {
        let fill = LoadFill::of(self.workload.measured.tasks, self.job_tasks);
        let mut ending: JoinSet<anyhow::Result<usize>> = JoinSet::new();
        let mut leaving = 0;
        while !over.load(Ordering::Relaxed) {
            let mut jobs = Vec::new();
            let mut tasks = 0;
            while tasks < ENDS_AT_ONCE
                && self.tasks().resident().saturating_sub(leaving) > fill.resident_min
                && let Some(job) = self.world.jobs.oldest_take(JobGroup::Measured)
            {
                tasks += job.attempts.len();
                leaving += u64::from(job.job.tasks);
                jobs.push(job);
            }
            if !jobs.is_empty() {
                let world = Arc::clone(&self.world);
                ending.spawn(async move {
                    let tasks = jobs.iter().map(|job| job.attempts.len()).sum();
                    for left in world.jobs_end(jobs).await? {
                        world.jobs.put_back(&left);
                    }
                    Ok(tasks)
                });
            }
            while ending.len() >= ENDERS {
                leaving -= u64::try_from(ending.join_next().await.transpose()?.transpose()?.unwrap_or(0))?;
            }
            while let Some(done) = ending.try_join_next() {
                leaving -= u64::try_from(done??)?;
            }
            if tasks == 0 {
                tokio::time::sleep(PAUSE).await;
            }
        }
        while let Some(done) = ending.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Ends all measured jobs.
    pub(super) async fn ends_all(&self) -> anyhow::Result<()> {
        loop {
            let take = || self.world.jobs.oldest_take(JobGroup::Measured);
            let jobs: Vec<PlacedJob> = std::iter::from_fn(take).collect();
            if jobs.is_empty() {
                return Ok(());
            }
            for left in self.world.jobs_end(jobs).await? {
                self.world.jobs.put_back(&left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_keeps_between_half_of_the_tasks_and_all() {
        assert_eq!(LoadFill::of(50_000, 500), LoadFill { alive_max: 50_000, resident_min: 25_000 });
        assert_eq!(LoadFill::of(3_000, 1_000), LoadFill { alive_max: 3_000, resident_min: 1_500 });
        assert_eq!(LoadFill::of(5_000, 5_000), LoadFill { alive_max: 10_000, resident_min: 0 });
    }
}
