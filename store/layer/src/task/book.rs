//! The tasks of one transaction: rows, jobs and nodes are read once, transitions are decided in memory, and everything
//! is written once.
//!
//! [`TaskBook::read`] fills a book, [`TaskBook::apply`] changes it, and [`TaskBook::write`] writes it with all effects
//! of its transitions: rows and their index, commitments of nodes, endpoints, counters of jobs, released charges.
//!
//! A book takes a conflict only on what a decision rests on, so that gateways that report tasks of the same job or node
//! seldom fail each other. Rows of tasks are always conflicts. A job's row is one only if tasks end for good and are
//! counted. A node's commitment is one only if it changes, and a node's row only if an endpoint is published from it.
//! The effect of an exit depends on the row and on the spec of the row's version, which never changes. Whether the job
//! still wants the task is decided by its sweep ([`super::task_unwanted_stop`]), not by the report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_kv::Transaction;
use borough_model::job::{JobRow, JobSpec, TaskEnd};
use borough_model::node::{
    CapacityEffect, NodeAlloc, NodeAllocError, NodeRow, ShareFit, node_alloc_apply, resize_shortfall,
};
use borough_model::resource::{Resources, Shortfall};
use borough_model::rollout::SpecDifference;
use borough_model::task::{
    ChargeOwner, EndpointEffect, Health, OwnerEffect, TaskEvent, TaskRow, TaskState, Transition,
    TransitionRefused, task_transition,
};
use borough_model::{JobId, NodeId, TaskId};
use futures::future::try_join_all;

use crate::error::{StoreError, StoreResult};
use crate::keys::{self, CellSpace, JobRowKey, JobSpecKey, NodeAllocKey, NodeKey, TaskKey};

/// The tasks of one transaction.
#[derive(Debug, Default)]
pub struct TaskBook {
    pub(super) tasks: BTreeMap<TaskId, TaskEntry>,
    pub(super) jobs: BTreeMap<JobId, JobEntry>,
    pub(super) nodes: BTreeMap<NodeId, NodeEntry>,
}

/// A task: its row before and after, and the change of its endpoint.
#[derive(Debug)]
pub(super) struct TaskEntry {
    /// `None` if it had no row.
    pub(super) before: Option<TaskRow>,
    pub(super) row: TaskRow,
    pub(super) endpoint: EndpointEffect,
    /// Whether its endpoint must be compared with its node.
    pub(super) refresh: bool,
}

/// A job: its row and specs, and the sums of its tasks' transitions.
#[derive(Debug)]
pub(super) struct JobEntry {
    pub(super) row: JobRow,
    pub(super) specs: BTreeMap<u32, Arc<JobSpec>>,
    pub(super) ended: Vec<TaskEnd>,
    /// Tasks whose charge is released, each with its previous row.
    pub(super) released: Vec<TaskRow>,
    /// Whether the job owns a charge again: it wants a task again whose end had been accepted.
    pub(super) regained: bool,
    /// Tasks that are charged the job's share from now on, each with its previous row: they have no attempt any more.
    pub(super) shared: Vec<TaskRow>,
    /// Tasks that are charged other amounts, each with its previous and its new row.
    pub(super) resized: Vec<(TaskRow, TaskRow)>,
}

impl JobEntry {
    /// Whether an attempt begins in the place of one of another version that ran the task alike.
    fn begins_alike(&self, before: &TaskRow, after: &TaskRow) -> bool {
        let begins = after.incarnation > before.incarnation && after.spec_version != before.spec_version;
        let specs = self.specs.get(&before.spec_version).zip(self.specs.get(&after.spec_version));
        begins && specs.is_some_and(|(old, new)| SpecDifference::between(old, new).runs_alike(after.id.index))
    }
}

/// A node: its row and its commitment.
#[derive(Debug)]
pub(super) struct NodeEntry {
    pub(super) row: NodeRow,
    pub(super) alloc: NodeAlloc,
    pub(super) changed: bool,
}

impl TaskBook {
    /// A book of `tasks`, with everything that their transitions may need. Tasks without a row are entered as never
    /// placed.
    pub async fn read(
        tx: &Transaction,
        space: &CellSpace,
        tasks: impl IntoIterator<Item = TaskId>,
    ) -> StoreResult<Self> {
        let mut book = Self::default();
        book.extend(tx, space, tasks).await?;
        Ok(book)
    }

    /// Reads more tasks into the book. Tasks that it has already stay as they are.
    pub async fn extend(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        tasks: impl IntoIterator<Item = TaskId>,
    ) -> StoreResult<()> {
        let wanted: BTreeSet<TaskId> =
            tasks.into_iter().filter(|task| !self.tasks.contains_key(task)).collect();
        let read = |task: TaskId| async move { keys::read(tx, space, &TaskKey::of(task)).await };
        let rows = try_join_all(wanted.iter().copied().map(read)).await?;
        self.extend_rows(tx, space, wanted.into_iter().zip(rows)).await
    }

    /// Adds rows to the book that the transaction has already read with conflicts.
    pub async fn extend_rows(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        rows: impl IntoIterator<Item = (TaskId, Option<TaskRow>)>,
    ) -> StoreResult<()> {
        let mut versions: BTreeSet<(JobId, u32)> = BTreeSet::new();
        let mut nodes: BTreeSet<NodeId> = BTreeSet::new();
        for (task, before) in rows {
            let row = before.clone().unwrap_or_else(|| TaskRow::never_placed(task));
            versions.insert((task.job, row.spec_version));
            versions.extend(row.resize_ordered().map(|resize| (task.job, resize.version)));
            nodes.extend(row.node.filter(|_| is_on_node(row.state)));
            let entry = TaskEntry { before, row, endpoint: EndpointEffect::Keep, refresh: false };
            self.tasks.entry(task).or_insert(entry);
        }
        self.jobs_read(tx, space, versions).await?;
        self.nodes_read(tx, space, nodes).await
    }

    async fn jobs_read(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        versions: BTreeSet<(JobId, u32)>,
    ) -> StoreResult<()> {
        let jobs: BTreeSet<JobId> = versions.iter().map(|&(job, _)| job).collect();
        let missing: Vec<JobId> = jobs.into_iter().filter(|job| !self.jobs.contains_key(job)).collect();
        let read = |job: JobId| async move { keys::read_snapshot(tx, space, &JobRowKey { job }).await };
        let rows = try_join_all(missing.iter().copied().map(read)).await?;
        for row in rows.into_iter().flatten() {
            let entry = JobEntry {
                row,
                specs: BTreeMap::new(),
                ended: Vec::new(),
                released: Vec::new(),
                regained: false,
                shared: Vec::new(),
                resized: Vec::new(),
            };
            self.jobs.insert(entry.row.id, entry);
        }
        let charged = |job: &JobEntry| {
            let held = job.row.rollout.as_ref().map_or_else(Vec::new, |rollout| rollout.held.clone());
            let id = job.row.id;
            held.into_iter().chain([job.row.spec_version]).map(move |version| (id, version))
        };
        let in_force = self.jobs.values().flat_map(charged);
        let wanted: BTreeSet<(JobId, u32)> = in_force.chain(versions).collect();
        let absent = |&(job, version): &(JobId, u32)| {
            let known = self.jobs.get(&job).is_some_and(|job| !job.specs.contains_key(&version));
            known && version > 0
        };
        let wanted: Vec<(JobId, u32)> = wanted.into_iter().filter(absent).collect();
        // A version of a spec never changes, so it needs no conflict.
        let read = |(job, version): (JobId, u32)| async move {
            keys::read_snapshot(tx, space, &JobSpecKey { job, version }).await
        };
        let specs = try_join_all(wanted.iter().copied().map(read)).await?;
        for ((job, version), spec) in wanted.into_iter().zip(specs) {
            if let (Some(job), Some(spec)) = (self.jobs.get_mut(&job), spec) {
                job.specs.insert(version, Arc::new(spec));
            }
        }
        Ok(())
    }

    /// Reads nodes that a placement will use.
    pub async fn extend_nodes(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> StoreResult<()> {
        self.nodes_read(tx, space, nodes.into_iter().collect()).await
    }

    async fn nodes_read(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        nodes: BTreeSet<NodeId>,
    ) -> StoreResult<()> {
        let missing = nodes.into_iter().filter(|node| !self.nodes.contains_key(node));
        let read = |node: NodeId| async move {
            let row = keys::read_snapshot(tx, space, &NodeKey { node }).await?;
            let alloc = keys::read_snapshot(tx, space, &NodeAllocKey { node }).await?;
            Ok::<_, StoreError>(row.map(|row| NodeEntry {
                row,
                alloc: alloc.unwrap_or_default(),
                changed: false,
            }))
        };
        let entries = try_join_all(missing.map(read)).await?;
        self.nodes.extend(entries.into_iter().flatten().map(|entry| (entry.row.id, entry)));
        Ok(())
    }

    /// A task's row as changed so far; as never placed if it has none.
    pub fn task(&self, task: TaskId) -> Option<&TaskRow> {
        self.tasks.get(&task).map(|entry| &entry.row)
    }

    /// Marks the endpoint of a running task for comparison with its node when the book is written.
    pub(super) fn refresh(&mut self, task: TaskId) {
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.refresh = entry.row.state == TaskState::Running && entry.row.health == Health::Healthy;
        }
    }

    /// Every row of the book as changed so far.
    pub(super) fn rows(&self) -> impl Iterator<Item = &TaskRow> {
        self.tasks.values().map(|entry| &entry.row)
    }

    /// What the node of a task lacks for other amounts in place of its charge; empty: it has room.
    pub(crate) fn resize_shortfall(&self, task: TaskId, after: &Resources) -> Vec<Shortfall> {
        let row = self.task(task);
        let node = row.and_then(|row| row.node).and_then(|node| self.nodes.get(&node));
        let Some((row, node)) = row.zip(node) else { return Vec::new() };
        resize_shortfall(&node.alloc, &node.row.capacity, &row.charge.resources, after)
    }

    /// A job's row as the transaction found it.
    pub fn job(&self, job: JobId) -> Option<&JobRow> {
        self.jobs.get(&job).map(|entry| &entry.row)
    }

    /// A node's row, if a task of the book is on it or it was read on request.
    pub fn node(&self, node: NodeId) -> Option<&NodeRow> {
        self.nodes.get(&node).map(|entry| &entry.row)
    }

    /// The spec of a job in a version; 0 is the version in force.
    pub fn spec(&self, job: JobId, version: u32) -> Option<&Arc<JobSpec>> {
        let job = self.jobs.get(&job)?;
        job.specs.get(if version == 0 { &job.row.spec_version } else { &version })
    }

    /// Applies `event` to a task of the book at wall time `now_ms`. Returns true if anything has changed. The inner
    /// error is the state machine's, which the caller handles; nothing has changed then.
    pub fn apply(
        &mut self,
        task: TaskId,
        event: &TaskEvent,
        now_ms: i64,
    ) -> StoreResult<Result<bool, TransitionRefused>> {
        let entry = self.tasks.get_mut(&task);
        let entry = entry.ok_or_else(|| StoreError::not_found(format!("task {task} in the book")))?;
        let transition = match task_transition(&entry.row, event, now_ms) {
            Ok(transition) => transition,
            Err(refused) => return Ok(Err(refused)),
        };
        if !transition.changed {
            return Ok(Ok(false));
        }
        // What a lost attempt takes is in use on its node, whether it runs or is left of it.
        let is_back = entry.row.state == TaskState::Lost;
        let fit = if is_back { ShareFit::Returned } else { ShareFit::Required };
        let Transition { mut row, effects, .. } = transition;
        if let Some(job) = self.jobs.get(&task.job).filter(|_| row.failures < entry.row.failures)
            && job.begins_alike(&entry.row, &row)
        {
            row.failures_continue(&entry.row);
        }
        match capacity_apply(&mut self.nodes, &effects.capacity, fit, now_ms) {
            // Its victims still use the capacity: it stays held.
            Err(StoreError::NodeBooks { source: NodeAllocError::DoesNotFit { .. }, .. })
                if matches!(event, TaskEvent::HoldConfirmed { .. }) =>
            {
                return Ok(Ok(false));
            }
            applied => applied?,
        }
        if let Some(job) = self.jobs.get_mut(&task.job) {
            // Tasks above the count are stopping, and nobody counts them.
            job.ended.extend(effects.ended.filter(|_| task.index < job.row.count));
            if effects.owner == OwnerEffect::Release {
                if row.is_spared() && task.index < job.row.count {
                    job.regained = true;
                    job.shared.push(entry.row.clone());
                } else {
                    job.released.push(entry.row.clone());
                }
            } else if row.state == TaskState::Pending && entry.row.charge.owner == ChargeOwner::Task {
                job.shared.push(entry.row.clone());
            } else if matches!(effects.capacity, CapacityEffect::Resize { .. }) {
                job.resized.push((entry.row.clone(), row.clone()));
            }
        }
        // An endpoint published and demoted in one transaction is published with the row's present health.
        if !matches!(
            (entry.endpoint, effects.endpoint),
            (_, EndpointEffect::Keep) | (EndpointEffect::Publish, EndpointEffect::Demote)
        ) {
            entry.endpoint = effects.endpoint;
        }
        entry.row = row;
        Ok(Ok(true))
    }
}

fn capacity_apply(
    nodes: &mut BTreeMap<NodeId, NodeEntry>,
    effect: &CapacityEffect,
    fit: ShareFit,
    now_ms: i64,
) -> StoreResult<()> {
    let Some(node) = effect.share().map(|share| share.node) else { return Ok(()) };
    let entry = nodes.get_mut(&node).ok_or_else(|| StoreError::not_found(format!("node {node}")))?;
    let after = node_alloc_apply(&entry.alloc, &entry.row.capacity, effect, fit, now_ms)
        .map_err(|source| StoreError::NodeBooks { node, source })?;
    if let Some(after) = after {
        entry.alloc = after;
        entry.changed = true;
    }
    Ok(())
}

/// Returns true if a row in this state is in the index of its node. It takes capacity there, or it did when the node
/// was lost and was not rescheduled yet.
pub fn is_on_node(state: TaskState) -> bool {
    state.is_charged() || state == TaskState::Lost
}
