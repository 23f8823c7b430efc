//! The rows of a job as a watch reports them, and what they say of its progress. Pure.

use std::collections::BTreeMap;

use borough_proto::v1::{EndReason, Health, Job, JobKind, JobState, StopReason, Task, TaskState};

/// How many indexes the tasks of a job have, with those that surge. A daemon job keeps those of nodes that are gone.
pub fn count_with_surge(job: &Job) -> u32 {
    if let Some(daemon) = &job.daemon {
        return daemon.indexes;
    }
    // An older gateway says only what surges for a rollout.
    let for_rollout = job.rollout.as_ref().map_or(0, |rollout| rollout.surge);
    job.count.saturating_add(job.surge.max(for_rollout))
}

/// The rows of a job, as far as known.
#[derive(Clone, Debug, Default)]
pub struct SeenJob {
    pub job: Job,
    /// By index. Tasks that were never placed have no row.
    pub tasks: BTreeMap<u32, Task>,
}

impl SeenJob {
    /// Replaces an older row of this job. Returns true if it did.
    pub fn job_changed(&mut self, job: Job) -> bool {
        let newer = job.id == self.job.id && job.revision > self.job.revision;
        if newer {
            self.job = job;
        }
        newer
    }

    /// Returns true if the row is of this job and newer than the known one.
    pub fn is_news(&self, task: &Task) -> bool {
        let known = self.tasks.get(&task.index);
        task.job_id == self.job.id && known.is_none_or(|known| task.revision > known.revision)
    }

    /// Replaces an older row of this job. Returns true if it did.
    pub fn task_changed(&mut self, task: Task) -> bool {
        let newer = self.is_news(&task);
        if newer {
            self.tasks.insert(task.index, task);
        }
        newer
    }

    /// The tasks that the job is to have.
    pub fn wanted(&self) -> impl Iterator<Item = &Task> {
        let end = if self.job.daemon.is_some() { count_with_surge(&self.job) } else { self.job.count };
        let tasks = self.tasks.range(..end).map(|(_, task)| task);
        // An index of a daemon job is kept when its node goes, and then no task is wanted there.
        tasks.filter(|task| task.state() != TaskState::Dead || task.stop() != StopReason::NodeLeft)
    }

    /// Returns true if its agent has seen it run for a while and its check passes, if it has one. A task that has
    /// merely not crashed yet does not count.
    pub fn is_healthy(task: &Task) -> bool {
        task.state() == TaskState::Running && task.health() == Health::Healthy
    }

    /// Returns true if the task will not start again. A task stopped by a shrink starts again when the job grows.
    pub fn is_dead_for_good(task: &Task) -> bool {
        let stopped = task.exit.as_ref().is_some_and(|exit| exit.reason() == EndReason::Stopped);
        task.state() == TaskState::Dead && task.stop() == StopReason::Unspecified && !stopped
    }

    /// Counts the healthy tasks among those wanted.
    pub fn healthy(&self) -> usize {
        self.wanted().filter(|task| Self::is_healthy(task)).count()
    }

    /// Counts the tasks that a smaller count no longer wants, and that have not ended yet. A lost task does not count:
    /// its node may never report its end.
    pub fn surplus(&self) -> usize {
        let beyond = self.tasks.range(count_with_surge(&self.job)..).map(|(_, task)| task.state());
        beyond
            .filter(|state| !matches!(state, TaskState::Dead | TaskState::Pending | TaskState::Lost))
            .count()
    }

    /// How a service stands: whether every task is healthy and no other runs any more.
    pub fn service_progress(&self) -> ServiceProgress<'_> {
        if let Some(task) = self.wanted().find(|task| Self::is_dead_for_good(task)) {
            return ServiceProgress::Dead(task);
        }
        let all = usize::try_from(self.job.count).unwrap_or(usize::MAX);
        // The controller has given a task to every node that it can.
        let is_served = self.job.daemon.as_ref().is_none_or(|daemon| daemon.looked && daemon.left == 0);
        let is_up = is_served && self.healthy() >= all && self.surplus() == 0;
        if is_up { ServiceProgress::Up } else { ServiceProgress::Underway }
    }

    /// What the job has come to, if it has come to something that `goal` waits for or that rules it out.
    pub fn outcome(&self, goal: JobGoal) -> Option<WaitOutcome> {
        match (self.job.state(), goal) {
            (JobState::Succeeded, _) => Some(WaitOutcome::Succeeded),
            (JobState::Failed, _) => Some(WaitOutcome::Failed),
            (JobState::Stopped, _) | (JobState::Stopping, JobGoal::Up) => Some(WaitOutcome::Stopped),
            (JobState::DependencyFailed, _) => Some(WaitOutcome::DependencyFailed),
            (JobState::Running, JobGoal::Up) if self.job.kind() != JobKind::Batch => {
                match self.service_progress() {
                    ServiceProgress::Up => Some(WaitOutcome::Healthy),
                    ServiceProgress::Dead(task) => Some(WaitOutcome::TaskDead { index: task.index }),
                    ServiceProgress::Underway => None,
                }
            }
            _ => None,
        }
    }
}

/// How a service stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceProgress<'s> {
    Underway,
    /// Every task is healthy, and no other runs any more.
    Up,
    /// This task will not start again.
    Dead(&'s Task),
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobGoal {
    /// Every task of a service is healthy and no other runs any more, or a batch job is over.
    Up,
    /// The job has ended, and none of its tasks runs any more.
    Over,
}

/// What a job has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Every task of the service is healthy.
    Healthy,
    /// The batch job is done.
    Succeeded,
    Failed,
    /// A task of the service will not start again. The job itself goes on.
    TaskDead {
        index: u32,
    },
    /// Somebody has stopped it.
    Stopped,
    /// A job in its `after` has failed, so it never starts.
    DependencyFailed,
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::Exit;

    use super::*;

    fn seen(kind: JobKind, state: JobState, count: u32) -> SeenJob {
        let job =
            Job { id: "j1".to_owned(), kind: kind.into(), state: state.into(), count, ..Job::default() };
        SeenJob { job, tasks: BTreeMap::new() }
    }

    fn task(index: u32, state: TaskState, health: Health) -> Task {
        let (state, health) = (state.into(), health.into());
        Task { job_id: "j1".to_owned(), index, state, health, revision: 1, ..Task::default() }
    }

    #[test]
    fn a_service_is_healthy_when_each_task_is_and_no_other_runs() {
        let mut seen = seen(JobKind::Service, JobState::Running, 2);
        seen.task_changed(task(0, TaskState::Running, Health::Healthy));
        assert_eq!(seen.outcome(JobGoal::Up), None);
        seen.task_changed(task(1, TaskState::Running, Health::Healthy));
        assert_eq!(seen.outcome(JobGoal::Up), Some(WaitOutcome::Healthy));
        assert_eq!(seen.outcome(JobGoal::Over), None);
        seen.task_changed(task(2, TaskState::Stopping, Health::Unknown));
        assert_eq!(seen.outcome(JobGoal::Up), None, "a task of before still runs");
        let dead = Task { revision: 2, ..task(1, TaskState::Dead, Health::Unknown) };
        let exit = Exit { reason: EndReason::Exited.into(), code: Some(1), ..Exit::default() };
        seen.task_changed(Task { exit: Some(exit), ..dead });
        assert_eq!(seen.outcome(JobGoal::Up), Some(WaitOutcome::TaskDead { index: 1 }));
    }

    #[test]
    fn a_batch_job_is_waited_for_until_it_is_over() {
        let mut seen = seen(JobKind::Batch, JobState::Running, 1);
        seen.task_changed(task(0, TaskState::Running, Health::Healthy));
        assert_eq!(seen.outcome(JobGoal::Up), None);
        for (state, outcome) in [
            (JobState::Succeeded, WaitOutcome::Succeeded),
            (JobState::Failed, WaitOutcome::Failed),
            (JobState::Stopped, WaitOutcome::Stopped),
            (JobState::DependencyFailed, WaitOutcome::DependencyFailed),
        ] {
            seen.job.state = state.into();
            assert_eq!(seen.outcome(JobGoal::Up), Some(outcome));
            assert_eq!(seen.outcome(JobGoal::Over), Some(outcome));
        }
        seen.job.state = JobState::Stopping.into();
        assert_eq!(seen.outcome(JobGoal::Over), None, "its tasks still end");
    }
}
