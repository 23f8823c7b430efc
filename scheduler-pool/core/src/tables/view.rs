//! Lookups by id, for workers that commit plans and gateways that show them.

use std::sync::Arc;

use borough_model::{
    Incarnation, JobId, JobRow, Name, NodeAlloc, NodeId, Resources, TaskId, TaskRow, TaskState,
};

use super::{CellTables, NodeGate, PlanSpec, TaskSlot};

/// A node as the tables have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotNode {
    /// The id of the node.
    pub id: NodeId,
    /// The revision of its row.
    pub revision: u64,
    /// The name of the node, unique in the cell.
    pub name: Name,
    /// True if new tasks may be placed on it.
    pub open: bool,
    /// How much tasks may ask for in sum, overcommit included.
    pub limits: Resources,
    /// Its allocation: what tasks take of it.
    pub alloc: NodeAlloc,
}

/// A task that has a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotTask {
    /// The id of the task.
    pub id: TaskId,
    /// The state of its attempt.
    pub state: TaskState,
    /// Its node, or its last one.
    pub node: Option<NodeId>,
    /// Its attempt, or its last one.
    pub incarnation: Incarnation,
    /// The spec version of that attempt.
    pub spec_version: u32,
    /// Failures in a row.
    pub failures: u32,
    /// Not to be placed before this wall time, milliseconds since 1970.
    pub not_before_ms: i64,
    /// The revision of its row.
    pub revision: u64,
    /// True if a plan placed or evicted it and the commit is not known yet.
    pub assumed: bool,
}

fn task_view(id: TaskId, slot: &TaskSlot) -> Option<SnapshotTask> {
    Some(SnapshotTask {
        id,
        state: slot.state?,
        node: slot.node,
        incarnation: slot.incarnation,
        spec_version: slot.spec_version,
        failures: slot.failures,
        not_before_ms: slot.not_before_ms,
        revision: slot.revision,
        assumed: slot.assumed,
    })
}

impl CellTables {
    /// The number of known nodes, in any state.
    pub fn node_count(&self) -> usize {
        self.nodes.count()
    }

    /// Looks a node up. `None` if the tables lack its row.
    pub fn node(&self, id: NodeId) -> Option<SnapshotNode> {
        self.node_view(self.nodes.ordinal(id)?)
    }

    fn node_view(&self, node: u32) -> Option<SnapshotNode> {
        Some(SnapshotNode {
            id: self.nodes.id(node),
            revision: self.nodes.revision(node),
            name: self.nodes.name(node)?.clone(),
            open: self.nodes.gate(node) == NodeGate::Open,
            limits: self.nodes.limits(node),
            alloc: self.nodes.alloc(node)?,
        })
    }

    /// The name of a node, if the tables have its row.
    pub fn node_name(&self, id: NodeId) -> Option<&Name> {
        self.nodes.name(self.nodes.ordinal(id)?)
    }

    /// A node's allocation. The next commit computes its new value from this one.
    pub fn node_alloc(&self, id: NodeId) -> Option<NodeAlloc> {
        self.nodes.alloc(self.nodes.ordinal(id)?)
    }

    /// Every node, by id.
    pub fn nodes(&self) -> impl Iterator<Item = SnapshotNode> {
        self.nodes.order.iter().filter_map(|&node| self.node_view(node))
    }

    /// The row of a job, if the tables have it.
    pub fn job(&self, id: JobId) -> Option<&JobRow> {
        self.jobs.get(&id)?.row.as_deref()
    }

    /// The newest job of this name.
    pub fn job_named(&self, user: &Name, name: &Name) -> Option<&JobRow> {
        let named = self.jobs().filter(|row| row.user == *user && row.name == *name);
        named.max_by_key(|row| (row.submitted_ms, row.id))
    }

    /// What planning reads of the spec in force of a job.
    pub fn plan_spec(&self, id: JobId) -> Option<&Arc<PlanSpec>> {
        self.jobs.get(&id)?.spec_current()
    }

    /// Every job's row, by id.
    pub fn jobs(&self) -> impl Iterator<Item = &JobRow> {
        self.jobs.values().filter_map(|entry| entry.row.as_deref())
    }

    /// A task that has a row.
    pub fn task(&self, id: TaskId) -> Option<SnapshotTask> {
        task_view(id, self.jobs.get(&id.job)?.task(id.index)?)
    }

    /// The row of a task that is pending or held. Its next attempt, or its eviction, is written over it. `None` for
    /// tasks that were never placed.
    pub fn task_row(&self, id: TaskId) -> Option<&TaskRow> {
        self.jobs.get(&id.job)?.task(id.index)?.row.as_deref()
    }

    /// Every task of a job that has a row, by index.
    pub fn tasks(&self, job: JobId) -> impl Iterator<Item = SnapshotTask> {
        let slots = self.jobs.get(&job).into_iter().flat_map(|entry| entry.tasks.iter().zip(0u32..));
        slots.filter_map(move |(slot, index)| task_view(TaskId { job, index }, slot))
    }
}
