//! What a worker or gateway knows of a cell, kept from the journal: the tables, the backlog of tasks that want a node, and
//! what plans in flight are assumed to have done. Deltas are absolute and carry revisions; an older one changes nothing.

mod assume;

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::node::NodeLoad;
use borough_model::{Delta, JobId, JobRow, JobSpec, NodeAlloc, NodeId, NodeRow, TaskId, TaskRow};

use crate::backlog::{Backlog, OpenQueue, PendingReason};
use crate::plan::{PendingQueue, Plan};
use crate::settings::CellSettings;
use crate::tables::{CellTables, DeltaApplied, TaskSlot};
use assume::Assumptions;

/// A cell as of one moment of its journal.
#[derive(Clone, Debug)]
pub struct Snapshot {
    tables: CellTables,
    backlog: Backlog,
    assumptions: Assumptions,
}

impl Snapshot {
    /// An empty cell.
    pub fn new(settings: CellSettings) -> Self {
        Self::divided(settings, 1)
    }

    /// An empty cell whose jobs are shared out, those of each scheduler among so many queues.
    pub fn divided(settings: CellSettings, shards: u32) -> Self {
        Self {
            tables: CellTables::new(settings),
            backlog: Backlog::new(shards),
            assumptions: Assumptions::default(),
        }
    }

    /// The nodes, jobs and tasks: what plans are made on.
    pub fn tables(&self) -> &CellTables {
        &self.tables
    }

    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Changes the tables. The backlog follows what they report.
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
            Delta::NodeRemoved { node } => self.node_remove(*node),
            Delta::NodeAlloc { node, alloc } => self.alloc_upsert(*node, alloc),
            Delta::NodeLoad { node, load } => self.load_upsert(*node, load),
            Delta::Job { row, spec } => {
                self.job_upsert(row, spec.as_deref().map(|spec| Arc::new(spec.clone())))
            }
            Delta::JobRemoved { job, .. } => self.job_remove(*job),
            Delta::Task { row } => self.task_upsert(row),
            Delta::TaskRemoved { task, revision } => self.task_remove(*task, *revision),
            // A tables keeps the settings it was made with: whoever keeps it makes a new one.
            Delta::CellSettings { .. }
            | Delta::Endpoint { .. }
            | Delta::EndpointWithdrawn { .. }
            | Delta::Gang { .. } => DeltaApplied::Ignored,
        }
    }

    /// A node's row, new or changed.
    pub fn node_upsert(&mut self, row: &NodeRow) -> DeltaApplied {
        self.change(|tables, _| tables.node_upsert(row))
    }

    /// Forgets a node.
    pub fn node_remove(&mut self, node: NodeId) -> DeltaApplied {
        self.change(|tables, _| tables.node_remove(node))
    }

    /// What is committed on a node, new or changed.
    pub fn alloc_upsert(&mut self, node: NodeId, alloc: &NodeAlloc) -> DeltaApplied {
        self.change(|tables, _| tables.alloc_upsert(node, alloc))
    }

    /// What was measured of a node.
    pub fn load_upsert(&mut self, node: NodeId, load: &NodeLoad) -> DeltaApplied {
        self.change(|tables, _| tables.load_upsert(node, load))
    }

    /// A job's row, with the spec of `row.spec_version` where it is at hand. Without it the spec known before stays,
    /// and nothing of the job is placed while that is of another version.
    pub fn job_upsert(&mut self, row: &JobRow, spec: Option<Arc<JobSpec>>) -> DeltaApplied {
        self.change(|tables, _| tables.job_upsert(row, spec))
    }

    /// Forgets a job with its tasks.
    pub fn job_remove(&mut self, job: JobId) -> DeltaApplied {
        self.change(|tables, assumptions| {
            let applied = tables.job_remove(job);
            assumptions.job_released(tables, job);
            applied
        })
    }

    /// A task's row, new or changed.
    pub fn task_upsert(&mut self, row: &TaskRow) -> DeltaApplied {
        self.change(|tables, assumptions| {
            let applied = tables.task_upsert(row);
            if applied == DeltaApplied::Changed {
                assumptions.task_released(tables, row.id, row.charged_node());
            }
            applied
        })
    }

    /// Forgets a task's row: while its job wants the task, that is a task that was never placed.
    pub fn task_remove(&mut self, task: TaskId, revision: u64) -> DeltaApplied {
        self.change(|tables, assumptions| {
            let applied = tables.task_remove(task, revision);
            if applied == DeltaApplied::Changed {
                assumptions.task_released(tables, task, None);
            }
            applied
        })
    }

    /// Counts a plan's placements as made before their commit is known, so that the next batch does not take the same.
    /// Revisions stay as they are: the true rows, whoever wrote them, replace what is assumed.
    pub fn assume(&mut self, plan: &Plan) {
        self.change(|tables, assumptions| assumptions.assume(tables, plan));
    }

    /// The same as if the commit were known: a task that is placed counts as placed, and may be made to give way. For
    /// plans that are only supposed, one after another.
    pub(crate) fn suppose(&mut self, plan: &Plan, now_ms: i64) {
        self.change(|tables, assumptions| assumptions.suppose(tables, plan, now_ms));
    }

    /// Takes back what was assumed of a plan and has not been replaced by true rows since: its commit failed.
    pub fn forget(&mut self, plan: &Plan) {
        self.change(|tables, assumptions| assumptions.forget(tables, plan));
    }

    /// Puts a slot in its place, for a task that is only supposed to be as it says. Returns the slot before.
    pub(crate) fn slot_suppose(&mut self, task: TaskId, slot: TaskSlot) -> Option<TaskSlot> {
        self.change(|tables, _| tables.slot_set(task, slot))
    }

    /// Remembers what a plan found to fit nowhere. To be called after each plan, once what became of its placements has
    /// been applied. What the plan could not place is looked at once more, since its own placements may have failed.
    pub fn remember(&mut self, plan: &Plan, now_ms: i64) {
        self.backlog.remember(&self.tables, plan, now_ms);
    }

    /// What wants placing of a queue ([`Snapshot::queue_of`]): tasks of running jobs without a row, or with a pending
    /// row past its back-off. At most `limit` tasks, but a gang is never cut. Unschedulable ones wait for an event.
    ///
    /// Nothing starves: where more waits than the limit takes, a sixteenth of it goes to the jobs that have waited
    /// longest. With `n` tasks before it, a task is planned `n / (limit / 16) + 1` batches after its submission at the
    /// latest; a gang before it counts as a batch. The gang that has waited longest of all is taken even past the limit.
    pub fn pending_in(&mut self, queue: &OpenQueue, now_ms: i64, limit: usize) -> PendingQueue {
        self.backlog.pending(&self.tables, queue, &|_| true, now_ms, limit)
    }

    /// [`Self::pending_in`] of the first queue, for jobs that are `wanted`.
    pub fn pending(&mut self, wanted: &dyn Fn(JobId) -> bool, now_ms: i64, limit: usize) -> PendingQueue {
        self.backlog.pending(&self.tables, &OpenQueue::default(), wanted, now_ms, limit)
    }

    /// The queue of a job.
    pub fn queue_of(&self, job: JobId) -> OpenQueue {
        self.backlog.open.queue_of(&self.tables, job)
    }

    /// How many jobs of a queue have tasks that want a node and are not known to fit nowhere.
    pub fn queue_jobs(&self, queue: &OpenQueue) -> usize {
        self.backlog.open.jobs(queue).map_or(0, |jobs| jobs.ordered.len())
    }

    /// Tasks of a queue that want a node, by the reason they have none. A job all of whose tasks are known to fit nowhere
    /// counts under the reason of most of them.
    pub fn queue_reasons(&self, queue: &OpenQueue) -> BTreeMap<PendingReason, u64> {
        self.backlog.reasons(&self.tables, queue)
    }

    /// Nodes that were held, in all, against tasks that fit nowhere: what their waiting costs.
    pub fn waiting_checks(&self) -> u64 {
        self.backlog.waiting_checks()
    }
}
