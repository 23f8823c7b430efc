//! Checks the journal: its last record of each row equals that row, its head is its last entry, and its floor is below
//! its first one.

use borough_model::Delta;
use borough_model::journal::DeltaKey;

use super::last_delta::{endpoint_digest, row_digest};
use super::{CellRows, Violations, wrong};
use crate::row::Cursor;

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    for (key, before, after) in &rows.journal_record.back {
        found.require(false, "journal_order", || {
            wrong(key_text(rows, *key), format!("revision {after} after {before}"), "revisions that rise")
        });
    }
    each_disagreement(rows, |key| {
        found.require(false, "journal_replay", || disagreement(rows, key));
    });
    ends_check(found, rows);
}

/// Rows whose last journal record differs, so that a reader can look up that record.
pub(super) fn suspects(rows: &CellRows) -> Vec<DeltaKey> {
    let mut keys = Vec::new();
    each_disagreement(rows, |key| keys.push(key));
    keys
}

fn each_disagreement(rows: &CellRows, mut each: impl FnMut(DeltaKey)) {
    let complete = rows.journal_record.complete;
    each_row(rows, |key, digest| {
        let agrees = match rows.journal_record.last.get(&key) {
            Some(record) => record.digest == Some(digest),
            None => !complete,
        };
        if !agrees {
            each(key);
        }
    });
    let recorded = rows.journal_record.last.iter().filter(|(_, recorded)| recorded.digest.is_some());
    recorded.filter(|(key, _)| !is_stored(rows, **key)).for_each(|(key, _)| each(*key));
}

/// Visits every row that the journal records, with its digest.
fn each_row(rows: &CellRows, mut each: impl FnMut(DeltaKey, u64)) {
    rows.nodes.iter().for_each(|(&node, row)| each(DeltaKey::Node(node), row_digest(row)));
    rows.allocs.iter().for_each(|(&node, alloc)| each(DeltaKey::NodeAlloc(node), row_digest(alloc)));
    let journalled = rows.loads.iter().filter(|(_, load)| !load.is_unjournalled());
    journalled.for_each(|(&node, load)| each(DeltaKey::NodeLoad(node), row_digest(load)));
    rows.jobs.iter().for_each(|(&job, row)| each(DeltaKey::Job(job), row_digest(row)));
    rows.tasks.iter().for_each(|(&task, row)| each(DeltaKey::Task(task), row_digest(row)));
    rows.gangs.iter().for_each(|(&gang, row)| each(DeltaKey::Gang(gang), row_digest(row)));
    for row in rows.endpoints.values() {
        each(DeltaKey::Endpoint(row.endpoint.task), endpoint_digest(&row.endpoint, row.revision));
    }
    for row in rows.merged_services.values() {
        each(DeltaKey::MergedService(row.id), row_digest(row));
    }
    rows.members.values().for_each(|row| each(DeltaKey::Member(row.id), row_digest(row)));
    rows.federated_jobs.values().for_each(|row| each(DeltaKey::FederatedJob(row.id), row_digest(row)));
    // The journal has no record of settings that never changed.
    let is_recorded = rows.journal_record.last.contains_key(&DeltaKey::CellSettings);
    let settings = rows.meta.as_ref().filter(|_| is_recorded);
    settings.iter().for_each(|meta| each(DeltaKey::CellSettings, meta.revision));
}

fn is_stored(rows: &CellRows, key: DeltaKey) -> bool {
    stored_text(rows, key).is_some()
}

fn stored_text(rows: &CellRows, key: DeltaKey) -> Option<String> {
    match key {
        DeltaKey::Node(node) => rows.nodes.get(&node).map(|row| format!("{row:?}")),
        DeltaKey::NodeAlloc(node) => rows.allocs.get(&node).map(|row| format!("{row:?}")),
        DeltaKey::NodeLoad(node) => rows.loads.get(&node).map(|row| format!("{row:?}")),
        DeltaKey::Job(job) => rows.jobs.get(&job).map(|row| format!("{row:?}")),
        DeltaKey::Task(task) => rows.tasks.get(&task).map(|row| format!("{row:?}")),
        DeltaKey::Gang(gang) => rows.gangs.get(&gang).map(|row| format!("{row:?}")),
        DeltaKey::Endpoint(task) => {
            let (user, job) = rows.job_name(task.job)?;
            let row = rows.endpoints.get(&(user, job, task.index))?;
            (row.endpoint.task == task).then(|| format!("{row:?}"))
        }
        DeltaKey::CellSettings => rows.meta.as_ref().map(|meta| format!("{meta:?}")),
        DeltaKey::MergedService(id) => {
            let mut rows = rows.merged_services.values();
            rows.find(|row| row.id == id).map(|row| format!("{row:?}"))
        }
        DeltaKey::FederatedJob(id) => {
            let mut rows = rows.federated_jobs.values();
            rows.find(|row| row.id == id).map(|row| format!("{row:?}"))
        }
        DeltaKey::Member(id) => {
            let mut rows = rows.members.values();
            rows.find(|row| row.id == id).map(|row| format!("{row:?}"))
        }
    }
}

fn disagreement(rows: &CellRows, key: DeltaKey) -> super::BrokenRow {
    let stored = stored_text(rows, key).unwrap_or_else(|| "nothing".to_owned());
    let expected = match (rows.journal_record.records.get(&key), rows.journal_record.last.get(&key)) {
        (Some(Delta::Task { row }), _) => format!("{row:?}"),
        (Some(delta), _) => format!("{delta:?}"),
        (None, Some(record)) => format!("revision {}, as the journal says", record.revision),
        (None, None) => "nothing: the journal does not have it".to_owned(),
    };
    wrong(key_text(rows, key), stored, expected)
}

fn key_text(rows: &CellRows, key: DeltaKey) -> String {
    match key {
        DeltaKey::Node(node) => format!("node/{node}"),
        DeltaKey::NodeAlloc(node) => format!("node_alloc/{node}"),
        DeltaKey::NodeLoad(node) => format!("node_load/{node}"),
        DeltaKey::Job(job) => format!("job_row/{job}"),
        DeltaKey::Task(task) => format!("task/{task}"),
        DeltaKey::Gang(gang) => format!("gang/{gang}"),
        DeltaKey::Endpoint(task) => match rows.job_name(task.job) {
            Some((user, job)) => format!("name/{user}/{job}/{}", task.index),
            None => format!("name of task/{task}"),
        },
        DeltaKey::CellSettings => "meta".to_owned(),
        DeltaKey::MergedService(id) => match rows.merged_services.values().find(|row| row.id == id) {
            Some(row) => format!("merged_service/{}/{}", row.user, row.name),
            None => format!("merged_service {id}"),
        },
        DeltaKey::FederatedJob(id) => match rows.federated_jobs.values().find(|row| row.id == id) {
            Some(row) => format!("federated_job/{}/{}", row.user(), row.name()),
            None => format!("federated_job {id}"),
        },
        DeltaKey::Member(id) => match rows.members.values().find(|row| row.id == id) {
            Some(row) => format!("member/{}", row.cell),
            None => format!("member {id}"),
        },
    }
}

fn ends_check(found: &mut Violations, rows: &CellRows) {
    let Some(epoch) = rows.gate.as_ref().map(|gate| gate.store_epoch) else { return };
    let head = rows.journal_head.map(|stamp| Cursor { store_epoch: epoch, stamp });
    let floor = rows.journal_floor.map(|floor| floor.trimmed_to);
    // A trim that took every entry leaves the head at the floor.
    let end = rows.journal_record.end.or(floor);
    found.require(head == end, "journal_head", || {
        wrong("journal_head", format!("{head:?}"), format!("{end:?}, the last entry"))
    });
    let in_epoch = floor.is_none_or(|floor| floor.store_epoch == epoch);
    found.require(in_epoch, "journal_floor", || {
        wrong("journal_floor", format!("{floor:?}"), format!("a position of epoch {epoch}"))
    });
}
