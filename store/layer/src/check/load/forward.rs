//! Brings rows forward by the journal's deltas: the rows themselves, and the indexes that follow from them.

use std::sync::Arc;

use borough_model::federation::{FEDERATED_VERSIONS_MAX, FederatedJobRow, FederatedVersion};
use borough_model::job::JobRow;
use borough_model::task::TaskRow;
use borough_model::{Delta, FederatedJobId, JobId, Name, NodeId, TaskId};

use super::CellRows;
use crate::row::{Cursor, EndpointRow};
use crate::task::is_on_node;

/// Applies one delta of the entry at `at`. Gates of jobs do not follow from deltas: see [`super::last::Again`].
pub(crate) fn delta_apply(rows: &mut CellRows, at: Cursor, delta: Delta) {
    match delta {
        Delta::Node { row } => {
            rows.node_names.insert(row.name.clone(), row.id);
            rows.nodes.insert(row.id, row);
        }
        Delta::NodeRemoved { node, .. } => node_remove(rows, node),
        Delta::NodeAlloc { node, alloc } => drop(rows.allocs.insert(node, alloc)),
        Delta::NodeLoad { node, load } => drop(rows.loads.insert(node, load)),
        Delta::Job { row, spec } => job_put(rows, row, spec),
        Delta::JobRemoved { job, .. } => job_remove(rows, job),
        Delta::Task { row } => task_put(rows, row),
        Delta::TaskRemoved { task, .. } => task_remove(rows, task),
        Delta::Endpoint { endpoint, revision } => {
            let name = (endpoint.user.clone(), endpoint.job.clone());
            let key = (name.0.clone(), name.1.clone(), endpoint.task.index);
            rows.name_revisions.insert(name, at.stamp);
            rows.endpoints.insert(key, EndpointRow { endpoint, revision });
        }
        Delta::EndpointWithdrawn { user, job, task, .. } => {
            let key = (user.clone(), job.clone(), task.index);
            if rows.endpoints.get(&key).is_some_and(|known| known.endpoint.task == task) {
                rows.endpoints.remove(&key);
            }
            rows.name_revisions.insert((user, job), at.stamp);
        }
        Delta::Gang { row } => drop(rows.gangs.insert(row.id, row)),
        // The settings are read at the end.
        Delta::CellSettings { .. } => {}
        Delta::MergedService { row } => {
            drop(rows.merged_services.insert((row.user.clone(), row.name.clone()), *row));
        }
        Delta::MergedServiceRemoved { id, user, name } => {
            let key = (user, name);
            if rows.merged_services.get(&key).is_some_and(|row| row.id == id) {
                rows.merged_services.remove(&key);
            }
        }
        Delta::Member { row } => drop(rows.members.insert(row.cell.clone(), *row)),
        Delta::MemberRemoved { id, cell } => {
            if rows.members.get(&cell).is_some_and(|row| row.id == id) {
                rows.members.remove(&cell);
                rows.members_seen.remove(&cell);
            }
        }
        Delta::FederatedJob { row } => federated_put(rows, *row),
        Delta::FederatedJobRemoved { id, user, name } => federated_remove(rows, id, user, name),
    }
}

fn node_remove(rows: &mut CellRows, node: NodeId) {
    if let Some(row) = rows.nodes.remove(&node) {
        rows.node_names.remove(&row.name);
    }
    rows.allocs.remove(&node);
    rows.node_leases.remove(&node);
    rows.node_live_places.remove(&node);
    rows.node_live_changes.retain(|(_, changed)| *changed != node);
    rows.node_sessions.remove(&node);
    rows.loads.remove(&node);
}

fn job_put(rows: &mut CellRows, row: Arc<JobRow>, spec: Option<Box<borough_model::JobSpec>>) {
    if let Some(spec) = spec {
        rows.specs.insert((row.id, row.spec_version), *spec);
    }
    if !rows.jobs.contains_key(&row.id) {
        let before = rows.names.insert((row.user.clone(), row.name.clone()), row.id);
        if let Some(before) = before.and_then(|job| rows.jobs.get(&job)) {
            rows.past.insert((row.user.clone(), row.name.clone(), before.submitted_ms, before.id));
        }
    }
    if let Some(gone) = row.gone_versions() {
        let versions = rows.specs.range((row.id, 0)..(row.id, gone.below)).map(|((_, version), _)| *version);
        for version in gone.among(versions) {
            rows.specs.remove(&(row.id, version));
        }
    }
    rows.jobs.insert(row.id, Arc::unwrap_or_clone(row));
}

fn job_remove(rows: &mut CellRows, job: JobId) {
    if let Some(row) = rows.jobs.remove(&job) {
        let name = (row.user, row.name);
        if rows.names.get(&name) == Some(&job) {
            rows.names.remove(&name);
        }
        rows.past.remove(&(name.0, name.1, row.submitted_ms, job));
    }
    let specs: Vec<(JobId, u32)> =
        rows.specs.range((job, 0)..=(job, u32::MAX)).map(|(key, _)| *key).collect();
    for key in specs {
        rows.specs.remove(&key);
    }
    let range = TaskId { job, index: 0 }..=TaskId { job, index: u32::MAX };
    let tasks: Vec<TaskId> = rows.tasks.range(range).map(|(task, _)| *task).collect();
    for task in tasks {
        task_remove(rows, task);
    }
    rows.gangs.retain(|_, gang| gang.job != job);
}

fn on_node(row: &TaskRow) -> Option<(NodeId, TaskId)> {
    row.node.filter(|_| is_on_node(row.state)).map(|node| (node, row.id))
}

fn task_put(rows: &mut CellRows, row: TaskRow) {
    let entered = on_node(&row);
    let left = rows.tasks.insert(row.id, row).as_ref().and_then(on_node);
    if left != entered {
        left.map(|entry| rows.node_tasks.remove(&entry));
        entered.map(|entry| rows.node_tasks.insert(entry));
    }
}

fn task_remove(rows: &mut CellRows, task: TaskId) {
    if let Some(entry) = rows.tasks.remove(&task).as_ref().and_then(on_node) {
        rows.node_tasks.remove(&entry);
    }
}

/// A row of a version that is not kept yet brings it along.
fn federated_put(rows: &mut CellRows, row: FederatedJobRow) {
    let version =
        FederatedVersion { spec: row.spec.clone(), at_ms: row.changed_ms, by: row.changed_by.clone() };
    rows.federated_versions.entry((row.id, row.version)).or_insert(version);
    rows.federated_versions.remove(&(row.id, row.version.saturating_sub(FEDERATED_VERSIONS_MAX)));
    rows.federated_jobs.insert((row.user().clone(), row.name().clone()), row);
}

fn federated_remove(rows: &mut CellRows, id: FederatedJobId, user: Name, name: Name) {
    let name = (user, name);
    if rows.federated_jobs.get(&name).is_some_and(|row| row.id == id) {
        rows.federated_jobs.remove(&name);
    }
    rows.federated_versions.retain(|(job, _), _| *job != id);
    rows.federated_parts.retain(|(job, _), _| *job != id);
    rows.federated_statuses.remove(&id);
}
