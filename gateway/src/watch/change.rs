//! Deltas of the journal as watchers see them, after their filter.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::journal::JobName;
use borough_model::{Delta, JobId, JobRow, Name, NodeId};
use borough_proto::convert::endpoint_to_message;
use borough_proto::v1;
use borough_proto::v1::watch_response::Change;
use borough_store::mirror::{MirrorState, StoredSpec};

use crate::cell::{CellContext, EventSubject};
use crate::job::job_message_of;
use crate::node::node_message;
use crate::select::{labels_meet, node_meets};
use crate::task::task_message;

/// What a watcher wants. An empty filter matches everything except member cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchScope {
    user: String,
    job: String,
    node: String,
    kinds: [bool; 4],
    members: bool,
    /// Changes come with their sentences.
    pub(super) sentences: bool,
    selector: Vec<v1::LabelMatch>,
}

impl WatchScope {
    /// The filter of a request.
    pub(super) fn of(message: Option<&v1::WatchFilter>) -> Self {
        let Some(message) = message else { return Self { kinds: [true; 4], ..Self::default() } };
        let kinds = [message.jobs, message.tasks, message.nodes, message.endpoints];
        let is_any = kinds.contains(&true) || message.members;
        let kinds = if is_any { kinds } else { [true; 4] };
        Self {
            user: message.user.clone(),
            job: message.job.clone(),
            node: message.node.clone(),
            kinds,
            members: message.members,
            sentences: message.sentences,
            selector: message.selector.clone(),
        }
    }

    /// The conditions on the labels of what changes.
    pub(super) fn selector(&self) -> &[v1::LabelMatch] {
        &self.selector
    }

    /// What the entries that a watcher wants are about; nothing if they may be about anything. What fewer entries are
    /// about comes first.
    pub(super) fn subjects(&self) -> impl Iterator<Item = EventSubject> + use<> {
        let named = |name: &str, subject: fn(&str) -> EventSubject| (!name.is_empty()).then(|| subject(name));
        let subjects = [
            named(&self.job, EventSubject::job),
            named(&self.node, EventSubject::node),
            named(&self.user, EventSubject::user),
        ];
        subjects.into_iter().flatten()
    }

    pub(super) fn job_wanted(&self, user: &Name, job: &Name) -> bool {
        (self.user.is_empty() || self.user == user.as_str())
            && (self.job.is_empty() || self.job == job.as_str())
    }

    pub(super) fn node_wanted(&self, name: Option<&Name>) -> bool {
        self.node.is_empty() || name.is_some_and(|name| self.node == name.as_str())
    }

    /// Returns true if nothing is left out.
    fn is_all(&self) -> bool {
        !self.names_job() && self.node.is_empty() && self.selector.is_empty() && !self.kinds.contains(&false)
    }

    pub(super) fn names_job(&self) -> bool {
        !self.user.is_empty() || !self.job.is_empty()
    }

    /// Returns true if a watcher wants a merged service of this user. It is neither a job nor a node, and has no
    /// labels.
    fn merged_wanted(&self, user: &Name) -> bool {
        let all = Self { user: String::new(), ..self.clone() };
        all.is_all() && (self.user.is_empty() || self.user == user.as_str())
    }

    /// Returns true if a watcher has asked for member cells. They are neither of a job nor on a node.
    fn members_wanted(&self) -> bool {
        self.members && !self.names_job() && self.node.is_empty()
    }

    /// Returns true if the present labels of a job meet the selector. One that is forgotten has none.
    fn job_selected(&self, state: &MirrorState, job: JobId) -> bool {
        let spec = || state.jobs().get(&job).and_then(|row| state.spec_of(row));
        self.selector.is_empty() || spec().is_some_and(|spec| labels_meet(&self.selector, &spec.labels))
    }

    /// The same for a node.
    fn node_selected(&self, state: &MirrorState, node: NodeId) -> bool {
        let row = || state.nodes().get(&node);
        self.selector.is_empty() || row().is_some_and(|row| node_meets(&self.selector, row))
    }
}

/// The names of jobs that the cell has forgotten, from the entries read so far.
#[derive(Debug, Default)]
pub(super) struct JobNames(BTreeMap<JobId, JobName>);

/// A job's name, as a row or an entry has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameOfJob<'a> {
    pub user: &'a Name,
    pub job: &'a Name,
}

impl JobNames {
    /// Remembers the name in `delta` if the mirror no longer has it.
    pub(super) fn learn(&mut self, state: &MirrorState, delta: &Delta) {
        let (id, name) = match delta {
            Delta::Job { row, .. } => (row.id, JobName { user: row.user.clone(), job: row.name.clone() }),
            Delta::JobRemoved { job, name: Some(name) } => (*job, name.clone()),
            _ => return,
        };
        if !state.jobs().contains_key(&id) {
            self.0.insert(id, name);
        }
    }

    /// The name of a job; `None` if neither the mirror nor an entry has it.
    pub(super) fn of<'a>(&'a self, state: &'a MirrorState, job: JobId) -> Option<NameOfJob<'a>> {
        let living = state.jobs().get(&job).map(|row| NameOfJob { user: &row.user, job: &row.name });
        living.or_else(|| self.0.get(&job).map(|name| NameOfJob { user: &name.user, job: &name.job }))
    }
}

impl WatchScope {
    /// Returns true if a watcher wants `delta`. A job without a known name matches filters that name no job. Its
    /// removal matches all filters, since a watcher may know its id.
    pub(super) fn wants(&self, state: &MirrorState, names: &JobNames, delta: &Delta) -> bool {
        let [jobs, tasks, nodes, endpoints] = self.kinds;
        match delta {
            Delta::Job { row, .. } => {
                let wanted = jobs && self.node.is_empty() && self.job_wanted(&row.user, &row.name);
                wanted && self.job_selected(state, row.id)
            }
            // The labels of a job or a node are gone with it.
            Delta::JobRemoved { name, .. } => {
                let named = name.as_ref().is_none_or(|name| self.job_wanted(&name.user, &name.job));
                jobs && self.node.is_empty() && named && self.selector.is_empty()
            }
            Delta::Task { .. } if !tasks => false,
            Delta::Task { row } => {
                let node = row.node.and_then(|node| state.nodes().get(&node)).map(|node| &node.name);
                let job = match names.of(state, row.id.job) {
                    Some(name) => self.job_wanted(name.user, name.job),
                    None => !self.names_job(),
                };
                job && self.node_wanted(node) && self.job_selected(state, row.id.job)
            }
            Delta::Node { row } => {
                let wanted = nodes && !self.names_job() && self.node_wanted(Some(&row.name));
                wanted && self.node_selected(state, row.id)
            }
            // Its labels are gone with it, and an entry of an older version lacks its name.
            Delta::NodeRemoved { name, .. } => {
                nodes && !self.names_job() && self.node_wanted(name.as_ref()) && self.selector.is_empty()
            }
            Delta::Endpoint { endpoint, .. } => {
                let job = self.job_wanted(&endpoint.user, &endpoint.job);
                let wanted = endpoints && job && self.node_wanted(Some(&endpoint.node));
                wanted && self.job_selected(state, endpoint.task.job)
            }
            Delta::EndpointWithdrawn { user, job, task, .. } => {
                let wanted = endpoints && self.node.is_empty() && self.job_wanted(user, job);
                wanted && self.job_selected(state, task.job)
            }
            Delta::NodeAlloc { .. }
            | Delta::NodeLoad { .. }
            | Delta::TaskRemoved { .. }
            | Delta::Gang { .. } => false,
            Delta::MergedService { row } => self.merged_wanted(&row.user),
            Delta::MergedServiceRemoved { user, .. } | Delta::FederatedJobRemoved { user, .. } => {
                self.merged_wanted(user)
            }
            Delta::FederatedJob { row } => self.merged_wanted(row.user()),
            Delta::Member { row } => {
                self.is_all() || (self.members_wanted() && labels_meet(&self.selector, &row.labels))
            }
            // The labels of a member are gone with it.
            Delta::MemberRemoved { .. } => {
                self.is_all() || (self.members_wanted() && self.selector.is_empty())
            }
            // Who asks for some objects or kinds does not mean the cell.
            Delta::CellSettings { .. } => self.is_all(),
        }
    }
}

/// A change, as far as it is known under the mirror's lock.
pub(super) enum WatchedChange {
    Whole(Box<Change>),
    /// A job: its tasks are counted without the lock.
    Job(Arc<JobRow>, StoredSpec),
}

impl WatchedChange {
    /// The change. Takes the mirror's lock for the tasks of a job.
    pub(super) fn whole(self, cell: &CellContext) -> Change {
        match self {
            Self::Whole(change) => *change,
            Self::Job(row, stored) => Change::Job(job_message_of(cell, &row, Some(&stored))),
        }
    }
}

/// What a delta means to a watcher; `None` if the watcher does not want it, or if it carries nothing that people see.
pub(super) fn change_of(
    cell: &CellContext,
    state: &MirrorState,
    filter: &WatchScope,
    delta: &Delta,
) -> Option<WatchedChange> {
    if let Delta::Job { row, .. } = delta
        && filter.wants(state, &JobNames::default(), delta)
    {
        let stored = state.stored_spec_of(row)?;
        return Some(WatchedChange::Job(Arc::clone(row), stored));
    }
    change_whole(cell, state, filter, delta).map(|change| WatchedChange::Whole(Box::new(change)))
}

/// The name of a node that was removed; its id, if the entry is of an older version.
pub(super) fn removed_name(node: NodeId, name: Option<&Name>) -> String {
    name.map_or_else(|| node.to_string(), ToString::to_string)
}

fn change_whole(
    cell: &CellContext,
    state: &MirrorState,
    filter: &WatchScope,
    delta: &Delta,
) -> Option<Change> {
    if !filter.wants(state, &JobNames::default(), delta) {
        return None;
    }
    match delta {
        Delta::JobRemoved { job, name } => {
            let mut gone = v1::JobRemoved { id: job.to_string(), ..v1::JobRemoved::default() };
            if let Some(name) = name {
                (gone.user, gone.job) = (name.user.to_string(), name.job.to_string());
            }
            Some(Change::JobRemoved(gone))
        }
        Delta::Task { row } => {
            let job = state.jobs().get(&row.id.job)?;
            Some(Change::Task(task_message(cell, state, job, row)))
        }
        Delta::Node { row } => {
            let load = state.loads().get(&row.id).map(|load| &**load);
            Some(Change::Node(node_message(cell, state, row, load)))
        }
        Delta::NodeRemoved { node, name } => Some(Change::NodeRemoved(removed_name(*node, name.as_ref()))),
        Delta::Endpoint { endpoint, .. } => Some(Change::Endpoint(endpoint_to_message(&cell.name, endpoint))),
        Delta::EndpointWithdrawn { user, job, task, .. } => {
            let incarnation = state.tasks().get(task).map_or(0, |row| row.incarnation.0);
            Some(Change::EndpointWithdrawn(v1::EndpointWithdrawn {
                user: user.to_string(),
                job: job.to_string(),
                index: task.index,
                incarnation,
            }))
        }
        Delta::Member { row } if filter.members => Some(Change::MemberChanged(row.cell.to_string())),
        Delta::MemberRemoved { cell, .. } if filter.members => Some(Change::MemberRemoved(cell.to_string())),
        _ if filter.sentences => Some(Change::Other(true)),
        _ => None,
    }
}

/// The forgotten object that a delta refers to. Nobody can then say what the delta means, or whether the watcher wants
/// it. Only a reader far behind meets such a delta; it has to list again.
pub(super) fn forgotten(state: &MirrorState, filter: &WatchScope, delta: &Delta) -> Option<String> {
    let [jobs, tasks, _, _] = filter.kinds;
    match delta {
        Delta::Job { row, .. } if jobs && filter.job_wanted(&row.user, &row.name) => {
            (!state.has_spec_of(row)).then(|| format!("job {}/{}", row.user, row.name))
        }
        Delta::Task { row } if tasks => {
            let node = row.node.filter(|node| !filter.node.is_empty() && !state.nodes().contains_key(node));
            let job = Some(row.id.job).filter(|job| !state.jobs().contains_key(job));
            job.map(|job| format!("job {job}")).or_else(|| node.map(|node| format!("node {node}")))
        }
        _ => None,
    }
}
