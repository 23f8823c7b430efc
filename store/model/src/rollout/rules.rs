//! The rules of a rollout, and what they say about a task.

use super::AttemptFit;
use crate::disruption::{DisruptionCause, JobSize, away_max, healthy_left, is_aside};
use crate::job::{HelperPhase, HelperSpec, JobKind, JobRow, JobSpec, OnFailure, Rollout};
use crate::task::{TaskRow, TaskState, leave_asked_ms};

/// A rollout orders resizes for at most one in so many tasks at a time: others wait until these have shown what the new
/// amounts do.
const RESIZED_PART: u32 = 10;
/// Progress is recorded by itself when it is later by so many parts of the deadline, and by so many milliseconds.
const PROGRESS_PART: u64 = 8;
const PROGRESS_LEAST_MS: u64 = 1_000;

/// The rules of a rollout: those of the job, or the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutRules {
    /// The version that the rollout brings.
    pub version: u32,
    /// How many tasks the owner wants.
    pub count: u32,
    /// How many surge.
    pub surge: u32,
    /// The most tasks without a healthy attempt; 0 only if some surge.
    pub unavailable_max: u32,
    pub healthy_after_ms: i64,
    /// Failures in a row of one task that it bears.
    pub failures_max: u32,
    pub deadline_ms: u64,
    pub on_failure: OnFailure,
    /// Canaries that must be healthy before anything else is replaced; 0: none.
    pub canaries: u32,
    /// Whether they promote the version themselves.
    pub auto_promote: bool,
    /// How many more healthy tasks of the owner it may end; `None`: no limit.
    pub disruptions_left: Option<u32>,
    /// Whether the tasks run only together, so that all are replaced at once.
    pub together: bool,
    /// Whether it ends no attempt, and only waits for those of earlier versions: the job is batch work.
    pub waits: bool,
    /// When it began, if the job is a daemon job. A task without room on its node since then is not waited for: it may
    /// run nowhere else.
    pub daemon_since_ms: Option<i64>,
    /// How many tasks are to surge before it ends a healthy attempt, in place of the none that surge now.
    pub surge_late: u32,
    /// How many resizes may be on their way at a time.
    pub resizing_max: u32,
    /// How long an attempt may take to end, in milliseconds.
    pub(super) leave_ms: u64,
    /// Whether it takes a version back. It waits for no task that was never placed: the version was not tried on it.
    pub(super) reverts: bool,
    /// Since when somebody has looked at the rollout without a break. Nobody has let it make progress before.
    pub(super) watched_since_ms: i64,
    /// How many of its tasks run somewhere, if all is well.
    pub(super) wanted: u32,
    /// The version of the owner's tasks while canaries try another one; 0 without.
    pub(super) base: u32,
    /// When a person began it again; 0: never.
    again_ms: i64,
}

impl RolloutRules {
    /// The rules of a rollout of a job. The tasks of its owner have the indexes below `count`, and the owner wants
    /// `wanted` of them.
    pub fn of(spec: &JobSpec, rollout: &Rollout, count: u32, wanted: u32) -> Self {
        let update = spec.update.unwrap_or_default();
        let size = JobSize { count, wanted, surge: rollout.surge };
        let unavailable_max = away_max(spec, size, DisruptionCause::Rollout);
        Self {
            version: rollout.version,
            count,
            surge: rollout.surge,
            unavailable_max,
            healthy_after_ms: i64::try_from(update.healthy_after_ms).unwrap_or(i64::MAX),
            failures_max: update.failures_max,
            deadline_ms: spec.progress_deadline_in_force(),
            on_failure: update.on_failure,
            canaries: rollout.canaries,
            auto_promote: update.auto_promote,
            disruptions_left: update.disruptions_max.map(|most| most.saturating_sub(rollout.disruptions)),
            together: spec.is_gang(),
            waits: spec.kind == JobKind::Batch,
            daemon_since_ms: (spec.kind == JobKind::Daemon).then_some(rollout.begun_ms),
            surge_late: if rollout.resizes { spec.surge(count) } else { 0 },
            resizing_max: unavailable_max.max(count / RESIZED_PART).max(1),
            leave_ms: leave_with_helpers_ms(spec),
            reverts: rollout.reverts.is_some(),
            watched_since_ms: 0,
            wanted,
            base: rollout.base,
            again_ms: rollout.again_ms,
        }
    }

    /// The rules of a rollout of the job with this row.
    pub fn of_job(spec: &JobSpec, rollout: &Rollout, row: &JobRow) -> Self {
        Self::of(spec, rollout, row.owner_count(), row.wanted_count())
    }

    /// The same rules, with the time since when somebody has looked at the rollout without a break.
    #[must_use]
    pub fn watched_since(self, watched_since_ms: i64) -> Self {
        Self { watched_since_ms, ..self }
    }

    /// The same rules, if an attempt with this spec is ending: it takes the time that its own version gives it.
    #[must_use]
    pub fn with_leaving(self, spec: &JobSpec) -> Self {
        Self { leave_ms: self.leave_ms.max(leave_with_helpers_ms(spec)), ..self }
    }

    /// As [`is_aside`], for the rollout of the job.
    pub(super) fn is_aside(&self, task: &TaskRow) -> bool {
        is_aside(task, self.daemon_since_ms)
    }

    /// Whether the version that is taken back was never tried on the task: the way back does not wait for it.
    pub(super) fn is_untried(&self, task: &TaskRow) -> bool {
        self.reverts && task.state == TaskState::Pending && task.spec_version == 0
    }

    /// Whether a task waits or is judged for what is over. It has failures of before a person began the rollout again,
    /// or those of a version that its next attempt does not have.
    pub(super) fn is_behind(&self, task: &TaskRow, fit: AttemptFit, now_ms: i64) -> bool {
        let is_begun = task.spec_version > 0 && task.state != TaskState::Dead;
        if self.again_ms > 0 && is_begun && task.failures > 0 && task.changed_ms <= self.again_ms {
            return true;
        }
        let is_earlier = if self.canaries > 0 && task.id.index < self.count {
            task.spec_version > self.base
        } else {
            let is_concerned = matches!(fit, AttemptFit::Stale | AttemptFit::Resizes) || self.waits;
            task.spec_version < self.version && is_concerned
        };
        is_begun && is_earlier && task.state == TaskState::Pending && task.not_before_ms > now_ms
    }

    /// How much later progress must be than the last one on record to be recorded by itself.
    pub(super) fn progress_least_ms(&self) -> u64 {
        (self.deadline_ms / PROGRESS_PART).max(PROGRESS_LEAST_MS)
    }

    /// How many healthy attempts may be ended while so many tasks are available.
    pub(super) fn healthy_left(&self, available: u32) -> u32 {
        healthy_left(available, self.unavailable_max, self.count)
    }
}

/// How long an attempt may take to end with the helpers that run after its command.
fn leave_with_helpers_ms(spec: &JobSpec) -> u64 {
    let after = spec.task.helpers.iter().filter(|helper| helper.when == HelperPhase::After);
    let after = after.filter_map(HelperSpec::deadline_in_force).fold(0, u64::saturating_add);
    leave_asked_ms(spec).saturating_add(after)
}
