//! Checks allocs: what is in one fits it, and its set knows the jobs in it.

use std::collections::BTreeMap;

use borough_model::job::{JobAlloc, JobRow, JobState};
use borough_model::resource::{Resources, resources_add, shortfall};
use borough_model::task::{InAlloc, TaskRow};
use borough_model::{Incarnation, TaskId};

use super::{CellRows, Violations, wrong};

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    for row in rows.jobs.values() {
        member_check(found, rows, row);
    }
    let mut given: BTreeMap<(TaskId, Incarnation), Resources> = BTreeMap::new();
    for row in rows.tasks.values() {
        let Some(place) = row.in_alloc() else { continue };
        place_check(found, rows, row, place);
        let sum = given.entry((place.alloc, place.attempt)).or_default();
        match resources_add(sum, &place.resources) {
            Ok(more) => *sum = more,
            Err(error) => found.require(false, "alloc_sum", || {
                wrong(format!("task/{}", row.id), error.to_string(), "amounts that can be added")
            }),
        }
    }
    for ((alloc, attempt), given) in given {
        // An alloc that is gone, or has begun elsewhere, has its tasks stopped.
        let Some(holder) = rows.tasks.get(&alloc).filter(|row| row.incarnation == attempt) else { continue };
        if !holder.state.is_charged() {
            continue;
        }
        let beyond = shortfall(&given, &holder.charge.resources);
        found.require(beyond.is_empty(), "alloc_given", || {
            wrong(
                format!("task/{alloc}"),
                format!("{given} is given out"),
                format!("at most {}", holder.charge.resources),
            )
        });
    }
}

/// A job in a set has the set's word for it.
fn member_check(found: &mut Violations, rows: &CellRows, row: &JobRow) {
    let alive = !matches!(row.state, JobState::Ended { .. });
    let Some(set) = row.alloc_set().filter(|_| alive) else { return };
    let members = rows.jobs.get(&set).and_then(|set| set.alloc_members());
    let known = members.is_some_and(|members| members.contains(&row.id));
    found.require(known, "alloc_member", || {
        wrong(format!("job_row/{}", row.id), format!("in alloc set {set}"), "a set that names it")
    });
}

/// An attempt in an alloc is of a job in that set, has the amounts of its spec, and is on the node of the alloc.
fn place_check(found: &mut Violations, rows: &CellRows, row: &TaskRow, place: &InAlloc) {
    let key = || format!("task/{}", row.id);
    let job = rows.jobs.get(&row.id.job).and_then(|job| job.alloc.as_deref());
    let of_set = matches!(job, Some(JobAlloc::Member { set }) if *set == place.alloc.job);
    found.require(of_set, "alloc_set", || {
        wrong(key(), format!("in alloc {}", place.alloc), "an alloc of its job's set")
    });
    if let Some(spec) = rows.specs.get(&(row.id.job, row.spec_version)) {
        let asked = spec.alloc_resources_for(row.id.index);
        found.require(asked == place.resources, "alloc_share", || {
            wrong(
                key(),
                format!("takes {} of its alloc", place.resources),
                format!("{asked}, as its spec asks"),
            )
        });
    }
    let holder = rows.tasks.get(&place.alloc).filter(|holder| holder.incarnation == place.attempt);
    if let Some(node) = holder.and_then(|holder| holder.charged_node()) {
        found.require(row.node == Some(node), "alloc_node", || {
            wrong(key(), format!("on {:?}", row.node), format!("{node}, the node of its alloc"))
        });
    }
}
