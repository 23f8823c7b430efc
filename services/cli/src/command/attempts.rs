//! Decides which attempts of a task are read, and in which order. Pure.

use borough_proto::v1::{Task, TaskState};

use crate::args::AttemptChoice;

/// The attempts of a task whose output the cell can find: the one that runs, and the one that ended last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::command) struct TaskAttempts {
    ended: Option<u64>,
    running: Option<u64>,
    /// The row that says so.
    revision: u64,
    /// No other attempt follows.
    pub(in crate::command) over: bool,
}

impl TaskAttempts {
    pub(in crate::command) fn of(task: &Task) -> Self {
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
    pub(in crate::command) fn is_newer(&self, before: &Self) -> bool {
        self.revision > before.revision
    }

    /// The attempt that ended last, on a node that may still have its output.
    pub(in crate::command) fn ended(&self) -> Option<u64> {
        self.ended
    }

    /// The numbers of both.
    pub(in crate::command) fn known(&self) -> impl Iterator<Item = u64> {
        [self.ended, self.running].into_iter().flatten()
    }

    /// Returns true if some node has or had output of the task.
    pub(in crate::command) fn has_output(&self) -> bool {
        self.next(0).is_some()
    }

    /// The first attempt behind `done`.
    pub(in crate::command) fn next(&self, done: u64) -> Option<u64> {
        self.known().filter(|&attempt| attempt > done).min()
    }

    /// The first attempt behind `done`, if it is one of the chosen ones.
    pub(in crate::command) fn next_chosen(&self, done: u64, choice: AttemptChoice) -> Option<u64> {
        self.next(done).filter(|&next| match choice {
            AttemptChoice::Last | AttemptChoice::All => true,
            AttemptChoice::Previous => self.ended == Some(next),
            AttemptChoice::Number(number) => number == next,
        })
    }

    /// The attempt that counts as the last one done before the first is read.
    pub(in crate::command) fn done_at_first(&self, choice: AttemptChoice) -> u64 {
        match choice {
            AttemptChoice::All => 0,
            AttemptChoice::Number(number) => number.saturating_sub(1),
            AttemptChoice::Previous => self.ended.unwrap_or(0).saturating_sub(1),
            AttemptChoice::Last => self.ended.max(self.running).unwrap_or(0).saturating_sub(1),
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
        use AttemptChoice::{All, Last, Number, Previous};
        let of = |state, incarnation, ended, choice| {
            let attempts = TaskAttempts::of(&task(state, incarnation, ended));
            let (mut done, mut read) = (attempts.done_at_first(choice), Vec::<u64>::new());
            while let Some(next) = attempts.next_chosen(done, choice) {
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
        assert_eq!(of(TaskState::Running, 4, 3, Previous), [3]);
        assert_eq!(of(TaskState::Assigned, 5, 4, Previous), [4]);
        assert_eq!(of(TaskState::Pending, 4, 4, Previous), [4], "it waits for its next start");
        assert_eq!(of(TaskState::Dead, 4, 4, Previous), [4]);
        assert_eq!(of(TaskState::Running, 3, 1, Previous), [1], "attempt 2 was lost before it ran");
        assert!(of(TaskState::Running, 1, 0, Previous).is_empty(), "none has ended");
    }
}
