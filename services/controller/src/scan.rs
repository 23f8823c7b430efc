//! Examines the tasks of a job in parts: a job may have a hundred thousand of them.

use borough_model::job::JobState;
use borough_model::{JobId, JobRow, TaskRow, TaskState};
use borough_store::mirror::MirrorState;

use crate::daemon::DaemonScan;
use crate::decide::{ControllerAction, dependency_actions, unasked};
use crate::rollout::RolloutScan;
use crate::surge::SurgeScan;

/// The times of the cell by which it is looked at, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LookTimes {
    pub now_ms: i64,
    /// Since when somebody has looked without a break. Before that, nobody has let a rollout make progress.
    pub watched_since_ms: i64,
}

impl LookTimes {
    /// A look at `now_ms` while no agent can report: nothing can be seen to make progress.
    pub(crate) fn unheard(now_ms: i64) -> Self {
        Self { now_ms, watched_since_ms: now_ms }
    }

    /// A look at `now_ms`. After more than `break_ms` without one, nobody has looked.
    pub(crate) fn next(self, now_ms: i64, break_ms: i64) -> Self {
        let is_break = now_ms.saturating_sub(self.now_ms) > break_ms;
        let watched_since_ms = if is_break { now_ms } else { self.watched_since_ms };
        Self { now_ms, watched_since_ms }
    }
}

/// How far the examination of a job has come, and what it has seen. Rows may change between two parts: a change marks
/// the job for another examination, and each action looks again in its own transaction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobScan {
    pub job: JobId,
    /// The revision of the job's row that the examination is about.
    revision: u64,
    /// The last task that was visited.
    after: Option<u32>,
    /// A task is left of a job that is stopping.
    is_alive: bool,
    /// The job does not want a task that was not asked to stop.
    is_unwanted: bool,
    /// The job wants a task that it had given up.
    is_wanted_again: bool,
    /// The examination of its rollout, if one goes on.
    rollout: Option<RolloutScan>,
    /// The examination of the nodes, if it is a daemon job and they are due.
    daemon: Option<DaemonScan>,
    /// The examination of what surges for moves of its tasks, if anything does.
    surge: Option<SurgeScan>,
}

/// What a part of an examination has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanStep {
    /// Tasks that were visited.
    pub visited: usize,
    /// What to do for the job; `None`: the examination goes on.
    pub actions: Option<Vec<ControllerAction>>,
}

impl JobScan {
    /// Begins with the first task of a job.
    pub(crate) fn begin(state: &MirrorState, row: &JobRow, times: LookTimes) -> Self {
        Self {
            job: row.id,
            revision: row.revision,
            after: None,
            is_alive: false,
            is_unwanted: false,
            is_wanted_again: false,
            rollout: RolloutScan::begin(state, row, times).filter(|_| row.state == JobState::Running),
            daemon: None,
            surge: SurgeScan::begin(state, row, times.now_ms).filter(|_| row.state == JobState::Running),
        }
    }

    /// The same, with a look at the nodes if it is a daemon job.
    pub(crate) fn with_nodes(self, state: &MirrorState, row: &JobRow) -> Self {
        let daemon = DaemonScan::begin(state, row).filter(|_| row.state == JobState::Running);
        Self { daemon, ..self }
    }

    /// Visits the next tasks, at most `most`. It begins again if the row of the job has changed.
    pub(crate) fn advance(&mut self, state: &MirrorState, most: usize, times: LookTimes) -> ScanStep {
        let over = |visited, actions| ScanStep { visited, actions: Some(actions) };
        let Some(row) = state.jobs().get(&self.job) else { return over(0, Vec::new()) };
        if row.revision != self.revision {
            let again = Self::begin(state, row, times);
            *self = if self.daemon.is_some() { again.with_nodes(state, row) } else { again };
        }
        if row.state == JobState::Waiting {
            return over(0, dependency_actions(state, row));
        }
        let mut visited = 0;
        for task in state.job_tasks_behind(self.job, self.after) {
            if visited >= most {
                return ScanStep { visited, actions: None };
            }
            visited += 1;
            self.after = Some(task.id.index);
            self.visit(row, task);
            if let Some(rollout) = &mut self.rollout {
                rollout.visit(state, task);
            }
            if let Some(daemon) = &mut self.daemon {
                daemon.visit_task(state, task);
            }
            if let Some(surge) = &mut self.surge {
                surge.visit(state, task);
            }
            if self.is_decided(row.state) {
                break;
            }
        }
        if let Some(daemon) = &mut self.daemon {
            // Every task was visited: a part that ends among the nodes goes on there.
            let (nodes, is_whole) = daemon.visit_nodes(state, most.saturating_sub(visited));
            visited = visited.saturating_add(nodes);
            if !is_whole {
                return ScanStep { visited, actions: None };
            }
        }
        over(visited, self.actions(row.state))
    }

    fn visit(&mut self, row: &JobRow, task: &TaskRow) {
        let is_counted = task.id.index < row.count;
        let is_stopping = row.state == JobState::Stopping;
        self.is_alive |= task.state != TaskState::Dead;
        self.is_unwanted |= (is_stopping || !is_counted) && unasked(task.state);
        self.is_wanted_again |= row.state == JobState::Running && is_counted && task.is_spared();
    }

    /// Returns true if no further task would add an action.
    fn is_decided(&self, state: JobState) -> bool {
        match state {
            _ if self.rollout.is_some() || self.daemon.is_some() || self.surge.is_some() => false,
            JobState::Stopping => self.is_unwanted,
            JobState::Running => self.is_unwanted && self.is_wanted_again,
            JobState::Waiting | JobState::Ended { .. } => self.is_unwanted,
        }
    }

    fn actions(&mut self, state: JobState) -> Vec<ControllerAction> {
        let unwanted = self.is_unwanted.then_some(ControllerAction::TasksUnwanted(self.job));
        let again = self.is_wanted_again.then_some(ControllerAction::TasksRevive(self.job));
        let ended =
            (state == JobState::Stopping && !self.is_alive).then_some(ControllerAction::JobEnd(self.job));
        let rollout = self.rollout.take().and_then(RolloutScan::action);
        let daemon = self.daemon.take().map(DaemonScan::actions).unwrap_or_default();
        let surge = self.surge.take().and_then(SurgeScan::action);
        [unwanted, again, ended, rollout, surge].into_iter().flatten().chain(daemon).collect()
    }
}

#[cfg(test)]
mod tests {
    use borough_model::job::{JobKind, JobOutcome, job_new};
    use borough_model::task::{StopReason, Verdict};
    use borough_model::{Delta, RequestId, TaskId};
    use borough_store::journal::Listed;
    use borough_testkit::job_spec;

    use super::*;

    const JOB: JobId = JobId(1);

    #[test]
    fn a_break_of_the_looks_begins_again() {
        let first = LookTimes::default().next(50_000, 2_000);
        assert_eq!(first.watched_since_ms, 50_000);
        let second = first.next(52_000, 2_000);
        assert_eq!((second.now_ms, second.watched_since_ms), (52_000, 50_000));
        assert_eq!(second.next(54_001, 2_000).watched_since_ms, 54_001);
    }

    fn row(count: u32, state: JobState, revision: u64) -> JobRow {
        let row = job_new(JOB, &job_spec("ada", "web", JobKind::Batch), RequestId(1), 0);
        JobRow { state, count, revision, ..row }
    }

    fn put(state: &mut MirrorState, delta: Delta) {
        state.list(Listed::Row(Box::new(delta)));
    }

    fn job_put(state: &mut MirrorState, row: &JobRow) {
        put(state, Delta::Job { row: row.clone().into(), spec: None });
    }

    fn task_put(state: &mut MirrorState, index: u32, revision: u64, is: TaskState) {
        let known = TaskRow::never_placed(TaskId { job: JOB, index });
        let shrunk = is == TaskState::Dead && index.is_multiple_of(3);
        let stop = shrunk.then_some(StopReason::JobShrunk);
        let verdict = shrunk.then_some(Verdict::Stopped);
        put(state, Delta::Task { row: TaskRow { state: is, revision, stop, verdict, ..known } });
    }

    /// All parts of an examination.
    fn parts(scan: &mut JobScan, state: &MirrorState, most: usize) -> (Vec<ControllerAction>, usize) {
        let mut parts = 0;
        loop {
            let step = scan.advance(state, most, LookTimes::default());
            assert!(step.visited <= most, "{step:?}");
            parts += 1;
            if let Some(actions) = step.actions {
                return (actions, parts);
            }
        }
    }

    /// In parts, an examination decides what it would decide at once.
    #[test]
    fn an_examination_in_parts_decides_what_one_at_once_does() {
        let outcome = JobOutcome::Succeeded;
        let states = [JobState::Running, JobState::Stopping, JobState::Ended { outcome }];
        let rows = [TaskState::Running, TaskState::Stopping, TaskState::Dead];
        for (number, job) in states.into_iter().enumerate() {
            for seed in 0..200_usize {
                let mut state = MirrorState::default();
                let row = row(u32::try_from(seed % 23).unwrap(), job, 1);
                job_put(&mut state, &row);
                for index in 0..u32::try_from(seed % 21).unwrap() {
                    let drawn = (seed / 7 + usize::try_from(index).unwrap() * (1 + seed % 5)) % 11;
                    task_put(&mut state, index, 1, rows[if drawn < 9 { 2 } else { drawn % 2 }]);
                }
                let (at_once, _) =
                    parts(&mut JobScan::begin(&state, &row, LookTimes::default()), &state, usize::MAX);
                for most in [1, 2, 5] {
                    let (actions, _) =
                        parts(&mut JobScan::begin(&state, &row, LookTimes::default()), &state, most);
                    assert_eq!(actions, at_once, "{number}, seed {seed}, {most} at once");
                }
                assert_eq!(at_once, expected(&state, &row), "{number}, seed {seed}");
            }
        }
    }

    /// What the rows call for, by a look at all of them for each question.
    fn expected(state: &MirrorState, row: &JobRow) -> Vec<ControllerAction> {
        let any = |wanted: &dyn Fn(&TaskRow) -> bool| state.job_tasks(JOB).any(|task| wanted(task));
        let is_stopping = row.state == JobState::Stopping;
        let unwanted = any(&|task| (is_stopping || task.id.index >= row.count) && unasked(task.state));
        let again =
            row.state == JobState::Running && any(&|task| task.id.index < row.count && task.is_spared());
        let ended = is_stopping && !any(&|task| task.state != TaskState::Dead);
        let mut actions = Vec::new();
        actions.extend(unwanted.then_some(ControllerAction::TasksUnwanted(JOB)));
        actions.extend(again.then_some(ControllerAction::TasksRevive(JOB)));
        actions.extend(ended.then_some(ControllerAction::JobEnd(JOB)));
        actions
    }

    #[test]
    fn what_a_job_wants_again_is_revived_while_it_runs() {
        let mut state = MirrorState::default();
        task_put(&mut state, 0, 1, TaskState::Dead);
        let mut actions = |revision, count, is| {
            let row = row(count, is, revision);
            job_put(&mut state, &row);
            parts(&mut JobScan::begin(&state, &row, LookTimes::default()), &state, 10).0
        };
        assert_eq!(actions(1, 1, JobState::Running), [ControllerAction::TasksRevive(JOB)]);
        assert_eq!(actions(2, 0, JobState::Running), [], "it does not want them");
        let outcome = JobOutcome::Succeeded;
        assert_eq!(actions(3, 1, JobState::Ended { outcome }), [], "it is over");
    }

    /// The job is stopped when half of its tasks were visited as those of a running job.
    #[test]
    fn an_examination_begins_again_when_the_job_has_changed() {
        let mut state = MirrorState::default();
        let running = row(1_000, JobState::Running, 1);
        job_put(&mut state, &running);
        (0..1_000).for_each(|index| task_put(&mut state, index, 1, TaskState::Running));
        (500..1_000).for_each(|index| task_put(&mut state, index, 2, TaskState::Dead));
        let mut scan = JobScan::begin(&state, &running, LookTimes::default());
        assert_eq!(scan.advance(&state, 500, LookTimes::default()), ScanStep { visited: 500, actions: None });
        job_put(&mut state, &row(1_000, JobState::Stopping, 2));
        let (actions, _) = parts(&mut scan, &state, 100);
        assert_eq!(actions, [ControllerAction::TasksUnwanted(JOB)]);
        (0..500).for_each(|index| task_put(&mut state, index, 2, TaskState::Dead));
        let (actions, count) =
            parts(&mut JobScan::begin(&state, &state.jobs()[&JOB], LookTimes::default()), &state, 100);
        assert_eq!((actions, count), (vec![ControllerAction::JobEnd(JOB)], 10));
    }
}
