//! A worker's picture of its cell: the core's snapshot, and the rows that a conflict needs whole.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::task::{UnitRow, UnitState};
use borough_model::{Delta, JobId, JobRow, JournalEntry, NodeId, TaskId, TaskRow, TaskState, UnitId};
use borough_scheduler_core::{CellSettings, PlanCache, Queue, Snapshot};
use borough_store::placement::{PlacementNode, PlacementView};

/// The cell as of one position of its journal.
#[derive(Debug)]
pub struct CellView {
    /// What is planned over.
    pub snapshot: Snapshot,
    /// What plans over it have found.
    pub cache: PlanCache,
    /// Rows of tasks a batch in question speaks of, as they came since it was planned.
    followed: BTreeMap<TaskId, Option<TaskRow>>,
    /// Units that were not committed.
    units: BTreeMap<UnitId, UnitRow>,
    /// Tasks that are held for a unit.
    held: BTreeMap<TaskId, Hold>,
}

/// A task that is held for a unit.
#[derive(Clone, Copy, Debug)]
struct Hold {
    unit: UnitId,
    epoch: u64,
    /// Whether it waits for victims.
    promised: bool,
}

/// What is to be done about a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitStep {
    /// It gathers for nobody any more, or waits and has lost a member: what is held for it at this epoch is given back.
    LetGo(u64),
    /// Each of its members has its share: they start together.
    Commit(u64),
    /// It was decided over: its holds are placements, or void.
    Settle,
}

impl CellView {
    /// An empty cell whose jobs are shared out among so many workers.
    pub fn new(settings: CellSettings, shards: u32) -> Self {
        let snapshot = Snapshot::divided(settings, shards);
        Self {
            snapshot,
            cache: PlanCache::default(),
            followed: BTreeMap::new(),
            units: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// Applies one entry.
    pub fn apply(&mut self, entry: &JournalEntry) {
        entry.deltas.iter().for_each(|delta| self.apply_delta(delta));
    }

    /// Applies one delta; an older one changes nothing.
    pub fn apply_delta(&mut self, delta: &Delta) {
        self.units_follow(delta);
        match delta {
            Delta::Task { row } if !self.followed.is_empty() => {
                if let Some(followed) = self.followed.get_mut(&row.id) {
                    *followed = Some(row.clone());
                }
            }
            Delta::TaskRemoved { task, .. } => {
                if let Some(followed) = self.followed.get_mut(task) {
                    *followed = None;
                }
            }
            _ => {}
        }
        self.snapshot.apply(delta);
    }

    fn units_follow(&mut self, delta: &Delta) {
        match delta {
            Delta::Unit { row } if row.state == UnitState::Committed => drop(self.units.remove(&row.id)),
            Delta::Unit { row } => drop(self.units.insert(row.id, row.clone())),
            Delta::Task { row } => match row.unit.filter(|_| row.state == TaskState::Held) {
                Some(unit) => {
                    let hold = Hold { unit, epoch: row.unit_epoch, promised: row.promised };
                    self.held.insert(row.id, hold);
                }
                None => drop(self.held.remove(&row.id)),
            },
            Delta::TaskRemoved { task, .. } => drop(self.held.remove(task)),
            Delta::JobRemoved { job, .. } => {
                self.units.retain(|_, unit| unit.job != *job);
                self.held.retain(|task, _| task.job != *job);
            }
            _ => {}
        }
    }

    /// What is to be done about units of a queue's jobs.
    pub fn unit_steps(&self, queue: &Queue) -> Vec<(UnitId, UnitStep)> {
        // Of each unit that waits: members that hold, and members that wait for victims.
        let mut waiting: BTreeMap<UnitId, (u32, u32)> = BTreeMap::new();
        let mut steps: BTreeMap<UnitId, (JobId, UnitStep)> = BTreeMap::new();
        for (task, hold) in &self.held {
            match self.units.get(&hold.unit) {
                Some(unit) if unit.state == UnitState::Waiting && unit.epoch == hold.epoch => {
                    let (held, promised) = waiting.entry(unit.id).or_default();
                    *held += 1;
                    *promised += u32::from(hold.promised);
                }
                // What a committed unit was promised is its task's own by now.
                None if hold.promised => {}
                _ => drop(steps.insert(hold.unit, (task.job, UnitStep::Settle))),
            }
        }
        for unit in self.units.values() {
            let (held, promised) = waiting.get(&unit.id).copied().unwrap_or_default();
            let step = match unit.state {
                UnitState::Gathering => UnitStep::LetGo(unit.epoch),
                UnitState::Waiting if held < unit.min_member => UnitStep::LetGo(unit.epoch),
                UnitState::Waiting if promised == 0 => UnitStep::Commit(unit.epoch),
                UnitState::Waiting | UnitState::Committed | UnitState::Released => continue,
            };
            steps.insert(unit.id, (unit.job, step));
        }
        let own = steps.into_iter().filter(|(_, (job, _))| self.snapshot.queue_of(*job) == *queue);
        own.map(|(unit, (_, step))| (unit, step)).collect()
    }

    /// Forgets a unit that is not there.
    pub fn unit_forget(&mut self, unit: UnitId) {
        self.units.remove(&unit);
        self.held.retain(|_, hold| hold.unit != unit);
    }

    /// From now on keeps the rows of `tasks` as they change, beginning with what they are; of those that run `running` says
    /// what they were.
    pub fn follow(&mut self, tasks: &BTreeSet<TaskId>, running: &BTreeMap<TaskId, TaskRow>) {
        let known = |task: TaskId| self.snapshot.task_row(task).or_else(|| running.get(&task)).cloned();
        self.followed = tasks.iter().map(|&task| (task, known(task))).collect();
    }

    /// A node as a placement on it needs to know it: what may be promised of it for its capacity, overcommit included.
    pub fn placement_node(&self, node: NodeId) -> Option<PlacementNode> {
        let seen = self.snapshot.node(node)?;
        Some(PlacementNode { revision: seen.revision, capacity: seen.limits, alloc: seen.alloc })
    }
}

impl PlacementView for CellView {
    fn node(&self, node: NodeId) -> Option<PlacementNode> {
        self.placement_node(node)
    }

    fn task(&self, task: TaskId) -> Option<&TaskRow> {
        self.followed.get(&task)?.as_ref()
    }

    fn job(&self, job: JobId) -> Option<&JobRow> {
        self.snapshot.job(job)
    }
}
