//! A worker's picture of its cell: the core's snapshot, and the rows that a commit needs whole.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::node::NodeRow;
use borough_model::{Delta, JobId, JobRow, JournalEntry, NodeAlloc, NodeId, TaskId, TaskRow};
use borough_scheduler_core::{CellSettings, PlanCache, Snapshot};
use borough_store::placement::PlacementView;

/// The cell as of one position of its journal.
#[derive(Debug)]
pub struct CellView {
    /// What is planned over.
    pub snapshot: Snapshot,
    /// What plans over it have found.
    pub cache: PlanCache,
    /// Nodes' rows, for their revisions.
    pub nodes: BTreeMap<NodeId, NodeRow>,
    /// Rows of tasks a batch in question speaks of, as they came since it was planned.
    followed: BTreeMap<TaskId, Option<TaskRow>>,
}

impl CellView {
    /// An empty cell.
    pub fn new(settings: CellSettings) -> Self {
        let snapshot = Snapshot::new(settings);
        Self { snapshot, cache: PlanCache::default(), nodes: BTreeMap::new(), followed: BTreeMap::new() }
    }

    /// Applies one entry.
    pub fn apply(&mut self, entry: &JournalEntry) {
        entry.deltas.iter().for_each(|delta| self.apply_delta(delta));
    }

    /// Applies one delta; an older one changes nothing.
    pub fn apply_delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Node { row } => {
                let newer = self.nodes.get(&row.id).is_none_or(|known| known.revision < row.revision);
                if newer {
                    self.nodes.insert(row.id, row.clone());
                }
            }
            Delta::NodeRemoved { node } => drop(self.nodes.remove(node)),
            Delta::Task { row } => {
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
}

/// What the survivors of one batch are held against: its nodes with what may be promised of them for their capacity,
/// as the batch was planned (overcommit included).
#[derive(Debug)]
pub struct BatchView<'a> {
    view: &'a CellView,
    nodes: BTreeMap<NodeId, (NodeRow, NodeAlloc)>,
}

impl<'a> BatchView<'a> {
    /// The view over `nodes`.
    pub fn new(view: &'a CellView, nodes: impl Iterator<Item = NodeId>) -> Self {
        let known = |node| {
            let (row, seen) = (view.nodes.get(&node)?, view.snapshot.node(node)?);
            Some((node, (NodeRow { capacity: seen.limits, ..row.clone() }, seen.alloc)))
        };
        Self { view, nodes: nodes.filter_map(known).collect() }
    }
}

impl PlacementView for BatchView<'_> {
    fn node(&self, node: NodeId) -> Option<(&NodeRow, &NodeAlloc)> {
        self.nodes.get(&node).map(|(row, alloc)| (row, alloc))
    }

    fn task(&self, task: TaskId) -> Option<&TaskRow> {
        self.view.followed.get(&task)?.as_ref()
    }

    fn job(&self, job: JobId) -> Option<&JobRow> {
        self.view.snapshot.job(job)
    }
}
