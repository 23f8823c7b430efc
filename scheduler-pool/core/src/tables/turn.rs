//! What users or queues hold of a cell, updated as tasks come and go. Counted only if the queueing policy goes by
//! shares.

use borough_model::{JobId, NodeId, TaskId};

use super::{CellTables, NodeTable};
use crate::count::CountChange;
use crate::queueing::{CellTotals, Shares, Turn};
use crate::seed::turn_chance;

impl NodeTable {
    /// The totals of the nodes that take tasks.
    fn totals(&self) -> CellTotals {
        let total = |dimension| u64::try_from(self.sums.limit(dimension)).unwrap_or(u64::MAX);
        let kinds = (0..self.dimensions()).filter_map(|dimension| Some((dimension, self.kind(dimension)?)));
        let kinds = kinds.filter(|(_, kind)| !kind.contains('/'));
        let kinds = kinds.map(|(dimension, kind)| (kind.to_owned(), total(dimension)));
        CellTotals::new([total(0), total(1), total(2)], kinds.collect())
    }
}

impl CellTables {
    /// Returns true if the cell's queueing policy goes by shares, which may have limits.
    pub fn turns_by_share(&self) -> bool {
        self.settings.queueing.policy.shares()
    }

    /// The shares of everybody, with the chance that breaks ties in this batch.
    pub(crate) fn shares(&self) -> Shares {
        let chance = |turn: &Turn| turn_chance(self.closed_total, turn);
        Shares::new(&self.settings.queueing, &self.usage, self.nodes.totals(), chance)
    }

    /// Adds what all placed tasks of a job hold, or removes it.
    pub(super) fn usage_of_job(&mut self, job: JobId, change: CountChange) {
        if !self.settings.queueing.policy.shares() {
            return;
        }
        let Some(entry) = self.jobs.get(&job) else { return };
        let (Some(turn), Some((_, spec))) = (&entry.turn, &entry.spec) else { return };
        let mut alike = 0;
        for (index, _) in (0u32..).zip(&entry.tasks).filter(|(_, slot)| slot.placed()) {
            let resources = spec.resources_for(index);
            if std::ptr::eq(resources, &spec.resources) {
                alike += 1;
            } else {
                self.usage.counted(turn, resources, 1, change);
            }
        }
        self.usage.counted(turn, &spec.resources, alike, change);
    }

    /// Counts a task that became placed, or that no longer is.
    pub(super) fn usage_moved(&mut self, task: TaskId, before: Option<NodeId>, after: Option<NodeId>) {
        let change = match (before, after) {
            (None, Some(_)) => CountChange::Add,
            (Some(_), None) => CountChange::Remove,
            _ => return,
        };
        if !self.settings.queueing.policy.shares() {
            return;
        }
        let Some(entry) = self.jobs.get(&task.job) else { return };
        let (Some(turn), Some((_, spec))) = (&entry.turn, &entry.spec) else { return };
        self.usage.counted(turn, spec.resources_for(task.index), 1, change);
    }
}
