//! The progress of a job while a verb waits for it, as a pure function of its rows.

use std::collections::BTreeMap;

use borough_proto::v1::{EndReason, Health, Job, JobKind, JobState, StopReason, Task, TaskState};

use crate::output::{ExitView, tally};

/// The aim of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// Every task of a service is healthy and no other runs any more, or a batch job is over.
    Up,
    /// No task runs any more.
    Over,
}

/// The progress towards a goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobProgress {
    Underway,
    Reached,
    /// It can no longer be reached; the text says why.
    Lost(String),
}

/// The rows of a job, as far as known.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownJob {
    pub(super) job: Job,
    pub(super) tasks: BTreeMap<u32, Task>,
}

impl KnownJob {
    /// Replaces an older row of this job. Returns true if it did.
    pub(super) fn job_changed(&mut self, job: Job) -> bool {
        let newer = job.id == self.job.id && job.revision > self.job.revision;
        if newer {
            self.job = job;
        }
        newer
    }

    /// Replaces an older row of this job. Returns true if it did.
    pub(super) fn task_changed(&mut self, task: Task) -> bool {
        let known = self.tasks.get(&task.index);
        let newer = task.job_id == self.job.id && known.is_none_or(|known| task.revision > known.revision);
        if newer {
            self.tasks.insert(task.index, task);
        }
        newer
    }

    fn wanted(&self) -> impl Iterator<Item = &Task> {
        self.tasks.range(..self.job.count).map(|(_, task)| task)
    }

    /// Returns true if its agent has seen it run for a while and its check passes, if it has one. A task that has
    /// merely not crashed yet does not count.
    fn is_healthy(task: &Task) -> bool {
        task.state() == TaskState::Running && task.health() == Health::Healthy
    }

    /// Returns true if the task will not start again. A task stopped by a shrink starts again when the job grows.
    fn is_dead_for_good(&self, task: &Task) -> bool {
        let stopped = task.exit.as_ref().is_some_and(|exit| exit.reason() == EndReason::Stopped);
        task.state() == TaskState::Dead && task.stop() == StopReason::Unspecified && !stopped
    }

    fn in_state(&self, states: &[TaskState]) -> usize {
        self.wanted().filter(|task| states.contains(&task.state())).count()
    }

    /// Counts the tasks that a smaller count no longer wants, and that have not ended yet. A lost task does not count:
    /// its node may never report its end.
    pub(super) fn surplus(&self) -> usize {
        let beyond = self.tasks.range(self.job.count..).map(|(_, task)| task.state());
        beyond
            .filter(|state| !matches!(state, TaskState::Dead | TaskState::Pending | TaskState::Lost))
            .count()
    }

    /// Counts the waiting tasks. Tasks that were never placed have no row.
    pub(super) fn pending(&self) -> usize {
        let count = usize::try_from(self.job.count).unwrap_or(usize::MAX);
        count.saturating_sub(self.wanted().count()) + self.in_state(&[TaskState::Pending])
    }

    pub(super) fn healthy(&self) -> usize {
        self.wanted().filter(|task| Self::is_healthy(task)).count()
    }

    /// The progress towards `goal`.
    pub(super) fn progress(&self, goal: Goal) -> JobProgress {
        let name = format!("{}/{}", self.job.user, self.job.name);
        match (goal, self.job.state()) {
            (Goal::Over, JobState::Waiting | JobState::Running | JobState::Stopping) => JobProgress::Underway,
            (Goal::Over, _) | (Goal::Up, JobState::Succeeded) => JobProgress::Reached,
            (Goal::Up, JobState::Failed) => JobProgress::Lost(format!("{name} failed{}", self.worst())),
            (Goal::Up, JobState::Stopping | JobState::Stopped) => {
                JobProgress::Lost(format!("{name} was stopped by another user or program"))
            }
            (Goal::Up, JobState::DependencyFailed) => {
                JobProgress::Lost(format!("{name} never starts: a job in its `after` failed"))
            }
            (Goal::Up, _) if self.job.kind() == JobKind::Batch => JobProgress::Underway,
            (Goal::Up, JobState::Running) => self.service_progress(&name),
            (Goal::Up, _) => JobProgress::Underway,
        }
    }

    fn service_progress(&self, name: &str) -> JobProgress {
        let dead = self.wanted().find(|task| self.is_dead_for_good(task));
        if let Some(task) = dead {
            return JobProgress::Lost(format!("task {name}/{} is dead{}", task.index, self.worst()));
        }
        let all = usize::try_from(self.job.count).unwrap_or(usize::MAX);
        let reached = self.healthy() >= all && self.surplus() == 0;
        if reached { JobProgress::Reached } else { JobProgress::Underway }
    }

    /// The state of the job, in one line.
    pub(super) fn text(&self, goal: Goal) -> String {
        let count = self.job.count;
        let mut parts = match (goal, self.job.kind()) {
            (Goal::Over, _) => {
                let left = self
                    .tasks
                    .values()
                    .filter(|task| !matches!(task.state(), TaskState::Dead | TaskState::Pending));
                vec![format!("{} left", tally(left.count(), "task"))]
            }
            (Goal::Up, JobKind::Batch) => vec![format!("{}/{count} done", self.succeeded())],
            (Goal::Up, _) => vec![format!("{}/{count} healthy", self.healthy())],
        };
        if self.job.state() == JobState::Waiting {
            parts.push("waits for the jobs in its `after`".to_owned());
        }
        let begun = [TaskState::Held, TaskState::Assigned, TaskState::Starting];
        let stopping = self.in_state(&[TaskState::Stopping, TaskState::Releasing]) + self.surplus();
        for (number, word) in [
            (self.pending(), "pending"),
            (self.in_state(&begun), "starting"),
            (self.in_state(&[TaskState::Running]).saturating_sub(self.healthy()), "not healthy yet"),
            (stopping, "stopping"),
            (self.in_state(&[TaskState::Lost]), "lost"),
        ] {
            if number > 0 && goal == Goal::Up {
                parts.push(format!("{number} {word}"));
            }
        }
        let failing = self.worst();
        if goal == Goal::Up && !failing.is_empty() {
            parts.push(failing.trim_start_matches(": ").to_owned());
        }
        format!("{}/{}: {}", self.job.user, self.job.name, parts.join(", "))
    }

    fn succeeded(&self) -> usize {
        let ended_well = |task: &&Task| {
            let code = task.exit.as_ref().and_then(|exit| exit.code);
            task.state() == TaskState::Dead && code == Some(0)
        };
        self.wanted().filter(ended_well).count()
    }

    /// The task with the most failures in a row.
    pub(super) fn failing(&self) -> Option<&Task> {
        let failing = self.wanted().filter(|task| task.failures > 0 && !Self::is_healthy(task));
        failing.max_by_key(|task| (task.failures, std::cmp::Reverse(task.index)))
    }

    /// The task with the most failures in a row and how it ended; empty without failures.
    fn worst(&self) -> String {
        let Some(task) = self.failing() else { return String::new() };
        let how = task.exit.clone().map(|exit| ExitView::from(exit).text()).unwrap_or_default();
        let times = if task.failures == 1 { String::new() } else { format!(", {} times", task.failures) };
        format!(": task {} ended with {how}{times}", task.index)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use borough_proto::v1::Exit;

    use super::*;

    pub(crate) fn service(count: u32) -> KnownJob {
        let job = Job {
            id: "j1".to_owned(),
            user: "alice".to_owned(),
            name: "web".to_owned(),
            count,
            state: JobState::Running.into(),
            kind: JobKind::Service.into(),
            revision: 1,
            ..Job::default()
        };
        KnownJob { job, tasks: BTreeMap::new() }
    }

    pub(crate) fn task(index: u32, state: TaskState, health: Health) -> Task {
        Task {
            job_id: "j1".to_owned(),
            index,
            state: state.into(),
            health: health.into(),
            revision: 1,
            ..Task::default()
        }
    }

    #[test]
    fn a_service_is_up_when_every_task_is_healthy() {
        let mut known = service(2);
        assert_eq!(known.text(Goal::Up), "alice/web: 0/2 healthy, 2 pending");
        known.task_changed(task(0, TaskState::Running, Health::Healthy));
        known.task_changed(task(1, TaskState::Running, Health::Unknown));
        assert_eq!(known.progress(Goal::Up), JobProgress::Underway);
        assert_eq!(known.text(Goal::Up), "alice/web: 1/2 healthy, 1 not healthy yet");
        known.task_changed(Task { revision: 2, ..task(1, TaskState::Running, Health::Healthy) });
        assert_eq!(known.progress(Goal::Up), JobProgress::Reached);
        assert_eq!(service(0).progress(Goal::Up), JobProgress::Reached);
    }

    #[test]
    fn older_rows_and_those_of_other_jobs_are_not_taken() {
        let mut known = service(1);
        assert!(known.task_changed(Task { revision: 5, ..task(0, TaskState::Running, Health::Healthy) }));
        assert!(!known.task_changed(task(0, TaskState::Pending, Health::Unknown)));
        let other =
            Task { job_id: "j2".to_owned(), revision: 9, ..task(0, TaskState::Dead, Health::Unknown) };
        assert!(!known.task_changed(other));
        assert!(!known.job_changed(Job { id: "j2".to_owned(), revision: 9, ..Job::default() }));
        assert_eq!(known.progress(Goal::Up), JobProgress::Reached);
    }

    #[test]
    fn a_smaller_service_is_up_when_the_other_tasks_have_ended() {
        let mut known = service(1);
        known.task_changed(task(0, TaskState::Running, Health::Healthy));
        known.task_changed(task(1, TaskState::Stopping, Health::Unknown));
        known.task_changed(task(2, TaskState::Running, Health::Healthy));
        known.task_changed(task(3, TaskState::Lost, Health::Unknown));
        assert_eq!(known.progress(Goal::Up), JobProgress::Underway);
        assert_eq!(known.text(Goal::Up), "alice/web: 1/1 healthy, 2 stopping");
        for index in [1, 2] {
            let ended = task(index, TaskState::Dead, Health::Unknown);
            known.task_changed(Task { revision: 2, ..ended });
        }
        assert_eq!(known.progress(Goal::Up), JobProgress::Reached);
        known.job.count = 0;
        assert_eq!(known.progress(Goal::Up), JobProgress::Underway, "the last one runs");
    }

    #[test]
    fn a_crash_is_shown_while_waiting_and_at_the_end() {
        let mut known = service(1);
        let exit = Exit { reason: EndReason::Exited.into(), code: Some(3), ..Exit::default() };
        let failed = Task { exit: Some(exit), failures: 4, ..task(0, TaskState::Pending, Health::Unknown) };
        known.task_changed(failed.clone());
        let text = known.text(Goal::Up);
        assert_eq!(text, "alice/web: 0/1 healthy, 1 pending, task 0 ended with exit code 3, 4 times");
        known.task_changed(Task { state: TaskState::Dead.into(), revision: 2, ..failed });
        let why = "task alice/web/0 is dead: task 0 ended with exit code 3, 4 times".to_owned();
        assert_eq!(known.progress(Goal::Up), JobProgress::Lost(why));
    }

    #[test]
    fn a_task_that_a_shrink_stopped_comes_back() {
        let mut known = service(1);
        let exit = Exit { reason: EndReason::Stopped.into(), signal: Some(15), ..Exit::default() };
        let stop = StopReason::JobShrunk.into();
        known.task_changed(Task { exit: Some(exit), stop, ..task(0, TaskState::Dead, Health::Unknown) });
        assert_eq!(known.progress(Goal::Up), JobProgress::Underway);
    }

    #[test]
    fn a_batch_job_is_up_when_it_has_succeeded() {
        let mut known = service(3);
        known.job.kind = JobKind::Batch.into();
        let exit = Exit { reason: EndReason::Exited.into(), code: Some(0), ..Exit::default() };
        known.task_changed(Task { exit: Some(exit), ..task(0, TaskState::Dead, Health::Unknown) });
        assert_eq!(known.progress(Goal::Up), JobProgress::Underway);
        assert_eq!(known.text(Goal::Up), "alice/web: 1/3 done, 2 pending");
        for (state, reached) in [
            (JobState::Succeeded, true),
            (JobState::Failed, false),
            (JobState::Stopped, false),
            (JobState::DependencyFailed, false),
        ] {
            known.job.state = state.into();
            assert_eq!(known.progress(Goal::Up) == JobProgress::Reached, reached, "{state:?}");
            assert_eq!(known.progress(Goal::Over), JobProgress::Reached);
        }
    }
}
