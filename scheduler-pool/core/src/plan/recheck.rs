//! What of a plan still holds on a newer snapshot, and what it writes per node.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use borough_model::resource::{resources_add, resources_sub};
use borough_model::{NodeAlloc, NodeId, TaskId, TaskRow};
use smallvec::SmallVec;

use super::{NodeChange, Placement, Work};
use crate::filter::{Requirement, fits};
use crate::preempt::{Evictions, Lift, Victim, leaving, lifted};
use crate::queueing::Claim;
use crate::snapshot::Snapshot;

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
    let mut evictions = Evictions::default();
    if placements.iter().flat_map(|placement| &placement.victims).any(|victim| victim.reclaimed) {
        work.shares_known();
    }
    for placement in &placements {
        if placement_held(&mut work, &mut evictions, placement, now_ms).is_break() {
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
    let changes = changes_of(snapshot, &placements, now_ms);
    Recheck { placements, changes, dropped }
}

/// Continues where a placement still holds, and takes what it needs.
fn placement_held(
    work: &mut Work<'_>,
    evictions: &mut Evictions,
    placement: &Placement,
    now_ms: i64,
) -> ControlFlow<()> {
    let Some((node, requirement)) = requirement_held(work.snapshot, placement) else {
        return ControlFlow::Break(());
    };
    let Some(victims) =
        victims_held(work, placement).filter(|victims| victims_reached(work, placement, victims))
    else {
        return ControlFlow::Break(());
    };
    victims.iter().for_each(|victim| work.counted(victim.task.job, node, false));
    let (later, at_once) = leaving(work, evictions, node, now_ms);
    let mut lifts: SmallVec<[&Lift; 8]> = at_once.iter().chain(&victims).collect();
    if placement.held {
        lifts.extend(&later);
    }
    if !lifted(work, node, &lifts, |work| fits(work, &requirement, node, now_ms)) {
        victims.iter().for_each(|victim| work.counted(victim.task.job, node, true));
        return ControlFlow::Break(());
    }
    evictions.added(node, &placement.victims);
    victims.iter().for_each(|victim| work.held_moved(victim.task, false));
    work.taken(node, &requirement.demand, &requirement.ports_fixed);
    work.counted(placement.task.job, node, true);
    work.held_moved(placement.task, true);
    ControlFlow::Continue(())
}

/// Its node, and what it asks of it: exactly what it was given.
fn requirement_held(snapshot: &Snapshot, placement: &Placement) -> Option<(u32, Requirement)> {
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
        && (shape.resources == placement.charge || shape.resources == placement.charge.without_cards());
    holds.then_some((node, requirement))
}

/// Its victims, where they are all as they were.
fn victims_held(work: &Work<'_>, placement: &Placement) -> Option<Vec<Lift>> {
    let victim = |victim: &Victim| {
        let entry = work.snapshot.jobs.get(&victim.task.job)?;
        let slot = entry.task(victim.task.index).filter(|slot| slot.revision == victim.revision)?;
        let mut there = work.nodes.standing.on(slot.node?);
        let (task, standing) = there.find(|(task, _)| *task == victim.task)?;
        Lift::of(work, task, standing, victim.reclaimed.then_some(0))
    };
    placement.victims.iter().map(victim).collect()
}

/// Whether it may still take the places of all of them: priorities are as they have to be, and what it takes from other queues is
/// beyond what they are guaranteed, and within what its own is.
fn victims_reached(work: &Work<'_>, placement: &Placement, victims: &[Lift]) -> bool {
    if victims.is_empty() {
        return true;
    }
    let TaskId { job, index } = placement.task;
    let Some(entry) = work.snapshot.jobs.get(&job) else { return false };
    let shape = entry.shape_of(index).and_then(|shape| work.snapshot.shapes.get(shape));
    let Some(shape) = shape else { return false };
    let (reach, claim) = work.snapshot.reach_of(entry, index).now(work, &shape.resources);
    let gives = |victim: &Lift| {
        let priority = u32::from(victim.standing.priority);
        let claimed = |claim: &Claim| priority < claim.below && work.excess(claim, victim.task).is_some();
        match victim.claimed {
            None => priority < reach.below,
            Some(_) => claim.as_ref().is_some_and(claimed),
        }
    };
    victims.iter().all(gives) && claim.is_none_or(|claim| work.all_give(&claim, victims))
}

/// The new value of each node that placements touch: those that only held there and give way have left it.
pub(super) fn changes_of(snapshot: &Snapshot, placements: &[Placement], now_ms: i64) -> Vec<NodeChange> {
    let mut by_node: BTreeMap<NodeId, SmallVec<[&Placement; 4]>> = BTreeMap::new();
    for placement in placements {
        by_node.entry(placement.node).or_default().push(placement);
    }
    let change = |(node, placements): (NodeId, SmallVec<[&Placement; 4]>)| {
        let mut alloc = snapshot.nodes.alloc(snapshot.nodes.ordinal(node)?)?;
        alloc.epoch += 1;
        alloc.ports_cooling.retain(|_, until| *until > now_ms);
        let victims = placements.iter().flat_map(|placement| &placement.victims);
        for row in victims.filter_map(|victim| held_row(snapshot, victim)) {
            holder_left(&mut alloc, row);
        }
        placements.into_iter().for_each(|placement| placement_added(&mut alloc, placement));
        Some(NodeChange { node, alloc })
    };
    by_node.into_iter().filter_map(change).collect()
}

/// The row of a victim that only holds.
pub(crate) fn held_row<'a>(snapshot: &'a Snapshot, victim: &Victim) -> Option<&'a TaskRow> {
    snapshot.task_row(victim.task).filter(|_| victim.holds)
}

fn holder_left(alloc: &mut NodeAlloc, row: &TaskRow) {
    let share = if row.promised { &mut alloc.promised } else { &mut alloc.used };
    if let Ok(left) = resources_sub(share, &row.charge.resources) {
        *share = left;
    }
    alloc.tasks = alloc.tasks.saturating_sub(1);
    alloc.ports.retain(|port| row.ports.iter().all(|given| given.number != *port));
}

fn placement_added(alloc: &mut NodeAlloc, placement: &Placement) {
    let share = if placement.held { &mut alloc.promised } else { &mut alloc.used };
    if let Ok(more) = resources_add(share, &placement.charge) {
        *share = more;
    }
    alloc.tasks = alloc.tasks.saturating_add(1);
    alloc.ports.extend(placement.ports.iter().map(|port| port.number));
}
