//! What tests say of tasks.

use borough_proto::v1::{Health, Task, TaskState};

/// Whether it runs.
pub fn is_running(task: &Task) -> bool {
    task.state() == TaskState::Running
}

/// Whether it runs and its health check says so.
pub fn is_healthy(task: &Task) -> bool {
    is_running(task) && task.health() == Health::Healthy
}

/// Whether `tasks` are all of `count` and every one runs.
pub fn is_up(tasks: &[Task], count: usize) -> bool {
    tasks.len() == count && tasks.iter().all(is_running)
}
