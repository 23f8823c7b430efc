//! The state of a cell in memory: rows by id, and the few indexes that queries need.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use borough_model::federation::FederatedJobRow;
use borough_model::member::MemberRow;
use borough_model::merged::MergedServiceRow;
use borough_model::node::{NodeAlloc, NodeLoad, NodeRow};
use borough_model::task::{Endpoint, GangRow, TaskRow};
use borough_model::{Delta, GangId, JobId, JobRow, JobSpec, JournalEntry, Name, NodeId, TaskId};

use super::away::AwayTasks;
use super::ended::{EndedJobs, WaitingJobs};
use super::facts::FactChanges;
use super::silent::SilentNodes;
use super::specs::{MirrorSpecs, StoredSpec};
use crate::journal::Listed;
use crate::row::{CellGate, Cursor};
use crate::task::is_on_node;

/// An endpoint as the mirror keeps it. Nobody reads an endpoint here except to begin a watch, and its stored bytes take
/// a third.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEndpoint(Box<[u8]>);

impl StoredEndpoint {
    /// The endpoint. `None` if its bytes are none, which is logged.
    pub fn decoded(&self) -> Option<Endpoint> {
        let endpoint = minicbor::decode(&self.0)
            .inspect_err(|error| tracing::error!(%error, "an endpoint cannot be decoded"));
        endpoint.ok()
    }
}

/// An endpoint with the revision of the task's row that it follows from.
#[derive(Clone, Debug)]
pub(super) struct MirroredEndpoint {
    pub(super) stored: StoredEndpoint,
    /// The revision of the task's row.
    revision: u64,
    /// The position of the entry that wrote it. Of a listed one it is not known: it is that of no entry then.
    pub(super) at: Cursor,
}

/// Mirrors that have listed an endpoint and such that have followed it are the same.
impl PartialEq for MirroredEndpoint {
    fn eq(&self, other: &Self) -> bool {
        (&self.stored, self.revision) == (&other.stored, other.revision)
    }
}

impl MirroredEndpoint {
    fn of(endpoint: &Endpoint, revision: u64, at: Cursor) -> Option<Self> {
        let bytes = minicbor::to_vec(endpoint).inspect_err(
            |error| tracing::error!(task = %endpoint.task, %error, "an endpoint cannot be encoded"),
        );
        bytes.ok().map(|bytes| Self { stored: StoredEndpoint(bytes.into_boxed_slice()), revision, at })
    }
}

/// The state of one cell. Rows are shared: cloning the state copies references.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MirrorState {
    cursor: Cursor,
    gate: Option<CellGate>,
    nodes: BTreeMap<NodeId, Arc<NodeRow>>,
    allocs: BTreeMap<NodeId, Arc<NodeAlloc>>,
    loads: BTreeMap<NodeId, Arc<NodeLoad>>,
    jobs: BTreeMap<JobId, Arc<JobRow>>,
    ended_jobs: EndedJobs,
    pub(super) waiting_jobs: WaitingJobs,
    specs: MirrorSpecs,
    tasks: BTreeMap<TaskId, Arc<TaskRow>>,
    pub(super) away: AwayTasks,
    pub(super) silent: SilentNodes,
    pub(super) endpoints: BTreeMap<TaskId, MirroredEndpoint>,
    pub(super) facts: FactChanges,
    gangs: BTreeMap<GangId, Arc<GangRow>>,
    job_gangs: BTreeSet<(JobId, GangId)>,
    node_names: BTreeMap<Name, NodeId>,
    pub(super) job_names: BTreeMap<(Name, Name), JobId>,
    node_tasks: BTreeMap<NodeId, BTreeSet<TaskId>>,
    pub(super) merged_services: BTreeMap<(Name, Name), Arc<MergedServiceRow>>,
    pub(super) members: BTreeMap<Name, Arc<MemberRow>>,
    pub(super) federated_jobs: BTreeMap<(Name, Name), Arc<FederatedJobRow>>,
}

/// The first and the last task that a job can have.
pub(super) fn tasks_of(job: JobId) -> RangeInclusive<TaskId> {
    TaskId { job, index: 0 }..=TaskId { job, index: u32::MAX }
}

impl MirrorState {
    /// The position up to which the journal has been applied.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The cell's gate, as last read.
    pub fn gate(&self) -> Option<&CellGate> {
        self.gate.as_ref()
    }

    /// Nodes by id.
    pub fn nodes(&self) -> &BTreeMap<NodeId, Arc<NodeRow>> {
        &self.nodes
    }

    /// Nodes by name, from the first behind `after`.
    pub fn nodes_behind(&self, after: Option<&str>) -> impl Iterator<Item = &Arc<NodeRow>> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.node_names.range::<str, _>((begin, Bound::Unbounded)).filter_map(|(_, id)| self.nodes.get(id))
    }

    /// The commitments of nodes.
    pub fn allocs(&self) -> &BTreeMap<NodeId, Arc<NodeAlloc>> {
        &self.allocs
    }

    /// The measured load of nodes.
    pub fn loads(&self) -> &BTreeMap<NodeId, Arc<NodeLoad>> {
        &self.loads
    }

    /// Jobs by id.
    pub fn jobs(&self) -> &BTreeMap<JobId, Arc<JobRow>> {
        &self.jobs
    }

    /// Ended jobs, by the time of their end.
    pub fn ended_jobs(&self) -> &EndedJobs {
        &self.ended_jobs
    }

    /// Tasks that have a row.
    pub fn tasks(&self) -> &BTreeMap<TaskId, Arc<TaskRow>> {
        &self.tasks
    }

    /// The endpoints of a user, of jobs with a name, or of both; of all without either. They are to be decoded without
    /// the lock.
    pub fn endpoints(&self, user: Option<&Name>, job: Option<&Name>) -> Vec<StoredEndpoint> {
        let (found, _) = self.endpoints_part(user, job, None, usize::MAX);
        found.into_iter().map(|(_, endpoint)| endpoint).collect()
    }

    /// As [`MirrorState::endpoints`], but only of the next `visited` behind `after`. Also returns the last one that was
    /// visited; `None` if no other follows.
    pub fn endpoints_part(
        &self,
        user: Option<&Name>,
        job: Option<&Name>,
        after: Option<TaskId>,
        visited: usize,
    ) -> (Vec<(TaskId, StoredEndpoint)>, Option<TaskId>) {
        let all = TaskId { job: JobId(0), index: 0 }..=TaskId { job: JobId(u64::MAX), index: u32::MAX };
        let within = match (user, job) {
            // Only the last job of a name has endpoints: the name passes on when a job has ended.
            (Some(user), Some(job)) => self.job_by_name(user, job).map(|row| tasks_of(row.id)),
            _ => Some(all),
        };
        // A range that ends before it begins would panic.
        let Some(within) = within.filter(|within| after.is_none_or(|after| after < *within.end())) else {
            return (Vec::new(), None);
        };
        let begin = match after {
            Some(after) if after >= *within.start() => Bound::Excluded(after),
            _ => Bound::Included(*within.start()),
        };
        let wanted = |row: &JobRow| {
            user.is_none_or(|wanted| *wanted == row.user) && job.is_none_or(|wanted| *wanted == row.name)
        };
        let mut found = Vec::new();
        let (mut last, mut of): (Option<TaskId>, Option<(JobId, bool)>) = (None, None);
        let mut rows = self.endpoints.range((begin, Bound::Included(*within.end())));
        for (task, endpoint) in rows.by_ref().take(visited) {
            let selected = match of {
                Some((job, selected)) if job == task.job => selected,
                _ => self.jobs.get(&task.job).is_some_and(|row| wanted(row)),
            };
            (last, of) = (Some(*task), Some((task.job, selected)));
            found.extend(selected.then(|| (*task, endpoint.stored.clone())));
        }
        let last = last.filter(|_| rows.next().is_some());
        (found, last)
    }

    /// Gangs by id.
    pub fn gangs(&self) -> &BTreeMap<GangId, Arc<GangRow>> {
        &self.gangs
    }

    /// The node called `name`.
    pub fn node_by_name(&self, name: &Name) -> Option<&Arc<NodeRow>> {
        self.nodes.get(self.node_names.get(name)?)
    }

    /// The job of `user` called `name`.
    pub fn job_by_name(&self, user: &Name, name: &Name) -> Option<&Arc<JobRow>> {
        self.jobs.get(self.job_names.get(&(user.clone(), name.clone()))?)
    }

    /// A version of a job's spec.
    pub fn spec(&self, job: JobId, version: u32) -> Option<Arc<JobSpec>> {
        self.specs.get(job, version, &self.jobs.get(&job)?.name)
    }

    /// The versions of a job's spec, ascending.
    pub fn spec_versions(&self, job: JobId) -> impl Iterator<Item = u32> {
        self.specs.versions_of(job)
    }

    /// The jobs with so many versions of their specs that old ones may be forgotten.
    pub fn jobs_with_many_versions(&self) -> &BTreeSet<JobId> {
        self.specs.many()
    }

    /// The spec in force of a job.
    pub fn spec_of(&self, job: &JobRow) -> Option<Arc<JobSpec>> {
        self.specs.get(job.id, job.spec_version, &job.name)
    }

    /// The spec in force of a job as it is kept, to be decoded without the lock.
    pub fn stored_spec_of(&self, job: &JobRow) -> Option<StoredSpec> {
        self.stored_spec(job.id, job.spec_version)
    }

    /// A version of a job's spec as it is kept, to be decoded without the lock.
    pub fn stored_spec(&self, job: JobId, version: u32) -> Option<StoredSpec> {
        self.specs.stored(job, version)
    }

    /// Returns true if it has the spec in force of a job. Cheaper than [`MirrorState::spec_of`].
    pub fn has_spec_of(&self, job: &JobRow) -> bool {
        self.specs.contains(job.id, job.spec_version)
    }

    /// Tasks of a job that have a row, by index.
    pub fn job_tasks(&self, job: JobId) -> impl Iterator<Item = &Arc<TaskRow>> {
        self.job_tasks_behind(job, None)
    }

    /// As [`MirrorState::job_tasks`], behind the task with the index `after`.
    pub fn job_tasks_behind(&self, job: JobId, after: Option<u32>) -> impl Iterator<Item = &Arc<TaskRow>> {
        let begin = after.map_or(Bound::Included(TaskId { job, index: 0 }), |index| {
            Bound::Excluded(TaskId { job, index })
        });
        let end = Bound::Included(TaskId { job, index: u32::MAX });
        self.tasks.range((begin, end)).map(|(_, row)| row)
    }

    /// How many tasks [`MirrorState::node_tasks`] gives.
    pub fn node_tasks_count(&self, node: NodeId) -> usize {
        self.node_tasks.get(&node).map_or(0, BTreeSet::len)
    }

    /// Tasks that take capacity of a node, and those that were lost with it and not yet rescheduled: the same as the
    /// store's own index.
    pub fn node_tasks(&self, node: NodeId) -> impl Iterator<Item = &Arc<TaskRow>> {
        self.node_tasks.get(&node).into_iter().flatten().filter_map(|task| self.tasks.get(task))
    }

    /// Those of a range.
    pub(super) fn node_tasks_of(
        &self,
        node: NodeId,
        tasks: RangeInclusive<TaskId>,
    ) -> impl Iterator<Item = &Arc<TaskRow>> {
        let there = self.node_tasks.get(&node).into_iter().flat_map(move |all| all.range(tasks.clone()));
        there.filter_map(|task| self.tasks.get(task))
    }

    /// Adds a row of a listing.
    pub fn list(&mut self, listed: Listed) {
        match listed {
            // The names of jobs are listed separately: a row does not say whether it still has its name.
            Listed::Row(delta) => match *delta {
                Delta::Job { row, .. } => self.job_row_put(&row),
                delta => self.delta(&delta),
            },
            Listed::Spec { job, version, spec } => {
                self.specs.put(job, version, &spec);
            }
            Listed::JobName { user, name, job } => {
                self.job_names.insert((user, name), job);
            }
        }
    }

    /// Begins to replay from `cursor`, after a listing.
    pub fn replay_from(&mut self, cursor: Cursor) {
        self.cursor = cursor;
    }

    /// Records the gate that was read with the last entries.
    pub fn gate_note(&mut self, gate: &CellGate) {
        if self.gate.as_ref() != Some(gate) {
            self.gate = Some(gate.clone());
        }
    }

    /// Applies an entry, once: an entry at or before the cursor changes nothing. Returns true if it was applied.
    pub fn apply(&mut self, cursor: Cursor, entry: &JournalEntry) -> bool {
        if cursor.store_epoch != self.cursor.store_epoch || cursor <= self.cursor {
            return false;
        }
        self.cursor = cursor;
        entry.deltas.iter().for_each(|delta| self.delta(delta));
        true
    }

    /// From here on it knows when labels of jobs and drains of nodes change: all that was listed is complete.
    pub(super) fn facts_follow(&mut self) {
        self.facts.begin(self.cursor);
    }

    /// Applies a delta, unless it is older than its row.
    fn delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Node { row } => self.node_put(row),
            Delta::NodeRemoved { node, .. } => self.node_remove(*node),
            Delta::NodeAlloc { node, alloc } => {
                put_newer(&mut self.allocs, *node, alloc, |alloc| alloc.epoch);
            }
            Delta::NodeLoad { node, load } => {
                put_newer(&mut self.loads, *node, load, |load| load.revision);
            }
            Delta::Job { row, spec } => self.job_put(row, spec.as_deref()),
            Delta::JobRemoved { job, .. } => self.job_remove(*job),
            Delta::Task { row } => self.task_put(row),
            Delta::TaskRemoved { task, revision } => {
                if self.tasks.get(task).is_some_and(|row| row.revision <= *revision) {
                    self.task_remove(*task);
                }
            }
            Delta::Endpoint { endpoint, revision } => {
                let newer = self.endpoints.get(&endpoint.task).is_none_or(|old| old.revision <= *revision);
                if newer {
                    let mirrored = MirroredEndpoint::of(endpoint, *revision, self.cursor);
                    self.endpoints.extend(mirrored.map(|mirrored| (endpoint.task, mirrored)));
                }
            }
            Delta::EndpointWithdrawn { task, revision, .. } => {
                if self.endpoints.get(task).is_some_and(|old| old.revision <= *revision) {
                    self.endpoints.remove(task);
                }
            }
            Delta::Gang { row } => self.gang_put(row),
            Delta::CellSettings { .. } => {}
            Delta::MergedService { row } => self.merged_put(row),
            Delta::MergedServiceRemoved { id, user, name } => self.merged_remove(*id, user, name),
            Delta::Member { row } => self.member_put(row),
            Delta::MemberRemoved { id, cell } => self.member_remove(*id, cell),
            Delta::FederatedJob { row } => self.federated_put(row),
            Delta::FederatedJobRemoved { id, user, name } => self.federated_remove(*id, user, name),
        }
    }

    fn gang_put(&mut self, row: &GangRow) {
        let before = self.gangs.get(&row.id).map(|known| known.job);
        if put_newer(&mut self.gangs, row.id, row, |row| row.revision) {
            if let Some(job) = before {
                self.job_gangs.remove(&(job, row.id));
            }
            self.job_gangs.insert((row.job, row.id));
        }
    }

    fn node_put(&mut self, row: &NodeRow) {
        let before = self.nodes.get(&row.id).filter(|known| known.revision < row.revision);
        if before.is_some_and(|known| known.draining != row.draining) {
            self.facts.drain_changed(self.cursor, row.id);
        }
        if put_newer(&mut self.nodes, row.id, row, |row| row.revision) {
            self.node_names.insert(row.name.clone(), row.id);
            self.silent.follow(row);
        }
    }

    fn node_remove(&mut self, node: NodeId) {
        self.allocs.remove(&node);
        self.loads.remove(&node);
        self.silent.remove(node);
        let Some(row) = self.nodes.remove(&node) else { return };
        if self.node_names.get(&row.name) == Some(&node) {
            self.node_names.remove(&row.name);
        }
    }

    /// A name goes to the job that was created with it last. Only the first revision of a row takes it, since rows of
    /// earlier jobs with the name may still change.
    fn job_put(&mut self, row: &Arc<JobRow>, spec: Option<&JobSpec>) {
        if let Some(spec) = spec.filter(|_| !self.specs.contains(row.id, row.spec_version)) {
            self.specs.put(row.id, row.spec_version, spec);
        }
        self.labels_follow(row);
        if row.revision <= 1 {
            self.job_names.insert((row.user.clone(), row.name.clone()), row.id);
        }
        self.job_row_put(row);
        // Also by a row that a listing has overtaken: it may have brought back a version meanwhile.
        self.specs.forget_gone(row);
    }

    /// Records that a row of a job comes with other labels than the row before it.
    fn labels_follow(&mut self, row: &JobRow) {
        let known = self.jobs.get(&row.id).filter(|known| known.revision < row.revision);
        let Some(before) = known.map(|known| known.spec_version) else { return };
        let labels = |version| self.spec(row.id, version).map(|spec| spec.labels.clone());
        if before != row.spec_version && labels(before) != labels(row.spec_version) {
            self.facts.labels_changed(self.cursor, row.id, before);
        }
    }

    fn job_row_put(&mut self, row: &Arc<JobRow>) {
        if self.jobs.get(&row.id).is_some_and(|known| known.revision >= row.revision) {
            return;
        }
        let before = self.jobs.insert(row.id, Arc::clone(row));
        self.ended_jobs.follow(before.as_deref(), Some(row));
        self.waiting_jobs.follow(row.id, Some(row));
    }

    /// Removes a job and all of its rows: its id never comes back.
    fn job_remove(&mut self, job: JobId) {
        self.specs.remove(job);
        let tasks: Vec<_> = self.tasks.range(tasks_of(job)).map(|(task, _)| *task).collect();
        tasks.iter().for_each(|task| self.task_remove(*task));
        let endpoints: Vec<_> = self.endpoints.range(tasks_of(job)).map(|(task, _)| *task).collect();
        endpoints.iter().for_each(|task| drop(self.endpoints.remove(task)));
        let gangs = self.job_gangs.range((job, GangId(0))..=(job, GangId(u64::MAX)));
        for of_job in gangs.copied().collect::<Vec<_>>() {
            self.job_gangs.remove(&of_job);
            self.gangs.remove(&of_job.1);
        }
        let Some(row) = self.jobs.remove(&job) else { return };
        self.ended_jobs.follow(Some(&row), None);
        self.waiting_jobs.follow(job, None);
        let name = (row.user.clone(), row.name.clone());
        if self.job_names.get(&name) == Some(&job) {
            self.job_names.remove(&name);
        }
    }

    fn task_put(&mut self, row: &TaskRow) {
        let known = self.tasks.get(&row.id);
        if known.is_some_and(|known| known.revision >= row.revision) {
            return;
        }
        self.away.follow(known.map(|row| &**row), Some(row));
        let (before, after) = (known.and_then(|row| node_of(row)), node_of(row));
        self.tasks.insert(row.id, Arc::new(row.clone()));
        if before == after {
            return;
        }
        self.node_task_remove(before, row.id);
        if let Some(node) = after {
            self.node_tasks.entry(node).or_default().insert(row.id);
        }
    }

    fn task_remove(&mut self, task: TaskId) {
        if let Some(row) = self.tasks.remove(&task) {
            self.away.follow(Some(&row), None);
            self.node_task_remove(node_of(&row), task);
        }
    }

    fn node_task_remove(&mut self, node: Option<NodeId>, task: TaskId) {
        let Some(node) = node else { return };
        let Some(tasks) = self.node_tasks.get_mut(&node) else { return };
        tasks.remove(&task);
        if tasks.is_empty() {
            self.node_tasks.remove(&node);
        }
    }
}

/// The node whose index contains the row.
fn node_of(row: &TaskRow) -> Option<NodeId> {
    row.node.filter(|_| is_on_node(row.state))
}

/// Puts a row unless a newer one, or the same revision, is there. Returns true if it did.
fn put_newer<K: Ord, V: Clone>(
    rows: &mut BTreeMap<K, Arc<V>>,
    key: K,
    row: &V,
    revision: impl Fn(&V) -> u64,
) -> bool {
    if rows.get(&key).is_some_and(|old| revision(old) >= revision(row)) {
        return false;
    }
    rows.insert(key, Arc::new(row.clone()));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job_spec, name, node_facts};
    use borough_model::RequestId;
    use borough_model::job::job_new;
    use borough_model::node::node_new;
    use borough_model::task::{GangState, TaskState};

    fn entry(deltas: Vec<Delta>) -> JournalEntry {
        JournalEntry {
            request: RequestId(0),
            actor: String::new(),
            action: String::new(),
            at_ms: 0,
            deltas,
            values: None,
            calls: None,
        }
    }

    fn at(version: i64) -> Cursor {
        Cursor { store_epoch: 0, stamp: borough_kv::Versionstamp::new(version, 0) }
    }

    fn task(revision: u64, node: u64) -> Delta {
        let id = TaskId { job: JobId(1), index: 0 };
        let row = TaskRow {
            state: TaskState::Running,
            node: Some(NodeId(node)),
            revision,
            ..TaskRow::never_placed(id)
        };
        Delta::Task { row }
    }

    fn job(id: u64, user: &str, job: &str) -> JobRow {
        job_new(JobId(id), &job_spec(name(user), name(job)), RequestId(0), 0)
    }

    #[test]
    fn the_endpoints_of_users_and_jobs_are_those_with_their_names() {
        let jobs = [("ada", "web"), ("ada", "api"), ("bob", "web"), ("cat", "db")];
        let mut state = MirrorState::default();
        for ((user, job_name), id) in jobs.into_iter().zip(1..) {
            let endpoint = |index| Endpoint {
                task: TaskId { job: JobId(id), index },
                user: name(user),
                job: name(job_name),
                incarnation: borough_model::Incarnation(1),
                host: String::new(),
                ports: Vec::new(),
                health: borough_model::task::Health::Unknown,
                weight: 1,
                node: name("n1"),
                healthy_since_ms: 0,
                domains: Vec::new(),
            };
            let published = (0..2).map(|index| Delta::Endpoint { endpoint: endpoint(index), revision: 1 });
            let row = job(id, user, job_name).into();
            let deltas = std::iter::once(Delta::Job { row, spec: None }).chain(published).collect();
            state.apply(at(i64::try_from(id).unwrap()), &entry(deltas));
        }
        let users = [None, Some(name("ada")), Some(name("bob")), Some(name("eve"))];
        let named = [None, Some(name("web")), Some(name("db"))];
        for (user, job) in users.iter().flat_map(|user| named.iter().map(move |job| (user, job))) {
            let found = state.endpoints(user.as_ref(), job.as_ref());
            let found: Vec<u64> =
                found.iter().map(|endpoint| endpoint.decoded().unwrap().task.job.0).collect();
            let is = |wanted: &Option<Name>, text: &str| {
                wanted.as_ref().is_none_or(|wanted| wanted.as_str() == text)
            };
            let wanted = jobs.iter().zip(1..).filter(|((of, called), _)| is(user, of) && is(job, called));
            let wanted: Vec<u64> = wanted.flat_map(|(_, id)| [id, id]).collect();
            assert_eq!(found, wanted, "{user:?} {job:?}");
            for visited in [1, 3, 100] {
                let (mut in_parts, mut after) = (Vec::new(), None);
                loop {
                    let (part, last) = state.endpoints_part(user.as_ref(), job.as_ref(), after, visited);
                    assert!(part.len() <= visited);
                    in_parts.extend(part.into_iter().map(|(task, _)| task.job.0));
                    after = last;
                    if after.is_none() {
                        break;
                    }
                }
                assert_eq!(in_parts, wanted, "{user:?} {job:?} in parts of {visited}");
            }
            // A page of another job's list.
            let behind = Some(TaskId { job: JobId(u64::MAX), index: u32::MAX });
            assert_eq!(state.endpoints_part(user.as_ref(), job.as_ref(), behind, 5).0.len(), 0);
        }
    }

    #[test]
    fn nodes_are_read_by_name_from_any_text_on() {
        let mut state = MirrorState::default();
        for (id, node) in (1..).zip(["n30", "n1", "n2"]) {
            let row = node_new(NodeId(id), name(node), node_facts(1), 0);
            state.list(Listed::Row(Box::new(Delta::Node { row })));
        }
        let behind = |after: Option<&str>| -> Vec<String> {
            state.nodes_behind(after).map(|row| row.name.to_string()).collect()
        };
        assert_eq!(behind(None), ["n1", "n2", "n30"]);
        assert_eq!(behind(Some("n1")), ["n2", "n30"]);
        assert_eq!(behind(Some("n2x")), ["n30"], "a node that is gone");
        assert_eq!(behind(Some("n30")), [""; 0]);
    }

    #[test]
    fn an_older_revision_never_overwrites_a_newer_one() {
        let mut state = MirrorState::default();
        state.list(Listed::Row(Box::new(task(5, 2))));
        assert!(state.apply(at(1), &entry(vec![task(4, 1)])));
        assert_eq!(state.node_tasks(NodeId(2)).count(), 1);
        assert_eq!(state.node_tasks(NodeId(1)).count(), 0);
        let older = Delta::TaskRemoved { task: TaskId { job: JobId(1), index: 0 }, revision: 4 };
        state.apply(at(2), &entry(vec![older]));
        assert_eq!(state.tasks().len(), 1);
        state.apply(at(3), &entry(vec![task(6, 1)]));
        assert_eq!(state.node_tasks(NodeId(1)).count(), 1);
        assert_eq!(state.node_tasks(NodeId(2)).count(), 0);
    }

    /// Code that reschedules lost tasks, or lets their node accept others again, must find them.
    #[test]
    fn lost_tasks_stay_with_their_node() {
        let state_set = |delta: Delta, state: TaskState| match delta {
            Delta::Task { row } => Delta::Task { row: TaskRow { state, ..row } },
            other => other,
        };
        let mut state = MirrorState::default();
        state.apply(at(1), &entry(vec![task(1, 1)]));
        state.apply(at(2), &entry(vec![state_set(task(2, 1), TaskState::Lost)]));
        assert_eq!(state.node_tasks(NodeId(1)).count(), 1);
        state.apply(at(3), &entry(vec![state_set(task(3, 1), TaskState::Dead)]));
        assert_eq!(state.node_tasks(NodeId(1)).count(), 0);
    }

    #[test]
    fn an_entry_is_applied_once_and_only_in_its_epoch() {
        let gang = |revision| Delta::Gang {
            row: GangRow {
                id: GangId(1),
                job: JobId(1),
                min_member: 1,
                state: GangState::Gathering,
                epoch: 0,
                expires_ms: 0,
                revision,
            },
        };
        let mut state = MirrorState::default();
        assert!(state.apply(at(5), &entry(vec![gang(1)])));
        assert!(!state.apply(at(5), &entry(vec![gang(2)])), "seen");
        assert!(!state.apply(at(4), &entry(vec![gang(2)])), "older");
        let foreign = Cursor { store_epoch: 1, ..at(9) };
        assert!(!state.apply(foreign, &entry(vec![gang(2)])), "of another epoch of the store");
        assert_eq!(state.gangs()[&GangId(1)].revision, 1);
    }

    /// A listed row does not take its old name back, however young it is. A created one takes it.
    #[test]
    fn a_name_is_taken_by_creation_and_not_by_being_listed() {
        let job = |id| job(id, "ada", "web");
        let named = |state: &MirrorState| state.job_by_name(&name("ada"), &name("web")).map(|row| row.id);
        let mut state = MirrorState::default();
        state.list(Listed::Row(Box::new(Delta::Job { row: job(1).into(), spec: None })));
        assert_eq!(named(&state), None, "its name may have gone to another since");
        state.list(Listed::JobName { user: name("ada"), name: name("web"), job: JobId(1) });
        assert_eq!(named(&state), Some(JobId(1)));
        state.apply(at(1), &entry(vec![Delta::Job { row: job(2).into(), spec: None }]));
        let later = JobRow { revision: 2, ..job(1) };
        state.apply(at(2), &entry(vec![Delta::Job { row: later.into(), spec: None }]));
        assert_eq!(named(&state), Some(JobId(2)));
    }
}
