//! Endpoints: of healthy running tasks and of nobody else, but for those that are demoted with their lost node.

use borough_model::task::{Health, TaskRow, TaskState};
use borough_model::{Name, TaskId};

use super::{CellRows, Violations};
use crate::name::EndpointRow;

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    for (key, endpoint) in &rows.endpoints {
        let task = endpoint.endpoint.task;
        match rows.tasks.get(&task) {
            None => {
                found.require(false, "endpoint_task", || format!("{key:?} is of {task}, which has no row"))
            }
            Some(row) => row_check(found, rows, key, endpoint, row),
        }
    }
    for row in rows.tasks.values() {
        let due = row.state == TaskState::Running && row.health == Health::Healthy;
        found.require(!due || endpoint_of(rows, row.id).is_some(), "endpoint_published", || {
            format!("{} runs and is healthy, but is not published", row.id)
        });
    }
}

fn endpoint_of(rows: &CellRows, task: TaskId) -> Option<&EndpointRow> {
    let job = rows.jobs.get(&task.job)?;
    let endpoint = rows.endpoints.get(&(job.user.clone(), job.name.clone(), task.index))?;
    Some(endpoint).filter(|endpoint| endpoint.endpoint.task == task)
}

fn row_check(
    found: &mut Violations,
    rows: &CellRows,
    key: &(Name, Name, u32),
    endpoint: &EndpointRow,
    row: &TaskRow,
) {
    let (revision, endpoint) = (endpoint.revision, &endpoint.endpoint);
    let own = (endpoint.user.clone(), endpoint.job.clone(), endpoint.task.index);
    found.require(*key == own, "endpoint_key", || format!("{key:?} has the endpoint of {own:?}"));
    let task = row.id;
    found.require(endpoint.incarnation == row.incarnation, "endpoint_incarnation", || {
        format!("{task} is published in life {}, its row is in {}", endpoint.incarnation, row.incarnation)
    });
    let served = matches!(row.state, TaskState::Running | TaskState::Lost);
    found.require(served, "endpoint_state", || format!("{task} is published, but {:?}", row.state));
    found.require(endpoint.health == row.health, "endpoint_health", || {
        format!("{task} is published as {:?}, but is {:?}", endpoint.health, row.health)
    });
    found.require(endpoint.ports == row.ports, "endpoint_ports", || {
        format!("{task} is published with other ports")
    });
    found.require(revision <= row.revision, "endpoint_revision", || {
        format!("{task} is published from revision {revision}, its row is at {}", row.revision)
    });
    let node = row.node.and_then(|node| rows.nodes.get(&node)).map(|node| &node.name);
    found.require(node == Some(&endpoint.node), "endpoint_node", || {
        format!("{task} is published on {}, its row is on {node:?}", endpoint.node)
    });
}
