//! Why a task waits for an alloc of its set.

use std::cmp::Reverse;

use borough_model::resource::Dimension;
use borough_model::{JobId, Resources, TaskId};

use super::{AllocLeft, Explanation, WaitReason, ahead_of};
use crate::filter::Requirement;
use crate::overlay::PlanOverlay;
use crate::snapshot::Snapshot;
use crate::tables::{AllocsGiven, CellTables};

/// Allocs that an explanation lists.
const LISTED_MAX: usize = 5;

/// Explains why a task that wants a place in an alloc of `set` has none.
pub(super) fn explain_in_alloc(snapshot: &Snapshot, task: TaskId, set: JobId, now_ms: i64) -> Explanation {
    let tables = snapshot.tables();
    let Some((asked, name)) = asked_of(tables, task, set) else {
        return Explanation::of_wait(WaitReason::SpecUnknown);
    };
    let shape = tables.jobs.get(&task.job).and_then(|entry| tables.shapes.get(entry.shape_of(task.index)?));
    let requirement = shape.map(|shape| Requirement::of(shape, tables));
    let overlay = PlanOverlay::new(tables);
    let is_found =
        requirement.is_some_and(|requirement| tables.alloc_found(&overlay, &requirement, task, set, now_ms));
    if is_found {
        return Explanation::of_wait(WaitReason::Turn { ahead: ahead_of(snapshot, task.job) });
    }
    let mut allocs = allocs_left(tables, task, set, &asked);
    let others = allocs.len().saturating_sub(LISTED_MAX);
    allocs.truncate(LISTED_MAX);
    let others = u32::try_from(others).unwrap_or(u32::MAX);
    Explanation::of_wait(WaitReason::InAllocs { set: name, asked: amounts(&asked), allocs, others })
}

fn asked_of(tables: &CellTables, task: TaskId, set: JobId) -> Option<(Resources, borough_model::Name)> {
    let spec = tables.jobs.get(&task.job)?.spec_of_task(task.index)?;
    let asked = spec.alloc_resources_for(task.index)?.clone();
    Some((asked, tables.job(set)?.name.clone()))
}

fn amounts(resources: &Resources) -> Vec<(Dimension, u64)> {
    resources.amounts().into_iter().filter(|(_, amount)| *amount > 0).collect()
}

/// The allocs of the set: the one that the task comes back to first, then those with most left.
fn allocs_left(tables: &CellTables, task: TaskId, set: JobId, asked: &Resources) -> Vec<AllocLeft> {
    let count = tables.jobs.get(&set).map_or(0, |entry| entry.count());
    let own = tables.alloc_last(set, task);
    let left = |index: u32| {
        let alloc = TaskId { job: set, index };
        let place = tables.alloc_place(alloc, task, &AllocsGiven::new());
        let node = place.as_ref().and_then(|place| tables.node_name(place.node)).cloned();
        let left_of = |(dimension, _): (Dimension, u64)| {
            let amount = place.as_ref().map_or(0, |place| place.free.amount(&dimension));
            (dimension, amount)
        };
        let left = amounts(asked).into_iter().map(left_of).collect();
        AllocLeft { index, node, left, own: own == Some(alloc) }
    };
    let mut allocs: Vec<AllocLeft> = (0..count).map(left).collect();
    allocs.sort_by_key(|alloc| {
        let most: Vec<u64> = alloc.left.iter().map(|(_, amount)| *amount).collect();
        (Reverse(alloc.own), Reverse(alloc.node.is_some()), Reverse(most), alloc.index)
    });
    allocs
}
