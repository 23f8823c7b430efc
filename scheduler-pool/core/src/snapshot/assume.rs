//! Plans in flight: what they took counts as taken until the journal says what became of it.

use borough_model::{TaskId, TaskState};

use super::{Snapshot, TaskSlot};
use crate::filter::Requirement;
use crate::plan::{Placement, Plan};

impl Snapshot {
    /// Counts a plan's placements as made before their commit is known, so that the next batch does not take the same.
    /// Revisions stay as they are: the true rows, whoever wrote them, replace what is assumed.
    pub fn assume(&mut self, plan: &Plan) {
        for placement in &plan.placements {
            self.placement_assume(placement);
        }
    }

    fn placement_assume(&mut self, placement: &Placement) {
        let TaskId { job, index } = placement.task;
        let Some(entry) = self.jobs.get(&job) else { return };
        let before = entry.task(index).cloned().unwrap_or_default();
        if !before.open() {
            return;
        }
        let slot = TaskSlot {
            incarnation: placement.incarnation,
            node: Some(placement.node),
            spec_version: placement.spec_version,
            state: Some(TaskState::Assigned),
            assumed: true,
            ..before
        };
        self.slot_set(placement.task, slot);
        self.placement_charge(placement, true);
    }

    /// Takes back what was assumed of a plan and has not been replaced by true rows since: its commit failed.
    pub fn forget(&mut self, plan: &Plan) {
        for placement in &plan.placements {
            let TaskId { job, index } = placement.task;
            let slot = self.jobs.get(&job).and_then(|entry| entry.task(index));
            let Some(slot) = slot.filter(|slot| slot.assumed && slot.incarnation == placement.incarnation)
            else {
                continue;
            };
            let restored = slot.row.as_deref().map(TaskSlot::of).unwrap_or_default();
            self.slot_set(placement.task, restored);
            let base = plan.changes.iter().find(|change| change.node == placement.node);
            let epoch_base = base.map(|change| change.alloc.epoch.saturating_sub(1));
            let node = self.nodes.ordinal(placement.node);
            if node.and_then(|node| self.nodes.epochs.get(node as usize).copied()) == epoch_base {
                self.placement_charge(placement, false);
            }
        }
    }

    fn placement_charge(&mut self, placement: &Placement, taken: bool) {
        let Some(node) = self.nodes.ordinal(placement.node) else { return };
        let requirement = Requirement::of_resources(&placement.charge, &self.nodes);
        let ports: Vec<u16> = placement.ports.iter().map(|port| port.number).collect();
        self.nodes.charge(node, &requirement.demand, &ports, taken);
        if !taken {
            self.blocked.helped(node);
        }
    }
}
