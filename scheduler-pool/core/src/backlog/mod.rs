//! The backlog: tasks that want a node. Jobs with such tasks wait in queues, in the order in which they are planned.
//! Jobs with only unschedulable tasks are parked. Events of the tables that could help requeue them.

mod collect;
mod demand;
mod division;
mod freed;
mod open;
mod pinned;
mod reason;
mod unschedulable;

use std::collections::BTreeMap;

use borough_model::JobId;

pub(crate) use collect::{gang_queue, task_queue};
pub use division::{SLICE_TASKS, ShardDivision};
pub use open::OpenQueue;
pub(crate) use open::{OpenKey, OpenQueues};
pub use reason::PendingReason;

use crate::plan::{PendingQueue, Plan};
use crate::tables::{CellTables, TableEvents};
use collect::{Collected, PendingRequest, collected};
use open::OpenJobs;
use pinned::{PinnedTasks, Waiting};
use unschedulable::UnschedulableShapes;

/// Everything that waits in a cell.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    pub open: OpenQueues,
    unschedulable: UnschedulableShapes,
    pinned: PinnedTasks,
}

impl Backlog {
    /// An empty backlog.
    pub(crate) fn new(division: ShardDivision) -> Self {
        Self {
            open: OpenQueues::new(division),
            unschedulable: UnschedulableShapes::default(),
            pinned: PinnedTasks::default(),
        }
    }

    /// Follows changes of the tables.
    pub(crate) fn follow(&mut self, tables: &CellTables, events: &TableEvents) {
        self.unschedulable.notice(tables, events);
        for job in self.pinned.follow(tables, events) {
            self.unschedulable.job_requeued(job);
            self.update(tables, job);
        }
        for &job in &events.jobs_removed {
            self.unschedulable.job_requeued(job);
            self.open.remove(job);
        }
        for &job in &events.jobs {
            self.own_shapes_requeued(tables, job);
            self.unschedulable.job_requeued(job);
            self.update(tables, job);
        }
        for &job in &events.tasks_of {
            if self.unschedulable.parked(job) {
                self.unschedulable.job_requeued(job);
            }
            self.update(tables, job);
        }
    }

    /// Requeues a changed job's own shapes, because findings about them are void.
    fn own_shapes_requeued(&mut self, tables: &CellTables, job: JobId) {
        let Some(entry) = tables.jobs.get(&job).filter(|entry| entry.terms.constrained()) else { return };
        for shape in entry.shapes() {
            for requeued in self.unschedulable.shape_requeued(shape) {
                self.update(tables, requeued);
            }
        }
    }

    fn update(&mut self, tables: &CellTables, job: JobId) {
        if self.unschedulable.parked(job) {
            self.open.remove(job);
        } else {
            self.open.update(tables, job);
        }
    }

    /// The tasks to plan next. See [`crate::Snapshot::pending_in`].
    pub(crate) fn pending(
        &mut self,
        tables: &CellTables,
        queue: &OpenQueue,
        wanted: &dyn Fn(JobId) -> bool,
        now_ms: i64,
        limit: usize,
    ) -> PendingQueue {
        for job in self.unschedulable.requeue(tables, now_ms) {
            self.update(tables, job);
        }
        for job in self.pinned.due(now_ms) {
            self.unschedulable.job_requeued(job);
            self.update(tables, job);
        }
        let none = OpenJobs::default();
        let open = self.open.jobs(queue).unwrap_or(&none);
        let request = PendingRequest { open, wanted, now_ms, limit };
        let Collected { queue, to_park } =
            collected(tables, Waiting { unschedulable: &self.unschedulable, pinned: &self.pinned }, &request);
        for (job, shapes) in to_park {
            self.unschedulable.park(job, shapes);
            self.update(tables, job);
        }
        queue
    }

    /// Remembers the tasks that a plan found to fit nowhere.
    pub(crate) fn remember(&mut self, tables: &CellTables, plan: &Plan, now_ms: i64) {
        self.unschedulable.remember(tables, plan, now_ms);
        self.pinned.remember(tables, plan, now_ms);
    }

    /// The number of unschedulable shapes and gangs.
    pub(crate) fn unschedulable_count(&self) -> usize {
        self.unschedulable.count() + self.pinned.count()
    }

    /// How many times a node was checked for an unschedulable request, in all. This is the cost of waiting.
    pub(crate) fn waiting_checks(&self) -> u64 {
        self.unschedulable.checks()
    }

    /// The tasks of a queue that want a node, counted by the reason to wait. All tasks of a parked job count under the
    /// reason of most of them, in the queue of its first slice.
    pub(crate) fn reasons(&self, tables: &CellTables, queue: &OpenQueue) -> BTreeMap<PendingReason, u64> {
        let mut reasons = BTreeMap::new();
        let mut counted = |reason, tasks: u64| *reasons.entry(reason).or_default() += tasks;
        if let Some(jobs) = self.open.jobs(queue) {
            let waiting = jobs.aged.iter().map(|&(_, job)| jobs.open_count(tables, job));
            waiting.for_each(|tasks| counted(PendingReason::Turn, tasks));
        }
        let parked = self.unschedulable.parked_jobs();
        for job in parked.filter(|&job| self.open.queue_of(tables, job) == *queue) {
            let shape = tables.jobs.get(&job).and_then(|entry| entry.shape);
            let of_shape = shape.and_then(|shape| self.unschedulable.shape_reason(shape));
            let reason = of_shape.or_else(|| self.unschedulable.gang_reason(job));
            let reason = reason.or_else(|| self.pinned.reason(job));
            let tasks = tables.jobs.get(&job).map_or(0, |entry| u64::from(entry.open_count()));
            counted(reason.unwrap_or(PendingReason::Other), tasks);
        }
        reasons
    }
}
