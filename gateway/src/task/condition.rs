//! What is said of a task beside its state: how it has ended. Pure.

use borough_model::task::{Health, Verdict};
use borough_model::{TaskRow, TaskState};
use borough_proto::v1::TaskCondition;

/// Returns true if the condition holds for a task.
pub(super) fn is_in_condition(row: &TaskRow, condition: TaskCondition) -> bool {
    let is_over = |verdict| row.state == TaskState::Dead && row.verdict == Some(verdict);
    match condition {
        TaskCondition::Unspecified => false,
        TaskCondition::Failed => is_over(Verdict::Failed) || has_failed_last(row),
        TaskCondition::Succeeded => is_over(Verdict::Succeeded),
        TaskCondition::Stopped => is_over(Verdict::Stopped),
    }
}

/// Returns true if the last attempt of a task that is not over failed, and none has been healthy since. A task that has
/// failed becomes healthy only after it has run for a while, so one that fails again and again stays here meanwhile.
fn has_failed_last(row: &TaskRow) -> bool {
    let is_tried = match row.state {
        TaskState::Pending | TaskState::Held | TaskState::Assigned | TaskState::Starting => true,
        TaskState::Running => row.health != Health::Healthy,
        TaskState::Stopping | TaskState::Releasing | TaskState::Lost | TaskState::Dead => false,
    };
    is_tried && row.failures > 0
}

#[cfg(test)]
mod tests {
    use borough_model::{JobId, TaskId};

    use super::*;

    #[test]
    fn a_task_has_failed_until_an_attempt_is_healthy() {
        let blank = TaskRow::never_placed(TaskId { job: JobId(7), index: 0 });
        let of = |state, failures, health, verdict| {
            let row = TaskRow { state, failures, health, verdict, ..blank.clone() };
            let all = [TaskCondition::Failed, TaskCondition::Succeeded, TaskCondition::Stopped];
            all.map(|condition| is_in_condition(&row, condition))
        };
        let (failed, none) = ([true, false, false], [false; 3]);
        assert_eq!(of(TaskState::Pending, 0, Health::Unknown, None), none, "it was never placed");
        assert_eq!(of(TaskState::Pending, 1, Health::Unknown, None), failed);
        assert_eq!(of(TaskState::Starting, 3, Health::Unknown, None), failed);
        assert_eq!(of(TaskState::Running, 1, Health::Unknown, None), failed);
        assert_eq!(of(TaskState::Running, 1, Health::Healthy, None), none, "it serves again");
        assert_eq!(of(TaskState::Dead, 1, Health::Unknown, Some(Verdict::Failed)), failed);
        // It failed before it succeeded, or was stopped.
        let [succeeded, stopped] = [Verdict::Succeeded, Verdict::Stopped]
            .map(|verdict| of(TaskState::Dead, 1, Health::Unknown, Some(verdict)));
        assert_eq!((succeeded, stopped), ([false, true, false], [false, false, true]));
    }
}
