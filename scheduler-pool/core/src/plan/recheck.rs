//! What of a plan still holds on a newer snapshot, and what it writes per node.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use borough_model::{NodeAlloc, NodeId, TaskId};
use smallvec::SmallVec;

use super::{NodeChange, Placement, Work};
use crate::filter::{Requirement, fits};
use crate::snapshot::{NodeTable, Snapshot};

/// Placements of a plan whose commit failed, held against what is true now.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Recheck {
    /// Those that still hold.
    pub placements: Vec<Placement>,
    /// The new value of each node that they touch, by node.
    pub changes: Vec<NodeChange>,
    /// Those that do not; their tasks are planned again.
    pub dropped: Vec<Placement>,
}

/// Whether a task may be placed: its job runs, wants the task, and it has no node yet.
pub(super) fn task_wanted(snapshot: &Snapshot, task: TaskId) -> bool {
    snapshot.jobs.get(&task.job).is_some_and(|entry| {
        let open = entry.task(task.index).is_none_or(|slot| slot.open());
        entry.runs() && task.index < entry.count() && open
    })
}

/// Holds placements against a newer snapshot, on which they are not assumed (see [`Snapshot::forget`]): the same filters
/// as when they were planned. A gang of which one member is lost is dropped whole.
pub fn recheck(snapshot: &Snapshot, placements: Vec<Placement>, now_ms: i64) -> Recheck {
    let mut lost: BTreeSet<TaskId> = BTreeSet::new();
    // Dropping a gang gives back what its members took, which drops nobody else: the checks stay right, if cautious.
    let mut work = Work::new(snapshot);
    for placement in &placements {
        if placement_held(snapshot, &mut work, placement, now_ms).is_break() {
            lost.insert(placement.task);
        }
    }
    let gang = |placement: &Placement| placement.gang.map(|gang| (placement.task.job, gang));
    let gangs_lost: BTreeSet<_> =
        placements.iter().filter(|placement| lost.contains(&placement.task)).filter_map(gang).collect();
    let (dropped, placements): (Vec<_>, Vec<_>) =
        placements.into_iter().partition(|placement: &Placement| {
            lost.contains(&placement.task) || gang(placement).is_some_and(|gang| gangs_lost.contains(&gang))
        });
    let changes = changes_of(&snapshot.nodes, &placements, now_ms);
    Recheck { placements, changes, dropped }
}

/// Continues where a placement still holds, and takes what it needs.
fn placement_held(
    snapshot: &Snapshot,
    work: &mut Work<'_>,
    placement: &Placement,
    now_ms: i64,
) -> ControlFlow<()> {
    let holds = || -> Option<(u32, Requirement)> {
        let node = snapshot.nodes.ordinal(placement.node)?;
        let entry = snapshot.jobs.get(&placement.task.job)?;
        let row = entry.row.as_ref()?;
        let life = entry.task(placement.task.index).map(|slot| slot.incarnation).unwrap_or_default().next();
        let shape = snapshot.shapes.get(entry.shape_of(placement.task.index)?)?;
        let mut requirement = Requirement::of(shape, snapshot);
        requirement.ports_dynamic = 0;
        requirement.ports_fixed = placement.ports.iter().map(|port| port.number).collect();
        // It holds with the very cards and the very domain it was given, or not.
        if requirement.chooses() {
            requirement.demand = Requirement::of_resources(&placement.charge, &snapshot.nodes).demand;
            requirement.cards.clear();
            requirement.within = None;
        }
        let holds = task_wanted(snapshot, placement.task)
            && row.spec_version == placement.spec_version
            && life == placement.incarnation
            && (shape.resources == placement.charge || shape.resources == placement.charge.without_cards())
            && fits(work, &requirement, node, now_ms);
        holds.then_some((node, requirement))
    };
    let Some((node, requirement)) = holds() else { return ControlFlow::Break(()) };
    work.taken(node, &requirement.demand, &requirement.ports_fixed);
    work.counted(placement.task.job, node, true);
    ControlFlow::Continue(())
}

/// The new value of each node that placements touch.
pub(super) fn changes_of(nodes: &NodeTable, placements: &[Placement], now_ms: i64) -> Vec<NodeChange> {
    let mut by_node: BTreeMap<NodeId, SmallVec<[&Placement; 4]>> = BTreeMap::new();
    for placement in placements {
        by_node.entry(placement.node).or_default().push(placement);
    }
    let change = |(node, placements): (NodeId, SmallVec<[&Placement; 4]>)| {
        let mut alloc = nodes.alloc(nodes.ordinal(node)?)?;
        alloc.epoch += 1;
        alloc.ports_cooling.retain(|_, until| *until > now_ms);
        placements.into_iter().for_each(|placement| placement_added(&mut alloc, placement));
        Some(NodeChange { node, alloc })
    };
    by_node.into_iter().filter_map(change).collect()
}

fn placement_added(alloc: &mut NodeAlloc, placement: &Placement) {
    let (used, charge) = (&mut alloc.used, &placement.charge);
    used.cpu_millis = used.cpu_millis.saturating_add(charge.cpu_millis);
    used.memory_bytes = used.memory_bytes.saturating_add(charge.memory_bytes);
    used.disk_bytes = used.disk_bytes.saturating_add(charge.disk_bytes);
    used.disk_bytes_per_s = used.disk_bytes_per_s.saturating_add(charge.disk_bytes_per_s);
    used.network_bytes_per_s = used.network_bytes_per_s.saturating_add(charge.network_bytes_per_s);
    for (kind, &amount) in charge.device_millis.iter().filter(|&(_, &amount)| amount > 0) {
        let used = used.device_millis.entry(kind.clone()).or_default();
        *used = used.saturating_add(amount);
    }
    alloc.tasks = alloc.tasks.saturating_add(1);
    alloc.ports.extend(placement.ports.iter().map(|port| port.number));
}
