//! Jobs with open tasks: in which queue each is, and in which order they stand there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use borough_model::{JobId, JobRow, Name};

use super::Snapshot;
use crate::explain::PENDING_TURN;
use crate::queueing::Turn;
use crate::seed::shard_of;

/// A queue of jobs that one worker decides over at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct OpenQueue {
    /// The scheduler that its jobs name; none: they name none, or `default`.
    pub scheduler: Option<Name>,
    /// The share of those jobs, from 0.
    pub shard: u32,
}

/// What jobs call the scheduler of those that name none.
const SCHEDULER_DEFAULT: &str = "default";

impl OpenQueue {
    /// A share of the jobs of a scheduler.
    pub fn of(scheduler: &Name, shard: u32) -> Self {
        Self { scheduler: named(Some(scheduler)).cloned(), shard }
    }
}

pub(super) fn named(scheduler: Option<&Name>) -> Option<&Name> {
    scheduler.filter(|name| name.as_str() != SCHEDULER_DEFAULT)
}

/// Where a job with open tasks stands among the others: high to low priority, then by who takes turns, then as
/// submitted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenKey {
    pub priority: Reverse<u32>,
    pub turn: Turn,
    pub submitted_ms: i64,
    pub name: Name,
    pub job: JobId,
}

impl OpenKey {
    pub fn of(row: &JobRow, turn: Turn) -> Self {
        Self {
            priority: Reverse(row.priority),
            turn,
            submitted_ms: row.submitted_ms,
            name: row.name.clone(),
            job: row.id,
        }
    }

    /// Whether it is still the place of that row; a job keeps its user, name and time of submission.
    pub fn current(&self, row: &JobRow, turn: Option<&Turn>) -> bool {
        let same_turn = turn.map_or_else(|| self.turn == Turn::default(), |turn| *turn == self.turn);
        self.priority.0 == row.priority && self.submitted_ms == row.submitted_ms && same_turn
    }
}

/// The jobs of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenJobs {
    /// In the order in which they are planned.
    pub ordered: BTreeSet<OpenKey>,
    /// By the time of submission.
    pub aged: BTreeSet<(i64, JobId)>,
}

impl Snapshot {
    /// The queue of a job.
    pub fn queue_of(&self, job: JobId) -> OpenQueue {
        let scheduler = self.jobs.get(&job).and_then(|entry| entry.scheduler().cloned());
        OpenQueue { scheduler, shard: shard_of(job, self.shards) }
    }

    /// Tasks of a queue that want a node, by the reason they have none: one of [`crate::PENDING_REASONS`]. A job all of
    /// whose tasks are known to fit nowhere counts under the reason of most of them.
    pub fn queue_reasons(&self, queue: &OpenQueue) -> BTreeMap<&'static str, u64> {
        let mut reasons = BTreeMap::new();
        let mut counted = |reason, job: JobId| {
            let tasks = self.jobs.get(&job).map_or(0, |entry| u64::from(entry.open_count()));
            *reasons.entry(reason).or_default() += tasks;
        };
        let waiting = self.open.get(queue).into_iter().flat_map(|jobs| jobs.aged.iter());
        waiting.for_each(|&(_, job)| counted(PENDING_TURN, job));
        for job in self.unschedulable.parked_jobs().filter(|&job| self.queue_of(job) == *queue) {
            let shape = self.jobs.get(&job).and_then(|entry| entry.shape);
            let of_shape = shape.and_then(|shape| self.unschedulable.shape_reason(shape));
            counted(of_shape.or_else(|| self.unschedulable.gang_reason(job)).unwrap_or("other"), job);
        }
        reasons
    }

    /// How many jobs of a queue have tasks that want a node and are not known to fit nowhere.
    pub fn queue_jobs(&self, queue: &OpenQueue) -> usize {
        self.open.get(queue).map_or(0, |jobs| jobs.ordered.len())
    }

    /// Brings a job's place among the open ones up to date.
    pub(crate) fn open_update(&mut self, job: JobId) {
        let Some(entry) = self.jobs.get(&job) else { return };
        let wants = entry.runs() && entry.open_count() > 0;
        let parked = self.unschedulable.parked(job);
        let in_place = match (&entry.open_key, &entry.row) {
            (Some((queue, key)), Some(row)) => {
                wants
                    && !parked
                    && key.current(row, entry.turn.as_ref())
                    && queue.scheduler.as_ref() == entry.scheduler()
            }
            _ => !wants || parked,
        };
        if in_place {
            return;
        }
        let queue = self.queue_of(job);
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let before = entry.open_key.take();
        if let (true, false, Some(row)) = (wants, parked, &entry.row) {
            let key = OpenKey::of(row, entry.turn.clone().unwrap_or_default());
            entry.open_key = Some((queue.clone(), key.clone()));
            self.open_inserted(queue, key, before);
        } else if let Some((queue, key)) = before {
            self.open_removed(&queue, &key);
        }
    }

    fn open_inserted(&mut self, queue: OpenQueue, key: OpenKey, before: Option<(OpenQueue, OpenKey)>) {
        if let Some((queue, key)) = before {
            self.open_removed(&queue, &key);
        }
        let jobs = self.open.entry(queue).or_default();
        jobs.aged.insert((key.submitted_ms, key.job));
        jobs.ordered.insert(key);
    }

    /// A job has no place in its queue any more.
    pub(super) fn open_removed(&mut self, queue: &OpenQueue, key: &OpenKey) {
        let Some(jobs) = self.open.get_mut(queue) else { return };
        jobs.ordered.remove(key);
        jobs.aged.remove(&(key.submitted_ms, key.job));
        if jobs.ordered.is_empty() {
            self.open.remove(queue);
        }
    }
}
