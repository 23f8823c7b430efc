//! Keeps the attempts of an alloc together: none starts before the alloc runs, and the alloc ends after all of them.

use std::collections::BTreeMap;

use borough_proto::v1;
use borough_proto::v1::task_status::Phase;

use super::desired::Desired;
use super::state::{AgentState, AttemptState};
use crate::attempt::AttemptId;

/// The alloc that an attempt is in.
pub(crate) fn alloc_of(assignment: &v1::Assignment) -> Option<AttemptId> {
    AttemptId::of(assignment.alloc.as_ref()?.attempt.as_ref()).ok()
}

/// Returns true if an attempt has no alloc to wait for, or that one runs and is to go on.
pub(super) fn alloc_runs(state: &AgentState, desired: &Desired, assignment: &v1::Assignment) -> bool {
    if assignment.alloc.is_none() {
        return true;
    }
    let Some(id) = alloc_of(assignment).filter(|id| !desired.stops.contains_key(id)) else { return false };
    state.attempts.get(&id).is_some_and(|alloc| alloc.phase() == Phase::Running)
}

/// Returns true if an attempt is in the alloc and not released yet. Whatever ends the alloc, what is in it uses what
/// the alloc holds until then.
pub(super) fn is_occupied(state: &AgentState, id: &AttemptId, attempt: &AttemptState) -> bool {
    let is_alloc = attempt.assignment.as_ref().is_some_and(|assignment| assignment.is_alloc);
    let is_inside = |other: &AttemptState| {
        let assignment = other.assignment.as_ref().filter(|_| other.record.released_ms.is_none());
        assignment.and_then(|assignment| alloc_of(assignment)).is_some_and(|alloc| alloc == *id)
    };
    is_alloc && state.attempts.values().any(is_inside)
}

/// The variables of an attempt in an alloc: which one, its scratch directory, and its ports.
pub(super) fn variables(assignment: &v1::Assignment, directory: Option<&str>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let Some(alloc) = &assignment.alloc else { return variables };
    let index = alloc.attempt.as_ref().map_or(0, |attempt| attempt.index);
    variables.insert("BOROUGH_ALLOC".to_owned(), format!("{}/{index}", alloc.set));
    variables.insert("BOROUGH_ALLOC_SET".to_owned(), alloc.set.clone());
    variables.insert("BOROUGH_ALLOC_INDEX".to_owned(), index.to_string());
    if let Some(directory) = directory {
        variables.insert("BOROUGH_ALLOC_DIR".to_owned(), directory.to_owned());
    }
    for port in &alloc.ports {
        let name = port.name.to_ascii_uppercase().replace('-', "_");
        variables.insert(format!("BOROUGH_ALLOC_PORT_{name}"), port.number.to_string());
    }
    variables
}
