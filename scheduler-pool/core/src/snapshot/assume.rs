//! Plans in flight: what they took counts as taken until the journal says what became of it.

use std::collections::BTreeMap;

use borough_model::{NodeId, Resources, TaskId, TaskState};

use super::{Snapshot, TaskSlot};
use crate::filter::Requirement;
use crate::plan::{Placement, Plan};

/// What placements in flight took.
pub(crate) type Assumed = BTreeMap<TaskId, Taken>;

/// What one of them took.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    node: NodeId,
    /// The epoch of the node's commitment then: a later one, whoever wrote it, does not count the placement unless it
    /// was committed.
    epoch: u64,
    resources: Resources,
    ports: Vec<u16>,
}

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
        let Some(node) = self.nodes.ordinal(placement.node).filter(|_| before.open()) else { return };
        let slot = TaskSlot {
            incarnation: placement.incarnation,
            node: Some(placement.node),
            spec_version: placement.spec_version,
            state: Some(TaskState::Assigned),
            assumed: true,
            ..before
        };
        self.slot_set(placement.task, slot);
        let taken = Taken {
            node: placement.node,
            epoch: self.nodes.epoch(node),
            resources: placement.charge.clone(),
            ports: placement.ports.iter().map(|port| port.number).collect(),
        };
        self.charge(&taken, true);
        self.assumed.insert(placement.task, taken);
    }

    /// Takes back what was assumed of a plan and has not been replaced by true rows since: its commit failed.
    pub fn forget(&mut self, plan: &Plan) {
        for placement in &plan.placements {
            let TaskId { job, index } = placement.task;
            let slot = self.jobs.get(&job).and_then(|entry| entry.task(index));
            let assumed = slot.filter(|slot| slot.assumed && slot.incarnation == placement.incarnation);
            let Some(restored) = assumed.map(|slot| slot.row.as_deref().map(TaskSlot::of)) else { continue };
            self.slot_set(placement.task, restored.unwrap_or_default());
            self.assumed_release(placement.task, None);
        }
    }

    /// The true row of a task is known, with the node that it charges: what was assumed of it elsewhere is given back.
    pub(crate) fn assumed_release(&mut self, task: TaskId, charged: Option<NodeId>) {
        let Some(taken) = self.assumed.remove(&task) else { return };
        let epoch = self.nodes.ordinal(taken.node).map(|node| self.nodes.epoch(node));
        if charged != Some(taken.node) && epoch == Some(taken.epoch) {
            self.charge(&taken, false);
        }
    }

    fn charge(&mut self, taken: &Taken, more: bool) {
        let Some(node) = self.nodes.ordinal(taken.node) else { return };
        let demand = Requirement::of_resources(&taken.resources, &self.nodes).demand;
        self.nodes.charge(node, &demand, &taken.ports, more);
        self.blocked.changed();
        if !more {
            self.blocked.helped(node);
        }
    }
}
