//! A job in the tables: its row and spec, a slot per task, and which tasks want a node.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use borough_model::job::{JobKind, JobState, LastEviction, claims_below, victims_below};
use borough_model::task::machine::node_avoided;
use borough_model::{Incarnation, JobRow, Name, NodeId, TaskRow, TaskState};

use smallvec::SmallVec;

use super::rule::JobTerms;
use super::shape::ShapeId;
use super::spec::PlanSpec;
use crate::queueing::Turn;

/// An exclusive bound of task indexes. Admission allows far fewer tasks.
pub(crate) const TASKS_MAX: u32 = 1 << 24;

/// One task. It has its complete row only in two states. A pending task needs it for the next attempt. A held task
/// needs it because it may have to leave at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskSlot {
    pub revision: u64,
    pub incarnation: Incarnation,
    pub node: Option<NodeId>,
    /// The node on which it crashed so often that it prefers another.
    pub avoided: Option<NodeId>,
    pub not_before_ms: i64,
    pub spec_version: u32,
    pub failures: u32,
    /// `None`: the task has no row. It is pending and was never placed.
    pub state: Option<TaskState>,
    /// Placed by a plan that is not committed yet. `revision` is still that of the row before.
    pub assumed: bool,
    /// Held for a gang that still gathers, or that was decided but has not reached this member yet.
    pub gathered: bool,
    /// Pending after an eviction.
    pub evicted: bool,
    /// Dead only because its job had shrunk. When the job grows again, the controller revives it, and it wants a node.
    pub spared: bool,
    pub row: Option<Box<TaskRow>>,
}

impl TaskSlot {
    pub(crate) fn of(row: &TaskRow) -> Self {
        Self {
            revision: row.revision,
            incarnation: row.incarnation,
            node: row.node,
            avoided: node_avoided(row),
            not_before_ms: row.not_before_ms,
            spec_version: row.spec_version,
            failures: row.failures,
            state: Some(row.state),
            assumed: false,
            gathered: row.state == TaskState::Held && row.gang.is_some(),
            evicted: row.evicted.is_some(),
            spared: row.is_spared(),
            row: matches!(row.state, TaskState::Pending | TaskState::Held).then(|| Box::new(row.clone())),
        }
    }

    /// Returns true if it wants a node, now or after its back-off.
    pub(crate) fn open(&self) -> bool {
        matches!(self.state, None | Some(TaskState::Pending))
    }

    /// The node that it is for, if it wants one and its job is a daemon job.
    pub(crate) fn node_served(&self) -> Option<NodeId> {
        self.row.as_ref()?.node_served()
    }

    /// Its node, if it is placed.
    pub(crate) fn placed_on(&self) -> Option<NodeId> {
        if self.placed() { self.node } else { None }
    }

    /// Returns true if a disruption budget counts it as up: it is placed, or has ended for good.
    fn up(&self) -> bool {
        self.placed() || self.state == Some(TaskState::Dead)
    }

    /// Returns true if its gang counts it as placed. A member that is held for a gathering gang does not count yet.
    pub(crate) fn counts_for_gang(&self) -> bool {
        self.placed() && !self.gathered
    }

    /// Returns true if it is held, assigned, starting or running on its node.
    pub(crate) fn placed(&self) -> bool {
        use TaskState::{Assigned, Held, Running, Starting};
        matches!(self.state, Some(Held | Assigned | Starting | Running))
    }
}

/// A role of a gang, with the number of members that must be placed together with the other roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangPart {
    /// The first index of the role.
    pub first: u32,
    /// The index after the last.
    pub end: u32,
    /// How many more members must be placed.
    pub need: u32,
}

/// The roles of a gang that still need members.
pub(crate) type GangParts = SmallVec<[GangPart; 1]>;

/// The name of the default scheduler.
const SCHEDULER_DEFAULT: &str = "default";

/// The scheduler that a job names; `None` for the default one.
pub(crate) fn scheduler_named(scheduler: Option<&Name>) -> Option<&Name> {
    scheduler.filter(|name| name.as_str() != SCHEDULER_DEFAULT)
}

/// The shapes of a job that differ from that of its other tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobShapes {
    /// The end of each role's indexes, with the role's shape. While a rollout waits for canaries, the end of the tasks
    /// that keep the earlier version.
    pub of_roles: Vec<(u32, ShapeId)>,
    /// The shapes of tasks with an override.
    pub own: BTreeMap<u32, ShapeId>,
}

/// A job. A cell has as many as tasks if each task is a job of its own, so rare parts are boxed.
#[derive(Clone, Debug, Default)]
pub(crate) struct CellJob {
    pub row: Option<Arc<JobRow>>,
    /// The newest known spec, with its version.
    pub spec: Option<(u32, Arc<PlanSpec>)>,
    /// The spec of [the version beside](JobRow::version_beside) the one in force, with its version. While a rollout
    /// waits for canaries, the owner's tasks keep it.
    pub base: Option<Box<(u32, Arc<PlanSpec>)>>,
    pub tasks: Vec<TaskSlot>,
    /// A bit per task, set if the task does not want a node. Tasks past its end want one.
    closed: SmallVec<[u64; 2]>,
    /// The number of bits set below the job's count.
    closed_wanted: u32,
    /// Placed tasks and tasks that ended for good. A disruption budget counts the others as down.
    up: u32,
    /// Placed tasks per node. Empty unless the job spreads.
    pub placed: BTreeMap<NodeId, u32>,
    pub spreads: bool,
    /// The shape of tasks without a role or override.
    pub shape: Option<ShapeId>,
    /// The other shapes, if any.
    pub shapes_more: Option<Box<JobShapes>>,
    /// The number of tasks for which `shape` was last counted.
    pub weighed: u32,
    /// Its rules between tasks, and the terms that count its tasks.
    pub terms: JobTerms,
    /// The user or queue under which it takes turns. Known once the spec is.
    pub turn: Option<Turn>,
}

impl CellJob {
    /// Desired number of tasks.
    pub(crate) fn count(&self) -> u32 {
        self.row.as_ref().map_or(0, |row| row.count).min(TASKS_MAX)
    }

    /// Tasks below this priority may be victims of one of its tasks; 0: it evicts nobody.
    pub(crate) fn victims_below(&self, index: u32) -> u32 {
        let Some((row, spec)) = self.row.as_ref().zip(self.spec_current()) else { return 0 };
        let evicted = self.task(index).is_some_and(|slot| slot.evicted);
        let last = if evicted { LastEviction::Evicted } else { LastEviction::NotEvicted };
        victims_below(row.priority, spec.preemption, last)
    }

    /// The same bound for a claim of its queue; 0: it claims nothing.
    pub(crate) fn claims_below(&self) -> u32 {
        let current = self.row.as_ref().zip(self.spec_current());
        current.map_or(0, |(row, spec)| claims_below(row.priority, spec.preemption))
    }

    /// How many more of its tasks its disruption budget lets go; `None`: it has no budget.
    pub(crate) fn disruptions_left(&self) -> Option<u32> {
        let down_max = self.spec_current()?.evictions.down_max(self.count())?;
        Some(down_max.saturating_sub(self.count().saturating_sub(self.up)))
    }

    /// The spec in force, if it is known.
    pub(crate) fn spec_current(&self) -> Option<&Arc<PlanSpec>> {
        let row = self.row.as_ref()?;
        self.spec.as_ref().filter(|(version, _)| *version == row.spec_version).map(|(_, spec)| spec)
    }

    /// The spec with which a task begins its next attempt, if it is known.
    pub(crate) fn spec_of_task(&self, index: u32) -> Option<&Arc<PlanSpec>> {
        let row = self.row.as_ref()?;
        if row.version_of(index) == row.spec_version { self.spec_current() } else { self.spec_base() }
    }

    /// The spec of the owner's tasks while a rollout waits for canaries, if it is known.
    fn spec_base(&self) -> Option<&Arc<PlanSpec>> {
        let version = self.row.as_ref()?.canary_base()?;
        self.base.as_deref().filter(|(known, _)| *known == version).map(|(_, spec)| spec)
    }

    /// The tasks that wait for canaries, with their spec: those below the index.
    pub(crate) fn base_below(&self) -> Option<(u32, &Arc<PlanSpec>)> {
        Some((self.row.as_ref()?.owner_count(), self.spec_base()?))
    }

    /// Returns true if its tasks may be placed: it runs, and its specs are known.
    pub(crate) fn runs(&self) -> bool {
        let Some(row) = self.row.as_ref().filter(|row| row.state == JobState::Running) else { return false };
        self.spec_current().is_some() && (row.canary_base().is_none() || self.spec_base().is_some())
    }

    pub(crate) fn task(&self, index: u32) -> Option<&TaskSlot> {
        self.tasks.get(index as usize).filter(|slot| slot.state.is_some())
    }

    /// How many tasks want a node, now or later.
    pub(crate) fn open_count(&self) -> u32 {
        self.count().saturating_sub(self.closed_wanted)
    }

    /// The first time after `now_ms` at which one of its tasks ends its back-off, in milliseconds since 1970.
    pub(crate) fn back_off_next(&self, now_ms: i64) -> Option<i64> {
        let wanted = self.tasks.iter().take(self.count() as usize).filter(|slot| slot.open());
        wanted.map(|slot| slot.not_before_ms).filter(|&at_ms| at_ms > now_ms).min()
    }

    /// How many tasks below its count do not want a node.
    pub(crate) fn closed_total(&self) -> u64 {
        u64::from(self.closed_wanted)
    }

    /// The first task at or after `index` that wants a node.
    pub(crate) fn open_next(&self, index: u32) -> Option<u32> {
        let count = self.count();
        let mut index = index;
        while index < count {
            let word = self.closed.get((index / 64) as usize).copied().unwrap_or(0);
            let open = !word >> (index % 64);
            if open != 0 {
                let found = index + open.trailing_zeros();
                return (found < count).then_some(found);
            }
            index = (index / 64 + 1) * 64;
        }
        None
    }

    /// How many tasks of a range want a node, now or later.
    pub(crate) fn open_within(&self, range: Range<u32>) -> u32 {
        let (start, end) = (range.start, range.end.min(self.count()));
        let below = |index: u32| (1u64 << (index % 64)) - 1;
        let closed = |word: u32| {
            let bits = self.closed.get(word as usize).copied().unwrap_or(0);
            let bits = if word == start / 64 { bits & !below(start) } else { bits };
            if word == end / 64 { bits & below(end) } else { bits }.count_ones()
        };
        end.saturating_sub(start) - if start < end { (start / 64..=end / 64).map(closed).sum() } else { 0 }
    }

    fn closed_set(&mut self, index: u32, closed: bool) {
        let word = (index / 64) as usize;
        if word >= self.closed.len() {
            if !closed {
                return;
            }
            self.closed.resize(word + 1, 0);
        }
        let wanted = index < self.count();
        let Some(word) = self.closed.get_mut(word) else { return };
        let bit = 1u64 << (index % 64);
        let before = *word & bit != 0;
        if closed {
            *word |= bit;
        } else {
            *word &= !bit;
        }
        if wanted && closed && !before {
            self.closed_wanted += 1;
        } else if wanted && before && !closed {
            self.closed_wanted -= 1;
        }
    }

    /// Counts again after a change of the desired count.
    pub(crate) fn closed_recount(&mut self) {
        let count = self.count();
        let words = self.closed.iter().zip((0u32..).step_by(64));
        self.closed_wanted = words
            .take_while(|&(_, first)| first < count)
            .map(|(&word, first)| {
                let wanted = count - first;
                let mask = if wanted >= 64 { u64::MAX } else { (1u64 << wanted) - 1 };
                (word & mask).count_ones()
            })
            .sum();
    }

    /// Replaces a task's slot and returns the old one. The index is below [`TASKS_MAX`].
    pub(crate) fn slot_set(&mut self, index: u32, slot: TaskSlot) -> TaskSlot {
        let position = index as usize;
        if self.tasks.len() <= position {
            self.tasks_grow(position + 1);
        }
        let closed = !slot.open();
        let node_after = slot.placed_on();
        let Some(entry) = self.tasks.get_mut(position) else { return TaskSlot::default() };
        let before = std::mem::replace(entry, slot);
        self.up = self.up + u32::from(entry.up()) - u32::from(before.up());
        let node_before = before.placed_on();
        self.closed_set(index, closed);
        if self.spreads && node_before != node_after {
            self.placed_moved(node_before, node_after);
        }
        before
    }

    /// Makes slots up to `length`. Reserves no more than the job's count. A vector's usual growth would reserve four
    /// slots for each one-task job.
    fn tasks_grow(&mut self, length: usize) {
        if length > self.tasks.capacity() {
            let doubled = self.tasks.len().saturating_mul(2).min(self.count() as usize);
            self.tasks.reserve_exact(doubled.max(length) - self.tasks.len());
        }
        self.tasks.resize_with(length, TaskSlot::default);
    }

    fn placed_moved(&mut self, from: Option<NodeId>, to: Option<NodeId>) {
        if let Some(node) = to {
            *self.placed.entry(node).or_default() += 1;
        }
        let Some(node) = from else { return };
        let Some(count) = self.placed.get_mut(&node) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.placed.remove(&node);
        }
    }

    /// Counts placed tasks per node again. Called when the job begins or ceases to spread.
    pub(crate) fn placed_recount(&mut self) {
        self.placed.clear();
        if !self.spreads {
            return;
        }
        for node in self.tasks.iter().filter(|slot| slot.placed()).filter_map(|slot| slot.node) {
            *self.placed.entry(node).or_default() += 1;
        }
    }

    /// Returns true if its tasks prefer no domain over another. A job of one task has no siblings to spread from.
    pub(crate) fn ignores_domains(&self) -> bool {
        (!self.spreads || self.count() <= 1) && self.terms.wishes.is_empty() && self.terms.wished.is_empty()
    }

    /// The scheduler that places it; `None` for the default one.
    pub(crate) fn scheduler(&self) -> Option<&Name> {
        scheduler_named(self.spec_current()?.scheduler.as_ref())
    }

    /// The shape of a task.
    pub(crate) fn shape_of(&self, index: u32) -> Option<ShapeId> {
        let Some(more) = &self.shapes_more else { return self.shape };
        let of_role = || more.of_roles.iter().find(|&&(end, _)| index < end).map(|&(_, shape)| shape);
        more.own.get(&index).copied().or_else(of_role).or(self.shape)
    }

    /// Every shape of it, possibly with repetitions.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = ShapeId> {
        let more = self.shapes_more.iter();
        let of_more =
            more.flat_map(|more| more.of_roles.iter().map(|(_, shape)| shape).chain(more.own.values()));
        self.shape.iter().chain(of_more).copied()
    }

    /// Returns true if all its tasks have one shape.
    pub(crate) fn uniform(&self) -> bool {
        self.shapes_more.is_none()
    }

    /// The first index after `index` that may have another shape.
    pub(crate) fn shape_end(&self, index: u32) -> u32 {
        let Some(more) = &self.shapes_more else { return u32::MAX };
        if !more.own.is_empty() {
            return index.saturating_add(1);
        }
        let ends = more.of_roles.iter().map(|&(end, _)| end);
        ends.filter(|&end| index < end).min().unwrap_or(u32::MAX)
    }

    /// How many members of its gang must still be placed together; 0 if it is no gang, or its gang is placed.
    pub(crate) fn gang_need(&self) -> u32 {
        self.gang_parts().iter().map(|part| part.need).sum()
    }

    /// The same by role, without the roles that need none. Members that ended count: they had their time. Members of a
    /// gathering gang do not count yet.
    pub(crate) fn gang_parts(&self) -> GangParts {
        let Some(spec) = self.spec_current() else { return GangParts::new() };
        if !spec.is_gang() {
            return GangParts::new();
        }
        // A member that ended has done its part. A spared one has not: its gang gathers again together with it.
        let done = |slot: &TaskSlot| slot.state == Some(TaskState::Dead) && !slot.spared;
        let counts = |slot: &&TaskSlot| slot.counts_for_gang() || done(slot);
        let count = self.count();
        let part = |(range, least): (Range<u32>, u32)| {
            let range = range.start.min(count)..range.end.min(count);
            let slots = self.tasks.iter().take(range.end as usize).skip(range.start as usize);
            let resident = u32::try_from(slots.filter(counts).count()).unwrap_or(u32::MAX);
            GangPart { first: range.start, end: range.end, need: least.saturating_sub(resident) }
        };
        spec.minimums(count).into_iter().map(part).filter(|part| part.need > 0).collect()
    }

    /// The attributes that a job spreads over, with weights: its own, or for a service without any the cell's failure
    /// domains.
    pub(crate) fn spread_of(spec: &PlanSpec, failure_domains: &[String]) -> Vec<(String, u32)> {
        if spec.spread.is_empty() && spec.kind == JobKind::Service {
            return failure_domains.iter().map(|domain| (domain.clone(), 1)).collect();
        }
        spec.spread.iter().map(|spread| (spread.attribute.clone(), spread.weight)).collect()
    }
}
