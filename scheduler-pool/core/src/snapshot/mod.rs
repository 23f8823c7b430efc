//! A snapshot: what a worker or gateway knows about a cell, from its journal. It has the tables, the backlog of tasks
//! that want a node, and the assumed effects of plans in flight. Deltas are absolute and carry revisions, so an older
//! one changes nothing.

mod assume;

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::node::NodeLoad;
use borough_model::{Delta, JobId, JobRow, JobSpec, Name, NodeAlloc, NodeId, NodeRow, TaskId, TaskRow};

use crate::backlog::{Backlog, OpenQueue, PendingReason, ShardDivision};
use crate::count::CountChange;
use crate::plan::{PendingQueue, Plan};
use crate::settings::CellSettings;
use crate::tables::{CellTables, DeltaApplied, TaskSlot, scheduler_named};
use assume::Assumptions;

/// A cell as of one moment of its journal.
#[derive(Clone, Debug)]
pub struct Snapshot {
    tables: CellTables,
    backlog: Backlog,
    assumptions: Assumptions,
}

impl Snapshot {
    /// An empty cell with one queue per scheduler.
    pub fn new(settings: CellSettings) -> Self {
        Self::divided(settings, ShardDivision::of(1))
    }

    /// An empty cell. The jobs of each scheduler are divided among several queues.
    pub fn divided(settings: CellSettings, division: ShardDivision) -> Self {
        Self {
            tables: CellTables::new(settings),
            backlog: Backlog::new(division),
            assumptions: Assumptions::default(),
        }
    }

    /// Divides the jobs of a scheduler among so many queues from now on.
    pub fn divide(&mut self, scheduler: &Name, shards: u32) {
        self.backlog.open.divide(&self.tables, scheduler_named(Some(scheduler)), shards);
    }

    /// The nodes, jobs and tasks. Plans are made on them.
    pub fn tables(&self) -> &CellTables {
        &self.tables
    }

    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Changes the tables, and passes their events to the backlog.
    fn change<T>(&mut self, change: impl FnOnce(&mut CellTables, &mut Assumptions) -> T) -> T {
        let answer = change(&mut self.tables, &mut self.assumptions);
        let events = self.tables.events.take();
        self.backlog.follow(&self.tables, &events);
        answer
    }

    /// Applies a delta of the journal.
    pub fn apply(&mut self, delta: &Delta) -> DeltaApplied {
        match delta {
            Delta::Node { row } => self.node_upsert(row),
            Delta::NodeRemoved { node, .. } => self.node_remove(*node),
            Delta::NodeAlloc { node, alloc } => self.alloc_upsert(*node, alloc),
            Delta::NodeLoad { node, load } => self.load_upsert(*node, load),
            Delta::Job { row, spec } => self.job_upsert(row, spec.as_deref()),
            Delta::JobRemoved { job, .. } => self.job_remove(*job),
            Delta::Task { row } => self.task_upsert(row),
            Delta::TaskRemoved { task, revision } => self.task_remove(*task, *revision),
            // Tables have the settings that they were made with. After a change the worker lists the cell again.
            Delta::CellSettings { .. }
            | Delta::Endpoint { .. }
            | Delta::EndpointWithdrawn { .. }
            | Delta::MergedService { .. }
            | Delta::MergedServiceRemoved { .. }
            | Delta::Member { .. }
            | Delta::MemberRemoved { .. }
            | Delta::FederatedJob { .. }
            | Delta::FederatedJobRemoved { .. }
            | Delta::Gang { .. } => DeltaApplied::Ignored,
        }
    }

    /// Applies a node's row.
    pub fn node_upsert(&mut self, row: &NodeRow) -> DeltaApplied {
        self.change(|tables, _| tables.node_upsert(row))
    }

    /// Removes a node. Its tasks stay until their rows change.
    pub fn node_remove(&mut self, node: NodeId) -> DeltaApplied {
        self.change(|tables, _| tables.node_remove(node))
    }

    /// Applies a node's allocation.
    pub fn alloc_upsert(&mut self, node: NodeId, alloc: &NodeAlloc) -> DeltaApplied {
        self.change(|tables, _| tables.alloc_upsert(node, alloc))
    }

    /// Applies the measured load of a node.
    pub fn load_upsert(&mut self, node: NodeId, load: &NodeLoad) -> DeltaApplied {
        self.change(|tables, _| tables.load_upsert(node, load))
    }

    /// Applies a job's row, with the spec of `row.spec_version` if the caller has it. Otherwise the job keeps its old
    /// spec, and none of its tasks is placed until the new one arrives.
    pub fn job_upsert(&mut self, row: &Arc<JobRow>, spec: Option<&JobSpec>) -> DeltaApplied {
        self.change(|tables, _| tables.job_upsert(row, spec))
    }

    /// Gives a job the spec that its tasks had before a rollout that is not done (`row.earlier_version`). Only a lister
    /// needs it: who follows the journal has it already.
    pub fn job_base_upsert(&mut self, job: JobId, version: u32, spec: &JobSpec) {
        self.change(|tables, _| tables.job_base_upsert(job, version, spec));
    }

    /// Removes a job with its tasks.
    pub fn job_remove(&mut self, job: JobId) -> DeltaApplied {
        self.change(|tables, assumptions| {
            let applied = tables.job_remove(job);
            assumptions.job_released(tables, job);
            applied
        })
    }

    /// Applies a task's row.
    pub fn task_upsert(&mut self, row: &TaskRow) -> DeltaApplied {
        self.change(|tables, assumptions| {
            let applied = tables.task_upsert(row);
            if applied == DeltaApplied::Changed {
                assumptions.task_released(tables, row.id, row.charged_node());
            }
            applied
        })
    }

    /// Removes a task's row. As long as its job wants the task, it then counts as never placed.
    pub fn task_remove(&mut self, task: TaskId, revision: u64) -> DeltaApplied {
        self.change(|tables, assumptions| {
            let applied = tables.task_remove(task, revision);
            if applied == DeltaApplied::Changed {
                assumptions.task_released(tables, task, None);
            }
            applied
        })
    }

    /// Assumes that a plan is committed before the result is known, so that the next batch does not take the same
    /// capacity. Revisions stay as they are, and the true rows replace what is assumed.
    pub fn assume(&mut self, plan: &Plan) {
        self.change(|tables, assumptions| assumptions.assume(tables, plan));
    }

    /// Applies a plan as if it were committed. Its placements may be evicted by later plans. For dry runs, which try
    /// one plan after another.
    pub(crate) fn suppose(&mut self, plan: &Plan, now_ms: i64) {
        self.change(|tables, assumptions| assumptions.suppose(tables, plan, now_ms));
    }

    /// Takes back what was assumed of a plan, because its commit failed. What true rows have replaced stays.
    pub fn forget(&mut self, plan: &Plan) {
        self.change(|tables, assumptions| assumptions.forget(tables, plan));
    }

    /// Replaces a task's slot on trial. Returns the slot before.
    pub(crate) fn slot_suppose(&mut self, task: TaskId, slot: TaskSlot) -> Option<TaskSlot> {
        self.change(|tables, _| tables.slot_set(task, slot))
    }

    /// Gives ports of a node back on trial, or takes them again.
    pub(crate) fn ports_suppose(&mut self, node: u32, ports: &[u16], change: CountChange) {
        self.change(|tables, _| tables.nodes.charge(node, &[], ports, change));
    }

    /// Remembers the tasks that a plan found to fit nowhere. The worker calls it after each plan, once the outcome of
    /// the placements has been applied. The tasks are checked again, because the plan's own placements may have failed.
    pub fn remember(&mut self, plan: &Plan, now_ms: i64) {
        self.backlog.remember(&self.tables, plan, now_ms);
    }

    /// The tasks of a queue ([`Snapshot::queue_of`]) to plan next: tasks of running jobs without a row, or with a
    /// pending row past its back-off. At most `limit` tasks, but a gang is never cut. Unschedulable tasks wait for an
    /// event.
    ///
    /// No job starves. If more tasks wait than the limit allows, a sixteenth of the batch goes to the jobs that have
    /// waited longest. A task with `n` tasks before it is planned at most `n / (limit / 16) + 1` batches after its
    /// submission. A gang before it counts as one batch. The gang that has waited longest is planned even if it exceeds
    /// the limit.
    pub fn pending_in(&mut self, queue: &OpenQueue, now_ms: i64, limit: usize) -> PendingQueue {
        self.backlog.pending(&self.tables, queue, &|_| true, now_ms, limit)
    }

    /// As [`Self::pending_in`] for the first queue, limited to jobs that are `wanted`.
    pub fn pending(&mut self, wanted: &dyn Fn(JobId) -> bool, now_ms: i64, limit: usize) -> PendingQueue {
        self.backlog.pending(&self.tables, &OpenQueue::default(), wanted, now_ms, limit)
    }

    /// How many members of a job's gang must still be placed together, besides those that have a place; 0: none.
    pub fn gang_need(&self, job: JobId) -> u32 {
        self.tables.jobs.get(&job).map_or(0, |entry| entry.gang_need())
    }

    /// The queue of a job. Of a job that is divided among queues, that of its first slice.
    pub fn queue_of(&self, job: JobId) -> OpenQueue {
        self.backlog.open.queue_of(&self.tables, job)
    }

    /// The tasks of a queue that want a node, counted by the reason to wait. All tasks of a parked job count under the
    /// reason of most of them.
    pub fn queue_reasons(&self, queue: &OpenQueue) -> BTreeMap<PendingReason, u64> {
        self.backlog.reasons(&self.tables, queue)
    }

    /// How many times a node was checked for an unschedulable task, in all. This is the cost of waiting.
    pub fn waiting_checks(&self) -> u64 {
        self.backlog.waiting_checks()
    }
}
