//! The progress deadline of a wait for a service: how long no further task may become healthy.

use std::time::Duration;

use borough_model::job::defaults::PROGRESS_DEADLINE_MS;
use borough_proto::v1::{JobKind, JobSpec, JobState};

use super::progress::{Goal, KnownJob};

/// How long a verb waits. By default it waits as long as the job can still reach its goal and makes progress.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::command) struct WaitLimits {
    /// The whole wait.
    pub(in crate::command) timeout: Option<Duration>,
    /// Without progress. Absent: the deadline of the job.
    pub(in crate::command) progress: Option<Duration>,
}

impl From<Option<Duration>> for WaitLimits {
    fn from(timeout: Option<Duration>) -> Self {
        Self { timeout, progress: None }
    }
}

impl WaitLimits {
    /// The progress deadline of a job with this spec.
    pub(super) fn progress_deadline(&self, spec: Option<&JobSpec>) -> Duration {
        let of_job = spec.and_then(|spec| spec.progress_deadline_ms).unwrap_or(PROGRESS_DEADLINE_MS);
        self.progress.unwrap_or_else(|| Duration::from_millis(of_job))
    }
}

/// Measures the time since the last progress of a job. Times are of one monotonic clock.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressTimer {
    since: Duration,
    /// The most healthy tasks so far.
    healthy: usize,
    /// The fewest tasks so far that a smaller count no longer wants.
    surplus: Option<usize>,
}

impl ProgressTimer {
    pub(super) fn new(now: Duration) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Returns true if the deadline runs now.
    pub(super) fn applies(known: &KnownJob, goal: Goal) -> bool {
        goal == Goal::Up
            && known.seen.job.kind() != JobKind::Batch
            && known.seen.job.state() == JobState::Running
    }

    /// Returns the time until the deadline passes; `None` if it has passed. Each further healthy task, and each further
    /// end of a surplus task, starts it again. It does not run while the job waits for other jobs, nor for batch work.
    pub(super) fn left(
        &mut self,
        known: &KnownJob,
        goal: Goal,
        deadline: Duration,
        now: Duration,
    ) -> Option<Duration> {
        let (healthy, surplus) = (known.seen.healthy(), known.seen.surplus());
        let applies = Self::applies(known, goal);
        let moved = healthy > self.healthy || self.surplus.is_none_or(|least| surplus < least);
        if !applies || moved {
            self.since = now;
            self.healthy = self.healthy.max(healthy);
            self.surplus = Some(surplus);
        }
        let end = self.since.saturating_add(deadline);
        end.checked_sub(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::super::progress::tests::{service, task};
    use super::*;
    use borough_proto::v1::{Health, Task, TaskState};

    const DEADLINE: Duration = Duration::from_secs(10);

    fn left(timer: &mut ProgressTimer, known: &KnownJob, now_s: u64) -> Option<u64> {
        timer.left(known, Goal::Up, DEADLINE, Duration::from_secs(now_s)).map(|left| left.as_secs())
    }

    #[test]
    fn each_further_healthy_task_starts_the_deadline_again_and_a_crash_does_not() {
        let mut known = service(3);
        let mut timer = ProgressTimer::new(Duration::from_secs(100));
        assert_eq!(left(&mut timer, &known, 100), Some(10));
        assert_eq!(left(&mut timer, &known, 109), Some(1));
        known.task_changed(task(0, TaskState::Running, Health::Healthy));
        assert_eq!(left(&mut timer, &known, 109), Some(10));
        // It fails and becomes healthy again: that is no progress.
        known.task_changed(Task { revision: 2, ..task(0, TaskState::Pending, Health::Unknown) });
        assert_eq!(left(&mut timer, &known, 112), Some(7));
        known.task_changed(Task { revision: 3, ..task(0, TaskState::Running, Health::Healthy) });
        assert_eq!(left(&mut timer, &known, 118), Some(1));
        assert_eq!(left(&mut timer, &known, 119), None);
    }

    #[test]
    fn tasks_that_end_are_progress_and_waiting_jobs_and_batch_work_have_no_deadline() {
        let mut known = service(0);
        known.task_changed(task(0, TaskState::Stopping, Health::Unknown));
        let mut timer = ProgressTimer::new(Duration::ZERO);
        assert_eq!(left(&mut timer, &known, 0), Some(10));
        assert_eq!(left(&mut timer, &known, 9), Some(1));
        known.task_changed(Task { revision: 2, ..task(0, TaskState::Dead, Health::Unknown) });
        assert_eq!(left(&mut timer, &known, 9), Some(10));
        known.seen.job.state = JobState::Waiting.into();
        assert_eq!(left(&mut timer, &known, 90), Some(10));
        known.seen.job.state = JobState::Running.into();
        assert_eq!(left(&mut timer, &known, 99), Some(1));
        assert_eq!(left(&mut timer, &known, 100), None);
        known.seen.job.kind = JobKind::Batch.into();
        assert_eq!(left(&mut timer, &known, 500), Some(10));
    }

    #[test]
    fn the_option_counts_before_the_job_and_the_job_before_ten_minutes() {
        let spec = JobSpec { progress_deadline_ms: Some(30_000), ..JobSpec::default() };
        let of = |limits: WaitLimits, spec| limits.progress_deadline(spec).as_secs();
        assert_eq!(of(WaitLimits::default(), None), 600);
        assert_eq!(of(WaitLimits::default(), Some(&spec)), 30);
        let option = WaitLimits { progress: Some(Duration::from_secs(5)), timeout: None };
        assert_eq!(of(option, Some(&spec)), 5);
    }
}
