//! How many tasks of each job are on the move: they had to leave a node and are not up again yet. Tasks that come up
//! for another reason count too: their job lacks them as well.

use std::collections::BTreeMap;

use borough_model::JobId;
use borough_model::task::{StopReason, TaskRow, TaskState};

/// The number of moving tasks of each job that has any.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MovingTasks(BTreeMap<JobId, u32>);

impl MovingTasks {
    /// The number of moving tasks of a job.
    pub(super) fn of(&self, job: JobId) -> usize {
        self.0.get(&job).map_or(0, |count| usize::try_from(*count).unwrap_or(usize::MAX))
    }

    /// Follows the change of a task's row; `None` is no row.
    pub(super) fn follow(&mut self, before: Option<&TaskRow>, after: Option<&TaskRow>) {
        let job = |row: Option<&TaskRow>| row.filter(|row| is_moving(row)).map(|row| row.id.job);
        let (before, after) = (job(before), job(after));
        if before == after {
            return;
        }
        if let Some(job) = after {
            let count = self.0.entry(job).or_default();
            *count = count.saturating_add(1);
        }
        if let Some(job) = before
            && let Some(count) = self.0.get_mut(&job)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(&job);
            }
        }
    }
}

/// Returns true if a task is leaving a node that it had to leave: it is stopping for that, waiting for another node, or
/// not up there yet.
fn is_moving(task: &TaskRow) -> bool {
    let drained = matches!(task.stop, Some(StopReason::Drained | StopReason::Tainted));
    match task.state {
        TaskState::Stopping | TaskState::Releasing => drained,
        TaskState::Pending | TaskState::Assigned | TaskState::Starting => task.incarnation.0 > 0,
        TaskState::Running => task.is_coming_up(),
        TaskState::Held | TaskState::Lost | TaskState::Dead => false,
    }
}

#[cfg(test)]
mod tests {
    use borough_model::task::Health;
    use borough_model::{Delta, Incarnation, TaskId};

    use crate::journal::Listed;
    use crate::mirror::MirrorState;

    use super::*;

    fn row(index: u32, revision: u64, state: TaskState, stop: Option<StopReason>) -> TaskRow {
        let known = TaskRow::never_placed(TaskId { job: JobId(1), index });
        TaskRow { state, stop, revision, incarnation: Incarnation(1), health: Health::Healthy, ..known }
    }

    /// The count is what a look at every task of the job would give.
    #[test]
    fn the_moving_tasks_of_a_job_are_counted_as_their_rows_change() {
        let mut state = MirrorState::default();
        let mut moving = |row: TaskRow| {
            state.list(Listed::Row(Box::new(Delta::Task { row })));
            let all = state.job_tasks(JobId(1)).filter(|row| is_moving(row)).count();
            assert_eq!(state.moving_tasks(JobId(1)), all);
            all
        };
        let drained = Some(StopReason::Drained);
        assert_eq!(moving(row(0, 1, TaskState::Running, None)), 0);
        assert_eq!(moving(row(1, 1, TaskState::Running, None)), 0);
        assert_eq!(moving(row(0, 2, TaskState::Stopping, drained)), 1);
        assert_eq!(moving(row(1, 2, TaskState::Stopping, Some(StopReason::JobStopped))), 1);
        assert_eq!(moving(row(1, 3, TaskState::Starting, None)), 2);
        assert_eq!(moving(row(0, 3, TaskState::Pending, None)), 2);
        assert_eq!(moving(row(0, 2, TaskState::Running, None)), 2, "older than the row");
        let coming_up = TaskRow { health: Health::Unknown, ..row(0, 4, TaskState::Running, None) };
        assert_eq!(moving(coming_up.clone()), 2, "it is not up yet");
        assert_eq!(moving(TaskRow { revision: 5, failures: 1, ..coming_up }), 1, "it fails by itself");
        assert_eq!(moving(row(0, 6, TaskState::Running, None)), 1);
        let mut gone = state.clone();
        gone.list(Listed::Row(Box::new(Delta::TaskRemoved {
            task: TaskId { job: JobId(1), index: 1 },
            revision: 4,
        })));
        assert_eq!(gone.moving_tasks(JobId(1)), 0);
        state.list(Listed::Row(Box::new(Delta::JobRemoved { job: JobId(1), name: None })));
        assert_eq!(state.moving_tasks(JobId(1)), 0);
    }
}
