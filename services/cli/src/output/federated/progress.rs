//! Whether a federated job gets on: its progress deadline, and which release a wait judges.

use std::time::Duration;

use borough_proto::v1;

use super::FederatedJobView;

/// The releases whose end decides a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Every,
    /// The release of this version began before the change that is waited for. It may wait for a person, or have
    /// failed.
    ButOf(u64),
}

impl Judged {
    /// Those that a wait judges after a change of the job that made no version.
    pub(crate) fn after(changed: &v1::FederatedJob) -> Self {
        Self::ButOf(changed.version)
    }

    pub(super) fn skips(self, version: u64) -> bool {
        self == Self::ButOf(version)
    }
}

/// What shows that a job gets on. A task that becomes healthy again is none of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FederatedMark {
    version: u64,
    stage: u32,
    phase: String,
    /// Cells that have taken what they were promised.
    arrived: usize,
    /// Tasks that a cell no longer wants.
    surplus: u32,
    /// The most healthy tasks so far.
    healthy: u32,
}

/// Measures the time since the last progress of a federated job. Times are of one monotonic clock.
#[derive(Clone, Debug)]
pub(crate) struct FederatedProgress {
    since: Duration,
    mark: Option<FederatedMark>,
}

impl FederatedProgress {
    pub(crate) fn begin(now: Duration) -> Self {
        Self { since: now, mark: None }
    }

    /// Returns false once the job has made no progress for the deadline. It does not run while no task is missing, as
    /// in a stage that proves itself, nor for batch work.
    pub(crate) fn is_within(&mut self, view: &FederatedJobView, deadline: Duration, now: Duration) -> bool {
        let before = self.mark.take();
        let most = before.as_ref().map_or(0, |mark| mark.healthy);
        let mark = view.mark(most);
        if before.as_ref() != Some(&mark) || !view.is_deadline_running() {
            self.since = now;
        }
        self.mark = Some(mark);
        now.saturating_sub(self.since) < deadline
    }
}

impl FederatedJobView {
    fn mark(&self, most: u32) -> FederatedMark {
        let release = self.release.as_ref();
        let surplus = self.parts.iter().map(super::part::FederatedPartView::surplus);
        FederatedMark {
            version: self.version,
            stage: release.map_or(0, |release| release.stage),
            phase: release.map(|release| release.phase.clone()).unwrap_or_default(),
            arrived: self.parts.iter().filter(|part| part.arrived).count(),
            surplus: surplus.fold(0, u32::saturating_add),
            healthy: self.healthy.max(most),
        }
    }

    /// Whether something is missing that no rollout of a cell measures by itself.
    fn is_deadline_running(&self) -> bool {
        let is_open =
            |part: &super::part::FederatedPartView| part.lacks_healthy() || !part.problem.is_empty();
        self.state == "active"
            && self.divided_revision == self.revision
            && (self.unplaced > 0 || self.parts.iter().any(is_open))
    }
}
