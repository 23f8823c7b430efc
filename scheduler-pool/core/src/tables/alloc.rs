//! The tasks that are in allocs: what each takes of its alloc, and which ones wait for theirs.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::resource::resources_less;
use borough_model::task::InAlloc;
use borough_model::{Incarnation, JobId, NodeId, Resources, TaskId, TaskRow, TaskState};

use super::resident::ResidentState;
use super::{CellTables, NodeGate};

/// A task that is in an alloc, or comes back to it.
#[derive(Clone, Debug)]
struct AllocMember {
    place: InAlloc,
    /// Whether it has its place. Otherwise its last attempt has ended, and its room is kept for the next one.
    is_placed: bool,
}

/// What a plan has given out of each alloc, by task.
pub(crate) type AllocsGiven = BTreeMap<TaskId, BTreeMap<TaskId, Resources>>;

/// The tasks in allocs.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllocTable {
    /// By their rows.
    members: BTreeMap<TaskId, AllocMember>,
    /// By plans in flight.
    assumed: BTreeMap<TaskId, InAlloc>,
    /// The tasks of either, by alloc.
    within: BTreeMap<TaskId, BTreeSet<TaskId>>,
}

impl AllocTable {
    /// Follows a newer row of a task. It replaces what was assumed of the task.
    pub(super) fn put(&mut self, row: &TaskRow) {
        self.assumed_forget(row.id);
        self.member_remove(row.id);
        let Some(place) = row.alloc.as_deref() else { return };
        if row.state == TaskState::Dead {
            return;
        }
        self.within.entry(place.alloc).or_default().insert(row.id);
        let member = AllocMember { place: place.clone(), is_placed: row.state.is_charged() };
        self.members.insert(row.id, member);
    }

    /// Forgets a task whose row is gone.
    pub(super) fn removed(&mut self, task: TaskId) {
        self.assumed_forget(task);
        self.member_remove(task);
    }

    /// Assumes that a plan places a task.
    pub(crate) fn assume(&mut self, task: TaskId, place: &InAlloc) {
        self.within.entry(place.alloc).or_default().insert(task);
        self.assumed.insert(task, place.clone());
    }

    /// Takes back what was assumed of a task.
    pub(crate) fn assumed_forget(&mut self, task: TaskId) {
        let Some(place) = self.assumed.remove(&task) else { return };
        if self.members.get(&task).is_none_or(|member| member.place.alloc != place.alloc) {
            self.within_remove(place.alloc, task);
        }
    }

    fn member_remove(&mut self, task: TaskId) {
        if let Some(member) = self.members.remove(&task) {
            self.within_remove(member.place.alloc, task);
        }
    }

    fn within_remove(&mut self, alloc: TaskId, task: TaskId) {
        let Some(tasks) = self.within.get_mut(&alloc) else { return };
        tasks.remove(&task);
        if tasks.is_empty() {
            self.within.remove(&alloc);
        }
    }

    /// The alloc in which a task was last.
    pub(crate) fn last_of(&self, task: TaskId) -> Option<TaskId> {
        self.members.get(&task).map(|member| member.place.alloc)
    }

    /// What the attempt `attempt` of an alloc has given to tasks, and what it keeps for tasks that come back to it,
    /// without `task`.
    fn taken(
        &self,
        alloc: TaskId,
        attempt: Incarnation,
        task: TaskId,
    ) -> impl Iterator<Item = AllocShare<'_>> {
        let tasks = self.within.get(&alloc).into_iter().flatten().filter(move |other| **other != task);
        tasks.filter_map(move |other| {
            let assumed = self.assumed.get(other).filter(|place| place.alloc == alloc);
            let member = self.members.get(other).filter(|member| member.place.alloc == alloc);
            match (assumed, member) {
                (Some(place), _) => {
                    Some(AllocShare { task: *other, resources: &place.resources, is_placed: true })
                }
                (None, Some(AllocMember { place, is_placed })) => {
                    // One that is still in an earlier attempt of the alloc leaves, and comes back.
                    let is_placed = *is_placed && place.attempt == attempt;
                    Some(AllocShare { task: *other, resources: &place.resources, is_placed })
                }
                (None, None) => None,
            }
        })
    }
}

/// What a task takes of an alloc.
struct AllocShare<'a> {
    task: TaskId,
    resources: &'a Resources,
    /// Otherwise it is only kept for it.
    is_placed: bool,
}

/// An alloc that takes tasks now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllocPlace {
    pub alloc: TaskId,
    pub attempt: Incarnation,
    pub node: NodeId,
    /// What a task may take of it.
    pub free: Resources,
}

impl CellTables {
    /// An alloc as a task finds it; `None` if the alloc takes no tasks now: it waits for a node, starts, ends, or is
    /// about to leave a drained node. `given` is what a plan has given out besides.
    pub(crate) fn alloc_place(&self, alloc: TaskId, task: TaskId, given: &AllocsGiven) -> Option<AllocPlace> {
        let slot = self.jobs.get(&alloc.job)?.task(alloc.index)?;
        let node = slot.node.filter(|_| slot.state == Some(TaskState::Running) && !slot.assumed)?;
        let resident = self.nodes.resident.one(node, alloc)?;
        let gate = self.nodes.gate(self.nodes.ordinal(node)?);
        let is_open = matches!(gate, NodeGate::Open | NodeGate::Cordoned);
        if resident.state != ResidentState::Running || !is_open {
            return None;
        }
        let mut free = self.nodes.resident.charge(resident)?.clone();
        let is_last = self.allocs.last_of(task) == Some(alloc);
        let given = given.get(&alloc);
        for share in self.allocs.taken(alloc, slot.incarnation, task) {
            // What is kept for others does not keep out a task that comes back itself.
            let counts = share.is_placed || !is_last;
            if counts && given.is_none_or(|given| !given.contains_key(&share.task)) {
                free = resources_less(&free, share.resources);
            }
        }
        for resources in given.into_iter().flat_map(BTreeMap::values) {
            free = resources_less(&free, resources);
        }
        Some(AllocPlace { alloc, attempt: slot.incarnation, node, free })
    }

    /// The allocs of a set that take tasks now, as a task finds them, in the order in which it tries them. A task goes
    /// where its last alloc goes: while that one takes none, it tries no other.
    pub(crate) fn alloc_places(&self, set: JobId, task: TaskId, given: &AllocsGiven) -> Vec<AllocPlace> {
        let last = self.alloc_last(set, task);
        let mut places = Vec::new();
        for alloc in self.allocs_for(set, task) {
            match self.alloc_place(alloc, task, given) {
                Some(place) => places.push(place),
                None if Some(alloc) == last => return Vec::new(),
                None => {}
            }
        }
        places
    }

    /// The allocs of a set, the one with the task's own index first. A task comes back to its last alloc, and then that
    /// is the first. None if the set has none.
    fn allocs_for(&self, set: JobId, task: TaskId) -> Vec<TaskId> {
        let count = self.jobs.get(&set).map_or(0, |entry| entry.count());
        let Some(own) = task.index.checked_rem(count) else { return Vec::new() };
        let last = self.alloc_last(set, task);
        let others = (own..count).chain(0..own).map(|index| TaskId { job: set, index });
        last.into_iter().chain(others.filter(|alloc| Some(*alloc) != last)).collect()
    }

    /// The alloc that a task comes back to, if the set still has it.
    pub(crate) fn alloc_last(&self, set: JobId, task: TaskId) -> Option<TaskId> {
        let count = self.jobs.get(&set).map_or(0, |entry| entry.count());
        self.allocs.last_of(task).filter(|alloc| alloc.job == set && alloc.index < count)
    }
}
