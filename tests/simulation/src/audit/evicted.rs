//! The auditor's rules of evictions.

use borough_model::TaskId;
use borough_model::job::{Band, band};
use borough_model::queue::{QueueSpec, queue_of_job};
use borough_model::task::{TaskRow, TaskState};

use super::{Auditor, Touched};

impl Auditor {
    /// A task is evicted for one of higher priority, once, in the commit that places the preemptor. Tasks of the
    /// protected bands are never evicted. A task that was displaced within its band evicts nobody there. A queue that
    /// reclaims its guarantee is exempt from both.
    pub(super) fn evicted_check(&mut self, before: &TaskRow, by: TaskId, touched: &Touched) {
        let task = before.id;
        self.note(if before.state == TaskState::Held { "evicted_held" } else { "evicted" });
        let priority = |task: TaskId| self.jobs.get(&task.job).map_or(0, |job| job.priority);
        let (own, higher) = (priority(task), priority(by));
        let within = band(own) == band(higher);
        let spared = within && matches!(band(own), Band::Production | Band::Monitoring);
        let cascade = within && touched.displaced.contains(&by);
        let stood = matches!(
            before.state,
            TaskState::Held | TaskState::Assigned | TaskState::Starting | TaskState::Running
        );
        let takes = touched.placed.iter().any(|row| row.id == by && row.node == before.node);
        let description =
            || format!("{task} (priority {own}, {:?}) gives way to {by} ({higher})", before.state);
        let claimed = (own == higher || cascade) && within && !spared && self.claims(by, task);
        if claimed {
            self.note("reclaimed");
        }
        self.require(own < higher || (claimed && own == higher), "evicted_priority", description);
        self.require(!spared, "evicted_band", description);
        self.require(!cascade || claimed, "evicted_cascade", description);
        self.require(stood, "evicted_twice", description);
        self.require(takes, "evicted_for_nobody", description);
        // A task that waits for victims may be evicted, and its gang with it.
        self.require(before.promised || !self.gathers(before), "evicted_gathering", description);
    }

    /// Returns true if one task may reclaim the other's place: its queue, or an ancestor of that, has a guarantee, and
    /// the other one is in a different queue.
    fn claims(&self, by: TaskId, task: TaskId) -> bool {
        let queue = |task: TaskId| {
            let user = &self.jobs.get(&task.job)?.user;
            queue_of_job(&self.queues, None, user).and_then(|place| self.queues.get(place))
        };
        let guaranteed = |own: &QueueSpec| {
            let around = |queue: &&QueueSpec| {
                own.path == queue.path || own.path.starts_with(&format!("{}/", queue.path))
            };
            self.queues.iter().filter(around).any(|queue| queue.guaranteed_per_mille > 0)
        };
        let (own, other) = (queue(by), queue(task));
        own.is_some_and(|own| guaranteed(own) && other.is_none_or(|other| other.path != own.path))
    }

    /// A promised share is not the task's own while one of its victims still uses it.
    pub(super) fn promise_check(&mut self, row: &TaskRow) {
        let Some(node) = row.charged_node() else { return };
        let leaves = |other: &&TaskRow| {
            other
                .evicted
                .as_ref()
                .is_some_and(|evicted| evicted.by == row.id && evicted.attempt == row.incarnation)
        };
        let conflicting = self.charged_on(node).find(leaves).map(|other| (other.id, other.state));
        self.note("promise_kept");
        self.require(conflicting.is_none(), "promise_early", || {
            format!("{} is {:?} on {node} beside {conflicting:?}", row.id, row.state)
        });
    }
}
