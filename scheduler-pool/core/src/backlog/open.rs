//! The queues of jobs with tasks that want a node, and the order of the jobs in each queue.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use borough_model::{JobId, JobRow, Name};

use crate::queueing::Turn;
use crate::seed::shard_of;
use crate::tables::{CellTables, scheduler_named};

/// A queue of jobs. One worker at a time plans it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct OpenQueue {
    /// The scheduler that its jobs name; `None` for the default one.
    pub scheduler: Option<Name>,
    /// Its shard of those jobs, from 0.
    pub shard: u32,
}

impl OpenQueue {
    /// The queue of a scheduler's shard.
    pub fn of(scheduler: &Name, shard: u32) -> Self {
        Self { scheduler: scheduler_named(Some(scheduler)).cloned(), shard }
    }
}

/// The position of a job in its queue: by priority from high to low, then by user or queue, then by submission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenKey {
    pub priority: Reverse<u32>,
    pub turn: Turn,
    pub submitted_ms: i64,
    pub name: Name,
    pub job: JobId,
}

impl OpenKey {
    pub(crate) fn of(row: &JobRow, turn: Turn) -> Self {
        Self {
            priority: Reverse(row.priority),
            turn,
            submitted_ms: row.submitted_ms,
            name: row.name.clone(),
            job: row.id,
        }
    }

    /// Returns true if it is still the position of that row. A job never changes its user, name and time of submission.
    fn current(&self, row: &JobRow, turn: Option<&Turn>) -> bool {
        let same_turn = turn.map_or_else(|| self.turn == Turn::default(), |turn| *turn == self.turn);
        self.priority.0 == row.priority && self.submitted_ms == row.submitted_ms && same_turn
    }
}

/// The jobs of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenJobs {
    /// In the order in which they are planned.
    pub ordered: BTreeSet<OpenKey>,
    /// The oldest submission first.
    pub aged: BTreeSet<(i64, JobId)>,
}

/// The jobs with tasks that want a node, by queue. Parked jobs are in none.
#[derive(Clone, Debug)]
pub(crate) struct OpenQueues {
    /// The number of queues per scheduler.
    shards: u32,
    queues: BTreeMap<OpenQueue, OpenJobs>,
    /// The queue and position of each job that has one.
    positions: BTreeMap<JobId, (OpenQueue, OpenKey)>,
}

impl OpenQueues {
    /// Empty queues, `shards` per scheduler.
    pub(crate) fn new(shards: u32) -> Self {
        Self { shards: shards.max(1), queues: BTreeMap::new(), positions: BTreeMap::new() }
    }

    /// The queue of a job.
    pub(crate) fn queue_of(&self, tables: &CellTables, job: JobId) -> OpenQueue {
        let scheduler = tables.jobs.get(&job).and_then(|entry| entry.scheduler().cloned());
        OpenQueue { scheduler, shard: shard_of(job, self.shards) }
    }

    /// The jobs of a queue; `None` if it has none.
    pub(crate) fn jobs(&self, queue: &OpenQueue) -> Option<&OpenJobs> {
        self.queues.get(queue)
    }

    /// Every queue that has jobs.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&OpenQueue, &OpenJobs)> {
        self.queues.iter()
    }

    pub(crate) fn update(&mut self, tables: &CellTables, job: JobId) {
        let Some(entry) = tables.jobs.get(&job) else { return };
        let row = entry.row.as_ref().filter(|_| entry.runs() && entry.open_count() > 0);
        let known = self.positions.get(&job);
        let current = match (known, row) {
            (Some((queue, key)), Some(row)) => {
                key.current(row, entry.turn.as_ref()) && queue.scheduler.as_ref() == entry.scheduler()
            }
            (None, None) => true,
            _ => false,
        };
        if current {
            return;
        }
        self.remove(job);
        let Some(row) = row else { return };
        let queue = self.queue_of(tables, job);
        let key = OpenKey::of(row, entry.turn.clone().unwrap_or_default());
        let jobs = self.queues.entry(queue.clone()).or_default();
        jobs.aged.insert((key.submitted_ms, job));
        jobs.ordered.insert(key.clone());
        self.positions.insert(job, (queue, key));
    }

    pub(crate) fn remove(&mut self, job: JobId) {
        let Some((queue, key)) = self.positions.remove(&job) else { return };
        let Some(jobs) = self.queues.get_mut(&queue) else { return };
        jobs.ordered.remove(&key);
        jobs.aged.remove(&(key.submitted_ms, job));
        if jobs.ordered.is_empty() {
            self.queues.remove(&queue);
        }
    }
}
