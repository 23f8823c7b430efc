//! The sums of what jobs use, as last made.
//!
//! A sum reads every task of the job. Each view asks for a page of jobs every two seconds. So sums are kept for a
//! moment, and all views together read a bounded number of tasks a second. A sum that may not be made yet is the one
//! before, or absent.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_model::JobId;
use borough_proto::v1;
use parking_lot::Mutex;

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

impl JobUsages {
    /// Decides which of `jobs`, with their numbers of tasks, are summed at `now` (monotonic). Returns them with the
    /// tasks that are counted for each.
    pub fn due(&self, jobs: &[(JobId, u32)], now: Duration) -> Vec<(JobId, i64)> {
        self.0.lock().due(jobs, now)
    }

    /// Keeps a sum that has read `more` tasks than were counted: a smaller count leaves rows of tasks above it.
    pub fn put(&self, job: JobId, summed: KeptUsage, more: i64) {
        self.0.lock().put(job, summed, more);
    }

    /// The last sum of a job, if it is kept.
    pub fn of(&self, job: JobId) -> Option<v1::JobUsage> {
        self.0.lock().by_job.get(&job).map(|kept| kept.usage)
    }
}

#[derive(Debug, Default)]
struct KeptUsages {
    by_job: BTreeMap<JobId, KeptUsage>,
    /// Tasks that may be read now. Below 0: the last sums have read more.
    budget: i64,
    /// When the budget was last filled (monotonic). `None`: never.
    filled: Option<Duration>,
}

/// A sum over the tasks of a job.
#[derive(Clone, Copy, Debug)]
pub struct KeptUsage {
    pub usage: v1::JobUsage,
    /// When it was made (monotonic).
    pub at: Duration,
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

#[cfg(test)]
mod tests {
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
}
