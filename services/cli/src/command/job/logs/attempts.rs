//! Decides which attempts of a task are read, and in which order. Pure.

use borough_client::JobRef;
use borough_proto::v1::{Task, TaskState};

use crate::args::AttemptChoice;
use crate::exit::{Code, Failure};
use crate::output::Printer;

/// The attempts of a task whose output the cell can find: the one that runs, and the one that ended last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskAttempts {
    ended: Option<u64>,
    running: Option<u64>,
    /// The row that says so.
    revision: u64,
    /// No other attempt follows.
    pub(super) over: bool,
}

impl TaskAttempts {
    pub(super) fn of(task: &Task) -> Self {
        let ended = task.exit.as_ref().filter(|exit| !exit.node.is_empty()).map(|exit| exit.incarnation);
        // An attempt that is only assigned has no output yet.
        let runs = matches!(
            task.state(),
            TaskState::Running | TaskState::Stopping | TaskState::Releasing | TaskState::Lost
        );
        let running = runs.then_some(task.incarnation).filter(|&attempt| Some(attempt) != ended);
        Self { ended, running, revision: task.revision, over: false }
    }

    /// Returns true if it is of a later row than `before`.
    pub(super) fn is_newer(&self, before: &Self) -> bool {
        self.revision > before.revision
    }

    /// The first attempt behind `done`.
    pub(super) fn next(&self, done: u64) -> Option<u64> {
        [self.ended, self.running].into_iter().flatten().filter(|&attempt| attempt > done).min()
    }

    /// The attempt that counts as the last one done before the first is read.
    pub(super) fn done_at_first(&self, choice: AttemptChoice) -> u64 {
        match choice {
            AttemptChoice::All => 0,
            AttemptChoice::Number(number) => number.saturating_sub(1),
            AttemptChoice::Last => self.ended.max(self.running).unwrap_or(0).saturating_sub(1),
        }
    }
}

/// The attempts of all tasks of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AttemptsSeen {
    /// Attempts that were read.
    pub(super) read: usize,
    /// The lowest and the highest known number.
    known: Option<(u64, u64)>,
}

impl AttemptsSeen {
    /// Counts the attempts of a task.
    pub(super) fn add(&mut self, attempts: &TaskAttempts) {
        for attempt in [attempts.ended, attempts.running].into_iter().flatten() {
            let (least, most) = self.known.unwrap_or((attempt, attempt));
            self.known = Some((least.min(attempt), most.max(attempt)));
        }
    }

    /// Says why nothing was read. An attempt that no task has is an error.
    pub(super) fn check(
        &self,
        job: &JobRef,
        choice: AttemptChoice,
        printer: &Printer,
    ) -> Result<(), Failure> {
        match (self.read, choice, self.known) {
            (1.., ..) => Ok(()),
            (0, AttemptChoice::Number(number), Some((least, most))) => {
                let known = if least == most { least.to_string() } else { format!("{least} to {most}") };
                let why = format!("no task of job {job} has an attempt {number} by now; known: {known}");
                let hint = format!("borough job logs {job} --attempt all");
                Err(Failure::new(Code::NotFound, why).with_hint(hint))
            }
            (0, ..) => {
                printer
                    .remark(&format!("{job}: no task has run yet, so there is no output: borough why {job}"));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::Exit;

    use super::*;

    fn task(state: TaskState, incarnation: u64, ended: u64) -> Task {
        let exit = Exit { incarnation: ended, node: "n1".to_owned(), ..Exit::default() };
        Task { state: state.into(), incarnation, exit: (ended > 0).then_some(exit), ..Task::default() }
    }

    #[test]
    fn attempts_are_read_in_order_and_once_they_have_output() {
        use AttemptChoice::{All, Last, Number};
        let of = |state, incarnation, ended, choice| {
            let attempts = TaskAttempts::of(&task(state, incarnation, ended));
            let (mut done, mut read) = (attempts.done_at_first(choice), Vec::<u64>::new());
            while let Some(next) = attempts.next(done).filter(|&next| choice.wants(next)) {
                read.push(next);
                done = next;
            }
            read
        };
        assert!(of(TaskState::Pending, 0, 0, All).is_empty());
        assert!(of(TaskState::Assigned, 1, 0, Last).is_empty(), "it has no output yet");
        assert_eq!(of(TaskState::Running, 4, 3, All), [3, 4]);
        assert_eq!(of(TaskState::Running, 4, 3, Last), [4]);
        assert_eq!(of(TaskState::Assigned, 4, 3, Last), [3]);
        assert_eq!(of(TaskState::Dead, 4, 4, Last), [4]);
        assert_eq!(of(TaskState::Running, 4, 3, Number(3)), [3]);
        assert!(of(TaskState::Running, 4, 3, Number(9)).is_empty());
    }

    #[test]
    fn an_attempt_that_no_task_has_is_named_with_those_that_are_known() {
        let (job, printer) = (JobRef::new("alice", "web"), Printer::errors_only());
        let mut seen = AttemptsSeen::default();
        let number = AttemptChoice::Number(99);
        assert!(seen.check(&job, number, &printer).is_ok(), "nothing has run: a remark says so");
        seen.add(&TaskAttempts::of(&task(TaskState::Running, 4, 3)));
        seen.add(&TaskAttempts::of(&task(TaskState::Running, 1, 0)));
        let absent = seen.check(&job, number, &printer).unwrap_err();
        assert_eq!(absent.message(), "no task of job alice/web has an attempt 99 by now; known: 1 to 4");
        assert_eq!(absent.code(), Code::NotFound);
        seen.read = 1;
        assert!(seen.check(&job, number, &printer).is_ok());
    }
}
