//! The rest of a batch after a conflict, over the values of a fresh tail.

use std::collections::BTreeSet;

use borough_model::job::{JobRow, JobState};
use borough_model::{JobId, NodeId, RequestId, TaskId};

use super::conflict::losers_with_gangs;
use super::{Eviction, PlacementBatch, PlacementChange, PlacementNode};

/// The worker's state after a fresh tail.
pub trait SurvivorView {
    /// A node: the revision of its row, its capacity, and its commitment.
    fn node(&self, node: NodeId) -> Option<PlacementNode>;
    /// The revision of a task's row; 0 if it has none.
    fn task_revision(&self, task: TaskId) -> u64;
    /// A job's row; `None` if it has none.
    fn job(&self, job: JobId) -> Option<&JobRow>;
}

/// The rest of `batch` without `losers` and without whatever `view` shows to be overwritten as well. It contains the
/// same decisions over fresh values, as a new batch (`id`, `at_ms`), to be committed at the version at which `view` is
/// complete. Empty if nothing is left.
///
/// A placement that was held against other tasks never survives, since those may have moved. A survivor keeps its node
/// only if the node's row is the one it was planned on and the present commitment leaves enough capacity. Everything
/// else is planned again.
pub fn placement_survivors(
    batch: &PlacementBatch,
    losers: &BTreeSet<TaskId>,
    view: &impl SurvivorView,
    id: RequestId,
    at_ms: i64,
) -> PlacementBatch {
    let mut losers = losers.clone();
    let overtaken = batch.placements.iter().filter(|placement| is_overtaken(batch, placement, view));
    losers.extend(overtaken.map(|placement| placement.row.id));
    let moved = batch.evictions.iter().filter(|eviction| is_moved(batch, eviction, view));
    losers.extend(moved.map(|eviction| eviction.preemptor));
    loop {
        losers = losers_with_gangs(batch, losers);
        let left = without(batch, &losers, view, id, at_ms);
        // All at once: a node that is now full may have hundreds.
        let unfit = left.unfit();
        if unfit.is_empty() {
            return left;
        }
        losers.extend(unfit.into_iter().map(|task| left.placement_for(task)));
    }
}

/// Returns true if the task, its job or its node has changed since the plan.
fn is_overtaken(batch: &PlacementBatch, placement: &PlacementChange, view: &impl SurvivorView) -> bool {
    let row = &placement.row;
    let job_wants = view.job(row.id.job).is_some_and(|job| {
        job.state == JobState::Running
            && row.id.index < job.count
            && row.spec_version == job.version_of(row.id.index)
    });
    let node_same = row.node.is_some_and(|node| is_node_same(batch, node, view));
    placement.constrained
        || !job_wants
        || !node_same
        || view.task_revision(row.id) != placement.revision_before
}

/// Returns true if the victim has changed since the plan. It may have exited already, and its preemptor then need not
/// wait. Or one of the two jobs has another priority by now, which the guards of the next try would not notice.
fn is_moved(batch: &PlacementBatch, eviction: &Eviction, view: &impl SurvivorView) -> bool {
    let priority = |task: TaskId| view.job(task.job).map(|job| job.priority);
    let (own, preemptor) = eviction.priorities;
    if (priority(eviction.row.id), priority(eviction.preemptor)) != (Some(own), Some(preemptor)) {
        return true;
    }
    let ended = |job: &JobRow| matches!(job.state, JobState::Ended { .. });
    if view.job(eviction.row.id.job).is_some_and(ended) {
        return true;
    }
    let node_same = eviction.node().is_none_or(|node| is_node_same(batch, node, view));
    !node_same || view.task_revision(eviction.row.id) != eviction.revision_before
}

fn is_node_same(batch: &PlacementBatch, node: NodeId, view: &impl SurvivorView) -> bool {
    let known = batch.nodes.get(&node).map(|known| known.revision);
    known.is_some() && known == view.node(node).map(|node| node.revision)
}

/// `batch` without the placements in `losers` and their victims, over fresh values.
fn without(
    batch: &PlacementBatch,
    losers: &BTreeSet<TaskId>,
    view: &impl SurvivorView,
    id: RequestId,
    at_ms: i64,
) -> PlacementBatch {
    let placements: Vec<PlacementChange> =
        batch.placements.iter().filter(|placement| !losers.contains(&placement.row.id)).cloned().collect();
    let evictions: Vec<Eviction> =
        batch.evictions.iter().filter(|eviction| !losers.contains(&eviction.preemptor)).cloned().collect();
    let touched = placements.iter().filter_map(|placement| placement.row.node);
    let touched: BTreeSet<NodeId> = touched.chain(evictions.iter().filter_map(Eviction::node)).collect();
    let fresh = |node: NodeId| Some((node, view.node(node)?));
    let gangs = batch
        .gangs
        .iter()
        .filter(|gang| placements.iter().any(|placement| placement.row.gang == Some(gang.id)));
    PlacementBatch {
        id,
        lease: batch.lease.clone(),
        at_ms,
        nodes: touched.into_iter().filter_map(fresh).collect(),
        gangs: gangs.cloned().collect(),
        placements,
        evictions,
    }
}
