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
mod rules;

pub use fit::{AttemptFit, AttemptFits, RolloutBegin, SpecDifference};
pub use progress::{RolloutProgress, TaskProgress};
pub use rules::RolloutRules;

use crate::id::{Incarnation, TaskId};
use crate::job::{CanaryHealth, Rollout, RolloutFailure, RolloutState};
use crate::task::{ResizeNext, TaskRow, TaskState, leave_due_after_ms, resize_next};

/// Attempts that one step ends, resizes or gives the version at most.
pub const REPLACED_MAX: usize = 256;

/// What a look at the tasks of a job has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutView {
    /// Tasks with a healthy attempt; one of the version in force for long enough.
    available: u32,
    /// Tasks that need nothing more.
    settled: u32,
    /// Tasks of the owner that serve with the version, or have nowhere to.
    serving: u32,
    /// Tasks that wait or are judged for what is over.
    behind: Vec<(TaskId, Incarnation)>,
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
    /// The same without attempts on their way that may fail as those before have: this is kept when it is gone.
    kept_ms: i64,
    /// When the next healthy attempt has been so for long enough.
    due_ms: Option<i64>,
    /// Canaries that have been healthy for long enough.
    canaries: u32,
    /// When the last of them has been so.
    canaries_due_ms: i64,
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
    /// It records that it made progress then.
    Progress(i64),
    /// It lets these tasks be tried at once: what they wait for is over.
    Retry(Vec<(TaskId, Incarnation)>),
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
        let is_behind = self.visit_behind(task, fit, rules, now_ms);
        if rules.canaries > 0 && task.id.index < rules.count {
            return self.visit_beside_canaries(task, rules);
        }
        let resize = resize_next(task, fit.resize_wish(), rules.version, now_ms);
        // Nobody knows what is in force in an attempt whose resize has come to nothing.
        let stale = fit != AttemptFit::Fits || resize == Some(ResizeNext::Replace);
        let is_healthy = task.is_healthy();
        let is_new = task.spec_version >= rules.version;
        let is_earlier = task.spec_version > 0 && !is_new;
        // It has failed in the same way before the version.
        let fails_before = task.failures > 0 && task.failing_version() < rules.version;
        // One that surges is never settled: it ends with the rollout.
        let owned = u32::from(task.id.index < rules.count);
        let surges = task.id.index >= rules.count && !task.waits_for_node();
        if is_earlier && matches!(task.state, TaskState::Stopping | TaskState::Releasing) {
            self.visit_leaving(task, rules, now_ms);
        }
        self.surging = self.surging.saturating_add(u32::from(surges));
        match task.state {
            _ if rules.is_aside(task) => {
                self.settled = self.settled.saturating_add(owned);
                self.available = self.available.saturating_add(owned);
                self.serving_add(if task.state == TaskState::Dead { 0 } else { owned });
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
                self.visit_stale(task, owned);
            }
            TaskState::Lost | TaskState::Stopping | TaskState::Releasing if stale => {
                self.stale_add(owned);
            }
            // The change does not concern it: it serves, or fails for reasons of its own. One that was replaced for a
            // version that is taken back now has not failed, and is waited for.
            _ if (is_earlier || fails_before) && !stale && (is_healthy || task.failures > 0) => {
                self.settled = self.settled.saturating_add(owned);
                self.serving_add(if is_healthy { owned } else { 0 });
                let holds_none_up = is_healthy || (owned > 0 && task.keeps_failing());
                self.available = self.available.saturating_add(u32::from(holds_none_up));
            }
            TaskState::Running if is_healthy => self.visit_healthy(task, rules, now_ms),
            _ => {}
        }
        if is_new && !is_behind && !fails_before {
            self.visit_failures(task);
        }
    }

    /// Takes a task into account whose row says that it is healthy, and whose node does not answer: nobody knows. It
    /// serves nobody for the budget, proves nothing, and is not ended, since it may serve.
    pub fn visit_unseen(&mut self, task: &TaskRow, fit: AttemptFit, rules: &RolloutRules) {
        let is_owned = task.id.index < rules.count;
        self.known = self.known.saturating_add(u32::from(is_owned));
        self.surging = self.surging.saturating_add(u32::from(!is_owned));
        if rules.canaries > 0 && is_owned {
            return;
        }
        let is_earlier = task.spec_version < rules.version;
        match fit {
            AttemptFit::Fits if is_earlier => {
                // The change does not concern it.
                self.settled = self.settled.saturating_add(u32::from(is_owned));
                self.serving_add(u32::from(is_owned));
            }
            AttemptFit::Fits => {}
            AttemptFit::Kept => self.kept = self.kept.saturating_add(u32::from(is_owned)),
            AttemptFit::Stale | AttemptFit::Resizes | AttemptFit::Adopts | AttemptFit::Larger => {
                self.stale_add(u32::from(is_owned));
            }
        }
    }

    /// A stale attempt that is to be ended.
    fn visit_stale(&mut self, task: &TaskRow, owned: u32) {
        let is_healthy = task.is_healthy();
        if is_healthy && owned > 0 {
            self.stale_healthy = self.stale_healthy.saturating_add(1);
        } else {
            self.stale_add(owned);
        }
        self.available = self.available.saturating_add(u32::from(is_healthy));
        let found = if is_healthy { &mut self.healthy } else { &mut self.idle };
        if found.len() < REPLACED_MAX {
            found.push((task.id, task.incarnation));
        }
    }

    /// Whether the task waits or is judged for what is over.
    fn visit_behind(&mut self, task: &TaskRow, fit: AttemptFit, rules: &RolloutRules, now_ms: i64) -> bool {
        let is_behind = rules.is_behind(task, fit, now_ms);
        if is_behind && self.behind.len() < REPLACED_MAX {
            self.behind.push((task.id, task.incarnation));
        }
        is_behind
    }

    /// The failures of a task with the version in force.
    fn visit_failures(&mut self, task: &TaskRow) {
        if task.failures > self.failing.map_or(0, |(_, failures)| failures) {
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
        self.progress_add(leaves_ms.min(now_ms));
    }

    /// Progress that nothing later makes undone.
    fn progress_add(&mut self, at_ms: i64) {
        self.progress_ms = self.progress_ms.max(Some(at_ms));
        self.kept_ms = self.kept_ms.max(at_ms);
    }

    fn serving_add(&mut self, owned: u32) {
        self.serving = self.serving.saturating_add(owned);
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
        match task.resize_ordered() {
            // It gets its time to be carried out. While memory is in use it is refused again and again.
            Some(ordered) if ordered.again => {
                self.progress_ms = self.progress_ms.max(Some(ordered.at_ms));
            }
            Some(ordered) => self.progress_add(ordered.at_ms),
            None => {}
        }
    }

    /// Something is due then.
    fn due_add(&mut self, due_ms: i64) {
        self.due_ms = Some(self.due_ms.map_or(due_ms, |known| known.min(due_ms)));
    }

    /// How many tasks keep an earlier version, if nothing is left to do; `None`: something is. What surges ends then.
    /// Until it has ended, a version that asks for other resources stays charged.
    fn done_skipped(&self, rollout: &Rollout, rules: &RolloutRules) -> Option<u32> {
        self.settled_skipped(rules).filter(|_| !self.stale_beyond || rollout.held.is_empty())
    }

    /// The same, whatever the tasks beyond the count still do.
    fn settled_skipped(&self, rules: &RolloutRules) -> Option<u32> {
        let left = if rules.disruptions_left == Some(0) { self.stale_healthy } else { 0 };
        let skipped = left.saturating_add(self.kept);
        let is_settled = self.settled.saturating_add(skipped) >= rules.count && self.stale_healthy == left;
        (rules.canaries == 0 && !self.stale && is_settled).then_some(skipped)
    }

    /// A healthy attempt of the version in force.
    fn visit_healthy(&mut self, task: &TaskRow, rules: &RolloutRules, now_ms: i64) {
        let due_ms = task.healthy_ms.saturating_add(rules.healthy_after_ms);
        // That it proves itself is progress, and so is the end of that: it may take longer than the deadline.
        let progress_ms = due_ms.min(now_ms);
        if due_ms <= now_ms || task.failures == 0 {
            self.progress_add(progress_ms);
        } else {
            self.progress_ms = self.progress_ms.max(Some(progress_ms));
        }
        if due_ms <= now_ms {
            let owned = u32::from(task.id.index < rules.count);
            if owned == 0 {
                self.canaries = self.canaries.saturating_add(1);
                self.canaries_due_ms = self.canaries_due_ms.max(due_ms);
            }
            self.available = self.available.saturating_add(1);
            self.settled = self.settled.saturating_add(owned);
            self.serving_add(owned);
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
        // A person may take any time to look at them. One that began after the record is another one.
        let is_known = is_known && self.canaries_due_ms <= rollout.canaries_healthy_ms;
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

    fn no_progress(&self, rules: &RolloutRules) -> RolloutFailure {
        let surge_unplaced = rules.surge.saturating_sub(self.surging);
        let (deadline_ms, memory_in_use) = (rules.deadline_ms, self.memory_in_use);
        RolloutFailure::NoProgress { deadline_ms, surge_unplaced, memory_in_use }
    }

    /// A rollout that has failed does nothing more. It is done if every task serves with the version all the same.
    fn end_after_failure(&self, rollout: &Rollout, rules: &RolloutRules) -> RolloutStep {
        let serves = self.stale_healthy == 0 && self.serving.saturating_add(self.kept) >= rules.wanted;
        let skipped = self.done_skipped(rollout, rules).filter(|_| serves && rules.wanted > 0);
        skipped.map_or(RolloutStep::Wait { due_ms: self.due_ms }, |skipped| RolloutStep::Done { skipped })
    }

    /// When the rollout fails without further progress than that on record. `None`: never, since the owner has what the
    /// version brings. Tasks beyond the count take the time that they have to end, and their node may not answer.
    fn end_ms(&self, recorded_ms: i64, rules: &RolloutRules) -> Option<i64> {
        if self.settled_skipped(rules).is_some() {
            return None;
        }
        let since_ms = self.progress_ms.map_or(recorded_ms, |last| last.max(recorded_ms));
        Some(since_ms.max(rules.watched_since_ms).saturating_add_unsigned(rules.deadline_ms))
    }

    /// What the rollout does next at this time of the cell.
    pub fn step(mut self, rollout: &Rollout, rules: &RolloutRules, now_ms: i64) -> RolloutStep {
        match rollout.state {
            RolloutState::Rolling => {}
            RolloutState::Failed => return self.end_after_failure(rollout, rules),
            RolloutState::Paused | RolloutState::Done => return RolloutStep::Wait { due_ms: None },
        }
        if rules.reverts {
            // Those without a row were never placed.
            self.settled = self.settled.saturating_add(rules.count.saturating_sub(self.known));
        }
        if !self.adopting.is_empty() {
            return RolloutStep::Adopt(std::mem::take(&mut self.adopting));
        }
        if !self.behind.is_empty() {
            return RolloutStep::Retry(std::mem::take(&mut self.behind));
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
        let recorded_ms = rollout.clock_ms.max(rollout.progress_ms);
        let end_ms = self.end_ms(recorded_ms, rules);
        if end_ms.is_some_and(|end_ms| now_ms >= end_ms) {
            return RolloutStep::Fail(self.no_progress(rules));
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
            if self.kept_ms >= recorded_ms.saturating_add_unsigned(rules.progress_least_ms()) {
                return RolloutStep::Progress(self.kept_ms);
            }
            return RolloutStep::Wait { due_ms: self.due_ms.into_iter().chain(end_ms).min() };
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
