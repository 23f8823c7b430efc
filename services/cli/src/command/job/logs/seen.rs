//! Which tasks of a job are read, and what is said if nothing was.

use std::collections::BTreeSet;

use borough_client::{JobRef, TaskFilter};

use crate::args::AttemptChoice;
use crate::command::attempts::TaskAttempts;
use crate::exit::{Code, Failure};
use crate::output::{Printer, ranges};

/// The tasks whose output is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogScope {
    pub(super) job: JobRef,
    /// In order and once each; empty: all tasks of the job.
    tasks: Vec<u32>,
    /// Whether tasks that have ended and that the job no longer has are among them.
    with_left_behind: bool,
}

impl LogScope {
    /// Of these tasks, in order and each once; if none is named, of those that the job has now. Who asks for other
    /// attempts than the last of each task also gets those of tasks that the job no longer has.
    pub(super) fn new(job: JobRef, tasks: &[u32], choice: AttemptChoice) -> Self {
        let with_left_behind = !tasks.is_empty() || choice != AttemptChoice::Last;
        Self { job, tasks: tasks.to_vec(), with_left_behind }
    }

    /// The lists that have its tasks.
    pub(super) fn filters(&self) -> Vec<TaskFilter> {
        let all = TaskFilter { wanted: !self.with_left_behind, ..TaskFilter::of_job(&self.job) };
        if self.tasks.is_empty() {
            return vec![all];
        }
        self.tasks.iter().map(|&index| TaskFilter { index: Some(index), ..all.clone() }).collect()
    }

    pub(super) fn includes(&self, index: u32) -> bool {
        self.tasks.is_empty() || self.tasks.binary_search(&index).is_ok()
    }

    /// `borough job logs` of its tasks.
    fn command(&self) -> String {
        let chosen = match self.tasks.as_slice() {
            [] => String::new(),
            tasks => format!(" --task {}", listed(tasks)),
        };
        format!("borough job logs {}{chosen}", self.job)
    }

    /// `borough why` of its tasks.
    fn why(&self) -> String {
        match self.tasks.as_slice() {
            [one] => format!("borough why {}/{one}", self.job),
            _ => format!("borough why {}", self.job),
        }
    }

    /// That its tasks lack an attempt, up to the word for it.
    fn lacks(&self) -> String {
        match self.tasks.as_slice() {
            [] => format!("no task of job {} has an", self.job),
            [one] => format!("task {}/{one} has no", self.job),
            tasks => format!("tasks {} of job {} have no", ranges(tasks), self.job),
        }
    }

    /// That none of its tasks has run.
    fn not_run(&self) -> String {
        match self.tasks.as_slice() {
            [] => format!("{}: no task has run yet", self.job),
            [one] => format!("{}/{one}: it has not run yet", self.job),
            tasks => format!("{}: tasks {} have not run yet", self.job, ranges(tasks)),
        }
    }
}

/// Indexes as the command line takes them.
fn listed(tasks: &[u32]) -> String {
    tasks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The attempts of all tasks in a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AttemptsSeen {
    /// Attempts that were read.
    pub(super) read: usize,
    /// The known numbers.
    known: BTreeSet<u32>,
}

impl AttemptsSeen {
    /// Counts the attempts of a task.
    pub(super) fn add(&mut self, attempts: &TaskAttempts) {
        self.known.extend(attempts.known().map(|attempt| u32::try_from(attempt).unwrap_or(u32::MAX)));
    }

    /// Says why nothing was read. An attempt that no task has is an error.
    pub(super) fn check(
        &self,
        scope: &LogScope,
        choice: AttemptChoice,
        printer: &Printer,
    ) -> Result<(), Failure> {
        match (self.read, choice) {
            (1.., _) => Ok(()),
            (0, AttemptChoice::Number(number)) if !self.known.is_empty() => {
                let known: Vec<u32> = self.known.iter().copied().collect();
                let why = format!("{} attempt {number}; known: {}", scope.lacks(), ranges(&known));
                let hint = format!("{} --attempt all", scope.command());
                Err(Failure::new(Code::NotFound, why).with_hint(hint))
            }
            (0, AttemptChoice::Previous) => {
                let why = format!("{} attempt that has ended yet", scope.lacks());
                let hint = if !self.known.is_empty() { scope.command() } else { scope.why() };
                Err(Failure::new(Code::NotFound, why).with_hint(hint))
            }
            (0, _) => {
                printer.remark(&format!("{}, so there is no output: {}", scope.not_run(), scope.why()));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::{Exit, Task, TaskState};

    use super::*;
    use crate::args::TypedOptions;

    fn task(state: TaskState, incarnation: u64, ended: u64) -> TaskAttempts {
        let exit = Exit { incarnation: ended, node: "n1".to_owned(), ..Exit::default() };
        let exit = (ended > 0).then_some(exit);
        TaskAttempts::of(&Task { state: state.into(), incarnation, exit, ..Task::default() })
    }

    fn scope(tasks: &[u32]) -> LogScope {
        LogScope::new(JobRef::new("alice", "web"), tasks, AttemptChoice::Last)
    }

    #[test]
    fn tasks_that_the_job_no_longer_has_are_shown_to_who_asks_for_them() {
        let wanted = |tasks: &[u32], choice| {
            let scope = LogScope::new(JobRef::new("alice", "web"), tasks, choice);
            scope.filters().iter().all(|filter| filter.wanted)
        };
        assert!(wanted(&[], AttemptChoice::Last));
        assert!(!wanted(&[7], AttemptChoice::Last));
        for choice in [AttemptChoice::All, AttemptChoice::Previous, AttemptChoice::Number(3)] {
            assert!(!wanted(&[], choice), "{choice:?}");
        }
    }

    #[test]
    fn an_attempt_that_no_task_has_is_named_with_those_that_are_known() {
        let printer = Printer::errors_only(TypedOptions::default());
        let mut seen = AttemptsSeen::default();
        let number = AttemptChoice::Number(99);
        assert!(seen.check(&scope(&[]), number, &printer).is_ok(), "nothing has run: a remark says so");
        seen.add(&task(TaskState::Running, 4, 3));
        seen.add(&task(TaskState::Running, 1, 0));
        let absent = |tasks: &[u32]| seen.check(&scope(tasks), number, &printer).unwrap_err();
        let all = absent(&[]);
        assert_eq!(all.message(), "no task of job alice/web has an attempt 99; known: 1, 3-4");
        assert_eq!(all.code(), Code::NotFound);
        assert_eq!(absent(&[2]).message(), "task alice/web/2 has no attempt 99; known: 1, 3-4");
        let some = absent(&[2, 3, 4, 9]);
        assert_eq!(some.message(), "tasks 2-4, 9 of job alice/web have no attempt 99; known: 1, 3-4");
        assert_eq!(some.hint(), Some("borough job logs alice/web --task 2,3,4,9 --attempt all"));
        let read = AttemptsSeen { read: 1, ..seen.clone() };
        assert!(read.check(&scope(&[]), number, &printer).is_ok());
    }

    #[test]
    fn without_an_ended_attempt_the_hint_is_what_shows_more() {
        let printer = Printer::errors_only(TypedOptions::default());
        let mut seen = AttemptsSeen::default();
        let none = |seen: &AttemptsSeen, tasks: &[u32]| {
            seen.check(&scope(tasks), AttemptChoice::Previous, &printer).unwrap_err()
        };
        let never = none(&seen, &[0]);
        assert_eq!(never.message(), "task alice/web/0 has no attempt that has ended yet");
        assert_eq!((never.code(), never.hint()), (Code::NotFound, Some("borough why alice/web/0")));
        seen.add(&task(TaskState::Running, 1, 0));
        let runs = none(&seen, &[]);
        assert_eq!(runs.message(), "no task of job alice/web has an attempt that has ended yet");
        assert_eq!(runs.hint(), Some("borough job logs alice/web"));
    }

    #[test]
    fn the_tasks_of_a_scope_are_listed_alone() {
        let indexes =
            |tasks: &[u32]| scope(tasks).filters().iter().map(|each| each.index).collect::<Vec<_>>();
        assert_eq!(indexes(&[]), [None]);
        assert_eq!(indexes(&[1, 3]), [Some(1), Some(3)]);
        assert!(scope(&[]).includes(7) && scope(&[3, 1]).includes(1) && !scope(&[3, 1]).includes(2));
    }
}
