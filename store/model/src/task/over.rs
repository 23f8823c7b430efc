//! Tasks that are over only because their job wants them no more, and may want them again.

use super::row::{TaskRow, TaskState, Verdict};
use super::stop::StopReason;

impl TaskRow {
    /// Returns true if it is over because its daemon job does not serve its node any more. It may be for a node again.
    pub fn is_withdrawn(&self) -> bool {
        self.state == TaskState::Dead
            && self.stop == Some(StopReason::NodeLeft)
            && self.verdict == Some(Verdict::Stopped)
    }

    /// Returns true if it ends, or has ended, only because its job had shrunk. If the job grows over its index, it
    /// wants the task again.
    pub fn is_shrunk_away(&self) -> bool {
        self.stop == Some(StopReason::JobShrunk)
            && match self.state {
                TaskState::Stopping => true,
                TaskState::Releasing | TaskState::Dead => self.verdict == Some(Verdict::Stopped),
                TaskState::Pending
                | TaskState::Held
                | TaskState::Assigned
                | TaskState::Starting
                | TaskState::Running
                | TaskState::Lost => false,
            }
    }

    /// Returns true if it has ended only because its job had shrunk. Below its job's count it counts as never placed:
    /// the job owns its charge, and the controller revives it.
    pub fn is_spared(&self) -> bool {
        self.state == TaskState::Dead && self.is_shrunk_away()
    }
}
