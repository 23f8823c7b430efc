//! What the tasks of a job are charged for, and what they use by the last samples of their agents.
//!
//! A sum reads every task of the job. Each view asks for a page of jobs every two seconds, so sums are kept for a moment,
//! and all views together read a bounded number of tasks a second. A sum that may not be made yet is the one before, or
//! absent.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_model::{JobId, JobRow, TaskRow};
use borough_proto::v1;
use parking_lot::Mutex;

use crate::cell::CellContext;
use crate::session::desired::DesiredAttempt;

/// Tasks that are read under one hold of the mirror's lock.
const PART_TASKS: usize = 1_024;

/// A sum is not made again before it is so old.
const FRESH: Duration = Duration::from_secs(1);
/// A sum that is older is forgotten: nobody has asked for it, or its job is gone.
const KEPT: Duration = Duration::from_secs(60);
/// Tasks that sums read in a second, at most, in the mean. A task costs about a microsecond, so it is a twentieth of a
/// core.
const TASKS_PER_S: i64 = 50_000;

/// The sums of a cell's jobs, as last made.
#[derive(Debug, Default)]
pub struct JobUsages(Mutex<KeptUsages>);

#[derive(Debug, Default)]
struct KeptUsages {
    by_job: BTreeMap<JobId, KeptUsage>,
    /// Tasks that may be read now. Below 0: the last sums have read more.
    budget: i64,
    /// When the budget was last filled (monotonic). `None`: never.
    filled: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct KeptUsage {
    usage: v1::JobUsage,
    /// When it was made (monotonic).
    at: Duration,
}

impl KeptUsages {
    /// Fills the budget, up to what may be read in one second.
    fn fill(&mut self, now: Duration) {
        let passed = self.filled.map_or(Duration::from_secs(1), |at| now.saturating_sub(at));
        let micros = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        let more = micros.saturating_mul(TASKS_PER_S) / 1_000_000;
        // A short time that fills nothing is counted with the next one.
        if more > 0 {
            self.budget = self.budget.saturating_add(more).min(TASKS_PER_S);
            self.filled = Some(now);
        }
    }

    /// Keeps a sum that has read `more` tasks than were counted: a smaller count leaves rows of tasks above it.
    fn put(&mut self, job: JobId, summed: KeptUsage, more: i64) {
        self.by_job.insert(job, summed);
        self.budget = self.budget.saturating_sub(more);
    }

    /// Decides which of `jobs`, with their numbers of tasks, are summed now: those without a sum first, then the oldest
    /// sums. Returns them with the tasks that the budget counts for each. One job may exceed the budget; the next ones
    /// then wait until it is filled again.
    fn due(&mut self, jobs: &[(JobId, u32)], now: Duration) -> Vec<(JobId, i64)> {
        self.fill(now);
        self.by_job.retain(|_, kept| now.saturating_sub(kept.at) < KEPT);
        let age = |(job, _): &&(JobId, u32)| self.by_job.get(job).map(|kept| kept.at);
        let is_old = |at: Option<Duration>| at.is_none_or(|at| now.saturating_sub(at) >= FRESH);
        let mut old: Vec<&(JobId, u32)> = jobs.iter().filter(|job| is_old(age(job))).collect();
        old.sort_by_key(age);
        let mut due = Vec::new();
        for &&(job, tasks) in &old {
            if self.budget <= 0 {
                break;
            }
            // A job without tasks costs something too.
            let counted = i64::from(tasks.max(1));
            self.budget = self.budget.saturating_sub(counted);
            due.push((job, counted));
        }
        due
    }
}

/// The sums of `jobs`. One that may not be made yet is as old as the last one, and absent without one.
pub(super) async fn job_usages(cell: &CellContext, jobs: &[&JobRow]) -> BTreeMap<JobId, v1::JobUsage> {
    let counts: Vec<(JobId, u32)> = jobs.iter().map(|row| (row.id, row.count)).collect();
    let due = cell.job_usages.0.lock().due(&counts, cell.machine.monotonic());
    for (job, counted) in due {
        let (usage, read) = job_usage(cell, job).await;
        let summed = KeptUsage { usage, at: cell.machine.monotonic() };
        cell.job_usages.0.lock().put(job, summed, read.saturating_sub(counted));
        tokio::task::yield_now().await;
    }
    let kept = cell.job_usages.0.lock();
    counts.iter().filter_map(|(job, _)| Some((*job, kept.by_job.get(job)?.usage))).collect()
}

/// Sums over the tasks of a job, and how many were read. Rows may change meanwhile: the sums are right to within what has
/// changed.
async fn job_usage(cell: &CellContext, job: JobId) -> (v1::JobUsage, i64) {
    let (mut sum, mut read, mut after) = (v1::JobUsage::default(), 0_i64, None);
    loop {
        let part: Vec<_> = cell
            .mirror
            .read(|state| state.job_tasks_behind(job, after).take(PART_TASKS).map(Clone::clone).collect());
        let Some(last) = part.last() else { return (sum, read) };
        read = read.saturating_add(i64::try_from(part.len()).unwrap_or(i64::MAX));
        after = Some(last.id.index);
        part.iter().for_each(|row| usage_add(&mut sum, row, sample(cell, row).as_ref()));
        tokio::task::yield_now().await;
    }
}

fn sample(cell: &CellContext, row: &TaskRow) -> Option<v1::Usage> {
    let session = cell.sessions.get(row.charged_node()?)?;
    session.usage(DesiredAttempt { task: row.id, incarnation: row.incarnation })
}

/// Adds a task. One that no node is charged for uses nothing.
fn usage_add(sum: &mut v1::JobUsage, row: &TaskRow, sample: Option<&v1::Usage>) {
    if row.charged_node().is_none() {
        return;
    }
    let charge = &row.charge.resources;
    sum.charged = sum.charged.saturating_add(1);
    sum.charged_cpu_millis = sum.charged_cpu_millis.saturating_add(charge.cpu_millis);
    sum.charged_memory_bytes = sum.charged_memory_bytes.saturating_add(charge.memory_bytes);
    if let Some(sample) = sample {
        sum.sampled = sum.sampled.saturating_add(1);
        sum.cpu_millis = sum.cpu_millis.saturating_add(sample.cpu_millis);
        sum.memory_bytes = sum.memory_bytes.saturating_add(sample.memory_bytes);
    }
}

#[cfg(test)]
mod tests {
    use borough_model::{NodeId, Resources, TaskId, TaskState};

    use super::*;

    /// Two hundred jobs of 2,000 tasks each, and views that ask for them ten times a second.
    #[test]
    fn sums_read_a_bounded_number_of_tasks_and_the_oldest_ones_come_first() {
        let jobs: Vec<(JobId, u32)> = (0..200).map(|job| (JobId(job), 2_000)).collect();
        let (mut kept, mut read, mut made) = (KeptUsages::default(), 0, BTreeMap::<JobId, u32>::new());
        for tenth in 0..100 {
            let now = Duration::from_millis(100) * tenth;
            for (job, _) in kept.due(&jobs, now) {
                read += 2_000;
                *made.entry(job).or_default() += 1;
                kept.by_job.insert(job, KeptUsage { usage: v1::JobUsage::default(), at: now });
            }
        }
        // Ten seconds, the first budget, and what one job may exceed it by.
        let most = TASKS_PER_S * 11 + 2_000;
        assert!(read <= most, "{read} tasks were read");
        assert!(read >= most - 3 * 2_000, "{read}: the budget is used");
        assert_eq!(made.len(), 200, "each job has a sum");
        let (least, most) = (made.values().min(), made.values().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{least:?} {most:?}");
    }

    #[test]
    fn a_sum_of_the_last_second_is_not_made_again_and_an_old_one_is_forgotten() {
        let (mut kept, job) = (KeptUsages::default(), [(JobId(1), 3)]);
        let at = Duration::from_secs(100);
        assert_eq!(kept.due(&job, at), [(JobId(1), 3)]);
        kept.by_job.insert(JobId(1), KeptUsage { usage: v1::JobUsage::default(), at });
        assert!(kept.due(&job, at + FRESH / 2).is_empty());
        assert_eq!(kept.due(&job, at + FRESH), [(JobId(1), 3)]);
        // A job of a million tasks is summed once, and then all wait for twenty seconds.
        let huge = [(JobId(2), 1_000_000)];
        assert_eq!(kept.due(&huge, at + FRESH), [(JobId(2), 1_000_000)]);
        assert!(kept.due(&huge, at + FRESH + Duration::from_secs(18)).is_empty());
        assert_eq!(kept.due(&huge, at + FRESH + Duration::from_secs(21)).len(), 1);
        kept.due(&[], at + KEPT);
        assert!(kept.by_job.is_empty());
    }

    #[test]
    fn charges_and_samples_are_summed_over_the_tasks_that_a_node_is_charged_for() {
        let row = |index, state| {
            let mut row = TaskRow::never_placed(TaskId { job: JobId(1), index });
            row.charge.resources =
                Resources { cpu_millis: 100, memory_bytes: 1 << 20, ..Resources::default() };
            TaskRow { state, node: Some(NodeId(1)), ..row }
        };
        let sample = v1::Usage { cpu_millis: 30, memory_bytes: 5, ..v1::Usage::default() };
        let mut sum = v1::JobUsage::default();
        usage_add(&mut sum, &row(0, TaskState::Running), Some(&sample));
        usage_add(&mut sum, &row(1, TaskState::Running), Some(&sample));
        usage_add(&mut sum, &row(2, TaskState::Starting), None);
        usage_add(&mut sum, &row(3, TaskState::Dead), Some(&sample));
        usage_add(&mut sum, &row(4, TaskState::Pending), None);
        let expected = v1::JobUsage {
            charged: 3,
            charged_cpu_millis: 300,
            charged_memory_bytes: 3 << 20,
            sampled: 2,
            cpu_millis: 60,
            memory_bytes: 10,
        };
        assert_eq!(sum, expected);
    }
}
