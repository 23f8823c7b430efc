//! What a rollout does next: pure decisions over the rows of a job's tasks.
//!
//! An attempt is stale if the version in force would run its task otherwise. A rollout ends stale attempts, and the
//! scheduler begins new ones. It ends a healthy one only while fewer tasks are without a healthy attempt than the job
//! allows, whatever the cause. One that is not healthy serves nobody, so it is ended at once.
//!
//! An attempt that differs only in amounts that its node changes in place is resized, and not ended. One that differs
//! in its weight only adopts the version as it runs, and its endpoint gets the weight. Neither uses budget, since the
//! task goes on.
//!
//! Tasks that surge have the indexes after those of the owner. They count as available like any other, so that a task
//! of the owner may be away for each of them. When the owner's tasks are settled, they end.

mod fit;
mod progress;

pub use fit::{AttemptFit, AttemptFits, RolloutBegin, SpecDifference};
pub use progress::{RolloutProgress, TaskProgress};

use crate::disruption::{DisruptionCause, JobSize, away_max, healthy_left, is_aside};
use crate::id::{Incarnation, TaskId};
use crate::job::{
    CanaryHealth, HelperPhase, HelperSpec, JobKind, JobRow, JobSpec, OnFailure, Rollout, RolloutFailure,
    RolloutState,
};
use crate::task::{ResizeNext, TaskRow, TaskState, leave_asked_ms, leave_due_after_ms, resize_next};

/// Attempts that one step ends, resizes or gives the version at most.
pub const REPLACED_MAX: usize = 256;
/// A rollout orders resizes for at most one in so many tasks at a time: others wait until these have shown what the new
/// amounts do.
const RESIZED_PART: u32 = 10;

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
    leave_ms: u64,
    /// Whether it takes a version back. It waits for no task that was never placed: the version was not tried on it.
    reverts: bool,
    /// Since when somebody has looked at the rollout without a break. Nobody has let it make progress before.
    watched_since_ms: i64,
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

    /// As [`is_aside`], for the rollout of the job.
    fn is_aside(&self, task: &TaskRow) -> bool {
        is_aside(task, self.daemon_since_ms)
    }

    /// Whether the version that is taken back was never tried on the task: the way back does not wait for it.
    fn is_untried(&self, task: &TaskRow) -> bool {
        self.reverts && task.state == TaskState::Pending && task.spec_version == 0
    }

    /// How many healthy attempts may be ended while so many tasks are available.
    fn healthy_left(&self, available: u32) -> u32 {
        healthy_left(available, self.unavailable_max, self.count)
    }
}

/// How long an attempt may take to end with the helpers that run after its command.
fn leave_with_helpers_ms(spec: &JobSpec) -> u64 {
    let after = spec.task.helpers.iter().filter(|helper| helper.when == HelperPhase::After);
    let after = after.filter_map(HelperSpec::deadline_in_force).fold(0, u64::saturating_add);
    leave_asked_ms(spec).saturating_add(after)
}

/// What a look at the tasks of a job has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutView {
    /// Tasks with a healthy attempt; one of the version in force for long enough.
    available: u32,
    /// Tasks that need nothing more.
    settled: u32,
    /// Tasks that surge and do not wait for a node.
    surging: u32,
    /// Whether a stale attempt of the owner's tasks has not ended yet, besides healthy ones.
    stale: bool,
    /// Healthy stale attempts of the owner.
    stale_healthy: u32,
    /// Whether one of the other tasks has not ended.
    stale_beyond: bool,
    /// Stale attempts that serve nobody, and those that are healthy.
    idle: Vec<(TaskId, Incarnation)>,
    healthy: Vec<(TaskId, Incarnation)>,
    /// Running attempts that adopt the version.
    adopting: Vec<(TaskId, Incarnation)>,
    /// Running attempts to resize.
    resized: Vec<(TaskId, Incarnation)>,
    /// Resizes that are on their way.
    resizing: u32,
    /// Tasks that use more memory than they are to have.
    memory_in_use: u32,
    /// The task that fails most often in a row, with its failures.
    failing: Option<(u32, u32)>,
    /// When a task last became healthy with the version in force.
    progress_ms: Option<i64>,
    /// When the next healthy attempt has been so for long enough.
    due_ms: Option<i64>,
    /// Canaries that have been healthy for long enough.
    canaries: u32,
    /// Tasks of the owner with a row.
    known: u32,
    /// Attempts that keep an earlier version, since their nodes take no new ones.
    kept: u32,
}

/// What a rollout does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutStep {
    /// Nothing before a task changes, or before this time of the cell (milliseconds since 1970).
    Wait {
        due_ms: Option<i64>,
    },
    /// It gives these attempts the version as they run.
    Adopt(Vec<(TaskId, Incarnation)>),
    /// It orders that these attempts are resized in place.
    Resize(Vec<(TaskId, Incarnation)>),
    /// It has further tasks surge: some attempts cannot be resized in place.
    Surge,
    /// It ends these attempts.
    Replace(Vec<(TaskId, Incarnation)>),
    /// It records that the canaries are healthy, and wait for their promotion. Or that they no longer are, and have a
    /// deadline again.
    Canaries(CanaryHealth),
    /// The canaries are healthy, and promote the version.
    Promote,
    /// Every task has a healthy attempt of the version in force, except so many that it may not end any more.
    Done {
        skipped: u32,
    },
    Fail(RolloutFailure),
}

impl RolloutView {
    /// Takes a task of the job into account.
    pub fn visit(&mut self, task: &TaskRow, fit: AttemptFit, rules: &RolloutRules, now_ms: i64) {
        if task.id.index >= rules.count.saturating_add(rules.surge) {
            // It is ending.
            self.stale_beyond |= task.state != TaskState::Dead && task.spec_version < rules.version;
            return;
        }
        self.known = self.known.saturating_add(u32::from(task.id.index < rules.count));
        if rules.canaries > 0 && task.id.index < rules.count {
            return self.visit_beside_canaries(task, rules);
        }
        let resize = resize_next(task, fit.resize_wish(), rules.version, now_ms);
        // Nobody knows what is in force in an attempt whose resize has come to nothing.
        let stale = fit != AttemptFit::Fits || resize == Some(ResizeNext::Replace);
        let attempt = (task.id, task.incarnation);
        let is_healthy = task.is_healthy();
        let is_new = task.spec_version >= rules.version;
        let is_earlier = task.spec_version > 0 && !is_new;
        // One that surges is never settled: it ends with the rollout.
        let owned = u32::from(task.id.index < rules.count);
        let surges = task.id.index >= rules.count && !task.waits_for_node();
        if is_earlier && task.state == TaskState::Stopping {
            self.visit_leaving(task, rules, now_ms);
        }
        self.surging = self.surging.saturating_add(u32::from(surges));
        match task.state {
            _ if rules.is_aside(task) => {
                self.settled = self.settled.saturating_add(owned);
                self.available = self.available.saturating_add(owned);
            }
            _ if rules.is_untried(task) => self.settled = self.settled.saturating_add(owned),
            // It ended because the job had been smaller, and begins again.
            TaskState::Dead => {}
            _ if matches!(fit, AttemptFit::Kept | AttemptFit::Larger) => self.visit_kept(fit, owned),
            // What waits for a node gets the version with it.
            _ if fit == AttemptFit::Adopts && resize.is_none() && task.state != TaskState::Pending => {
                self.visit_adoption(task, owned);
            }
            _ if rules.waits && is_earlier => self.stale_add(owned),
            _ if matches!(resize, Some(ResizeNext::Order | ResizeNext::Wait { .. })) => {
                self.visit_resize(task, resize, owned);
            }
            TaskState::Held | TaskState::Assigned | TaskState::Starting | TaskState::Running if stale => {
                if is_healthy && owned > 0 {
                    self.stale_healthy = self.stale_healthy.saturating_add(1);
                } else {
                    self.stale_add(owned);
                }
                self.available = self.available.saturating_add(u32::from(is_healthy));
                let found = if is_healthy { &mut self.healthy } else { &mut self.idle };
                if found.len() < REPLACED_MAX {
                    found.push(attempt);
                }
            }
            TaskState::Lost | TaskState::Stopping | TaskState::Releasing if stale => {
                self.stale_add(owned);
            }
            // The change does not concern it: it serves, or fails for reasons of its own. One that was replaced for a
            // version that is taken back now has not failed, and is waited for.
            _ if is_earlier && !stale && (is_healthy || task.failures > 0) => {
                self.settled = self.settled.saturating_add(owned);
                let holds_none_up = is_healthy || (owned > 0 && task.keeps_failing());
                self.available = self.available.saturating_add(u32::from(holds_none_up));
            }
            TaskState::Running if is_healthy => self.visit_healthy(task, rules, now_ms),
            _ => {}
        }
        if is_new && task.failures > self.failing.map_or(0, |(_, failures)| failures) {
            self.failing = Some((task.id.index, task.failures));
        }
    }

    /// A task of the owner while canaries try the version. It keeps its own. While it is away, what surges may stand in
    /// for it.
    fn visit_beside_canaries(&mut self, task: &TaskRow, rules: &RolloutRules) {
        let holds_none_up = task.is_healthy() || task.keeps_failing() || rules.is_aside(task);
        self.available = self.available.saturating_add(u32::from(holds_none_up));
    }

    /// An attempt of a daemon job that goes on although it has an earlier version. Its node gets no other one, so it
    /// uses no budget either.
    fn visit_kept(&mut self, fit: AttemptFit, owned: u32) {
        self.available = self.available.saturating_add(owned);
        if fit == AttemptFit::Larger {
            self.stale_add(owned);
        } else {
            self.kept = self.kept.saturating_add(owned);
        }
    }

    /// An attempt that ends takes the time that its owner gave it. The deadline begins after it.
    fn visit_leaving(&mut self, task: &TaskRow, rules: &RolloutRules, now_ms: i64) {
        let leaves_ms = leave_due_after_ms(task.changed_ms, rules.leave_ms);
        self.progress_ms = self.progress_ms.max(Some(leaves_ms.min(now_ms)));
    }

    /// A stale attempt; `owned`: 1 if it is of a task of the owner.
    fn stale_add(&mut self, owned: u32) {
        let is = if owned > 0 { &mut self.stale } else { &mut self.stale_beyond };
        *is = true;
    }

    /// An attempt that adopts the version once it runs. It serves meanwhile.
    fn visit_adoption(&mut self, task: &TaskRow, owned: u32) {
        self.stale_add(owned);
        self.available = self.available.saturating_add(u32::from(task.is_healthy()));
        if task.state == TaskState::Running && self.adopting.len() < REPLACED_MAX {
            self.adopting.push((task.id, task.incarnation));
        }
    }

    /// A running attempt that is resized in place, or waits for that. It serves meanwhile.
    fn visit_resize(&mut self, task: &TaskRow, next: Option<ResizeNext>, owned: u32) {
        self.stale_add(owned);
        self.available = self.available.saturating_add(u32::from(task.is_healthy()));
        match next {
            Some(ResizeNext::Order) if self.resized.len() < REPLACED_MAX => {
                self.resized.push((task.id, task.incarnation));
            }
            Some(ResizeNext::Wait { due_ms }) => self.due_add(due_ms),
            Some(ResizeNext::Order | ResizeNext::Replace) | None => {}
        }
        let is_refused = task.resize.as_ref().is_some_and(|resize| resize.refused.is_some());
        self.memory_in_use = self.memory_in_use.saturating_add(u32::from(is_refused));
        self.resizing = self.resizing.saturating_add(u32::from(task.resize_ordered().is_some()));
        self.progress_ms = self.progress_ms.max(task.resize_ordered().map(|resize| resize.at_ms));
    }

    /// Something is due then.
    fn due_add(&mut self, due_ms: i64) {
        self.due_ms = Some(self.due_ms.map_or(due_ms, |known| known.min(due_ms)));
    }

    /// How many tasks keep an earlier version, if nothing is left to do; `None`: something is. What surges ends then.
    /// Until it has ended, a version that asks for other resources stays charged.
    fn done_skipped(&self, rollout: &Rollout, rules: &RolloutRules) -> Option<u32> {
        let left = if rules.disruptions_left == Some(0) { self.stale_healthy } else { 0 };
        let skipped = left.saturating_add(self.kept);
        let is_settled = self.settled.saturating_add(skipped) >= rules.count && self.stale_healthy == left;
        let beyond_ends = !self.stale_beyond || rollout.held.is_empty();
        (rules.canaries == 0 && !self.stale && beyond_ends && is_settled).then_some(skipped)
    }

    /// A healthy attempt of the version in force.
    fn visit_healthy(&mut self, task: &TaskRow, rules: &RolloutRules, now_ms: i64) {
        let due_ms = task.healthy_ms.saturating_add(rules.healthy_after_ms);
        // That it proves itself is progress, and so is the end of that: it may take longer than the deadline.
        self.progress_ms = self.progress_ms.max(Some(due_ms.min(now_ms)));
        if due_ms <= now_ms {
            self.canaries = self.canaries.saturating_add(u32::from(task.id.index >= rules.count));
            self.available = self.available.saturating_add(1);
            self.settled = self.settled.saturating_add(u32::from(task.id.index < rules.count));
        } else {
            self.due_add(due_ms);
        }
    }

    /// The step that follows from canaries, if it is about them.
    fn canary_step(&self, rollout: &Rollout, rules: &RolloutRules) -> Option<RolloutStep> {
        let is_known = rollout.canaries_healthy_ms > 0;
        if rules.canaries == 0 || self.canaries < rules.canaries {
            return is_known.then_some(RolloutStep::Canaries(CanaryHealth::Awaited));
        }
        if rules.auto_promote {
            return Some(RolloutStep::Promote);
        }
        // A person may take any time to look at them.
        let wait = RolloutStep::Wait { due_ms: None };
        Some(if is_known { wait } else { RolloutStep::Canaries(CanaryHealth::Healthy) })
    }

    /// The attempts to resize now: as many as may be on their way, and none while a task fails with the new version.
    fn resize_batch(&mut self, rules: &RolloutRules) -> Vec<(TaskId, Incarnation)> {
        let left = rules.resizing_max.saturating_sub(self.resizing);
        let left = if self.failing.is_some() { 0 } else { left };
        let mut batch = std::mem::take(&mut self.resized);
        batch.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        batch
    }

    /// What the rollout does next at this time of the cell.
    pub fn step(mut self, rollout: &Rollout, rules: &RolloutRules, now_ms: i64) -> RolloutStep {
        if rollout.state != RolloutState::Rolling {
            return RolloutStep::Wait { due_ms: None };
        }
        if rules.reverts {
            // Those without a row were never placed.
            self.settled = self.settled.saturating_add(rules.count.saturating_sub(self.known));
        }
        if !self.adopting.is_empty() {
            return RolloutStep::Adopt(std::mem::take(&mut self.adopting));
        }
        if rules.waits {
            let is_stale = self.stale || self.stale_beyond || self.stale_healthy > 0;
            return if is_stale {
                RolloutStep::Wait { due_ms: None }
            } else {
                RolloutStep::Done { skipped: 0 }
            };
        }
        if let Some((index, failures)) = self.failing.filter(|(_, failures)| *failures > rules.failures_max) {
            return RolloutStep::Fail(RolloutFailure::TaskFails { index, failures });
        }
        if let Some(step) = self.canary_step(rollout, rules) {
            return step;
        }
        if let Some(skipped) = self.done_skipped(rollout, rules) {
            return RolloutStep::Done { skipped };
        }
        let since_ms = self.progress_ms.map_or(rollout.clock_ms, |last| last.max(rollout.clock_ms));
        let since_ms = since_ms.max(rules.watched_since_ms);
        let end_ms = since_ms.saturating_add_unsigned(rules.deadline_ms);
        if now_ms >= end_ms {
            let surge_unplaced = rules.surge.saturating_sub(self.surging);
            let (deadline_ms, memory_in_use) = (rules.deadline_ms, self.memory_in_use);
            let failure = RolloutFailure::NoProgress { deadline_ms, surge_unplaced, memory_in_use };
            return RolloutStep::Fail(failure);
        }
        let batch = self.resize_batch(rules);
        if !batch.is_empty() {
            return RolloutStep::Resize(batch);
        }
        if rules.surge_late > 0 && !self.healthy.is_empty() {
            return RolloutStep::Surge;
        }
        let left = rules.healthy_left(self.available);
        let healthy = if rules.together { usize::MAX } else { usize::try_from(left).unwrap_or(usize::MAX) };
        let mut replaced = std::mem::take(&mut self.idle);
        let mut owned_left = rules.disruptions_left.unwrap_or(u32::MAX);
        // Nobody misses what surges.
        let may_end = |(task, _): &(TaskId, Incarnation)| {
            let is_owned = task.index < rules.count;
            let is_left = !is_owned || owned_left > 0;
            owned_left = owned_left.saturating_sub(u32::from(is_owned));
            is_left
        };
        replaced.extend(self.healthy.drain(..).filter(may_end).take(healthy));
        replaced.truncate(REPLACED_MAX);
        if replaced.is_empty() {
            let due_ms = self.due_ms.map_or(end_ms, |due_ms| due_ms.min(end_ms));
            return RolloutStep::Wait { due_ms: Some(due_ms) };
        }
        RolloutStep::Replace(replaced)
    }
}

/// How many canaries have been healthy for long enough by `rows`.
pub fn canaries_healthy<'r>(
    rules: &RolloutRules,
    rows: impl Iterator<Item = &'r TaskRow>,
    now_ms: i64,
) -> u32 {
    let mut view = RolloutView::default();
    for row in rows.filter(|row| row.id.index >= rules.count && row.spec_version >= rules.version) {
        view.visit(row, AttemptFit::Fits, rules, now_ms);
    }
    view.canaries
}
