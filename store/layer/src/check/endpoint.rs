//! Checks endpoints: only healthy running tasks have one, except those that are demoted with their lost node.

use borough_model::task::{Health, TaskRow, TaskState};
use borough_model::{Name, TaskId};

use super::{CellRows, Violations, wrong};
use crate::row::EndpointRow;

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    for (key, endpoint) in &rows.endpoints {
        let task = endpoint.endpoint.task;
        match rows.tasks.get(&task) {
            None => found.require(false, "endpoint_task", || {
                wrong(key_text(key), format!("an endpoint of {task}"), "nothing: the task has no row")
            }),
            Some(row) => row_check(found, rows, key, endpoint, row),
        }
        let named = rows.name_revisions.contains_key(&(key.0.clone(), key.1.clone()));
        found.require(named, "name_rev", || {
            wrong(format!("name_rev/{}/{}", key.0, key.1), "nothing", "the stamp of the last change")
        });
    }
    for row in rows.tasks.values() {
        // Tasks of an ended job are not published once another job has its name.
        let named = rows.job_name(row.id.job).is_none_or(|name| rows.names.get(&name) == Some(&row.id.job));
        let due = row.state == TaskState::Running && row.health == Health::Healthy && named;
        found.require(!due || endpoint_of(rows, row.id).is_some(), "endpoint_published", || {
            let name = rows.job_name(row.id.job).map(|(user, job)| key_text(&(user, job, row.id.index)));
            let expected = format!("an endpoint: {} runs and is healthy", row.id);
            wrong(name.unwrap_or_else(|| format!("name of task/{}", row.id)), "nothing", expected)
        });
    }
    for (key, last) in &rows.journal_record.names {
        let stored = rows.name_revisions.get(key);
        // An endpoint that was withdrawn since has a later stamp.
        found.require(stored.is_some_and(|stored| stored >= last), "name_rev", || {
            let expected = format!("{last} or later, when an endpoint was published");
            wrong(format!("name_rev/{}/{}", key.0, key.1), format!("{stored:?}"), expected)
        });
    }
}

fn key_text((user, job, index): &(Name, Name, u32)) -> String {
    format!("name/{user}/{job}/{index}")
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
    let at = || key_text(key);
    found.require(*key == own, "endpoint_key", || {
        wrong(at(), format!("the endpoint of {}", key_text(&own)), "its own")
    });
    found.require(endpoint.incarnation == row.incarnation, "endpoint_incarnation", || {
        wrong(
            at(),
            format!("attempt {}", endpoint.incarnation),
            format!("attempt {}, the row's", row.incarnation),
        )
    });
    let served = matches!(row.state, TaskState::Running | TaskState::Lost);
    found.require(served, "endpoint_state", || {
        wrong(at(), "an endpoint", format!("nothing: the task is {:?}", row.state))
    });
    found.require(endpoint.health == row.health, "endpoint_health", || {
        wrong(at(), format!("{:?}", endpoint.health), format!("{:?}, the row's", row.health))
    });
    found.require(endpoint.ports == row.ports, "endpoint_ports", || {
        wrong(at(), format!("{:?}", endpoint.ports), format!("{:?}, the row's", row.ports))
    });
    found.require(revision <= row.revision, "endpoint_revision", || {
        wrong(at(), format!("revision {revision}"), format!("{} at most, the row's", row.revision))
    });
    let spec = rows.specs.get(&(row.id.job, row.spec_version));
    let weight = spec.map(|spec| spec.weight_for(row.id.index));
    found.require(weight.is_none_or(|weight| endpoint.weight == weight), "endpoint_weight", || {
        wrong(at(), format!("weight {}", endpoint.weight), format!("{weight:?}, by the version of the row"))
    });
    let node = row.node.and_then(|node| rows.nodes.get(&node)).map(|node| &node.name);
    found.require(node == Some(&endpoint.node), "endpoint_node", || {
        wrong(at(), format!("on {}", endpoint.node), format!("on {node:?}, as the row"))
    });
}
