//! Deltas of the journal as watchers see them, after their filter.

use borough_model::{Delta, JobId, Name};
use borough_proto::convert::{endpoint_to_message, job_to_message};
use borough_proto::v1;
use borough_proto::v1::watch_response::Change;
use borough_store::mirror::MirrorState;

use crate::cell::CellDoor;
use crate::job::job_counts;
use crate::node::node_message;
use crate::task::task_message;

/// What a watcher wants; an empty filter is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    user: String,
    job: String,
    node: String,
    kinds: [bool; 4],
}

impl Filter {
    /// The filter of a request.
    pub fn of(message: Option<&v1::WatchFilter>) -> Self {
        let Some(message) = message else { return Self { kinds: [true; 4], ..Self::default() } };
        let kinds = [message.jobs, message.tasks, message.nodes, message.endpoints];
        let kinds = if kinds.contains(&true) { kinds } else { [true; 4] };
        Self { user: message.user.clone(), job: message.job.clone(), node: message.node.clone(), kinds }
    }

    fn job_wanted(&self, user: &Name, job: &Name) -> bool {
        (self.user.is_empty() || self.user == user.as_str())
            && (self.job.is_empty() || self.job == job.as_str())
    }

    fn node_wanted(&self, name: Option<&Name>) -> bool {
        self.node.is_empty() || name.is_some_and(|name| self.node == name.as_str())
    }

    fn names_job(&self) -> bool {
        !self.user.is_empty() || !self.job.is_empty()
    }
}

/// What a delta means to a watcher; `None` where it is not wanted, or carries nothing people see.
pub fn change_of(door: &CellDoor, state: &MirrorState, filter: &Filter, delta: &Delta) -> Option<Change> {
    let [jobs, tasks, nodes, endpoints] = filter.kinds;
    match delta {
        Delta::Job { row, .. }
            if jobs && filter.node.is_empty() && filter.job_wanted(&row.user, &row.name) =>
        {
            let kind = state.spec_of(row)?.kind;
            Some(Change::Job(job_to_message(&door.name, row, kind, job_counts(state, row))))
        }
        Delta::JobRemoved { job } if jobs && !filter.names_job() && filter.node.is_empty() => {
            Some(Change::JobRemoved(job.to_string()))
        }
        Delta::Task { row } if tasks => {
            let job = job_of(state, filter, row.id.job)?;
            let node = row.node.and_then(|node| state.nodes().get(&node)).map(|node| &node.name);
            filter.node_wanted(node).then(|| Change::Task(task_message(door, state, job, row)))
        }
        Delta::Node { row } if nodes && !filter.names_job() && filter.node_wanted(Some(&row.name)) => {
            Some(Change::Node(node_message(door, state, row)))
        }
        Delta::NodeRemoved { node } if nodes && !filter.names_job() => {
            Some(Change::NodeRemoved(node.to_string()))
        }
        Delta::Endpoint { endpoint, .. }
            if endpoints
                && filter.job_wanted(&endpoint.user, &endpoint.job)
                && filter.node_wanted(Some(&endpoint.node)) =>
        {
            Some(Change::Endpoint(endpoint_to_message(&door.name, endpoint)))
        }
        Delta::EndpointWithdrawn { user, job, task, .. }
            if endpoints && filter.node.is_empty() && filter.job_wanted(user, job) =>
        {
            let incarnation = state.tasks().get(task).map_or(0, |row| row.incarnation.0);
            Some(Change::EndpointWithdrawn(v1::EndpointWithdrawn {
                user: user.to_string(),
                job: job.to_string(),
                index: task.index,
                incarnation,
            }))
        }
        _ => None,
    }
}

/// What a delta speaks of that the cell has forgotten since, so that nobody can say what it means, or whether it is wanted.
/// Only who reads far behind meets such a delta; it has to list again.
pub fn forgotten(state: &MirrorState, filter: &Filter, delta: &Delta) -> Option<String> {
    let [jobs, tasks, _, _] = filter.kinds;
    match delta {
        Delta::Job { row, .. } if jobs && filter.job_wanted(&row.user, &row.name) => {
            state.spec_of(row).is_none().then(|| format!("job {}/{}", row.user, row.name))
        }
        Delta::Task { row } if tasks => {
            let node = row.node.filter(|node| !filter.node.is_empty() && !state.nodes().contains_key(node));
            let job = Some(row.id.job).filter(|job| !state.jobs().contains_key(job));
            job.map(|job| format!("job {job}")).or_else(|| node.map(|node| format!("node {node}")))
        }
        _ => None,
    }
}

fn job_of<'a>(state: &'a MirrorState, filter: &Filter, job: JobId) -> Option<&'a borough_model::JobRow> {
    let row = state.jobs().get(&job)?;
    filter.job_wanted(&row.user, &row.name).then_some(row)
}
