//! Plans in flight: what they took counts as taken until the journal says what became of it.

use std::collections::BTreeMap;

use borough_model::task::task_transition;
use borough_model::{NodeId, Resources, TaskId, TaskRow, TaskState};

use super::{NodeTable, Snapshot, Stand, TaskSlot};
use crate::filter::Requirement;
use crate::plan::{Plan, PlannedPlacement};
use crate::preempt::Victim;

/// What placements in flight took.
pub(crate) type Assumed = BTreeMap<TaskId, AssumedPlacement>;

/// What one of them took.
#[derive(Clone, Debug)]
pub(crate) struct AssumedPlacement {
    node: NodeId,
    /// The epoch of the node's commitment then: a later one, whoever wrote it, does not count the placement unless it
    /// was committed.
    epoch: u64,
    resources: Resources,
    ports: Vec<u16>,
    /// Whether it is promised, and not used.
    promised: bool,
}

/// Tasks that give way by plans in flight: as they were before, and what those that only held gave back.
pub(crate) type AssumedGone = BTreeMap<TaskId, (TaskSlot, Option<AssumedPlacement>)>;

impl AssumedPlacement {
    /// What a row that holds takes.
    fn of_row(row: &TaskRow, node: NodeId, nodes: &NodeTable) -> Self {
        Self {
            node,
            epoch: nodes.ordinal(node).map(|node| nodes.epoch(node)).unwrap_or_default(),
            resources: row.charge.resources.clone(),
            ports: row.port_numbers(),
            promised: row.promised,
        }
    }
}

impl Snapshot {
    /// Counts a plan's placements as made before their commit is known, so that the next batch does not take the same.
    /// Revisions stay as they are: the true rows, whoever wrote them, replace what is assumed.
    pub fn assume(&mut self, plan: &Plan) {
        for placement in &plan.placements {
            placement.victims.iter().for_each(|victim| self.victim_assume(victim));
            self.placement_assume(placement);
        }
    }

    /// The same as if the commit were known: what is placed stands there, and may be made to give way in its turn. For
    /// plans that are only supposed, one after another.
    pub(crate) fn suppose(&mut self, plan: &Plan, now_ms: i64) {
        for placement in &plan.placements {
            for victim in &placement.victims {
                self.victim_assume(victim);
                if !self.assumed_gone.contains_key(&victim.task) {
                    self.supposed_goes(victim);
                }
            }
            self.placement_assume(placement);
            let before = self.task_row(placement.task).cloned();
            let before = before.unwrap_or_else(|| TaskRow::never_placed(placement.task));
            if let Ok(placed) = task_transition(&before, &placement.event(None), now_ms) {
                self.resident_put(None, &placed.row);
            }
        }
    }

    /// A victim that itself is only supposed to stand.
    fn supposed_goes(&mut self, victim: &Victim) {
        let TaskId { job, index } = victim.task;
        let slot = self.jobs.get(&job).and_then(|entry| entry.task(index)).cloned();
        let Some((slot, node)) = slot.and_then(|slot| Some((slot.clone(), slot.node?))) else { return };
        let state = if victim.holds { TaskState::Pending } else { TaskState::Stopping };
        match victim.holds {
            true => self.resident_removed(node, victim.task),
            false => self.resident_assumed(node, victim.task, Stand::Leaves),
        }
        self.slot_set(victim.task, TaskSlot { state: Some(state), evicted: true, ..slot });
        if victim.holds {
            self.assumed_release(victim.task, None);
        }
    }

    /// A victim that has started is on its way out; one that only holds gives its share back and wants a node again.
    fn victim_assume(&mut self, victim: &Victim) {
        let TaskId { job, index } = victim.task;
        let before = self.jobs.get(&job).and_then(|entry| entry.task(index)).cloned();
        let Some(before) = before.filter(|slot| slot.revision == victim.revision && !slot.assumed) else {
            return;
        };
        let Some(node) = before.node else { return };
        let taken = before.row.as_deref().filter(|_| victim.holds);
        let taken = taken.map(|row| AssumedPlacement::of_row(row, node, &self.nodes));
        if let Some(taken) = &taken {
            self.charge(taken, false);
        }
        let stand = if victim.holds { Stand::Holds } else { Stand::Leaves };
        match stand {
            Stand::Holds => self.resident_removed(node, victim.task),
            stand => self.resident_assumed(node, victim.task, stand),
        }
        let state = if victim.holds { TaskState::Pending } else { TaskState::Stopping };
        let slot = TaskSlot { state: Some(state), assumed: true, evicted: true, ..before.clone() };
        self.slot_set(victim.task, slot);
        self.assumed_gone.insert(victim.task, (before, taken));
    }

    fn victim_forget(&mut self, victim: &Victim) {
        let TaskId { job, index } = victim.task;
        let slot = self.jobs.get(&job).and_then(|entry| entry.task(index));
        if slot.is_none_or(|slot| !slot.assumed) {
            return;
        }
        let Some((before, taken)) = self.assumed_gone.remove(&victim.task) else { return };
        let (node, row) = (before.node, before.row.clone());
        self.gone_retaken(taken);
        self.slot_set(victim.task, before);
        match (row, node) {
            (Some(row), _) => self.resident_put(None, &row),
            (None, Some(node)) => self.resident_assumed(node, victim.task, Stand::Runs),
            (None, None) => {}
        }
    }

    /// What was given back for a moment is taken again, unless the journal has told of the node since.
    fn gone_retaken(&mut self, taken: Option<AssumedPlacement>) {
        let Some(taken) = taken else { return };
        if self.nodes.ordinal(taken.node).map(|node| self.nodes.epoch(node)) == Some(taken.epoch) {
            self.charge(&taken, true);
        }
    }

    /// The true row of a task is known: what was assumed of its giving way is void.
    pub(crate) fn gone_release(&mut self, task: TaskId, charged: Option<NodeId>) {
        let Some((_, taken)) = self.assumed_gone.remove(&task) else { return };
        self.gone_retaken(taken.filter(|taken| charged == Some(taken.node)));
    }

    fn placement_assume(&mut self, placement: &PlannedPlacement) {
        let TaskId { job, index } = placement.task;
        let Some(entry) = self.jobs.get(&job) else { return };
        let before = entry.task(index).cloned().unwrap_or_default();
        let Some(node) = self.nodes.ordinal(placement.node).filter(|_| before.open()) else { return };
        let slot = TaskSlot {
            incarnation: placement.incarnation,
            node: Some(placement.node),
            spec_version: placement.spec_version,
            state: Some(if placement.held { TaskState::Held } else { TaskState::Assigned }),
            assumed: true,
            ..before
        };
        self.slot_set(placement.task, slot);
        let taken = AssumedPlacement {
            node: placement.node,
            epoch: self.nodes.epoch(node),
            resources: placement.charge.clone(),
            ports: placement.ports.iter().map(|port| port.number).collect(),
            promised: placement.held,
        };
        self.charge(&taken, true);
        self.assumed.insert(placement.task, taken);
    }

    /// Takes back what was assumed of a plan and has not been replaced by true rows since: its commit failed.
    pub fn forget(&mut self, plan: &Plan) {
        for placement in &plan.placements {
            placement.victims.iter().for_each(|victim| self.victim_forget(victim));
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

    fn charge(&mut self, taken: &AssumedPlacement, more: bool) {
        let Some(node) = self.nodes.ordinal(taken.node) else { return };
        let demand = Requirement::of_resources(&taken.resources, &self.nodes).demand;
        self.nodes.charge(node, &demand, &taken.ports, more);
        if taken.promised {
            self.nodes.promised_moved(node, &taken.resources, more);
        }
        self.unschedulable.changed();
        if !more {
            self.unschedulable.freed(node);
        }
    }
}
