//! A job as deciding sees it: its row and spec, a slot per task, and which tasks want a node.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use borough_model::job::{JobKind, JobState, claims_below, victims_below};
use borough_model::task::machine::node_avoided;
use borough_model::{Incarnation, JobRow, JobSpec, Name, NodeId, TaskRow, TaskState};

use smallvec::SmallVec;

use super::rule::JobTerms;
use super::shape::ShapeId;
use crate::queueing::Turn;

/// Tasks of a job have an index below this; admission allows far fewer.
pub(crate) const TASKS_MAX: u32 = 1 << 24;

/// What is kept of one task. The whole row is kept only while the task is pending, since the next attempt builds on it,
/// or held, since it may have to give way at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskSlot {
    pub revision: u64,
    pub incarnation: Incarnation,
    pub node: Option<NodeId>,
    /// Where it crashed so often that another node is preferred.
    pub avoided: Option<NodeId>,
    pub not_before_ms: i64,
    pub spec_version: u32,
    pub failures: u32,
    /// `None`: no row, which is a task that is pending and was never placed.
    pub state: Option<TaskState>,
    /// Placed by a plan that is not committed yet; `revision` is still that of the row it was placed from.
    pub assumed: bool,
    /// Held for a gang that has not been carried out: it gathers, or what became of it is still to be told its members.
    pub gathered: bool,
    /// Pending, and its last attempt gave way to another task.
    pub evicted: bool,
    /// Dead only because its job had shrunk. Below the job's count the controller revives it: it wants a node soon.
    pub spared: bool,
    pub row: Option<Box<TaskRow>>,
}

impl TaskSlot {
    pub fn of(row: &TaskRow) -> Self {
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

    /// Whether it wants a node, now or after its back-off.
    pub fn open(&self) -> bool {
        matches!(self.state, None | Some(TaskState::Pending))
    }

    /// The node it stands on.
    pub fn stands_on(&self) -> Option<NodeId> {
        if self.placed() { self.node } else { None }
    }

    /// Whether a disruption budget counts it as up: it stands, or it needs to stand no more.
    fn up(&self) -> bool {
        self.placed() || self.state == Some(TaskState::Dead)
    }

    /// Whether it stands for its gang to count: what is held for a gang that gathers does not yet.
    pub fn stands(&self) -> bool {
        self.placed() && !self.gathered
    }

    /// Whether it stands on its node for its siblings to keep away from.
    pub fn placed(&self) -> bool {
        use TaskState::{Assigned, Held, Running, Starting};
        matches!(self.state, Some(Held | Assigned | Starting | Running))
    }
}

/// Tasks of a gang of which so many must be placed with all others of it: those of one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangPart {
    /// The first of their indexes.
    pub first: u32,
    /// The index after the last.
    pub end: u32,
    /// How many members are still needed.
    pub need: u32,
}

/// The parts of a gang that still need members.
pub(crate) type GangParts = SmallVec<[GangPart; 1]>;

/// What jobs call the scheduler of those that name none.
const SCHEDULER_DEFAULT: &str = "default";

/// The scheduler that a job names; `None`: the default one.
pub(crate) fn scheduler_named(scheduler: Option<&Name>) -> Option<&Name> {
    scheduler.filter(|name| name.as_str() != SCHEDULER_DEFAULT)
}

/// One job.
#[derive(Clone, Debug, Default)]
pub(crate) struct CellJob {
    pub row: Option<JobRow>,
    /// The spec of the version beside it.
    pub spec: Option<(u32, Arc<JobSpec>)>,
    pub tasks: Vec<TaskSlot>,
    /// A bit per task that does not want a node. Tasks past its end do.
    closed: Vec<u64>,
    /// The bits set below the job's count.
    closed_wanted: u32,
    /// Tasks that stand on a node, or have ended: those that a disruption budget does not count as down.
    up: u32,
    /// Placed tasks per node, kept only for a job that spreads.
    pub placed: BTreeMap<NodeId, u32>,
    pub spreads: bool,
    /// The shape of tasks without one of their own.
    pub shape: Option<ShapeId>,
    /// The shapes of its roles, with the end of each role's indexes.
    pub shapes_of_roles: Vec<(u32, ShapeId)>,
    /// The shapes of single tasks.
    pub shapes_own: BTreeMap<u32, ShapeId>,
    /// Tasks that count for `shape`.
    pub weighed: u32,
    /// What its tasks ask of others, and where they are counted.
    pub terms: JobTerms,
    /// With whom it takes turns; known with its spec.
    pub turn: Option<Turn>,
}

impl CellJob {
    /// Desired number of tasks.
    pub fn count(&self) -> u32 {
        self.row.as_ref().map_or(0, |row| row.count).min(TASKS_MAX)
    }

    /// Below which priority the victims of one of its tasks are; 0: it evicts nobody.
    pub fn victims_below(&self, index: u32) -> u32 {
        let Some((row, spec)) = self.row.as_ref().zip(self.spec_current()) else { return 0 };
        let evicted = self.task(index).is_some_and(|slot| slot.evicted);
        victims_below(row.priority, spec.preemption, evicted)
    }

    /// The same for what its queue takes back; 0: nothing.
    pub fn claims_below(&self) -> u32 {
        let current = self.row.as_ref().zip(self.spec_current());
        current.map_or(0, |(row, spec)| claims_below(row.priority, spec.preemption))
    }

    /// How many more of its tasks may lose their place within its disruption budget; `None`: it has none.
    pub fn disruptions_left(&self) -> Option<u32> {
        let down_max = self.spec_current()?.preemption?.down_max?;
        Some(down_max.saturating_sub(self.count().saturating_sub(self.up)))
    }

    /// The spec in force, if it is known.
    pub fn spec_current(&self) -> Option<&Arc<JobSpec>> {
        let row = self.row.as_ref()?;
        self.spec.as_ref().filter(|(version, _)| *version == row.spec_version).map(|(_, spec)| spec)
    }

    /// Whether tasks of it may be placed at all.
    pub fn runs(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.state == JobState::Running) && self.spec_current().is_some()
    }

    pub fn task(&self, index: u32) -> Option<&TaskSlot> {
        self.tasks.get(index as usize).filter(|slot| slot.state.is_some())
    }

    /// Tasks that want a node, now or later.
    pub fn open_count(&self) -> u32 {
        self.count().saturating_sub(self.closed_wanted)
    }

    /// Wanted tasks that do not want a node.
    pub fn closed_total(&self) -> u64 {
        u64::from(self.closed_wanted)
    }

    /// The first task at or after `index` that wants a node.
    pub fn open_next(&self, index: u32) -> Option<u32> {
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
        match (wanted, before, closed) {
            (true, false, true) => self.closed_wanted += 1,
            (true, true, false) => self.closed_wanted -= 1,
            _ => {}
        }
    }

    /// Counts again after the desired count has changed.
    pub fn closed_recount(&mut self) {
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

    /// Puts a task's slot in the place of the one before, which it answers. The index is below [`TASKS_MAX`].
    pub fn slot_set(&mut self, index: u32, slot: TaskSlot) -> TaskSlot {
        let position = index as usize;
        if self.tasks.len() <= position {
            self.tasks.resize_with(position + 1, TaskSlot::default);
        }
        let closed = !slot.open();
        let node_after = slot.stands_on();
        let Some(entry) = self.tasks.get_mut(position) else { return TaskSlot::default() };
        let before = std::mem::replace(entry, slot);
        self.up = self.up + u32::from(entry.up()) - u32::from(before.up());
        let node_before = before.stands_on();
        self.closed_set(index, closed);
        if self.spreads && node_before != node_after {
            self.placed_moved(node_before, node_after);
        }
        before
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

    /// Counts placed tasks again after the job began or ceased to spread.
    pub fn placed_recount(&mut self) {
        self.placed.clear();
        if !self.spreads {
            return;
        }
        for node in self.tasks.iter().filter(|slot| slot.placed()).filter_map(|slot| slot.node) {
            *self.placed.entry(node).or_default() += 1;
        }
    }

    /// Whether its tasks do not look for domains that are better than others. (One task alone has no siblings to keep
    /// away from.)
    pub fn alone(&self) -> bool {
        (!self.spreads || self.count() <= 1) && self.terms.wishes.is_empty() && self.terms.wished.is_empty()
    }

    /// The scheduler that decides over it; none: the default one.
    pub fn scheduler(&self) -> Option<&Name> {
        scheduler_named(self.spec_current()?.scheduler.as_ref())
    }

    /// The shape of a task.
    pub fn shape_of(&self, index: u32) -> Option<ShapeId> {
        let of_role = || self.shapes_of_roles.iter().find(|&&(end, _)| index < end).map(|&(_, shape)| shape);
        self.shapes_own.get(&index).copied().or_else(of_role).or(self.shape)
    }

    /// Every shape of it, some more than once.
    pub fn shapes(&self) -> impl Iterator<Item = ShapeId> {
        let of_roles = self.shapes_of_roles.iter().map(|(_, shape)| shape);
        self.shape.iter().chain(of_roles).chain(self.shapes_own.values()).copied()
    }

    /// Whether all its tasks have one shape.
    pub fn uniform(&self) -> bool {
        self.shapes_own.is_empty() && self.shapes_of_roles.is_empty()
    }

    /// The first index after `index` that may have another shape.
    pub fn shape_end(&self, index: u32) -> u32 {
        if !self.shapes_own.is_empty() {
            return index.saturating_add(1);
        }
        let ends = self.shapes_of_roles.iter().map(|&(end, _)| end);
        ends.filter(|&end| index < end).min().unwrap_or(u32::MAX)
    }

    /// How many members of a gang must still be placed together: 0 where the job is none, or its gang stands.
    pub fn gang_need(&self) -> u32 {
        self.gang_parts().iter().map(|part| part.need).sum()
    }

    /// The same by role, those left out that need none. Members that have ended have had their time and count; those
    /// whose gang still gathers do not stand.
    pub fn gang_parts(&self) -> GangParts {
        let Some(spec) = self.spec_current() else { return GangParts::new() };
        if !spec.is_gang() {
            return GangParts::new();
        }
        // What has ended has done its part, but for what only waits to be revived: its gang comes together with it.
        let done = |slot: &TaskSlot| slot.state == Some(TaskState::Dead) && !slot.spared;
        let stands = |slot: &&TaskSlot| slot.stands() || done(slot);
        let count = self.count();
        let part = |(range, least): (Range<u32>, u32)| {
            let range = range.start.min(count)..range.end.min(count);
            let slots = self.tasks.iter().take(range.end as usize).skip(range.start as usize);
            let resident = u32::try_from(slots.filter(stands).count()).unwrap_or(u32::MAX);
            GangPart { first: range.start, end: range.end, need: least.saturating_sub(resident) }
        };
        spec.minimums(count).into_iter().map(part).filter(|part| part.need > 0).collect()
    }

    /// The attributes it spreads over, with weights: its own, else for a service the cell's failure domains.
    pub fn spread_of(spec: &JobSpec, failure_domains: &[String]) -> Vec<(String, u32)> {
        if spec.spread.is_empty() && spec.kind == JobKind::Service {
            return failure_domains.iter().map(|domain| (domain.clone(), 1)).collect();
        }
        spec.spread.iter().map(|spread| (spread.attribute.clone(), spread.weight)).collect()
    }
}
