//! The progress of a job while a verb waits for it, as a pure function of its rows.

use borough_client::{SeenJob, ServiceProgress, count_with_surge};
use borough_proto::v1::helper_status::State;
use borough_proto::v1::{HelperPhase, HelperStatus, Job, JobKind, JobState, StopReason, Task, TaskState};

use super::rollout::RolloutSeen;
use crate::output::{ExitView, nodes_text, ranges, tally, word};

/// The aim of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum Goal {
    /// Every task of a service is healthy and no other runs any more, or a batch job is over.
    Up,
    /// No task runs any more.
    Over,
    /// A later attempt of one task is healthy, or has done its work.
    Again(NextAttempt),
    /// Every task has a healthy attempt of this version.
    RolledOut { version: u32 },
}

impl Goal {
    /// What becomes of the change when a wait for it ends early.
    pub(super) fn goes_on(self) -> &'static str {
        match self {
            Self::Up => "the job goes on",
            Self::Over => "the stop goes on",
            Self::Again(_) => "the restart of the task goes on",
            Self::RolledOut { .. } => "the rollout goes on",
        }
    }
}

/// The next attempt of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) struct NextAttempt {
    pub(in crate::command) index: u32,
    /// The attempt that ends.
    pub(in crate::command) after: u64,
}

/// The progress towards a goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobProgress {
    Underway,
    Reached,
    /// It can no longer be reached; the text says why.
    Lost(String),
}

/// The rows of a job, as far as known, with what else a verb has seen of it.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownJob {
    pub(super) seen: SeenJob,
    /// Another user, who has stopped the job.
    pub(super) stopped_by: Option<String>,
    /// What was seen of the version that is rolled out, if that is the goal.
    pub(super) rollout: RolloutSeen,
}

/// Returns true if a helper runs instead of the command of a task: before it starts, or after it has ended.
pub(in crate::command) fn helper_instead(task: &Task) -> bool {
    let is_instead = |helper: &HelperStatus| {
        helper.state() == State::Running && matches!(helper.when(), HelperPhase::Before | HelperPhase::After)
    };
    task.helpers.iter().any(is_instead)
}

impl KnownJob {
    /// The rows of this job, without its tasks.
    pub(super) fn of(job: Job) -> Self {
        Self { seen: SeenJob { job, ..SeenJob::default() }, ..Self::default() }
    }

    /// Replaces an older row of this job. Returns true if it did.
    pub(super) fn task_changed(&mut self, task: Task) -> bool {
        if self.seen.is_news(&task) {
            self.rollout.visit(&task);
        }
        self.seen.task_changed(task)
    }

    /// The indexes of the tasks that surge.
    fn surging_indexes(&self) -> std::ops::Range<u32> {
        let end = count_with_surge(&self.seen.job);
        if self.seen.job.daemon.is_some() { end..end } else { self.seen.job.count..end }
    }

    fn in_state(&self, states: &[TaskState]) -> usize {
        self.seen.wanted().filter(|task| states.contains(&task.state())).count()
    }

    /// Counts the tasks that surge and have an attempt.
    pub(super) fn surging(&self) -> usize {
        let surging = self.seen.tasks.range(self.surging_indexes()).map(|(_, task)| task.state());
        surging.filter(|state| !matches!(state, TaskState::Dead | TaskState::Pending)).count()
    }

    /// Counts the tasks that are to surge and wait for a node. Tasks that were never placed have no row.
    pub(super) fn surge_unplaced(&self) -> u32 {
        let std::ops::Range { start: first, end } = self.surging_indexes();
        let waits = |task: &Task| match task.state() {
            TaskState::Pending => task.failures == 0,
            TaskState::Dead => !SeenJob::is_dead_for_good(task),
            _ => false,
        };
        let others = self.seen.tasks.range(first..end).filter(|(_, task)| !waits(task)).count();
        end.saturating_sub(first).saturating_sub(u32::try_from(others).unwrap_or(u32::MAX))
    }

    /// Counts the waiting tasks. Tasks that were never placed have no row.
    pub(super) fn pending(&self) -> usize {
        let count = usize::try_from(self.seen.job.count).unwrap_or(usize::MAX);
        count.saturating_sub(self.seen.wanted().count()) + self.in_state(&[TaskState::Pending])
    }

    /// Returns true if a task, or one that is to surge, waits for a node.
    pub(super) fn waits_for_node(&self) -> bool {
        self.pending() > 0 || self.surge_unplaced() > 0
    }

    /// The progress towards `goal`.
    pub(super) fn progress(&self, goal: Goal) -> JobProgress {
        let name = format!("{}/{}", self.seen.job.user, self.seen.job.name);
        if let Goal::Again(next) = goal {
            return self.again_progress(next, &name);
        }
        if let Goal::RolledOut { version } = goal
            && self.seen.job.state() == JobState::Running
        {
            return self.rollout_progress(version, &name);
        }
        match (goal, self.seen.job.state()) {
            (Goal::Over, JobState::Waiting | JobState::Running | JobState::Stopping) => JobProgress::Underway,
            (Goal::Over, _) | (Goal::Up | Goal::RolledOut { .. }, JobState::Succeeded) => {
                JobProgress::Reached
            }
            (Goal::Up | Goal::RolledOut { .. }, JobState::Failed) => {
                JobProgress::Lost(format!("{name} failed{}{}", self.worst(), self.failed_text()))
            }
            (Goal::Up | Goal::RolledOut { .. }, JobState::Stopping | JobState::Stopped) => {
                let by = self.stopped_by.as_ref().map(|user| format!(" by {user}"));
                JobProgress::Lost(format!("{name} was stopped meanwhile{}", by.unwrap_or_default()))
            }
            (Goal::Up, JobState::DependencyFailed) => {
                JobProgress::Lost(format!("{name} never starts: a job in its `after` failed"))
            }
            // Without tasks it never ends by itself, and there is nothing to wait for.
            (Goal::Up, JobState::Running)
                if self.seen.job.kind() == JobKind::Batch && self.seen.job.count == 0 =>
            {
                JobProgress::Reached
            }
            (Goal::Up, _) if self.seen.job.kind() == JobKind::Batch => JobProgress::Underway,
            (Goal::Up, JobState::Running) => self.up_progress(&name),
            _ => JobProgress::Underway,
        }
    }

    /// The task that `goal` is about.
    pub(super) fn task_of(&self, goal: Goal) -> Option<&Task> {
        if let Goal::Again(next) = goal { self.seen.tasks.get(&next.index) } else { None }
    }

    /// Returns true if the task waits for a node.
    pub(super) fn is_pending(&self, index: u32) -> bool {
        self.seen.tasks.get(&index).is_some_and(|task| task.state() == TaskState::Pending)
    }

    /// Returns true if it is an alloc set: its tasks hold places for those of other jobs.
    pub(super) fn is_set(&self) -> bool {
        self.seen.job.kind() == JobKind::AllocSet
    }

    /// Returns true if the goal waits for what the agent of a placed task does.
    pub(super) fn waits_for_agent(&self, goal: Goal) -> bool {
        let waits = |task: &Task| match task.state() {
            TaskState::Assigned | TaskState::Starting | TaskState::Stopping | TaskState::Releasing => true,
            TaskState::Running => !SeenJob::is_healthy(task) || helper_instead(task),
            _ => false,
        };
        match goal {
            Goal::Up | Goal::RolledOut { .. } | Goal::Over => self.seen.tasks.values().any(waits),
            Goal::Again(next) => self.seen.tasks.get(&next.index).is_some_and(waits),
        }
    }

    fn again_progress(&self, next: NextAttempt, name: &str) -> JobProgress {
        let NextAttempt { index, after } = next;
        let task = self.seen.tasks.get(&index);
        let done = |task: &Task| {
            task.state() == TaskState::Dead && task.exit.as_ref().and_then(|exit| exit.code) == Some(0)
        };
        if task.is_some_and(|task| (task.incarnation > after && SeenJob::is_healthy(task)) || done(task)) {
            return JobProgress::Reached;
        }
        if !matches!(self.seen.job.state(), JobState::Running) {
            let state = word(self.seen.job.state().as_str_name(), "JOB_STATE_");
            return JobProgress::Lost(format!(
                "task {name}/{index} does not start again: its job is {state}"
            ));
        }
        if index >= count_with_surge(&self.seen.job) {
            let count = tally(usize::try_from(self.seen.job.count).unwrap_or(usize::MAX), "task");
            return JobProgress::Lost(format!("task {name}/{index} is gone: its job has {count} by now"));
        }
        match task {
            Some(task) if SeenJob::is_dead_for_good(task) => {
                JobProgress::Lost(format!("task {name}/{index} is dead{}", Self::ended(task)))
            }
            // Its node is drained, tainted, or no longer matches.
            Some(task) if task.state() == TaskState::Dead && task.stop() == StopReason::NodeLeft => {
                JobProgress::Lost(format!(
                    "task {name}/{index} does not start again: its daemon job no longer serves its node"
                ))
            }
            _ => JobProgress::Underway,
        }
    }

    /// One task's state, in one line.
    fn again_text(&self, next: NextAttempt) -> String {
        let name = format!("{}/{}/{}", self.seen.job.user, self.seen.job.name, next.index);
        let Some(task) = self.seen.tasks.get(&next.index) else { return format!("{name}: pending") };
        let state = match task.state() {
            TaskState::Running if self.seen.job.kind() != JobKind::Batch && !SeenJob::is_healthy(task) => {
                "not healthy yet".to_owned()
            }
            state => word(state.as_str_name(), "TASK_STATE_"),
        };
        let node = Some(&task.node).filter(|node| !node.is_empty());
        let on = node.map(|node| format!(" on {node}")).unwrap_or_default();
        let failed = if task.failures > 0 && task.incarnation > next.after {
            Self::ended(task)
        } else {
            String::new()
        };
        format!("{name}: {state}{on}{failed}")
    }

    /// The progress of a service, with why it can no longer come up.
    pub(super) fn up_progress(&self, name: &str) -> JobProgress {
        match self.seen.service_progress() {
            ServiceProgress::Dead(task) => {
                JobProgress::Lost(format!("task {name}/{} is dead{}", task.index, Self::ended(task)))
            }
            ServiceProgress::Up => JobProgress::Reached,
            ServiceProgress::Underway => JobProgress::Underway,
        }
    }

    /// The state of the job, in one line.
    pub(super) fn text(&self, goal: Goal) -> String {
        let count = self.seen.job.count;
        if let Goal::Again(next) = goal {
            return self.again_text(next);
        }
        if let Goal::RolledOut { version } = goal {
            // Every task has the version, and one that failed before it may still fail.
            return if self.is_rolled_out(version) {
                self.text(Goal::Up)
            } else {
                self.rollout_text(version)
            };
        }
        let mut parts = match (goal, self.seen.job.kind()) {
            (Goal::Over, _) => {
                let left = self
                    .seen
                    .tasks
                    .values()
                    .filter(|task| !matches!(task.state(), TaskState::Dead | TaskState::Pending));
                match left.count() {
                    0 => vec!["no task left".to_owned()],
                    left => vec![format!("{} left", tally(left, "task"))],
                }
            }
            (Goal::Up, JobKind::Batch) if count == 0 => vec!["it has no tasks: its count is 0".to_owned()],
            (Goal::Up, JobKind::Batch) => vec![format!("{}/{count} done", self.succeeded())],
            _ => vec![format!("{}/{count} healthy", self.seen.healthy())],
        };
        if let Some(nodes) = self.seen.job.daemon.as_ref().and_then(nodes_text) {
            parts.push(nodes);
        }
        if self.seen.job.state() == JobState::Waiting {
            parts.push("waits for the jobs in its `after`".to_owned());
        }
        let begun = [TaskState::Held, TaskState::Assigned, TaskState::Starting];
        // The count of a daemon job follows its tasks: one beyond it may just have begun.
        let is_daemon = self.seen.job.kind() == JobKind::Daemon;
        let surplus = if is_daemon { 0 } else { self.seen.surplus() };
        let stopping = self.in_state(&[TaskState::Stopping, TaskState::Releasing]) + surplus;
        let running = self.in_state(&[TaskState::Running]);
        // A task of a batch job ends, and its health is no goal.
        let (running, how) = match self.seen.job.kind() {
            JobKind::Batch => (running, "running"),
            _ => (running.saturating_sub(self.seen.healthy()), "not healthy yet"),
        };
        for (number, word) in [
            (self.pending(), "pending"),
            (self.in_state(&begun), "starting"),
            (running, how),
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
        format!("{}/{}: {}", self.seen.job.user, self.seen.job.name, parts.join(", "))
    }

    fn succeeded(&self) -> usize {
        let ended_well = |task: &&Task| {
            let code = task.exit.as_ref().and_then(|exit| exit.code);
            task.state() == TaskState::Dead && code == Some(0)
        };
        self.seen.wanted().filter(ended_well).count()
    }

    /// The task with the most failures in a row.
    pub(super) fn failing(&self) -> Option<&Task> {
        let failing = self.seen.wanted().filter(|task| task.failures > 0 && !SeenJob::is_healthy(task));
        failing.max_by_key(|task| (task.failures, std::cmp::Reverse(task.index)))
    }

    /// A task of a service that runs and is not healthy: the one that has run for longest.
    pub(super) fn unhealthy(&self) -> Option<&Task> {
        if self.seen.job.kind() == JobKind::Batch {
            return None;
        }
        let runs = |task: &&Task| task.state() == TaskState::Running && !SeenJob::is_healthy(task);
        self.seen.wanted().filter(runs).min_by_key(|task| task.started_ms)
    }

    /// The task with the most failures in a row and how it ended; empty without failures.
    fn worst(&self) -> String {
        let Some(task) = self.failing() else { return String::new() };
        format!(": task {}{}", task.index, Self::ended(task).trim_start_matches(':'))
    }

    /// Which tasks have failed for good, if several have.
    fn failed_text(&self) -> String {
        let has_failed = |task: &&Task| {
            SeenJob::is_dead_for_good(task) && task.exit.as_ref().and_then(|exit| exit.code) != Some(0)
        };
        let failed: Vec<u32> = self.seen.wanted().filter(has_failed).map(|task| task.index).collect();
        match failed.len() {
            0 | 1 => String::new(),
            tasks => format!("; {} failed ({})", tally(tasks, "task"), ranges(&failed)),
        }
    }

    /// How the last attempt of a failing task ended.
    fn ended(task: &Task) -> String {
        let how = task.exit.clone().map(|exit| ExitView::from(exit).text()).unwrap_or_default();
        let how = how.replacen("stopped: ", "a stop: ", 1);
        let times = if task.failures < 2 {
            String::new()
        } else {
            format!(", the last of {} failures in a row", task.failures)
        };
        format!(": ended with {how}{times}")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use borough_proto::v1::{EndReason, Exit, Health};

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
        KnownJob::of(job)
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
        assert!(!known.seen.job_changed(Job { id: "j2".to_owned(), revision: 9, ..Job::default() }));
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
        known.seen.job.count = 0;
        assert_eq!(known.progress(Goal::Up), JobProgress::Underway, "the last one runs");
    }

    #[test]
    fn a_crash_is_shown_while_waiting_and_at_the_end() {
        let mut known = service(1);
        let exit = Exit { reason: EndReason::Exited.into(), code: Some(3), ..Exit::default() };
        let failed = Task { exit: Some(exit), failures: 4, ..task(0, TaskState::Pending, Health::Unknown) };
        known.task_changed(failed.clone());
        let text = known.text(Goal::Up);
        assert_eq!(
            text,
            "alice/web: 0/1 healthy, 1 pending, task 0 ended with exit code 3, the last of 4 failures in a row"
        );
        known.task_changed(Task { state: TaskState::Dead.into(), revision: 2, ..failed });
        let why =
            "task alice/web/0 is dead: ended with exit code 3, the last of 4 failures in a row".to_owned();
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
    fn a_daemon_task_whose_node_is_not_served_any_more_is_not_waited_for() {
        let mut known = service(1);
        let exit = Exit { reason: EndReason::Stopped.into(), signal: Some(15), ..Exit::default() };
        let stop = StopReason::NodeLeft.into();
        known.task_changed(Task { exit: Some(exit), stop, ..task(0, TaskState::Dead, Health::Unknown) });
        let lost =
            "task alice/web/0 does not start again: its daemon job no longer serves its node".to_owned();
        let goal = Goal::Again(NextAttempt { index: 0, after: 4 });
        assert_eq!(known.progress(goal), JobProgress::Lost(lost));
    }

    #[test]
    fn a_stopped_task_is_waited_for_until_a_later_attempt_is_healthy() {
        let mut known = service(1);
        let goal = Goal::Again(NextAttempt { index: 0, after: 4 });
        let of = |state, health, incarnation, revision| Task {
            incarnation,
            revision,
            node: "n1".to_owned(),
            ..task(0, state, health)
        };
        known.task_changed(of(TaskState::Running, Health::Healthy, 4, 1));
        assert_eq!(known.progress(goal), JobProgress::Underway, "it has not begun to stop");
        known.task_changed(of(TaskState::Stopping, Health::Unknown, 4, 2));
        assert_eq!(known.text(goal), "alice/web/0: stopping on n1");
        known.task_changed(of(TaskState::Running, Health::Unknown, 5, 3));
        assert_eq!(known.text(goal), "alice/web/0: not healthy yet on n1");
        assert_eq!(known.progress(goal), JobProgress::Underway);
        known.task_changed(of(TaskState::Running, Health::Healthy, 5, 4));
        assert_eq!(known.progress(goal), JobProgress::Reached);
        known.task_changed(of(TaskState::Pending, Health::Unknown, 5, 5));
        assert!(known.is_pending(0) && known.progress(goal) == JobProgress::Underway);
        known.seen.job.count = 0;
        let gone = JobProgress::Lost("task alice/web/0 is gone: its job has 0 tasks by now".to_owned());
        assert_eq!(known.progress(goal), gone);
        known.seen.job.state = JobState::Stopping.into();
        let over = "task alice/web/0 does not start again: its job is stopping".to_owned();
        assert_eq!(known.progress(goal), JobProgress::Lost(over));
    }

    #[test]
    fn a_batch_job_is_up_when_it_has_succeeded() {
        let mut known = service(3);
        known.seen.job.kind = JobKind::Batch.into();
        let exit = Exit { reason: EndReason::Exited.into(), code: Some(0), ..Exit::default() };
        known.task_changed(Task { exit: Some(exit), ..task(0, TaskState::Dead, Health::Unknown) });
        assert_eq!(known.progress(Goal::Up), JobProgress::Underway);
        assert_eq!(known.text(Goal::Up), "alice/web: 1/3 done, 2 pending");
        known.task_changed(task(1, TaskState::Running, Health::Unknown));
        known.task_changed(task(2, TaskState::Running, Health::Healthy));
        assert_eq!(known.text(Goal::Up), "alice/web: 1/3 done, 2 running");
        for (state, reached) in [
            (JobState::Succeeded, true),
            (JobState::Failed, false),
            (JobState::Stopped, false),
            (JobState::DependencyFailed, false),
        ] {
            known.seen.job.state = state.into();
            assert_eq!(known.progress(Goal::Up) == JobProgress::Reached, reached, "{state:?}");
            assert_eq!(known.progress(Goal::Over), JobProgress::Reached);
        }
    }
}
