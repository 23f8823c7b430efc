//! The disruption budget of a job: how many of its healthy tasks may be ended by choice now, whatever the cause.
//!
//! Rollouts, drains and taints ask here, and the scheduler for evictions. A task of the owner that is away uses budget,
//! whatever it is away for. A task that keeps failing does not: nobody knows when it will serve, so it would hold up a
//! drain for ever. One with a version that was never rolled out does. A healthy task that surges gives one back.

use std::collections::BTreeSet;

use crate::id::{Incarnation, TaskId};
use crate::job::{JobKind, JobRow, JobSpec, JobState, RolloutState, UpdateSpec};
use crate::task::{TaskRow, TaskState};

/// The most tasks of a job of which a transaction reads all rows before it ends healthy attempts. For a larger job that
/// would cost more than the step.
pub const RECHECKED_MAX: u32 = 1_024;

/// What ends healthy attempts by choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisruptionCause {
    /// A rollout. A job that says nothing lets one task be away. A task that was never placed is away too.
    Rollout,
    /// A drain, or a taint that drives attempts away. A job that says nothing lets a quarter of its tasks be away. One
    /// that was never placed is not away: no move has taken it.
    Move,
}

/// The rules by which a job lets tasks be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisruptionBudget {
    pub cause: DisruptionCause,
    /// How many tasks the owner wants.
    pub count: u32,
    /// How many surge beside them.
    pub surge: u32,
    /// How many tasks of the owner may be away.
    pub away_max: u32,
    /// Whether no bound holds for its attempts: its tasks run only together.
    pub is_unbounded: bool,
    /// How many tasks should surge for moves before a healthy one leaves its node; 0: none.
    pub surge_wanted: u32,
    /// What a rollout that goes on brings.
    rolling: Option<RollingVersion>,
    /// The newest version that was rolled out, while a later one is in force that was not; `None`: each was.
    proven: Option<u32>,
    /// When its rollout began, if the job is a daemon job: it does not wait for a task without room on its node.
    daemon_since_ms: Option<i64>,
    /// When nobody waits any more for what surges and has no node (milliseconds since 1970).
    surge_due_ms: i64,
}

/// The version of a rollout that goes on: its attempts have to prove themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RollingVersion {
    version: u32,
    healthy_after_ms: i64,
}

/// What a task is for the budget of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPresence {
    /// It serves, or nothing will ever begin it again.
    Present,
    /// It uses budget.
    Away,
    /// It is not healthy, and uses none: it keeps failing, or was never placed.
    Exempt,
}

impl DisruptionBudget {
    /// The budget of a job with `spec` in force.
    pub fn of(spec: &JobSpec, row: &JobRow, cause: DisruptionCause) -> Self {
        let (count, surge) = (row.owner_count(), row.surge());
        let rollout = row.rollout.as_deref().filter(|_| spec.kind != JobKind::Batch);
        let unproven = rollout.filter(|rollout| rollout.state != RolloutState::Done);
        let proven = unproven.map(|rollout| rollout.stable.last().copied().unwrap_or(0));
        let rolling = rollout.filter(|rollout| rollout.state == RolloutState::Rolling);
        let rolling = rolling.map(|rollout| RollingVersion {
            version: rollout.version,
            healthy_after_ms: i64::try_from(spec.update.unwrap_or_default().healthy_after_ms)
                .unwrap_or(i64::MAX),
        });
        let is_unbounded = spec.is_gang() && cause == DisruptionCause::Rollout;
        let surge_wanted = if cause == DisruptionCause::Move { moves_surge(spec, row) } else { 0 };
        let size = JobSize { count, wanted: row.wanted_count(), surge: surge.max(surge_wanted) };
        let away_max = away_max(spec, size, cause);
        let surge_wanted = if away_max == 0 && surge == 0 { surge_wanted } else { 0 };
        let daemon = row.rollout.as_deref().filter(|_| spec.kind == JobKind::Daemon);
        let daemon_since_ms = daemon.map(|rollout| rollout.begun_ms);
        let surge_due_ms = row.changed_ms.saturating_add_unsigned(spec.progress_deadline_in_force());
        Self {
            cause,
            count,
            surge,
            away_max,
            is_unbounded,
            surge_wanted,
            rolling,
            proven,
            daemon_since_ms,
            surge_due_ms,
        }
    }

    /// The budget of a job in an alloc set for moves of its allocs; `None`: no bound holds. Nothing can stand in for a
    /// task that goes where its alloc goes, so the job bears at least one that is away.
    pub fn in_alloc(spec: &JobSpec, row: &JobRow) -> Option<Self> {
        let is_bound = row.state == JobState::Running && spec.kind != JobKind::Batch;
        is_bound.then(|| {
            let of = Self::of(spec, row, DisruptionCause::Move);
            Self { away_max: of.away_max.max(1), surge_wanted: 0, ..of }
        })
    }

    /// What a task with a row is for the budget. A task of the owner has an index below the count.
    pub fn presence(&self, task: &TaskRow, now_ms: i64) -> TaskPresence {
        let is_new = self.rolling.is_some_and(|rolling| task.spec_version >= rolling.version);
        let unplaced =
            if self.cause == DisruptionCause::Rollout { TaskPresence::Away } else { TaskPresence::Exempt };
        match task.state {
            _ if is_aside(task, self.daemon_since_ms) => TaskPresence::Present,
            // It ended because the job had been smaller, and begins again.
            TaskState::Dead => unplaced,
            TaskState::Running if task.is_healthy() => {
                let after_ms = self.rolling.filter(|_| is_new).map_or(0, |rolling| rolling.healthy_after_ms);
                let is_proven = task.healthy_ms.saturating_add(after_ms) <= now_ms;
                if is_proven || !is_new { TaskPresence::Present } else { TaskPresence::Away }
            }
            _ if task.incarnation.0 == 0 => unplaced,
            // A version that never served fails by itself. Were that free, each task that moves would begin with it,
            // and none would be left.
            _ if task.keeps_failing()
                && self.proven.is_none_or(|proven| task.failing_version() <= proven) =>
            {
                TaskPresence::Exempt
            }
            _ => TaskPresence::Away,
        }
    }

    /// Whether healthy attempts must be seen too: those of a rollout's version may be away for the budget.
    pub fn needs_healthy(&self) -> bool {
        self.rolling.is_some()
    }
}

/// How many tasks of a job may surge for moves: as many as for a rollout. While a rollout goes on, what surges for it
/// serves moves as well.
fn moves_surge(spec: &JobSpec, row: &JobRow) -> u32 {
    let is_refused = row.moves.as_ref().is_some_and(|moves| moves.surge_refused);
    let rolls = row.rollout.as_ref().is_some_and(|rollout| rollout.state.is_open());
    if is_refused || rolls { 0 } else { spec.surge(row.owner_count()) }
}

/// How many tasks a job has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobSize {
    /// The indexes of the owner's tasks are below it.
    pub count: u32,
    /// How many of them the owner wants: a daemon job keeps the indexes of nodes that are gone.
    pub wanted: u32,
    /// How many surge beside them.
    pub surge: u32,
}

/// Returns true if nothing begins the task soon, so that it neither holds up the others nor is waited for. It has ended
/// for good. Or its daemon job, whose rollout began at `daemon_since_ms`, has had no room for it since before that, or
/// since its node was given it.
pub(crate) fn is_aside(task: &TaskRow, daemon_since_ms: Option<i64>) -> bool {
    match task.state {
        TaskState::Dead => !task.is_spared(),
        TaskState::Pending => daemon_since_ms.is_some_and(|since_ms| {
            let waits_since_ms = task.changed_ms.max(task.not_before_ms);
            task.failures == 0 && (task.spec_version == 0 || waits_since_ms < since_ms)
        }),
        TaskState::Held
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost => false,
    }
}

/// How many of a job's tasks may be away, while `surge` tasks are beside the `count` of its owner.
pub(crate) fn away_max(spec: &JobSpec, size: JobSize, cause: DisruptionCause) -> u32 {
    let JobSize { count, wanted, surge } = size;
    let update = spec.update.unwrap_or_default();
    // What surges for an earlier version does not have to suffice: perhaps none of it serves.
    let surging = spec.surge(count).max(spec.canaries(count)).min(surge);
    let said = update.unavailable(wanted, surging);
    let says = update.unavailable_max.is_some()
        || update.unavailable_percent_max.is_some()
        || spec.surge(count) > 0
        || spec.canaries(count) > 0;
    match cause {
        DisruptionCause::Move if !says => (wanted / 4).max(1),
        DisruptionCause::Move | DisruptionCause::Rollout => said,
    }
}

/// How many tasks of a job evictions should leave without a place. The scheduler exceeds it only if no other victims
/// suffice, and of a service only for a higher band: that needs the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EvictionBudget {
    /// The job's own bound for evictions.
    down_max: Option<u32>,
    /// The bound of a service for every cause.
    unavailable_max: Option<u32>,
    unavailable_percent_max: Option<u32>,
}

impl EvictionBudget {
    /// The budget of a job with this spec.
    pub fn of(spec: &JobSpec) -> Self {
        let serves = matches!(spec.kind, JobKind::Service | JobKind::AllocSet) && !spec.is_gang();
        let update = spec.update.filter(|_| serves).unwrap_or_default();
        Self {
            down_max: spec.preemption.and_then(|preemption| preemption.down_max),
            unavailable_max: update.unavailable_max,
            unavailable_percent_max: update.unavailable_percent_max,
        }
    }

    /// How many of `count` tasks may be without a place; `None`: any number.
    pub fn down_max(self, count: u32) -> Option<u32> {
        let says = self.unavailable_max.is_some() || self.unavailable_percent_max.is_some();
        let Self { unavailable_max, unavailable_percent_max, .. } = self;
        let update = UpdateSpec { unavailable_max, unavailable_percent_max, ..UpdateSpec::default() };
        // An eviction waits for no task that surges.
        self.down_max.or_else(|| says.then(|| update.unavailable(count, 0)))
    }
}

/// How many healthy tasks may be ended while `available` tasks are not away, and those that surge serve beside them.
pub(crate) fn healthy_left(available: u32, away_max: u32, count: u32) -> u32 {
    available.saturating_add(away_max).saturating_sub(count)
}

/// What the tasks of a job take of its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetUse {
    /// Tasks of the owner that are away.
    pub away: u32,
    /// Tasks of the owner that keep failing.
    pub failing: u32,
    /// Healthy tasks that surge.
    pub surging: u32,
    /// Tasks that surge and will not serve: they keep failing, or are over.
    surge_failing: u32,
    /// Tasks that surge and have, or had, a node.
    surge_placed: u32,
    /// Tasks of the owner with a row.
    known: u32,
}

impl BudgetUse {
    /// The use by all rows of a job.
    pub fn of_rows<'r>(
        budget: &DisruptionBudget,
        rows: impl IntoIterator<Item = &'r TaskRow>,
        now_ms: i64,
    ) -> Self {
        let mut used = Self::default();
        rows.into_iter().for_each(|row| used.visit(budget, row, now_ms));
        // A task without a row was never placed.
        if budget.cause == DisruptionCause::Rollout {
            used.away = used.away.saturating_add(budget.count.saturating_sub(used.known));
        }
        used
    }

    /// Takes a row into account. For a move, a present task of the owner need not be visited.
    pub fn visit(&mut self, budget: &DisruptionBudget, task: &TaskRow, now_ms: i64) {
        if task.id.index >= budget.count.saturating_add(budget.surge) {
            // It is ending.
            return;
        }
        let presence = budget.presence(task, now_ms);
        if task.id.index < budget.count {
            self.known = self.known.saturating_add(1);
            self.away = self.away.saturating_add(u32::from(presence == TaskPresence::Away));
            self.failing = self.failing.saturating_add(u32::from(task.keeps_failing()));
            return;
        }
        let serves = presence == TaskPresence::Present && task.is_healthy();
        let is_over = task.state == TaskState::Dead && !task.is_spared();
        self.surging = self.surging.saturating_add(u32::from(serves));
        let fails = is_over || task.keeps_failing();
        self.surge_failing = self.surge_failing.saturating_add(u32::from(fails));
        let is_placed = fails || !task.waits_for_node();
        self.surge_placed = self.surge_placed.saturating_add(u32::from(is_placed));
    }

    /// Takes a task into account whose row says that it is healthy, and whose node does not answer: nobody knows, so it
    /// serves nobody.
    pub fn visit_unseen(&mut self, budget: &DisruptionBudget, task: &TaskRow) {
        if task.id.index < budget.count {
            self.known = self.known.saturating_add(1);
            self.away = self.away.saturating_add(1);
        } else if task.id.index < budget.count.saturating_add(budget.surge) {
            self.surge_placed = self.surge_placed.saturating_add(1);
        }
    }

    /// How many tasks may be away by this budget, at this time of the cell.
    pub fn away_max(&self, budget: &DisruptionBudget, now_ms: i64) -> u32 {
        // A rollout that goes on fails if what surges does, and then the version before serves. Once it is over, a move
        // would wait for ever. It waits as long for a node for what surges as a rollout would.
        let is_over = budget.rolling.is_none();
        let unplaced = budget.surge.saturating_sub(self.surge_placed);
        let unplaced = if now_ms >= budget.surge_due_ms { unplaced } else { 0 };
        let serves_not = self.surge_failing.saturating_add(unplaced);
        let is_hopeless = is_over && budget.surge > 0 && serves_not >= budget.surge;
        match budget.cause {
            DisruptionCause::Move if is_hopeless => budget.away_max.max(1),
            DisruptionCause::Move | DisruptionCause::Rollout => budget.away_max,
        }
    }

    /// How many healthy tasks of the job may be ended at this time of the cell.
    pub fn left(&self, budget: &DisruptionBudget, now_ms: i64) -> u32 {
        if budget.is_unbounded {
            return u32::MAX;
        }
        let available = budget.count.saturating_sub(self.away).saturating_add(self.surging);
        healthy_left(available, self.away_max(budget, now_ms), budget.count)
    }
}

/// Those of `attempts` that may be ended by `rows`, which are all rows of the job. An attempt that is not healthy may
/// always be ended.
pub fn attempts_within(
    budget: &DisruptionBudget,
    rows: &[TaskRow],
    attempts: &[(TaskId, Incarnation)],
    now_ms: i64,
) -> Vec<(TaskId, Incarnation)> {
    let mut left = EndsLeft::of(budget, rows, now_ms);
    attempts.iter().filter(|(task, _)| left.take(*task)).copied().collect()
}

/// Which attempts of a job may still be ended. One that is not healthy may always be.
#[derive(Clone, Debug)]
pub struct EndsLeft {
    left: u32,
    healthy: BTreeSet<TaskId>,
}

impl EndsLeft {
    /// By `rows`, which are all rows of the job.
    pub fn of(budget: &DisruptionBudget, rows: &[TaskRow], now_ms: i64) -> Self {
        let left = BudgetUse::of_rows(budget, rows, now_ms).left(budget, now_ms);
        let wanted = budget.count.saturating_add(budget.surge);
        let healthy = rows.iter().filter(|row| row.is_healthy() && row.id.index < wanted);
        Self { left, healthy: healthy.map(|row| row.id).collect() }
    }

    /// Returns true if the task's attempt may be ended now, and counts it.
    pub fn take(&mut self, task: TaskId) -> bool {
        if !self.healthy.contains(&task) {
            return true;
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}
