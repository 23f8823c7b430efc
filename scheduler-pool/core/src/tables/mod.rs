//! The nodes, jobs and tasks of a cell in memory, in the form that plans need. Nodes are columns, jobs carry their
//! specs, and each task has a slot.

mod alloc;
mod card;
mod change;
mod columns;
mod demand;
mod events;
mod index;
mod job;
mod largest;
mod layout;
mod load;
mod node;
mod resident;
mod row;
mod rule;
mod shape;
mod space;
mod spec;
mod sums;
mod taint;
mod term;
mod text;
mod topology;
mod turn;
mod view;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use borough_model::job::{JobState, band};
use borough_model::{JobId, JobRow, JobSpec, NodeAlloc, NodeId, NodeRow, TaskId, TaskRow};

pub(crate) use alloc::{AllocPlace, AllocTable, AllocsGiven};
pub(crate) use card::CardSlot;
pub(crate) use change::LoggedChange;
pub(crate) use columns::fixed_amounts;
pub(crate) use events::TableEvents;
pub(crate) use index::{STRETCH, StretchCapacity};
pub use job::GangPart;
pub(crate) use job::{CellJob, GangParts, JobShapes, TASKS_MAX, TaskSlot, scheduler_named};
pub(crate) use node::{NODE_NAME, NodeGate, NodeTable};
pub(crate) use resident::{ResidentState, ResidentTask};
use row::{NodeEffect, RowApplied};
pub(crate) use rule::HardRule;
pub(crate) use shape::{Shape, ShapeId, Shapes, operator_number};
pub use spec::PlanSpec;
pub(crate) use spec::{PlanRole, PlanSpecs};
pub(crate) use taint::Taints;
pub(crate) use term::{TermId, TermKey, Terms};
pub(crate) use text::{Number, Texts};
pub(crate) use topology::DomainSlot;
pub use view::{SnapshotNode, SnapshotTask};

use crate::count::CountChange;
use crate::queueing::Usage;
use crate::settings::CellSettings;

/// What applying a delta did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaApplied {
    /// The tables have changed.
    Changed,
    /// The tables had a newer row, or plans have no use for the delta.
    Ignored,
    /// The delta breaks an invariant of the store (a task index beyond every limit) and was left out.
    Refused,
}

/// The nodes, jobs and tasks of a cell as of one moment of its journal. Plans are made on them.
#[derive(Clone, Debug)]
pub struct CellTables {
    pub(crate) settings: CellSettings,
    pub(crate) nodes: NodeTable,
    pub(crate) jobs: BTreeMap<JobId, Box<CellJob>>,
    pub(crate) shapes: Shapes,
    specs: PlanSpecs,
    pub(crate) terms: Terms,
    /// The tasks in allocs.
    pub(crate) allocs: AllocTable,
    /// What users or queues hold. Empty unless the queueing policy goes by shares.
    pub(crate) usage: Usage,
    /// Tasks that do not want a node. The number changes with each placement, so it serves as the seed of the
    /// round-robin's order.
    pub(crate) closed_total: u64,
    /// Counts the hard anti-affinity terms that were ever added.
    terms_revision: u64,
    /// The changes since the backlog last took them.
    pub(crate) events: TableEvents,
}

impl CellTables {
    /// An empty cell with these settings.
    pub fn new(settings: CellSettings) -> Self {
        Self {
            settings,
            nodes: NodeTable::new(),
            jobs: BTreeMap::new(),
            shapes: Shapes::default(),
            specs: PlanSpecs::default(),
            terms: Terms::default(),
            allocs: AllocTable::default(),
            usage: Usage::default(),
            closed_total: 0,
            terms_revision: 0,
            events: TableEvents::default(),
        }
    }

    /// The settings of the cell.
    pub fn settings(&self) -> &CellSettings {
        &self.settings
    }

    /// Changes when a new term lets some tasks keep others away. A plan made before did not check that term.
    pub fn terms_revision(&self) -> u64 {
        self.terms_revision
    }

    /// Applies a node's row.
    pub fn node_upsert(&mut self, row: &NodeRow) -> DeltaApplied {
        let applied = self.nodes.row_set(row, &self.settings.overcommit);
        let Some(RowApplied { node, effect, attributes_before }) = applied else {
            return DeltaApplied::Ignored;
        };
        if effect != NodeEffect::None {
            self.node_domains_moved(row.id, &attributes_before);
        }
        match effect {
            NodeEffect::None => {}
            NodeEffect::Less => self.events.changed = true,
            NodeEffect::More => self.events.node_freed(node),
        }
        DeltaApplied::Changed
    }

    /// Moves the counts of a node's tasks to the domains that it is in now.
    fn node_domains_moved(&mut self, node: NodeId, before: &[(u32, u32)]) {
        self.events.domains_changed = true;
        let nodes = &self.nodes;
        let after = nodes.ordinal(node).map_or(&[] as &[_], |node| nodes.attributes_of(node));
        if before == after {
            return;
        }
        let value = |attributes: &[(u32, u32)], attribute: u32| {
            let position = attributes.binary_search_by_key(&attribute, |&(key, _)| key).ok()?;
            attributes.get(position).map(|&(_, value)| value)
        };
        let touched = self.terms.node_moved(
            node,
            |attribute| value(before, attribute),
            |attribute| value(after, attribute),
        );
        touched.into_iter().for_each(|term| self.events.term_counted(term));
    }

    /// Removes a node. Its tasks stay until their rows change.
    pub fn node_remove(&mut self, node: NodeId) -> DeltaApplied {
        let before = self.nodes.ordinal(node).map(|node| self.nodes.attributes_of(node).to_vec());
        if !self.nodes.removed(node) {
            return DeltaApplied::Ignored;
        }
        self.node_domains_moved(node, &before.unwrap_or_default());
        DeltaApplied::Changed
    }

    /// Applies a node's allocation.
    pub fn alloc_upsert(&mut self, node: NodeId, alloc: &NodeAlloc) -> DeltaApplied {
        match self.nodes.alloc_set(node, alloc) {
            Some((node, effect)) => {
                self.events.changed |= effect != NodeEffect::None;
                if effect == NodeEffect::More {
                    // A freed port may help tasks on every node that shares the address.
                    self.nodes.spaces.with(node).for_each(|node| self.events.node_freed(node));
                }
                DeltaApplied::Changed
            }
            None => DeltaApplied::Ignored,
        }
    }

    /// Applies a job's row, with the spec of `row.spec_version` if the caller has it. Otherwise the job keeps its old
    /// spec, and none of its tasks is placed until the new one arrives.
    pub fn job_upsert(&mut self, row: &Arc<JobRow>, spec: Option<&JobSpec>) -> DeltaApplied {
        let entry = self.jobs.entry(row.id).or_default();
        let older = entry.row.as_ref().is_some_and(|known| known.revision > row.revision);
        let spec_newer = entry.spec.as_ref().is_none_or(|(version, _)| *version < row.spec_version);
        let spec = spec.filter(|_| spec_newer);
        let moved = entry.row.as_ref().is_some_and(|known| band(known.priority) != band(row.priority));
        if older && spec.is_none() {
            return DeltaApplied::Ignored;
        }
        let closed_before = entry.closed_total();
        let priority_before = entry.row.as_ref().map_or(0, |known| known.priority);
        let split = |row: &JobRow| row.canary_base().map(|version| (version, row.owner_count()));
        let split_before = entry.row.as_deref().and_then(split);
        if !older {
            entry.row = Some(Arc::clone(row));
            entry.closed_recount();
        }
        let resplit = !older && split(row) != split_before;
        let earlier_before = entry.base.as_ref().map(|base| base.0);
        let drops_base = !older && earlier_before.is_some() && row.version_beside() != earlier_before;
        self.closed_total = self.closed_total + entry.closed_total() - closed_before;
        if let Some(spec) = spec {
            self.spec_set(row.id, row.spec_version, spec);
        } else if !older && (moved || resplit) {
            self.shapes_set(row.id);
        }
        if drops_base {
            self.base_prune(row.id);
        }
        self.shape_weigh(row.id);
        if !older && row.priority != priority_before {
            self.resident_prioritized(row.id, row.priority);
        }
        self.events.jobs.push(row.id);
        DeltaApplied::Changed
    }

    /// Updates how many tasks a job wants of its shape: none after its end.
    fn shape_weigh(&mut self, job: JobId) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let ended = entry.row.as_ref().is_none_or(|row| matches!(row.state, JobState::Ended { .. }));
        let wanted = if ended { 0 } else { entry.count() };
        let Some(shape) = entry.shape else { return };
        let before = std::mem::replace(&mut entry.weighed, wanted);
        self.shapes.weigh(shape, before, wanted);
    }

    fn spec_set(&mut self, job: JobId, version: u32, spec: &JobSpec) {
        self.usage_of_job(job, CountChange::Remove);
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        entry.turn = Some(self.settings.queueing.turn_of(&spec.user, spec.queue.as_deref()));
        let spec = self.specs.acquired(PlanSpec::of(spec));
        entry.spreads = !CellJob::spread_of(&spec, &self.settings.failure_domains).is_empty();
        let base = entry.row.as_ref().and_then(|row| row.version_beside());
        match entry.spec.replace((version, spec)) {
            // Canaries of this version or of a later one leave the owner's tasks with it.
            Some(before) if base == Some(before.0) => {
                if let Some(old) = entry.base.replace(Box::new(before)) {
                    self.specs.released(&old.1);
                }
            }
            Some((_, before)) => self.specs.released(&before),
            None => {}
        }
        entry.placed_recount();
        self.usage_of_job(job, CountChange::Add);
        self.terms_join(job);
        self.shapes_set(job);
    }

    /// Gives a job the spec that its tasks had before a rollout that is not done. Changes nothing if that is another
    /// one by now.
    pub fn job_base_upsert(&mut self, job: JobId, version: u32, spec: &JobSpec) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let wanted = entry.row.as_ref().and_then(|row| row.version_beside()) == Some(version);
        if !wanted || entry.base.as_ref().is_some_and(|base| base.0 == version) {
            return;
        }
        let spec = self.specs.acquired(PlanSpec::of(spec));
        if let Some(before) = entry.base.replace(Box::new((version, spec))) {
            self.specs.released(&before.1);
        }
        self.shapes_set(job);
    }

    /// Drops the spec before a rollout when that is done.
    fn base_prune(&mut self, job: JobId) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let version = entry.row.as_ref().and_then(|row| row.version_beside());
        if entry.base.as_ref().is_some_and(|base| Some(base.0) != version)
            && let Some(before) = entry.base.take()
        {
            self.specs.released(&before.1);
        }
    }

    /// Gives a job the shapes of its spec. A job with rules between tasks gets shapes of its own: findings about them
    /// say nothing about other jobs.
    pub(crate) fn shapes_set(&mut self, job: JobId) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let Some((_, spec)) = &entry.spec else { return };
        let constrained = entry.terms.constrained().then_some(job);
        let band = band(entry.row.as_ref().map_or(0, |row| row.priority));
        let shape = self.shapes.acquired(Shape::of(spec, u32::MAX, band, constrained));
        let base = entry.base_below();
        let below = base.map_or(0, |(below, _)| below);
        let own_of = |spec: &Arc<PlanSpec>, indexes: Range<u32>| {
            let spec = Arc::clone(spec);
            let own: Vec<u32> = spec.resources_own.range(indexes).map(|(&index, _)| index).collect();
            own.into_iter().map(move |index| (index, Shape::of(&spec, index, band, constrained)))
        };
        let of_base = base.into_iter().flat_map(|(below, spec)| own_of(spec, 0..below));
        let own = of_base.chain(own_of(spec, below..u32::MAX));
        let own = own.map(|(index, shape)| (index, self.shapes.acquired(shape))).collect();
        let of_role = |(_, range): (&PlanRole, Range<u32>)| {
            (range.end, self.shapes.acquired(Shape::of_role(spec, range.start, band, constrained)))
        };
        let of_roles: Vec<(u32, ShapeId)> = spec.role_ranges().map(of_role).collect();
        let plain_of_base = base.map(|(below, spec)| (below, Shape::of(spec, u32::MAX, band, constrained)));
        // A job with canaries has no roles.
        let of_roles = match plain_of_base {
            Some((below, shape)) => vec![(below, self.shapes.acquired(shape))],
            None => of_roles,
        };
        let more = JobShapes { of_roles, own };
        let before: Vec<ShapeId> = entry.shapes().collect();
        let shape_before = entry.shape.replace(shape);
        let weighed_before = std::mem::take(&mut entry.weighed);
        let any = !more.own.is_empty() || !more.of_roles.is_empty();
        entry.shapes_more = any.then(|| Box::new(more));
        if let Some(before) = shape_before {
            self.shapes.weigh(before, weighed_before, 0);
        }
        self.shape_weigh(job);
        self.shapes_release(before.into_iter());
        self.events.jobs.push(job);
    }

    fn shapes_release(&mut self, shapes: impl Iterator<Item = ShapeId>) {
        for shape in shapes {
            if self.shapes.released(shape) {
                self.events.shapes_released.push(shape);
            }
        }
    }

    /// Removes a job with its tasks.
    pub fn job_remove(&mut self, job: JobId) -> DeltaApplied {
        self.terms_leave(job);
        self.usage_of_job(job, CountChange::Remove);
        let Some(entry) = self.jobs.remove(&job) else { return DeltaApplied::Ignored };
        self.closed_total -= entry.closed_total();
        for (index, slot) in (0..).zip(&entry.tasks) {
            let task = TaskId { job, index };
            self.allocs.removed(task);
            if let Some(node) = slot.node {
                self.resident_removed(node, task);
            }
        }
        for (_, spec) in entry.spec.iter().chain(entry.base.as_deref()) {
            self.specs.released(spec);
        }
        self.events.jobs_removed.push(job);
        if let Some(shape) = entry.shape {
            self.shapes.weigh(shape, entry.weighed, 0);
        }
        self.shapes_release(entry.shapes());
        DeltaApplied::Changed
    }

    /// Applies a task's row.
    pub fn task_upsert(&mut self, row: &TaskRow) -> DeltaApplied {
        if row.id.index >= TASKS_MAX {
            return DeltaApplied::Refused;
        }
        let entry = self.jobs.entry(row.id.job).or_default();
        if entry.task(row.id.index).is_some_and(|slot| slot.revision > row.revision) {
            return DeltaApplied::Ignored;
        }
        let before = self.slot_set(row.id, TaskSlot::of(row));
        self.allocs.put(row);
        self.resident_put(before.and_then(|slot| slot.node), row);
        DeltaApplied::Changed
    }

    /// Removes a task's row. As long as its job wants the task, it then counts as never placed.
    pub fn task_remove(&mut self, task: TaskId, revision: u64) -> DeltaApplied {
        let slot = self.jobs.get(&task.job).and_then(|entry| entry.task(task.index));
        if slot.is_none_or(|slot| slot.revision > revision) {
            return DeltaApplied::Ignored;
        }
        let before = self.slot_set(task, TaskSlot::default());
        self.allocs.removed(task);
        if let Some(node) = before.and_then(|slot| slot.node) {
            self.resident_removed(node, task);
        }
        DeltaApplied::Changed
    }

    /// Replaces a task's slot and updates every count over slots. Returns the slot before.
    pub(crate) fn slot_set(&mut self, task: TaskId, slot: TaskSlot) -> Option<TaskSlot> {
        let entry = self.jobs.get_mut(&task.job)?;
        let closed_before = entry.closed_total();
        let placed_after = slot.placed_on();
        let before = entry.slot_set(task.index, slot);
        self.closed_total = self.closed_total + entry.closed_total() - closed_before;
        self.terms_counted(task.job, before.placed_on(), placed_after);
        self.usage_moved(task, before.placed_on(), placed_after);
        self.events.task_changed(task.job);
        Some(before)
    }
}

/// The row of a node that is ready and has nothing.
#[cfg(test)]
pub(crate) fn test_row(id: u64) -> NodeRow {
    NodeRow {
        id: NodeId(id),
        name: borough_model::Name::new(format!("node-{id}")).expect("a name"),
        state: borough_model::node::NodeState::Ready,
        schedulable: true,
        draining: false,
        capacity: borough_model::Resources::default(),
        port_first: 20_000,
        port_last: 20_009,
        attributes: BTreeMap::new(),
        labels: BTreeMap::new(),
        host: String::new(),
        boot_id: String::new(),
        agent_version: String::new(),
        revision: 1,
        changed_ms: 0,
        taints: Vec::new(),
        cards: Vec::new(),
        domains: Vec::new(),
        packages: Default::default(),
        identity: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker has one of each per node, per job or per task of its cell. If this fails, box the new field where it is
    /// rare, or raise the bound and measure again with `borough-loadtest resident` (`docs/mechanisms/memory.md`).
    #[test]
    fn nothing_of_a_snapshot_grows_unnoticed() {
        let sizes = [
            ("CellJob", size_of::<CellJob>(), 192),
            ("TaskSlot", size_of::<TaskSlot>(), 80),
            ("ResidentTask", size_of::<ResidentTask>(), 32),
            ("PlanSpec", size_of::<PlanSpec>(), 640),
        ];
        let grown: Vec<_> = sizes.into_iter().filter(|(_, size, most)| size > most).collect();
        assert!(grown.is_empty(), "(struct, its bytes, the bound): {grown:?}; all: {sizes:?}");
    }
}
