//! The journal: replayed from its beginning, it gives the rows.

use std::collections::BTreeMap;

use borough_model::Delta;
use borough_model::journal::DeltaKey;

use super::{CellRows, Violations};

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    let Some(deltas) = &rows.deltas else { return };
    let mut replayed: BTreeMap<DeltaKey, &Delta> = BTreeMap::new();
    for delta in deltas {
        let newer = replayed.get(&delta.key()).is_none_or(|known| known.revision() <= delta.revision());
        found.require(newer, "journal_order", || {
            format!("{:?} goes back to {}", delta.key(), delta.revision())
        });
        replayed.insert(delta.key(), delta);
    }
    // A job takes its tasks and units with it, a node what is committed on it.
    let removed: Vec<DeltaKey> =
        replayed.iter().filter(|(_, delta)| delta.is_removal()).map(|(key, _)| *key).collect();
    replayed.retain(|key, delta| match key {
        DeltaKey::Unit(_) => {
            let job = if let Delta::Unit { row } = delta { Some(DeltaKey::Job(row.job)) } else { None };
            job.is_none_or(|job| !removed.contains(&job))
        }
        DeltaKey::Task(task) => !removed.contains(&DeltaKey::Job(task.job)) && !removed.contains(key),
        DeltaKey::NodeAlloc(node) => !removed.contains(&DeltaKey::Node(*node)),
        DeltaKey::Node(_) | DeltaKey::Job(_) | DeltaKey::Endpoint(_) => !removed.contains(key),
    });
    let expected = expected(rows);
    for (key, delta) in &replayed {
        let same = expected.get(key).is_some_and(|row| same(row, delta));
        found.require(same, "journal_replay", || {
            format!("{key:?}: the journal says {delta:?}, the store {:?}", expected.get(key))
        });
    }
    for (key, row) in &expected {
        let known = replayed.contains_key(key);
        found.require(known, "journal_replay", || format!("{key:?}: the journal does not have {row:?}"));
    }
}

/// Jobs carry their spec only where it is new.
fn same(row: &Delta, replayed: &Delta) -> bool {
    match (row, replayed) {
        (Delta::Job { row, .. }, Delta::Job { row: replayed, .. }) => row == replayed,
        (row, replayed) => row == replayed,
    }
}

/// The rows as the deltas that would have written them.
fn expected(rows: &CellRows) -> BTreeMap<DeltaKey, Delta> {
    let nodes = rows.nodes.values().map(|row| Delta::Node { row: row.clone() });
    let allocs = rows.allocs.iter().map(|(&node, alloc)| Delta::NodeAlloc { node, alloc: alloc.clone() });
    let jobs = rows.jobs.values().map(|row| Delta::Job { row: row.clone(), spec: None });
    let tasks = rows.tasks.values().map(|row| Delta::Task { row: row.clone() });
    let units = rows.units.values().map(|row| Delta::Unit { row: row.clone() });
    let endpoints = rows
        .endpoints
        .values()
        .map(|row| Delta::Endpoint { endpoint: row.endpoint.clone(), revision: row.revision });
    let all = nodes.chain(allocs).chain(jobs).chain(tasks).chain(units).chain(endpoints);
    all.map(|delta| (delta.key(), delta)).collect()
}

#[cfg(test)]
mod tests {
    use borough_model::task::{UnitRow, UnitState};
    use borough_model::{JobId, UnitId};

    use super::*;

    #[test]
    fn a_job_takes_its_units_with_it() {
        let unit = |job| {
            let (id, state) = (UnitId(job), UnitState::Committed);
            let row =
                UnitRow { id, job: JobId(job), min_member: 2, state, epoch: 1, expires_ms: 0, revision: 1 };
            Delta::Unit { row }
        };
        let deltas = vec![unit(1), unit(2), Delta::JobRemoved { job: JobId(1) }];
        let rows = CellRows { deltas: Some(deltas), ..CellRows::default() };
        let mut found = Violations::default();
        check(&mut found, &rows);
        assert_eq!(found.0.len(), 1, "only the unit whose job is there has to be: {:?}", found.0);
    }
}
