//! How far a rollout is, for people.

use super::AttemptFit;
use crate::job::JobKind;
use crate::task::TaskState;

/// What of a task decides how far a rollout is with it.
#[derive(Clone, Copy, Debug)]
pub struct TaskProgress {
    /// The version of its attempt, or of the last one; 0: it was never placed.
    pub version: u32,
    pub fit: AttemptFit,
    pub state: TaskState,
    pub is_healthy: bool,
    pub failures: u32,
}

/// How far a rollout is, for people. It counts the tasks that the rollout concerns: those that it replaces or has
/// replaced, and those that wait for their first attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutProgress {
    pub concerned: u32,
    /// Those of them with an attempt of the version.
    pub updated: u32,
    /// The healthy ones of these.
    pub healthy: u32,
}

impl RolloutProgress {
    /// Takes a task below the job's count into account. `version` is that of the rollout, `kind` that of the job.
    pub fn visit(&mut self, task: TaskProgress, version: u32, kind: JobKind) {
        let is_new = task.version >= version;
        let has_attempt = task.state != TaskState::Pending;
        // Batch work replaces nothing, so every task that is not over still gets the version. An attempt that was
        // replaced by a version that is taken back now has not failed, and has none after it yet.
        let is_awaited = task.version == 0
            || task.fit != AttemptFit::Fits
            || kind == JobKind::Batch
            || (!has_attempt && task.failures == 0);
        if task.state == TaskState::Dead || !(is_new || is_awaited) {
            return;
        }
        let updated = is_new && has_attempt;
        self.concerned = self.concerned.saturating_add(1);
        self.updated = self.updated.saturating_add(u32::from(updated));
        self.healthy = self.healthy.saturating_add(u32::from(updated && task.is_healthy));
    }
}
