//! The assumed effects of plans in flight. Their charges count until the journal reports what became of them.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::task::task_transition;
use borough_model::{JobId, NodeId, Resources, TaskId, TaskRow, TaskState};

use crate::count::CountChange;
use crate::filter::Requirement;
use crate::plan::{Plan, PlannedPlacement};
use crate::preempt::Victim;
use crate::tables::{CellTables, NodeTable, ResidentState, TaskSlot};

/// The assumed effects of plans in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Assumptions {
    /// The charges of placements.
    placed: BTreeMap<TaskId, AssumedPlacement>,
    /// The victims, with their slots before and the charges that held ones released.
    gone: BTreeMap<TaskId, AssumedVictim>,
}

/// A task that is assumed to be evicted.
#[derive(Clone, Debug)]
struct AssumedVictim {
    before: TaskSlot,
    /// The charge that it held and has released.
    taken: Option<AssumedPlacement>,
}

/// The charge of one placement.
#[derive(Clone, Debug)]
struct AssumedPlacement {
    node: NodeId,
    /// The epoch of the node's allocation at that time. A later allocation contains the placement only if it was
    /// committed.
    epoch: u64,
    resources: Resources,
    ports: Vec<u16>,
    /// True if the charge is promised and not used yet.
    promised: bool,
}

impl AssumedPlacement {
    /// The charge of a held row.
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

impl Assumptions {
    /// Assumes that a plan is committed before the result is known. See [`crate::Snapshot::assume`].
    pub(super) fn assume(&mut self, tables: &mut CellTables, plan: &Plan) {
        for placement in &plan.placements {
            placement.victims.iter().for_each(|victim| self.victim_assume(tables, victim));
            self.placement_assume(tables, placement);
        }
    }

    /// Applies a plan as if it were committed. See `Snapshot::suppose`.
    pub(super) fn suppose(&mut self, tables: &mut CellTables, plan: &Plan, now_ms: i64) {
        for placement in &plan.placements {
            for victim in &placement.victims {
                self.victim_assume(tables, victim);
                if !self.gone.contains_key(&victim.task) {
                    self.supposed_goes(tables, victim);
                }
            }
            self.placement_assume(tables, placement);
            let before = tables.task_row(placement.task).cloned();
            let before = before.unwrap_or_else(|| TaskRow::never_placed(placement.task));
            if let Ok(placed) = task_transition(&before, &placement.event(None), now_ms) {
                tables.resident_put(None, &placed.row);
            }
        }
    }

    /// Evicts a victim that was itself placed on trial.
    fn supposed_goes(&mut self, tables: &mut CellTables, victim: &Victim) {
        let TaskId { job, index } = victim.task;
        let slot = tables.jobs.get(&job).and_then(|entry| entry.task(index)).cloned();
        let Some((slot, node)) = slot.and_then(|slot| Some((slot.clone(), slot.node?))) else { return };
        let state = if victim.holds { TaskState::Pending } else { TaskState::Stopping };
        if victim.holds {
            tables.resident_removed(node, victim.task);
        } else {
            tables.resident_assumed(node, victim.task, ResidentState::Leaving);
        }
        tables.slot_set(victim.task, TaskSlot { state: Some(state), evicted: true, ..slot });
        if victim.holds {
            self.assumed_release(tables, victim.task, None);
        }
    }

    /// Assumes an eviction. A victim that has started is stopping. A held one releases its share and wants a node
    /// again.
    fn victim_assume(&mut self, tables: &mut CellTables, victim: &Victim) {
        let TaskId { job, index } = victim.task;
        let before = tables.jobs.get(&job).and_then(|entry| entry.task(index)).cloned();
        let Some(before) = before.filter(|slot| slot.revision == victim.revision && !slot.assumed) else {
            return;
        };
        let Some(node) = before.node else { return };
        let taken = before.row.as_deref().filter(|_| victim.holds);
        let taken = taken.map(|row| AssumedPlacement::of_row(row, node, &tables.nodes));
        if let Some(taken) = &taken {
            charge(tables, taken, CountChange::Remove);
        }
        if victim.holds {
            tables.resident_removed(node, victim.task);
        } else {
            tables.resident_assumed(node, victim.task, ResidentState::Leaving);
        }
        let state = if victim.holds { TaskState::Pending } else { TaskState::Stopping };
        let slot = TaskSlot { state: Some(state), assumed: true, evicted: true, ..before.clone() };
        tables.slot_set(victim.task, slot);
        self.gone.insert(victim.task, AssumedVictim { before, taken });
    }

    fn victim_forget(&mut self, tables: &mut CellTables, victim: &Victim) {
        let TaskId { job, index } = victim.task;
        let slot = tables.jobs.get(&job).and_then(|entry| entry.task(index));
        if slot.is_none_or(|slot| !slot.assumed) {
            return;
        }
        let Some(AssumedVictim { before, taken }) = self.gone.remove(&victim.task) else { return };
        let (node, row) = (before.node, before.row.clone());
        self.gone_retaken(tables, taken);
        tables.slot_set(victim.task, before);
        match (row, node) {
            (Some(row), _) => tables.resident_put(None, &row),
            (None, Some(node)) => tables.resident_assumed(node, victim.task, ResidentState::Running),
            (None, None) => {}
        }
    }

    /// Takes a released charge again, unless the node's allocation has changed since.
    fn gone_retaken(&mut self, tables: &mut CellTables, taken: Option<AssumedPlacement>) {
        let Some(taken) = taken else { return };
        if tables.nodes.ordinal(taken.node).map(|node| tables.nodes.epoch(node)) == Some(taken.epoch) {
            charge(tables, &taken, CountChange::Add);
        }
    }

    /// Drops the assumed eviction of a task, because its true row is known.
    fn gone_release(&mut self, tables: &mut CellTables, task: TaskId, charged: Option<NodeId>) {
        let Some(AssumedVictim { taken, .. }) = self.gone.remove(&task) else { return };
        self.gone_retaken(tables, taken.filter(|taken| charged == Some(taken.node)));
    }

    fn placement_assume(&mut self, tables: &mut CellTables, placement: &PlannedPlacement) {
        let TaskId { job, index } = placement.task;
        let Some(entry) = tables.jobs.get(&job) else { return };
        let before = entry.task(index).cloned().unwrap_or_default();
        let Some(node) = tables.nodes.ordinal(placement.node).filter(|_| before.open()) else { return };
        let slot = TaskSlot {
            incarnation: placement.incarnation,
            node: Some(placement.node),
            spec_version: placement.spec_version,
            state: Some(if placement.held { TaskState::Held } else { TaskState::Assigned }),
            assumed: true,
            ..before
        };
        tables.slot_set(placement.task, slot);
        let taken = AssumedPlacement {
            node: placement.node,
            epoch: tables.nodes.epoch(node),
            resources: placement.charge.clone(),
            ports: placement.ports.iter().map(|port| port.number).collect(),
            promised: placement.held,
        };
        charge(tables, &taken, CountChange::Add);
        if let Some(place) = &placement.alloc {
            tables.allocs.assume(placement.task, place);
        }
        self.placed.insert(placement.task, taken);
    }

    /// Takes back what was assumed of a plan. See [`crate::Snapshot::forget`].
    pub(super) fn forget(&mut self, tables: &mut CellTables, plan: &Plan) {
        for placement in &plan.placements {
            placement.victims.iter().for_each(|victim| self.victim_forget(tables, victim));
            let TaskId { job, index } = placement.task;
            let slot = tables.jobs.get(&job).and_then(|entry| entry.task(index));
            let assumed = slot.filter(|slot| slot.assumed && slot.incarnation == placement.incarnation);
            let Some(restored) = assumed.map(|slot| slot.row.as_deref().map(TaskSlot::of)) else { continue };
            tables.slot_set(placement.task, restored.unwrap_or_default());
            tables.allocs.assumed_forget(placement.task);
            self.assumed_release(tables, placement.task, None);
        }
    }

    /// Drops what was assumed of a task, because its true row is known. `charged` is the node that the row charges.
    pub(super) fn task_released(&mut self, tables: &mut CellTables, task: TaskId, charged: Option<NodeId>) {
        self.assumed_release(tables, task, charged);
        self.gone_release(tables, task, charged);
    }

    /// Drops what was assumed of the tasks of a removed job.
    pub(super) fn job_released(&mut self, tables: &mut CellTables, job: JobId) {
        let of_job = TaskId { job, index: 0 }..=TaskId { job, index: u32::MAX };
        let placed = self.placed.range(of_job.clone()).map(|(&task, _)| task);
        let tasks: BTreeSet<TaskId> = placed.chain(self.gone.range(of_job).map(|(&task, _)| task)).collect();
        tasks.into_iter().for_each(|task| self.task_released(tables, task, None));
    }

    /// Releases the assumed charge of a placement, unless the true row charges the same node.
    fn assumed_release(&mut self, tables: &mut CellTables, task: TaskId, charged: Option<NodeId>) {
        let Some(taken) = self.placed.remove(&task) else { return };
        let epoch = tables.nodes.ordinal(taken.node).map(|node| tables.nodes.epoch(node));
        if charged != Some(taken.node) && epoch == Some(taken.epoch) {
            charge(tables, &taken, CountChange::Remove);
        }
    }
}

/// Charges a node with a placement, or releases the charge.
fn charge(tables: &mut CellTables, taken: &AssumedPlacement, change: CountChange) {
    let Some(node) = tables.nodes.ordinal(taken.node) else { return };
    let demand = Requirement::of_resources(&taken.resources, &tables.nodes).demand;
    tables.nodes.charge(node, &demand, &taken.ports, change);
    if taken.promised {
        tables.nodes.promised_moved(node, &taken.resources, change);
    }
    tables.events.changed = true;
    if change == CountChange::Remove {
        tables.events.node_freed(node);
    }
}
