//! The auditor: replays a cell's journal, entry by entry in the order of its stamps, in a small model of its own. It
//! records every broken rule with the first entry that breaks it.
//!
//! It shares the rows' types with the store and none of its decisions. It computes sums, cool-downs, attempts and legal
//! placements again.

mod alloc;
mod budget;
mod daemon;
mod evicted;
mod gang;
mod quota;
mod resize;
mod rollout;

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::{JobRow, JobSpec, JobState};
use borough_model::node::{NodeAlloc, NodeRow, NodeState};
use borough_model::queue::QueueSpec;
use borough_model::resource::Dimension;
use borough_model::task::machine::PORT_COOL_DOWN_MS;
use borough_model::task::{Endpoint, GangRow, TaskRow, TaskState};
use borough_model::{Delta, GangId, Incarnation, JobId, JournalEntry, NodeId, RequestId, Resources, TaskId};
use borough_scheduler_core::shard_of;

pub use quota::QUOTAS;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The name of the rule.
    pub rule: &'static str,
    /// The first entry after which it was broken, counted from 1.
    pub entry: usize,
    /// What breaks it, and how.
    pub what: String,
}

/// The longest time for which a commit is in flight, the slow ones included, in milliseconds.
const UNDER_WAY_MS: i64 = 3_500;

/// A resting port, and its last owner.
#[derive(Clone, Copy, Debug)]
struct Cooling {
    until_ms: i64,
    task: TaskId,
    attempt: Incarnation,
}

/// The journal so far.
#[derive(Debug, Default)]
pub struct Auditor {
    shards: u32,
    /// Milliseconds by which an entry's time may be later than its writer's time of decision.
    pub late_ms: i64,
    /// Queues that reclaim their guarantees.
    queues: Vec<QueueSpec>,
    nodes: BTreeMap<NodeId, NodeRow>,
    allocs: BTreeMap<NodeId, NodeAlloc>,
    /// Attempts of allocs that ended while their nodes were lost.
    allocs_ended_away: BTreeMap<TaskId, Incarnation>,
    jobs: BTreeMap<JobId, JobRow>,
    min_members: BTreeMap<JobId, u32>,
    /// The newest spec of each job, by which its rollout goes.
    specs: BTreeMap<JobId, JobSpec>,
    gangs: BTreeMap<GangId, GangRow>,
    tasks: BTreeMap<TaskId, TaskRow>,
    /// The last attempt of every task so far, also of those whose rows are gone.
    attempts: BTreeMap<TaskId, Incarnation>,
    endpoints: BTreeMap<TaskId, Endpoint>,
    withdrawn: BTreeMap<TaskId, Incarnation>,
    cooling: BTreeMap<(NodeId, u16), Cooling>,
    /// When a member of a job last lost its node.
    departed: BTreeMap<JobId, i64>,
    batches: BTreeSet<RequestId>,
    entries: usize,
    pub broken: Vec<Broken>,
    /// How often each action and some other events were seen, so that a test knows its coverage.
    pub seen: BTreeMap<String, u64>,
}

/// The rows that one entry touched.
#[derive(Debug, Default)]
struct Touched {
    nodes: BTreeSet<NodeId>,
    rows: BTreeSet<NodeId>,
    allocs: BTreeSet<NodeId>,
    tasks: BTreeSet<TaskId>,
    placed: Vec<TaskRow>,
    /// Tasks that have taken their promised share.
    kept: Vec<TaskRow>,
    jobs: BTreeSet<JobId>,
    /// Gangs that were committed.
    gathered: Vec<GangRow>,
    /// Placed tasks whose last place another task has taken.
    displaced: BTreeSet<TaskId>,
    /// Evicted attempts, with their previous row and their preemptor.
    evicted: Vec<(TaskRow, TaskId)>,
}

impl Auditor {
    /// An auditor of a cell whose jobs are divided into `shards`, before its first entry; with queues that reclaim
    /// their guarantees, or none.
    pub fn new(shards: u32, queues: Vec<QueueSpec>) -> Self {
        Self { shards, queues, ..Self::default() }
    }

    /// Counts the replayed entries.
    pub fn entries(&self) -> usize {
        self.entries
    }

    fn require(&mut self, holds: bool, rule: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(Broken { rule, entry: self.entries, what: what() });
        }
    }

    fn note(&mut self, what: &str) {
        *self.seen.entry(what.to_owned()).or_default() += 1;
    }

    /// Replays the next entry and checks the cell.
    pub fn entry(&mut self, entry: &JournalEntry) {
        self.entries += 1;
        self.note(&entry.action);
        if entry.action == "placement_commit" {
            let new = self.batches.insert(entry.request);
            self.require(new, "batch_once", || format!("batch {:?} has committed twice", entry.request));
        }
        self.rollout_check(entry);
        self.moves_check(entry);
        let mut touched = Touched::default();
        for delta in &entry.deltas {
            if let Delta::Task { row } = delta {
                self.resize_check(row, &entry.action);
                self.alloc_ended_away_note(row);
            }
            self.delta(entry.at_ms, delta, &mut touched);
        }
        for row in &touched.placed {
            self.placed_check(row, entry);
            self.daemon_placed_check(row);
            self.alloc_placed_check(row);
        }
        for row in &touched.kept {
            self.promise_check(row);
        }
        for &job in &touched.jobs {
            self.quota_check(job);
        }
        for gang in &touched.gathered {
            self.gathered_check(gang, entry);
        }
        for (before, by) in &touched.evicted {
            self.evicted_check(before, *by, &touched);
        }
        for &node in touched.rows.difference(&touched.allocs) {
            let there = !self.nodes.contains_key(&node);
            self.require(there, "token", || format!("{node} has changed, its commitment's epoch has not"));
        }
        for &node in &touched.nodes {
            self.node_check(node);
        }
        for &task in &touched.tasks {
            self.endpoint_check(task);
            self.daemon_alone_check(task);
            self.alloc_check(task);
        }
    }

    fn delta(&mut self, at_ms: i64, delta: &Delta, touched: &mut Touched) {
        match delta {
            Delta::Node { row } => {
                touched.nodes.insert(row.id);
                touched.rows.insert(row.id);
                let newer = self.nodes.get(&row.id).is_none_or(|known| known.revision < row.revision);
                self.require(newer, "node_revision", || format!("{} goes back to {}", row.id, row.revision));
                self.node_note(row);
                self.nodes.insert(row.id, row.clone());
            }
            Delta::NodeRemoved { node, .. } => {
                let charged = self.charged_on(*node).next().map(|row| row.id);
                self.require(charged.is_none(), "node_removed", || format!("{node} has {charged:?}"));
                self.nodes.remove(node);
                self.allocs.remove(node);
            }
            Delta::NodeAlloc { node, alloc } => {
                touched.nodes.insert(*node);
                touched.allocs.insert(*node);
                let newer = self.allocs.get(node).is_none_or(|known| known.epoch < alloc.epoch);
                self.require(newer, "alloc_epoch", || format!("{node} goes back to {}", alloc.epoch));
                self.allocs.insert(*node, alloc.clone());
            }
            Delta::Job { row, spec } => {
                let newer = self.jobs.get(&row.id).is_none_or(|known| known.revision < row.revision);
                self.require(newer, "job_revision", || format!("{} goes back to {}", row.id, row.revision));
                let shrunk = self.jobs.get(&row.id).is_some_and(|known| row.count < known.count);
                if shrunk {
                    self.note("shrunk");
                }
                if let Some(spec) = spec {
                    self.min_members.insert(row.id, spec.min_member);
                    self.specs.insert(row.id, spec.as_ref().clone());
                }
                touched.jobs.insert(row.id);
                self.jobs.insert(row.id, row.as_ref().clone());
            }
            Delta::JobRemoved { job, .. } => self.job_removed(*job),
            Delta::Task { row } => {
                touched.tasks.insert(row.id);
                self.task(at_ms, row, touched);
            }
            Delta::TaskRemoved { task, .. } => {
                let row = self.tasks.remove(task);
                let charged = row.is_some_and(|row| row.state.is_charged());
                self.require(!charged, "task_removed", || format!("{task} was charged"));
            }
            Delta::Endpoint { endpoint, .. } => {
                touched.tasks.insert(endpoint.task);
                self.published(endpoint);
            }
            Delta::EndpointWithdrawn { task, .. } => {
                touched.tasks.insert(*task);
                let published = self.endpoints.remove(task).map(|endpoint| endpoint.incarnation);
                let attempt = published.or_else(|| self.tasks.get(task).map(|row| row.incarnation));
                let known = self.withdrawn.entry(*task).or_default();
                *known = (*known).max(attempt.unwrap_or_default());
            }
            Delta::Gang { row } => self.gang(row, touched),
            Delta::NodeLoad { .. }
            | Delta::CellSettings { .. }
            | Delta::MergedService { .. }
            | Delta::MergedServiceRemoved { .. }
            | Delta::Member { .. }
            | Delta::MemberRemoved { .. }
            | Delta::FederatedJob { .. }
            | Delta::FederatedJobRemoved { .. } => {}
        }
    }

    fn node_note(&mut self, row: &NodeRow) {
        let before = self.nodes.get(&row.id).map(|known| (known.state, known.schedulable, known.draining));
        for (now, then, what) in [
            (
                row.state == NodeState::Lost,
                before.is_some_and(|(state, ..)| state == NodeState::Lost),
                "lost",
            ),
            (!row.schedulable, before.is_some_and(|(_, schedulable, _)| !schedulable), "cordoned"),
            (row.draining, before.is_some_and(|(.., draining)| draining), "drained"),
        ] {
            if now && !then {
                self.note(what);
            }
        }
    }

    fn job_removed(&mut self, job: JobId) {
        let all = TaskId { job, index: 0 }..=TaskId { job, index: u32::MAX };
        let rows: Vec<TaskRow> = self.tasks.range(all).map(|(_, row)| row.clone()).collect();
        for row in rows {
            let over = row.state == TaskState::Dead && !self.endpoints.contains_key(&row.id);
            self.require(over, "job_removed", || format!("{} was {:?}, or published", row.id, row.state));
            self.tasks.remove(&row.id);
        }
        self.jobs.remove(&job);
        self.specs.remove(&job);
    }

    /// One row: attempts and revisions only grow, and one attempt at a time is charged.
    fn task(&mut self, at_ms: i64, row: &TaskRow, touched: &mut Touched) {
        let task = row.id;
        let before = self.tasks.get(&task).cloned().unwrap_or_else(|| TaskRow::never_placed(task));
        let (was, is) = (before.charged_node(), row.charged_node());
        let last = self.attempts.get(&task).copied().unwrap_or_default();
        touched.nodes.extend(was.into_iter().chain(is));
        self.require(row.revision > before.revision, "task_revision", || {
            format!("{task} goes from {} to {}", before.revision, row.revision)
        });
        self.require(row.incarnation >= last, "attempt_back", || {
            format!("{task} goes back from attempt {last} to {}", row.incarnation)
        });
        if let (Some(old), Some(new)) = (was, is) {
            self.require(before.incarnation == row.incarnation && old == new, "attempt_twice", || {
                let (old_attempt, new_attempt) = (before.incarnation, row.incarnation);
                format!("{task} is charged for attempt {old_attempt} on {old} and for attempt {new_attempt} on {new}")
            });
        }
        self.hold_check(&before, row);
        if before.state == TaskState::Held && before.promised && row.state == TaskState::Assigned {
            touched.kept.push(row.clone());
        }
        if let (Some(node), None) = (was, is) {
            self.departed.insert(task.job, at_ms);
            self.attempt_left(at_ms, node, &before);
        }
        if let (None, Some(node)) = (was, is) {
            self.attempt_begun(at_ms, node, &before, row);
            if row.incarnation > last {
                touched.placed.push(row.clone());
                touched.displaced.extend(before.evicted.as_ref().map(|_| task));
            }
        }
        if let Some(evicted) =
            row.evicted.as_ref().filter(|evicted| before.evicted.as_ref() != Some(*evicted))
        {
            touched.evicted.push((before.clone(), evicted.by));
        }
        self.note(&format!("{:?}", row.state));
        self.attempts.insert(task, last.max(row.incarnation));
        self.tasks.insert(task, row.clone());
    }

    /// Ports of an attempt that may have used them rest.
    fn attempt_left(&mut self, at_ms: i64, node: NodeId, before: &TaskRow) {
        if before.state == TaskState::Held {
            return;
        }
        let until_ms = at_ms.saturating_add(PORT_COOL_DOWN_MS);
        let cooling = Cooling { until_ms, task: before.id, attempt: before.incarnation };
        for port in &before.ports {
            self.cooling.insert((node, port.number), cooling);
        }
    }

    fn attempt_begun(&mut self, at_ms: i64, node: NodeId, before: &TaskRow, row: &TaskRow) {
        let (task, attempt) = (row.id, row.incarnation);
        let returned = before.incarnation == attempt;
        if returned {
            self.note("returned");
            self.require(before.state == TaskState::Lost, "attempt_again", || {
                format!("attempt {attempt} of {task} was {:?} and is charged again", before.state)
            });
        }
        for port in &row.ports {
            let Some(cooling) = self.cooling.remove(&(node, port.number)) else { continue };
            let own = returned && cooling.task == task && cooling.attempt == attempt;
            self.require(
                own || cooling.until_ms <= at_ms.saturating_add(self.late_ms),
                "port_cooling",
                || {
                    let (number, until_ms, whose) = (port.number, cooling.until_ms, cooling.task);
                    format!(
                        "port {number} of {node} goes to {task} at {at_ms}; {whose} rests it until {until_ms}"
                    )
                },
            );
        }
    }

    /// A placed task is wanted, its node takes tasks, and the holder of the job's shard has placed it.
    fn placed_check(&mut self, row: &TaskRow, entry: &JournalEntry) {
        self.note("placed");
        let task = row.id;
        let job = self.jobs.get(&task.job).cloned();
        let running = job.as_ref().is_some_and(|job| job.state == JobState::Running);
        let wanted = job.as_ref().is_some_and(|job| task.index < job.count) && !row.is_withdrawn();
        let version = job.as_ref().is_some_and(|job| job.version_of(task.index) == row.spec_version);
        let node = row.node.and_then(|node| self.nodes.get(&node)).cloned();
        let ready = node.as_ref().is_some_and(|node| node.state == NodeState::Ready);
        // A cordon is for other jobs, and an alloc is there already.
        let schedulable =
            |node: &NodeRow| node.schedulable || row.daemon_node.is_some() || row.alloc.is_some();
        let open = node.as_ref().is_some_and(|node| schedulable(node) && !node.draining);
        let shard = entry.actor.strip_prefix("scheduler/").and_then(|shard| shard.parse::<u32>().ok());
        let state = job.map(|job| (job.state, job.count));
        self.require(running, "placed_job", || format!("{task} is placed for a job that is {state:?}"));
        self.require(wanted, "placed_index", || format!("{task} is placed for a job that is {state:?}"));
        self.require(version, "placed_spec", || format!("{task} is placed with {}", row.spec_version));
        self.require(ready, "placed_lost", || format!("{task} is placed on {node:?}"));
        self.require(open, "placed_closed", || format!("{task} is placed on {node:?}"));
        let own = shard.is_some_and(|shard| shard == shard_of(task.job, self.shards));
        self.require(own, "placed_shard", || format!("{task} is placed by {}", entry.actor));
        let first = matches!(row.state, TaskState::Assigned | TaskState::Held);
        self.require(first, "placed_state", || format!("{task} begins an attempt as {:?}", row.state));
        if !self.gathers(row) {
            self.gang_check(task.job, entry);
        }
    }

    fn charged_on(&self, node: NodeId) -> impl Iterator<Item = &TaskRow> {
        self.tasks.values().filter(move |row| row.charged_node() == Some(node))
    }

    /// The commitment is the sum of the charges, within the node's capacity; every port has one owner.
    fn node_check(&mut self, node: NodeId) {
        let Some(row) = self.nodes.get(&node).cloned() else { return };
        let alloc = self.allocs.get(&node).cloned().unwrap_or_default();
        let mut sum = NodeAlloc::default();
        let mut twice = Vec::new();
        for charged in self.charged_on(node) {
            let total = if charged.promised { &mut sum.promised } else { &mut sum.used };
            resources_count(total, &charged.charge.resources);
            sum.tasks += 1;
            let again = charged.ports.iter().filter(|port| !sum.ports.insert(port.number));
            twice.extend(again.map(|port| (charged.id, port.number)));
        }
        self.require(twice.is_empty(), "port_twice", || format!("{node}: {twice:?}"));
        let over: Vec<(Dimension, u64)> = over(&sum.used, &row.capacity);
        self.require(over.is_empty(), "over_capacity", || {
            format!("{node}: tasks take {over:?} of {}", row.capacity)
        });
        let over = self::over(&alloc.used, &row.capacity);
        self.require(over.is_empty(), "over_capacity", || {
            format!("{node} says {over:?} of {}", row.capacity)
        });
        let same = (&alloc.used, &alloc.promised, alloc.tasks, &alloc.ports)
            == (&sum.used, &sum.promised, sum.tasks, &sum.ports);
        self.require(same, "alloc_sum", || format!("{node} says {alloc:?}; its tasks come to {sum:?}"));
    }

    fn published(&mut self, endpoint: &Endpoint) {
        let (task, attempt) = (endpoint.task, endpoint.incarnation);
        let gone = self.withdrawn.get(&task).copied();
        self.require(gone.is_none_or(|gone| gone < attempt), "published_again", || {
            format!("attempt {attempt} of {task} is published; attempt {gone:?} was withdrawn")
        });
        let number = |port: &borough_model::task::EndpointPort| port.number;
        let ports: BTreeSet<u16> = endpoint.ports.iter().map(number).collect();
        let clash = self.endpoints.values().find(|other| {
            other.task != task
                && other.node == endpoint.node
                && other.ports.iter().any(|port| ports.contains(&number(port)))
        });
        let clash = clash.map(|other| other.task);
        self.require(clash.is_none(), "endpoint_clash", || format!("{task} and {clash:?} share a port"));
        self.note("published");
        self.endpoints.insert(task, endpoint.clone());
    }

    /// The withdrawal commits with the event that ends the attempt, the publication with its own attempt.
    fn endpoint_check(&mut self, task: TaskId) {
        let Some(endpoint) = self.endpoints.get(&task) else { return };
        let attempt = endpoint.incarnation;
        let row = self.tasks.get(&task).map(|row| (row.state, row.incarnation));
        let serves = row.is_some_and(|(state, current)| {
            current == attempt && matches!(state, TaskState::Running | TaskState::Lost)
        });
        self.require(serves, "endpoint_row", || {
            format!("{task} is published in attempt {attempt}, its row is {row:?}")
        });
    }
}

fn resources_count(total: &mut Resources, more: &Resources) {
    for (dimension, amount) in more.amounts() {
        let sum = total.amount(&dimension) + amount;
        total.amount_set(&dimension, sum);
    }
}

fn over(used: &Resources, capacity: &Resources) -> Vec<(Dimension, u64)> {
    used.amounts().into_iter().filter(|(dimension, amount)| *amount > capacity.amount(dimension)).collect()
}
