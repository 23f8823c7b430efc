//! Tasks that are over only because their job wants them no more, and may want them again.

use super::row::{TaskRow, TaskState, Verdict};
use super::stop::StopReason;
use crate::job::{JobRow, JobState};

impl StopReason {
    /// Why a job does not want its task `index` any more. Its row says how many tasks its owner wanted before the last
    /// change. Those beyond them and beyond its count ran beside them.
    pub fn of_unwanted(job: &JobRow, index: u32) -> Self {
        if job.state == JobState::Stopping {
            return Self::JobStopped;
        }
        let Some(changes) = &job.changes else { return Self::JobShrunk };
        let scaled = changes.scaled.map(|scaled| scaled.before);
        let before = match changes.versions.last() {
            Some(version) if version.revision == changes.revision => version.before.or(scaled),
            _ => scaled,
        };
        // Without a record its owner has never wanted another count.
        let is_scaled_away = before.is_some_and(|before| index < before.count);
        if is_scaled_away { Self::JobShrunk } else { Self::SurgeOver }
    }
}

impl TaskRow {
    /// Returns true if it is over for good, as this verdict says.
    pub fn is_over_as(&self, verdict: Verdict) -> bool {
        self.state == TaskState::Dead && self.verdict == Some(verdict)
    }

    /// Returns true if it is over for good, and nobody has ended it: it has failed or succeeded.
    pub fn is_over_by_itself(&self) -> bool {
        self.is_over_as(Verdict::Failed) || self.is_over_as(Verdict::Succeeded)
    }

    /// Returns true if the scheduler may place the task at once, and no node has taken it. A task that backs off after
    /// a failure waits for its time. A task without a row waits for a node too.
    pub fn waits_for_node(&self) -> bool {
        self.is_spared() || (self.state == TaskState::Pending && self.failures == 0)
    }

    /// Returns true if it is over because its daemon job does not serve its node any more. It may be for a node again.
    pub fn is_withdrawn(&self) -> bool {
        self.state == TaskState::Dead
            && self.stop == Some(StopReason::NodeLeft)
            && self.verdict == Some(Verdict::Stopped)
    }

    /// Returns true if it ends, or has ended, only because its job had shrunk or needs it no more beside the others. If
    /// the job grows over its index, it wants the task again.
    pub fn is_shrunk_away(&self) -> bool {
        matches!(self.stop, Some(StopReason::JobShrunk | StopReason::SurgeOver))
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
