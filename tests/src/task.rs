//! Predicates on tasks for tests.

use borough_proto::v1::{Health, Task, TaskState};

/// Returns true if it runs.
pub fn is_running(task: &Task) -> bool {
    task.state() == TaskState::Running
}

/// Returns true if it runs and is healthy.
pub fn is_healthy(task: &Task) -> bool {
    is_running(task) && task.health() == Health::Healthy
}

/// Returns true if `tasks` are all of `count` and every one runs.
pub fn is_up(tasks: &[Task], count: usize) -> bool {
    tasks.len() == count && tasks.iter().all(is_running)
}
