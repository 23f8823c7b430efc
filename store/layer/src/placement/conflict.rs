//! Maps reported conflict ranges to the guards that a batch lost, and those to the placements that fail.

use std::collections::BTreeSet;
use std::ops::Range;

use borough_model::{GangId, JobId, NodeId, TaskId, TaskRow};
use bytes::Bytes;

use super::PlacementBatch;
use crate::keys::{CellGateKey, CellSpace, ConstraintKey, GangKey, JobGateKey, Key, NodeAllocKey, TaskKey};

/// The guards of a batch that others have overwritten. A lower bound: the store may name only some. If it is empty,
/// [`placement_survivors`](super::placement_survivors) finds them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PlacementConflicts {
    /// The cell was closed or imported, or a term is new in the cell: nothing of the batch may be tried before
    /// the cell is read again.
    pub cell: bool,
    /// The lease has passed to another worker: drop the batch and stop.
    pub lease: bool,
    /// Jobs that were stopped, shrunk or changed, or have another priority, or whose name another job has taken.
    pub jobs: BTreeSet<JobId>,
    /// Nodes on which a commitment changed, or whose own row changed.
    pub nodes: BTreeSet<NodeId>,
    /// Tasks whose rows changed.
    pub tasks: BTreeSet<TaskId>,
    /// Terms that other placements matched.
    pub terms: BTreeSet<ConstraintKey>,
    /// Gangs that others changed.
    pub gangs: BTreeSet<GangId>,
}

/// The guards of `batch` within the ranges that a 1020 reported.
pub fn placement_conflicts(
    space: &CellSpace,
    conflicting: &[Range<Bytes>],
    batch: &PlacementBatch,
) -> PlacementConflicts {
    let hit = |key: Vec<u8>| {
        conflicting
            .iter()
            .any(|range| range.start.as_ref() <= key.as_slice() && key.as_slice() < range.end.as_ref())
    };
    let renamed = (batch.evictions.iter())
        .filter(|eviction| eviction.withdraws() && hit(eviction.name_key().encode(space)));
    PlacementConflicts {
        cell: hit(CellGateKey {}.encode(space)) || hit(ConstraintKey::of_all().encode(space)),
        lease: hit(batch.lease.encode(space)),
        jobs: (batch.jobs().into_iter().filter(|&job| hit(JobGateKey { job }.encode(space))))
            .chain(renamed.map(|eviction| eviction.row.id.job))
            .collect(),
        nodes: batch.nodes.keys().copied().filter(|&node| hit(NodeAllocKey { node }.encode(space))).collect(),
        tasks: (batch.tasks().into_iter().chain(batch.dependencies()))
            .filter(|&task| hit(TaskKey::of(task).encode(space)))
            .collect(),
        terms: batch.terms().into_iter().filter(|term| hit(term.encode(space))).cloned().collect(),
        gangs: batch
            .gangs
            .iter()
            .map(|gang| gang.id)
            .filter(|&gang| hit(GangKey { gang }.encode(space)))
            .collect(),
    }
}

/// The placements that fail with the overwritten guards: whole gangs together, and each preemptor with its victims.
///
/// A placement does not fail only because others committed something to its node.
/// [`placement_survivors`](super::placement_survivors) checks over fresh values whether it still fits there, and
/// whether the node's row is the same. A placement that waits there for victims fails, since it may no longer need to
/// wait.
pub fn placement_losers(conflicts: &PlacementConflicts, batch: &PlacementBatch) -> BTreeSet<TaskId> {
    let all = conflicts.cell || conflicts.lease;
    let preemptors: BTreeSet<TaskId> = batch.evictions.iter().map(|eviction| eviction.preemptor).collect();
    let waits = |row: &TaskRow| row.promised || preemptors.contains(&row.id);
    let direct = batch.placements.iter().filter(|placement| {
        let row = &placement.row;
        all || conflicts.jobs.contains(&row.id.job)
            || conflicts.tasks.contains(&row.id)
            || (waits(row) && row.node.is_some_and(|node| conflicts.nodes.contains(&node)))
            || row.gang.is_some_and(|gang| conflicts.gangs.contains(&gang))
            || placement.terms.iter().any(|term| conflicts.terms.contains(term))
            || placement.dependencies.iter().any(|task| conflicts.tasks.contains(task))
    });
    let mut losers: BTreeSet<TaskId> = direct.map(|placement| placement.row.id).collect();
    let evictions = batch.evictions.iter();
    losers.extend(
        evictions
            .filter(|eviction| {
                let TaskId { job, .. } = eviction.row.id;
                conflicts.tasks.contains(&eviction.row.id) || conflicts.jobs.contains(&job)
            })
            .map(|eviction| eviction.preemptor),
    );
    losers_with_gangs(batch, losers)
}

/// The losers with every other placement of their gangs: a gang is placed whole or not at all.
pub(super) fn losers_with_gangs(batch: &PlacementBatch, losers: BTreeSet<TaskId>) -> BTreeSet<TaskId> {
    let rows = || batch.placements.iter().map(|placement| &placement.row);
    let gangs: BTreeSet<GangId> =
        rows().filter(|row| losers.contains(&row.id)).filter_map(|row| row.gang).collect();
    let members = rows().filter(|row| row.gang.is_some_and(|gang| gangs.contains(&gang)));
    let members: Vec<TaskId> = members.map(|row| row.id).collect();
    losers.into_iter().chain(members).collect()
}
