//! A worker's picture of its cell: the core's snapshot, and the rows that a conflict needs whole.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::task::UnitState;
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
    /// Units that gather, with their jobs.
    gathering: BTreeMap<UnitId, JobId>,
    /// Tasks that are held for a unit.
    held: BTreeMap<TaskId, UnitId>,
}

impl CellView {
    /// An empty cell whose jobs are shared out among so many workers.
    pub fn new(settings: CellSettings, shards: u32) -> Self {
        let snapshot = Snapshot::divided(settings, shards);
        Self {
            snapshot,
            cache: PlanCache::default(),
            followed: BTreeMap::new(),
            gathering: BTreeMap::new(),
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
            Delta::Unit { row } if row.state == UnitState::Gathering => {
                self.gathering.insert(row.id, row.job);
            }
            Delta::Unit { row } => drop(self.gathering.remove(&row.id)),
            Delta::Task { row } => {
                // What is promised waits for victims; its unit has come together.
                match row.unit.filter(|_| row.state == TaskState::Held && !row.promised) {
                    Some(unit) => drop(self.held.insert(row.id, unit)),
                    None => drop(self.held.remove(&row.id)),
                }
            }
            Delta::TaskRemoved { task, .. } => drop(self.held.remove(task)),
            Delta::JobRemoved { job } => {
                self.gathering.retain(|_, of| of != job);
                self.held.retain(|task, _| task.job != *job);
            }
            _ => {}
        }
    }

    /// Units of a queue's jobs that gather, or whose holds are not carried out.
    pub fn orphans(&self, queue: &Queue) -> Vec<(UnitId, JobId)> {
        let held = self.held.iter().map(|(task, &unit)| (unit, task.job));
        let all: BTreeSet<(UnitId, JobId)> =
            self.gathering.iter().map(|(&unit, &job)| (unit, job)).chain(held).collect();
        all.into_iter().filter(|&(_, job)| self.snapshot.queue_of(job) == *queue).collect()
    }

    /// Forgets a unit that is not there.
    pub fn unit_forget(&mut self, unit: UnitId) {
        self.gathering.remove(&unit);
        self.held.retain(|_, of| *of != unit);
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
