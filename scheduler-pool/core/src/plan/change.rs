//! The new allocations of nodes after a plan, and the check that a task may be placed.

use std::collections::BTreeMap;

use borough_model::resource::{resources_add, resources_sub};
use borough_model::{NodeAlloc, NodeId, TaskId, TaskRow};
use smallvec::SmallVec;

use super::{NodeChange, PlannedPlacement};
use crate::preempt::Victim;
use crate::tables::CellTables;

/// Returns true if a task may be placed: its job runs and wants the task, and the task has no node yet.
pub(super) fn task_wanted(tables: &CellTables, task: TaskId) -> bool {
    tables.jobs.get(&task.job).is_some_and(|entry| {
        let open = entry.task(task.index).is_none_or(|slot| slot.open());
        entry.runs() && task.index < entry.count() && open
    })
}

/// The new allocation of each node that placements touch. Victims that were only held there have left it.
pub(super) fn changes_of(
    tables: &CellTables,
    placements: &[PlannedPlacement],
    now_ms: i64,
) -> Vec<NodeChange> {
    let mut by_node: BTreeMap<NodeId, SmallVec<[&PlannedPlacement; 4]>> = BTreeMap::new();
    for placement in placements {
        by_node.entry(placement.node).or_default().push(placement);
    }
    let change = |(node, placements): (NodeId, SmallVec<[&PlannedPlacement; 4]>)| {
        let mut alloc = tables.nodes.alloc(tables.nodes.ordinal(node)?)?;
        alloc.epoch += 1;
        alloc.ports_cooling.retain(|_, until| *until > now_ms);
        let victims = placements.iter().flat_map(|placement| &placement.victims);
        for row in victims.filter_map(|victim| held_row(tables, victim)) {
            holder_left(&mut alloc, row);
        }
        placements.into_iter().for_each(|placement| placement_added(&mut alloc, placement));
        Some(NodeChange { node, alloc })
    };
    by_node.into_iter().filter_map(change).collect()
}

/// The row of a victim that was only held.
pub(crate) fn held_row<'a>(tables: &'a CellTables, victim: &Victim) -> Option<&'a TaskRow> {
    tables.task_row(victim.task).filter(|_| victim.holds)
}

fn holder_left(alloc: &mut NodeAlloc, row: &TaskRow) {
    let share = if row.promised { &mut alloc.promised } else { &mut alloc.used };
    if let Ok(left) = resources_sub(share, &row.charge.resources) {
        *share = left;
    }
    alloc.tasks = alloc.tasks.saturating_sub(1);
    alloc.ports.retain(|port| row.ports.iter().all(|given| given.number != *port));
}

fn placement_added(alloc: &mut NodeAlloc, placement: &PlannedPlacement) {
    let share = if placement.held { &mut alloc.promised } else { &mut alloc.used };
    if let Ok(more) = resources_add(share, &placement.charge) {
        *share = more;
    }
    alloc.tasks = alloc.tasks.saturating_add(1);
    alloc.ports.extend(placement.ports.iter().map(|port| port.number));
}
