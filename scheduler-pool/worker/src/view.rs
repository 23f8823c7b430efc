//! A worker's picture of its cell: the core's snapshot, and the rows that a conflict needs whole.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::{Delta, JobId, JobRow, JournalEntry, NodeId, TaskId, TaskRow};
use borough_scheduler_core::{CellSettings, PlanCache, Snapshot};
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
}

impl CellView {
    /// An empty cell whose jobs are shared out among so many workers.
    pub fn new(settings: CellSettings, shards: u32) -> Self {
        let snapshot = Snapshot::divided(settings, shards);
        Self { snapshot, cache: PlanCache::default(), followed: BTreeMap::new() }
    }

    /// Applies one entry.
    pub fn apply(&mut self, entry: &JournalEntry) {
        entry.deltas.iter().for_each(|delta| self.apply_delta(delta));
    }

    /// Applies one delta; an older one changes nothing.
    pub fn apply_delta(&mut self, delta: &Delta) {
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

    /// From now on keeps the rows of `tasks` as they change, beginning with what they are.
    pub fn follow(&mut self, tasks: &BTreeSet<TaskId>) {
        self.followed = tasks.iter().map(|&task| (task, self.snapshot.task_row(task).cloned())).collect();
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
