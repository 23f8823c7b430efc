//! The resident tasks of each node: what they take, since when, and at which priority. Preemption reads them. Per
//! stretch of nodes the table also has the most that evictions below a priority could free. So preemption skips most of
//! a full cell without looking at tasks.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use borough_model::{NodeId, Resources, TaskId, TaskRow, TaskState};

use super::index::{STRETCH, StretchCapacity};
use super::node::NodeGate;
use super::{CellTables, NodeTable};

/// The priority bounds for which that maximum is stored: victims below 100, 200 and 300.
const LEVELS: [u32; 3] = [100, 200, 300];

/// The most that any node of a stretch would have free after evictions, per level.
type EvictableCapacity = [StretchCapacity; LEVELS.len()];

/// The state of a resident task, as preemption sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResidentState {
    /// It only waits for its place. An eviction releases it at once.
    Held,
    /// It waits for the other members of its gang. Nobody evicts single members of a gathering gang.
    Gathering,
    /// It is about to run, or runs. An eviction frees its resources only when it has exited.
    Running,
    /// It is stopping.
    Leaving,
}

/// A task that a node is charged with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResidentTask {
    pub state: ResidentState,
    pub priority: u16,
    charge: u32,
    /// Wall time of its start, in milliseconds since 1970; before the start, of its placement.
    pub since_ms: i64,
    /// Since when it is stopping, by its row, in milliseconds since 1970. 0 if it is not stopping, or only by a plan in
    /// flight.
    pub leaving_since_ms: i64,
}

/// The charges in use, each stored once, because tasks of one shape take the same.
#[derive(Clone, Debug, Default)]
struct Charges {
    numbers: BTreeMap<Resources, u32>,
    entries: Vec<(Resources, u32)>,
    vacant: Vec<u32>,
}

impl Charges {
    fn acquired(&mut self, resources: &Resources) -> u32 {
        if let Some(&number) = self.numbers.get(resources) {
            if let Some((_, users)) = self.entries.get_mut(number as usize) {
                *users += 1;
            }
            return number;
        }
        let entry = (resources.clone(), 1);
        let number = match self.vacant.pop() {
            Some(number) => {
                if let Some(vacant) = self.entries.get_mut(number as usize) {
                    *vacant = entry;
                }
                number
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(resources.clone(), number);
        number
    }

    fn released(&mut self, number: u32) {
        let Some((resources, users)) = self.entries.get_mut(number as usize) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.numbers.remove(resources);
            self.vacant.push(number);
        }
    }
}

/// How many tasks the cell has of each priority, and how many are stopping whatever their priority.
#[derive(Clone, Debug, Default)]
struct ResidentLevels {
    staying: BTreeMap<u16, u64>,
    leaving: u64,
}

impl ResidentLevels {
    fn added(&mut self, resident: ResidentTask) {
        if resident.state == ResidentState::Leaving {
            self.leaving += 1;
        } else {
            *self.staying.entry(resident.priority).or_default() += 1;
        }
    }

    fn removed(&mut self, resident: ResidentTask) {
        if resident.state == ResidentState::Leaving {
            self.leaving = self.leaving.saturating_sub(1);
            return;
        }
        let Some(tasks) = self.staying.get_mut(&resident.priority) else { return };
        *tasks = tasks.saturating_sub(1);
        if *tasks == 0 {
            self.staying.remove(&resident.priority);
        }
    }
}

/// The tasks of every node.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResidentTasks {
    nodes: BTreeMap<NodeId, BTreeMap<TaskId, ResidentTask>>,
    charges: Charges,
    levels: ResidentLevels,
    evictable: OnceLock<Vec<OnceLock<EvictableCapacity>>>,
}

impl ResidentTasks {
    /// The tasks of a node, by id.
    pub(crate) fn on(&self, node: NodeId) -> impl Iterator<Item = (TaskId, ResidentTask)> {
        self.nodes.get(&node).into_iter().flatten().map(|(&task, &resident)| (task, resident))
    }

    /// A task of a node.
    pub(crate) fn one(&self, node: NodeId, task: TaskId) -> Option<ResidentTask> {
        self.nodes.get(&node)?.get(&task).copied()
    }

    /// Returns true if any task has a priority below `below` or is stopping.
    pub(crate) fn any_below(&self, below: u32) -> bool {
        let ResidentLevels { staying, leaving } = &self.levels;
        let lowest = staying.first_key_value().map(|(&priority, _)| u32::from(priority));
        below > 0 && (*leaving > 0 || lowest.is_some_and(|lowest| lowest < below))
    }

    /// The resources that a task takes of its node.
    pub(crate) fn charge(&self, resident: ResidentTask) -> Option<&Resources> {
        self.charges.entries.get(resident.charge as usize).map(|(resources, _)| resources)
    }

    /// Adds or replaces a task. Returns true if evictions may succeed on the node now: the task is stopping, or has
    /// ceased to gather.
    fn put(&mut self, node: NodeId, row: &TaskRow, priority: u32) -> bool {
        let state = match row.state {
            TaskState::Held if row.gang.is_some() && !row.promised => ResidentState::Gathering,
            TaskState::Held => ResidentState::Held,
            TaskState::Stopping | TaskState::Releasing => ResidentState::Leaving,
            _ => ResidentState::Running,
        };
        let charge = self.charges.acquired(&row.charge.resources);
        let priority = u16::try_from(priority).unwrap_or(u16::MAX);
        let since_ms = row.started_ms.unwrap_or(row.changed_ms);
        let leaving_since_ms = if state == ResidentState::Leaving { row.changed_ms } else { 0 };
        let resident = ResidentTask { state, priority, charge, since_ms, leaving_since_ms };
        self.levels.added(resident);
        let Some(before) = self.nodes.entry(node).or_default().insert(row.id, resident) else {
            return state == ResidentState::Leaving;
        };
        self.levels.removed(before);
        self.charges.released(before.charge);
        let gathered = before.state == ResidentState::Gathering && state != ResidentState::Gathering;
        state == ResidentState::Leaving || gathered
    }

    fn removed(&mut self, node: NodeId, task: TaskId) {
        let Some(tasks) = self.nodes.get_mut(&node) else { return };
        if let Some(before) = tasks.remove(&task) {
            self.levels.removed(before);
            self.charges.released(before.charge);
        }
        if tasks.is_empty() {
            self.nodes.remove(&node);
        }
    }

    fn changed(&mut self, node: NodeId, task: TaskId, change: impl FnOnce(&mut ResidentTask)) {
        if let Some(resident) = self.nodes.get_mut(&node).and_then(|tasks| tasks.get_mut(&task)) {
            self.levels.removed(*resident);
            change(resident);
            self.levels.added(*resident);
        }
    }

    /// Drops what depends on the order: nodes were added or removed.
    pub(crate) fn order_changed(&mut self) {
        self.evictable.take();
    }
}

impl NodeTable {
    /// What a node would have free if every task below a level left. Too much if some tasks are not known yet.
    fn evictable(&self, node: u32, level: u32) -> StretchCapacity {
        // Tasks of daemon jobs come to cordoned nodes too.
        if !matches!(self.gate(node), NodeGate::Open | NodeGate::Cordoned) {
            return StretchCapacity::default();
        }
        let stays = |(_, resident): &(TaskId, ResidentTask)| {
            resident.state != ResidentState::Leaving && u32::from(resident.priority) >= level
        };
        let (mut cpu_millis, mut memory_bytes) = (0u64, 0u64);
        for (_, resident) in self.resident.on(self.id(node)).filter(stays) {
            let Some(charge) = self.resident.charge(resident) else { continue };
            cpu_millis = cpu_millis.saturating_add(charge.cpu_millis);
            memory_bytes = memory_bytes.saturating_add(charge.memory_bytes);
        }
        StretchCapacity {
            cpu_millis: self.limit(0, node).saturating_sub(cpu_millis),
            memory_bytes: self.limit(1, node).saturating_sub(memory_bytes),
        }
    }

    /// Returns true if any node of a stretch could have `asked` free after evictions below a priority.
    pub(crate) fn stretch_could_fit(&self, stretch: usize, below: u32, asked: StretchCapacity) -> bool {
        let stretches = self.order.len().div_ceil(STRETCH);
        let stretches_evictable = self.resident.evictable.get_or_init(|| vec![OnceLock::new(); stretches]);
        let most = stretches_evictable
            .get(stretch)
            .map(|known| known.get_or_init(|| self.stretch_evictable(stretch)));
        let level = LEVELS.iter().position(|&level| below <= level).unwrap_or(LEVELS.len() - 1);
        most.and_then(|most| most.get(level)).is_some_and(|most| most.covers(asked))
    }

    fn stretch_evictable(&self, stretch: usize) -> EvictableCapacity {
        let first = stretch * STRETCH;
        let nodes = self.order.get(first..(first + STRETCH).min(self.order.len())).unwrap_or_default();
        LEVELS.map(|level| {
            nodes
                .iter()
                .fold(StretchCapacity::default(), |most, &node| most.both_most(self.evictable(node, level)))
        })
    }

    /// Returns true if a node could have `asked` free after evictions below a priority.
    pub(crate) fn node_could_fit(&self, node: u32, below: u32, asked: StretchCapacity) -> bool {
        self.evictable(node, below).covers(asked)
    }

    /// Drops the stored maximum of a node's stretch: the node's capacity or its tasks changed.
    pub(crate) fn evictable_changed(&mut self, node: u32) {
        if self.resident.evictable.get().is_none() {
            return;
        }
        let position = self.positions().get(node as usize).copied().unwrap_or(u32::MAX);
        let stretches_evictable = self.resident.evictable.get_mut();
        if let Some(known) = stretches_evictable.and_then(|known| known.get_mut(position as usize / STRETCH))
        {
            known.take();
        }
    }

    fn resident_changed(&mut self, node: NodeId) {
        if let Some(node) = self.ordinal(node) {
            self.evictable_changed(node);
        }
    }
}

impl CellTables {
    /// Follows a task's newer row: moves the task to the node that the row charges.
    pub(crate) fn resident_put(&mut self, before: Option<NodeId>, row: &TaskRow) {
        if let Some(node) = before.filter(|&node| row.charged_node() != Some(node)) {
            self.resident_removed(node, row.id);
        }
        let Some(node) = row.charged_node() else { return };
        let job = self.jobs.get(&row.id.job).and_then(|entry| entry.row.as_ref());
        let priority = job.map_or(0, |job| job.priority);
        let leaving = self.nodes.resident.put(node, row, priority);
        self.nodes.resident_changed(node);
        if leaving {
            self.events.leaving.extend(self.nodes.ordinal(node));
        }
    }

    /// Removes a task from a node. Tasks of lower priorities may take its place in the same commit. The node then has
    /// no more free than before, but evictions may succeed there.
    pub(crate) fn resident_removed(&mut self, node: NodeId, task: TaskId) {
        self.nodes.resident.removed(node, task);
        self.nodes.resident_changed(node);
        self.events.leaving.extend(self.nodes.ordinal(node));
    }

    /// Sets the state of a resident task, by a plan in flight.
    pub(crate) fn resident_assumed(&mut self, node: NodeId, task: TaskId, state: ResidentState) {
        self.nodes.resident.changed(node, task, |resident| resident.state = state);
        self.nodes.resident_changed(node);
        if let Some(node) = self.nodes.ordinal(node).filter(|_| state == ResidentState::Leaving) {
            self.events.leaving.push(node);
        }
    }

    /// Sets the priority of all resident tasks of a job.
    pub(super) fn resident_prioritized(&mut self, job: borough_model::JobId, priority: u32) {
        let Some(entry) = self.jobs.get(&job) else { return };
        let priority = u16::try_from(priority).unwrap_or(u16::MAX);
        let charged = |(index, slot): (u32, &super::TaskSlot)| Some((TaskId { job, index }, slot.node?));
        let placed: Vec<(TaskId, NodeId)> = (0..).zip(&entry.tasks).filter_map(charged).collect();
        let any = !placed.is_empty();
        for (task, node) in placed {
            self.nodes.resident.changed(node, task, |resident| resident.priority = priority);
            self.nodes.resident_changed(node);
        }
        if any {
            self.events.priorities_changed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_model::JobId;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Change {
        Put(u64, u32, u32, TaskState),
        Removed(u64, u32),
        Leaves(u64, u32),
        Prioritized(u64, u32, u16),
    }

    fn change() -> impl Strategy<Value = Change> {
        let (node, task, priority) = (0..2u64, 0..3u32, 0..4u16);
        let state = prop::sample::select(vec![TaskState::Running, TaskState::Held, TaskState::Stopping]);
        prop_oneof![
            3 => (node.clone(), task.clone(), 0..4u32, state)
                .prop_map(|(node, task, priority, state)| Change::Put(node, task, priority, state)),
            2 => (node.clone(), task.clone()).prop_map(|(node, task)| Change::Removed(node, task)),
            1 => (node.clone(), task.clone()).prop_map(|(node, task)| Change::Leaves(node, task)),
            1 => (node, task, priority)
                .prop_map(|(node, task, priority)| Change::Prioritized(node, task, priority)),
        ]
    }

    proptest! {
        /// After any changes the answer equals a look at every task.
        #[test]
        fn a_lower_or_stopping_task_is_known_without_a_look_at_all(
            changes in prop::collection::vec(change(), 1..40),
        ) {
            let mut resident = ResidentTasks::default();
            let id = |index| TaskId { job: JobId(1), index };
            for change in changes {
                match change {
                    Change::Put(node, task, priority, state) => {
                        let row = TaskRow { state, ..TaskRow::never_placed(id(task)) };
                        resident.put(NodeId(node), &row, priority);
                    }
                    Change::Removed(node, task) => resident.removed(NodeId(node), id(task)),
                    Change::Leaves(node, task) => {
                        resident.changed(NodeId(node), id(task), |task| task.state = ResidentState::Leaving);
                    }
                    Change::Prioritized(node, task, priority) => {
                        resident.changed(NodeId(node), id(task), |task| task.priority = priority);
                    }
                }
                for below in 0..6 {
                    let may = |task: &ResidentTask| {
                        task.state == ResidentState::Leaving || u32::from(task.priority) < below
                    };
                    let any = below > 0 && resident.nodes.values().flat_map(BTreeMap::values).any(may);
                    prop_assert_eq!(resident.any_below(below), any);
                }
            }
        }
    }
}
