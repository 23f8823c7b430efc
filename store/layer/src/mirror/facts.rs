//! What the job and the node of an endpoint add to it: labels, and whether the node is drained.
//!
//! Both change without a write of any endpoint. A watch adds them to the endpoints that it sends, as they were at its
//! position in the journal, which may be behind the mirror. So the mirror keeps when they have changed, for a while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use borough_model::task::Endpoint;
use borough_model::{Delta, JobId, JournalEntry, NodeId, NodeRow, TaskId};

use super::specs::StoredSpec;
use super::state::{MirrorState, StoredEndpoint, tasks_of};
use crate::Cursor;

/// Changes that are kept. A watch that is further behind lists again.
const CHANGES_MAX: usize = 4_096;

/// When labels of jobs and drains of nodes have changed.
#[derive(Clone, Debug, Default)]
pub(super) struct FactChanges {
    /// Changes up to this position are not known.
    since: Cursor,
    /// For each change of a job's labels its position, and the version before it.
    labels: BTreeMap<JobId, Vec<(Cursor, u32)>>,
    drains: BTreeMap<NodeId, Vec<Cursor>>,
    /// All of them, the oldest first.
    order: VecDeque<(Cursor, Changed)>,
}

#[derive(Clone, Copy, Debug)]
enum Changed {
    Labels(JobId),
    Drain(NodeId),
}

/// It is no part of the cell's state: mirrors that began at other times know other changes.
impl PartialEq for FactChanges {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl FactChanges {
    /// Forgets everything, and follows what comes after `since`.
    pub(super) fn begin(&mut self, since: Cursor) {
        *self = Self { since, ..Self::default() };
    }

    pub(super) fn labels_changed(&mut self, at: Cursor, job: JobId, version_before: u32) {
        self.labels.entry(job).or_default().push((at, version_before));
        self.add(at, Changed::Labels(job));
    }

    pub(super) fn drain_changed(&mut self, at: Cursor, node: NodeId) {
        self.drains.entry(node).or_default().push(at);
        self.add(at, Changed::Drain(node));
    }

    fn add(&mut self, at: Cursor, changed: Changed) {
        self.order.push_back((at, changed));
        while self.order.len() > CHANGES_MAX {
            let Some((oldest, changed)) = self.order.pop_front() else { break };
            self.since = oldest;
            match changed {
                Changed::Labels(job) => later_keep(&mut self.labels, &job, |(at, _)| *at > oldest),
                Changed::Drain(node) => later_keep(&mut self.drains, &node, |at| *at > oldest),
            }
        }
    }

    /// The version whose labels a job had at a position, if they have changed since.
    fn version_at(&self, job: JobId, at: Cursor) -> Option<u32> {
        self.labels.get(&job)?.iter().find(|(changed, _)| *changed > at).map(|(_, before)| *before)
    }

    /// Whether a node was drained at a position, by its row of now.
    fn draining_at(&self, node: &NodeRow, at: Cursor) -> bool {
        let changes =
            self.drains.get(&node.id).map_or(0, |all| all.iter().filter(|each| **each > at).count());
        node.draining ^ (changes % 2 == 1)
    }

    fn has_labels_at(&self, job: JobId, at: Cursor) -> bool {
        self.labels.get(&job).is_some_and(|of_job| of_job.iter().any(|(each, _)| *each == at))
    }

    fn has_drain_at(&self, node: NodeId, at: Cursor) -> bool {
        self.drains.get(&node).is_some_and(|of_node| of_node.contains(&at))
    }
}

/// Keeps the changes of one key that are late enough, and the key only with such.
fn later_keep<K: Ord, T>(changes: &mut BTreeMap<K, Vec<T>>, key: &K, is_later: impl FnMut(&T) -> bool) {
    let Some(of_key) = changes.get_mut(key) else { return };
    of_key.retain(is_later);
    if of_key.is_empty() {
        changes.remove(key);
    }
}

/// What a job and a node add to an endpoint.
#[derive(Clone, Debug, Default)]
pub struct EndpointFacts {
    /// The spec with the labels, to be decoded without the lock; `None`: the job is gone.
    pub spec: Option<StoredSpec>,
    /// Whether an operator wants the node empty.
    pub draining: bool,
}

/// An endpoint whose labels or node have changed, with what they are now.
pub type RefreshedEndpoint = (TaskId, StoredEndpoint, EndpointFacts);

/// The mirror no longer knows what changed at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{at} is before {since}, from which on this process knows the labels of jobs and the drains of nodes"
)]
pub struct FactsForgotten {
    at: Cursor,
    since: Cursor,
}

/// Actions of entries that may change whether a node is drained.
const DRAIN_ACTIONS: [&str; 2] = ["node_drain", "node_uncordon"];

impl MirrorState {
    /// What its job and its node add to an endpoint that is written at a position.
    pub fn endpoint_facts(&self, endpoint: &Endpoint, at: Cursor) -> EndpointFacts {
        self.facts_at(endpoint.task.job, self.node_by_name(&endpoint.node), at)
    }

    /// What they add now to the endpoint that a task has.
    pub fn endpoint_facts_now(&self, task: TaskId) -> EndpointFacts {
        self.task_facts_at(task, self.cursor())
    }

    fn task_facts_at(&self, task: TaskId, at: Cursor) -> EndpointFacts {
        let node = self.tasks().get(&task).and_then(|row| row.node);
        self.facts_at(task.job, node.and_then(|node| self.nodes().get(&node)), at)
    }

    fn facts_at(&self, job: JobId, node: Option<&Arc<NodeRow>>, at: Cursor) -> EndpointFacts {
        let row = self.jobs().get(&job);
        let version = row.map(|row| self.facts.version_at(job, at).unwrap_or(row.spec_version));
        // Old versions of a job that is labelled all the time may be gone: then the labels in force are the nearest.
        let spec = version.and_then(|version| self.stored_spec(job, version));
        let spec = spec.or_else(|| self.stored_spec_of(row?));
        let draining = node.is_some_and(|node| self.facts.draining_at(node, at));
        EndpointFacts { spec, draining }
    }

    /// The endpoints that an entry changes only by their facts: the labels of their job, or a drain of their node.
    /// Leaves out those that this entry or a later one has written, since each of these comes with its facts.
    ///
    /// # Errors
    /// The entry may change facts, and the mirror does not know what they were before.
    pub fn endpoints_refreshed(
        &self,
        entry: &JournalEntry,
        at: Cursor,
    ) -> Result<Vec<RefreshedEndpoint>, FactsForgotten> {
        let mut tasks = BTreeSet::new();
        for delta in &entry.deltas {
            match delta {
                Delta::Job { row, spec: Some(_) } if self.labels_change(row.id, row.spec_version, at)? => {
                    tasks.extend(self.endpoints.range(tasks_of(row.id)).map(|(task, _)| *task));
                }
                Delta::Node { row } if self.drain_changes(row.id, &entry.action, at)? => {
                    tasks.extend(self.node_tasks(row.id).map(|row| row.id));
                }
                _ => {}
            }
        }
        let refreshed = tasks.into_iter().filter_map(|task| {
            let known = self.endpoints.get(&task).filter(|known| known.at < at)?;
            Some((task, known.stored.clone(), self.task_facts_at(task, at)))
        });
        Ok(refreshed.collect())
    }

    /// The jobs with endpoints that an entry concerns although it names only their node.
    pub fn jobs_refreshed(
        &self,
        entry: &JournalEntry,
        at: Cursor,
    ) -> Result<BTreeSet<JobId>, FactsForgotten> {
        let is_node = |delta: &&Delta| matches!(delta, Delta::Node { .. });
        if !entry.deltas.iter().any(|delta| is_node(&delta)) {
            return Ok(BTreeSet::new());
        }
        Ok(self.endpoints_refreshed(entry, at)?.into_iter().map(|(task, _, _)| task.job).collect())
    }

    fn labels_change(&self, job: JobId, version: u32, at: Cursor) -> Result<bool, FactsForgotten> {
        let since = self.facts.since;
        if at > since {
            return Ok(self.facts.has_labels_at(job, at));
        }
        let labels = |version| self.spec(job, version).map(|spec| spec.labels.clone());
        let (before, after) = (labels(version.saturating_sub(1)), labels(version));
        if version <= 1 || (before == after && after.is_some()) {
            return Ok(false);
        }
        Err(FactsForgotten { at, since })
    }

    fn drain_changes(&self, node: NodeId, action: &str, at: Cursor) -> Result<bool, FactsForgotten> {
        let since = self.facts.since;
        if at > since {
            return Ok(self.facts.has_drain_at(node, at));
        }
        let mut tasks = self.node_tasks(node);
        let has_endpoints = tasks.any(|row| self.endpoints.contains_key(&row.id));
        if has_endpoints && DRAIN_ACTIONS.contains(&action) {
            return Err(FactsForgotten { at, since });
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use borough_kv::Versionstamp;
    use borough_model::job::{JobRow, JobSpec, job_new};
    use borough_model::node::node_new;
    use borough_model::task::{Health, TaskRow, TaskState};
    use borough_model::{Incarnation, Name, RequestId};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{job_spec, node_facts};

    fn at(position: i64) -> Cursor {
        Cursor { store_epoch: 0, stamp: Versionstamp::new(position, 0) }
    }

    #[test]
    fn what_was_in_force_at_a_position_follows_from_the_changes_after_it() {
        let (job, node) = (JobId(1), NodeId(2));
        let row = node_new(node, name("n2"), node_facts(1_000), 1);
        let drained = NodeRow { draining: true, ..row };
        let mut changes = FactChanges::default();
        changes.begin(at(10));
        changes.labels_changed(at(20), job, 1);
        changes.labels_changed(at(30), job, 4);
        changes.drain_changed(at(20), node);
        changes.drain_changed(at(30), node);
        let versions = [15, 20, 29, 30].map(|position| changes.version_at(job, at(position)));
        assert_eq!(versions, [Some(1), Some(4), Some(4), None]);
        assert_eq!(
            [15, 20, 29, 30].map(|position| changes.draining_at(&drained, at(position))),
            [true, false, false, true]
        );
        assert!(changes.has_labels_at(job, at(20)) && !changes.has_labels_at(job, at(21)));
        assert!(changes.has_drain_at(node, at(30)) && !changes.has_drain_at(NodeId(3), at(30)));
    }

    #[test]
    fn of_many_changes_the_oldest_are_forgotten() {
        let mut changes = FactChanges::default();
        let most = i64::try_from(CHANGES_MAX).unwrap();
        for position in 1..=most + 5 {
            changes.labels_changed(at(position), JobId(u64::try_from(position % 7).unwrap()), 1);
        }
        assert_eq!((changes.order.len(), changes.since), (CHANGES_MAX, at(5)));
        assert!(!changes.has_labels_at(JobId(5), at(5)) && changes.has_labels_at(JobId(6), at(6)));
        assert_eq!(changes.labels.values().map(Vec::len).sum::<usize>(), CHANGES_MAX);
    }

    fn entry(deltas: Vec<Delta>) -> JournalEntry {
        let (request, actor, action) = (RequestId(1), "user/ada".to_owned(), "test".to_owned());
        JournalEntry { request, actor, action, at_ms: 1, deltas, values: None, calls: None }
    }

    /// What happens to a small cell of two jobs and two nodes.
    #[derive(Clone, Copy, Debug)]
    enum Happens {
        Labelled(u64, u8),
        /// Another change of the job's row.
        Touched(u64),
        Drained(u64, bool),
        /// The endpoint of a task is written, on a node.
        Published(u64, u32, u64),
        Withdrawn(u64, u32),
    }

    fn happens() -> impl Strategy<Value = Happens> {
        let (job, node, index) = (1..=2_u64, 1..=2_u64, 0..2_u32);
        prop_oneof![
            (job.clone(), 0..3_u8).prop_map(|(job, value)| Happens::Labelled(job, value)),
            job.clone().prop_map(Happens::Touched),
            (node.clone(), any::<bool>()).prop_map(|(node, draining)| Happens::Drained(node, draining)),
            (job.clone(), index.clone(), node)
                .prop_map(|(job, index, node)| Happens::Published(job, index, node)),
            (job, index).prop_map(|(job, index)| Happens::Withdrawn(job, index)),
        ]
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// Rows as they are, to make the next entry of.
    struct World {
        jobs: BTreeMap<u64, (JobRow, JobSpec)>,
        nodes: BTreeMap<u64, NodeRow>,
        /// The revision of each task.
        tasks: BTreeMap<TaskId, u64>,
    }

    impl World {
        fn new() -> Self {
            let job = |id: u64| {
                let spec = job_spec(name("ada"), name(&format!("web{id}")));
                (id, (job_new(JobId(id), &spec, RequestId(1), 1), spec))
            };
            let node = |id: u64| (id, node_new(NodeId(id), name(&format!("n{id}")), node_facts(1_000), 1));
            Self { jobs: [1, 2].map(job).into(), nodes: [1, 2].map(node).into(), tasks: BTreeMap::new() }
        }

        fn first(&self) -> Vec<Delta> {
            let job = |(row, spec): &(JobRow, JobSpec)| Delta::Job {
                row: row.clone().into(),
                spec: Some(spec.clone().into()),
            };
            let nodes = self.nodes.values().map(|row| Delta::Node { row: row.clone() });
            self.jobs.values().map(job).chain(nodes).collect()
        }

        fn deltas(&mut self, happens: Happens) -> Vec<Delta> {
            match happens {
                Happens::Labelled(id, value) => {
                    let (row, spec) = self.jobs.get_mut(&id).unwrap();
                    spec.labels = [("tier".to_owned(), value.to_string())].into();
                    (row.revision, row.spec_version) = (row.revision + 1, row.spec_version + 1);
                    vec![Delta::Job { row: row.clone().into(), spec: Some(spec.clone().into()) }]
                }
                Happens::Touched(id) => {
                    let (row, _) = self.jobs.get_mut(&id).unwrap();
                    row.revision += 1;
                    vec![Delta::Job { row: row.clone().into(), spec: None }]
                }
                Happens::Drained(id, draining) => {
                    let row = self.nodes.get_mut(&id).unwrap();
                    (row.revision, row.draining) = (row.revision + 1, draining);
                    vec![Delta::Node { row: row.clone() }]
                }
                Happens::Published(job, index, node) => {
                    let task = TaskId { job: JobId(job), index };
                    let revision = self.tasks.get(&task).map_or(1, |revision| revision + 1);
                    self.tasks.insert(task, revision);
                    let endpoint = Endpoint {
                        task,
                        user: name("ada"),
                        job: self.jobs[&job].0.name.clone(),
                        incarnation: Incarnation(revision),
                        host: "h".to_owned(),
                        ports: Vec::new(),
                        health: Health::Healthy,
                        weight: 1,
                        node: name(&format!("n{node}")),
                        healthy_since_ms: 0,
                        domains: Vec::new(),
                    };
                    vec![running(task, node, revision), Delta::Endpoint { endpoint, revision }]
                }
                Happens::Withdrawn(job, index) => {
                    let task = TaskId { job: JobId(job), index };
                    let Some(revision) = self.tasks.get_mut(&task) else { return Vec::new() };
                    *revision += 1;
                    let (user, job) = (name("ada"), self.jobs[&job].0.name.clone());
                    vec![Delta::EndpointWithdrawn { user, job, task, revision: *revision }]
                }
            }
        }
    }

    fn running(id: TaskId, node: u64, revision: u64) -> Delta {
        let node = Some(NodeId(node));
        Delta::Task {
            row: TaskRow { state: TaskState::Running, node, revision, ..TaskRow::never_placed(id) },
        }
    }

    /// An endpoint as a watch shows it: its attempt, the labels and whether its node is drained.
    type Shown = (u64, BTreeMap<String, String>, bool);

    /// What one entry shows to a watch, by the state of a mirror.
    fn shown(state: &MirrorState, entry: &JournalEntry, at: Cursor) -> Vec<(TaskId, Option<Shown>)> {
        let of = |endpoint: &Endpoint, facts: EndpointFacts| {
            let labels = facts.spec.unwrap().decoded(&endpoint.job).unwrap().labels;
            (endpoint.task, Some((endpoint.incarnation.0, labels, facts.draining)))
        };
        let written = entry.deltas.iter().filter_map(|delta| match delta {
            Delta::Endpoint { endpoint, .. } => Some(of(endpoint, state.endpoint_facts(endpoint, at))),
            Delta::EndpointWithdrawn { task, .. } => Some((*task, None)),
            _ => None,
        });
        let refreshed = state.endpoints_refreshed(entry, at).unwrap().into_iter();
        written.chain(refreshed.map(|(_, stored, facts)| of(&stored.decoded().unwrap(), facts))).collect()
    }

    proptest! {
        /// However far a watch is behind the mirror: it ends with what is there, and nothing comes twice alike.
        #[test]
        fn a_watch_that_is_behind_misses_no_fact_and_repeats_none(
            happens in proptest::collection::vec(happens(), 1..60),
            behind in 0..60_usize,
        ) {
            let mut world = World::new();
            let mut state = MirrorState::default();
            let first = entry(world.first());
            state.apply(at(1), &first);
            let entries: Vec<(Cursor, JournalEntry)> =
                (2..).zip(&happens).map(|(place, happens)| (at(place), entry(world.deltas(*happens)))).collect();
            let mut seen: BTreeMap<TaskId, Option<Shown>> = BTreeMap::new();
            for (place, (cursor, of)) in entries.iter().enumerate() {
                // The mirror is so many entries ahead of the watch.
                for (ahead, each) in entries.iter().take(place + behind + 1) {
                    state.apply(*ahead, each);
                }
                let jobs = state.jobs_refreshed(of, *cursor).unwrap();
                for (task, is) in shown(&state, of, *cursor) {
                    let is_drain = of.deltas.iter().any(|delta| matches!(delta, Delta::Node { .. }));
                    prop_assert!(!is_drain || jobs.contains(&task.job), "{task} is not told of its node");
                    let known = seen.insert(task, is.clone());
                    prop_assert!(is.is_none() || known != Some(is), "{task} comes twice alike");
                }
            }
            let present = state.endpoints.iter().map(|(task, known)| {
                let endpoint = known.stored.decoded().unwrap();
                let facts = state.endpoint_facts_now(*task);
                let labels = facts.spec.unwrap().decoded(&endpoint.job).unwrap().labels;
                (*task, (endpoint.incarnation.0, labels, facts.draining))
            });
            let present: BTreeMap<TaskId, Shown> = present.collect();
            let seen: BTreeMap<TaskId, Shown> =
                seen.into_iter().filter_map(|(task, is)| Some((task, is?))).collect();
            prop_assert_eq!(seen, present);
        }
    }

    /// A mirror that has listed the cell since does not know what an older entry has changed: the watch lists again.
    #[test]
    fn what_is_older_than_the_listing_is_not_known() {
        let mut world = World::new();
        let mut state = MirrorState::default();
        state.apply(at(1), &entry(world.first()));
        state.apply(at(2), &entry(world.deltas(Happens::Published(1, 0, 1))));
        let labelled = entry(world.deltas(Happens::Labelled(1, 7)));
        let touched = entry(world.deltas(Happens::Touched(1)));
        let drained = JournalEntry {
            action: "node_drain".to_owned(),
            ..entry(world.deltas(Happens::Drained(1, true)))
        };
        let same = entry(world.deltas(Happens::Drained(1, true)));
        let all = [&labelled, &touched, &drained, &same];
        for (place, each) in (3..).zip(all) {
            state.apply(at(place), each);
        }
        let known = |state: &MirrorState| {
            [0, 1, 2, 3].map(|place| {
                state
                    .endpoints_refreshed(all[place], at(3 + i64::try_from(place).unwrap()))
                    .map(|found| found.len())
                    .ok()
            })
        };
        assert_eq!(known(&state), [Some(1), Some(0), Some(1), Some(0)]);
        state.facts_follow();
        assert_eq!(known(&state), [None, Some(0), None, Some(0)]);
    }
}
