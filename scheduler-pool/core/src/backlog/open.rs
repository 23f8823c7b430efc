//! The queues of jobs with tasks that want a node, and the order of the jobs in each queue.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use borough_model::{JobId, JobRow, Name};

use super::division::{JobSlices, ShardDivision};
use crate::queueing::Turn;
use crate::tables::{CellTables, scheduler_named};

/// A queue of jobs, or of slices of large jobs. One worker at a time plans it.
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
    /// The slices that the queue has of a job that is divided among queues.
    pub slices: BTreeMap<JobId, JobSlices>,
}

impl OpenJobs {
    /// How many tasks of a job in this queue want a node, now or later.
    pub(crate) fn open_count(&self, tables: &CellTables, job: JobId) -> u64 {
        let Some(entry) = tables.jobs.get(&job) else { return 0 };
        let count = match self.slices.get(&job) {
            None => entry.open_count(),
            Some(slices) => slices.ranges(entry.count()).map(|range| entry.open_within(range)).sum(),
        };
        u64::from(count)
    }
}

/// The queues and the position of a job.
#[derive(Clone, Debug)]
struct OpenPosition {
    scheduler: Option<Name>,
    /// The number of queues that have slices of it, from that of its first slice on.
    queues: u32,
    key: OpenKey,
}

/// The jobs with tasks that want a node, by queue. Parked jobs are in none.
#[derive(Clone, Debug)]
pub(crate) struct OpenQueues {
    division: ShardDivision,
    /// The number of queues of schedulers that have another one.
    shards_own: BTreeMap<Option<Name>, u32>,
    queues: BTreeMap<OpenQueue, OpenJobs>,
    /// The position of each job that has one.
    positions: BTreeMap<JobId, OpenPosition>,
}

impl OpenQueues {
    /// Empty queues.
    pub(crate) fn new(division: ShardDivision) -> Self {
        Self {
            division: division.bounded(),
            shards_own: BTreeMap::new(),
            queues: BTreeMap::new(),
            positions: BTreeMap::new(),
        }
    }

    /// Divides the jobs of a scheduler among so many queues. They keep their order in each queue.
    pub(crate) fn divide(&mut self, tables: &CellTables, scheduler: Option<&Name>, shards: u32) {
        if self.division_of(scheduler).shards == shards {
            return;
        }
        let of_scheduler = self.positions.iter().filter(|(_, known)| known.scheduler.as_ref() == scheduler);
        let jobs: Vec<JobId> = of_scheduler.map(|(&job, _)| job).collect();
        jobs.iter().for_each(|&job| self.remove(job));
        self.shards_own.insert(scheduler.cloned(), shards.max(1));
        jobs.iter().for_each(|&job| self.update(tables, job));
    }

    fn division_of(&self, scheduler: Option<&Name>) -> ShardDivision {
        let own = self.shards_own.iter().find(|(known, _)| known.as_ref() == scheduler);
        ShardDivision { shards: own.map_or(self.division.shards, |(_, &shards)| shards), ..self.division }
    }

    /// The queue of a job, or that of its first slice.
    pub(crate) fn queue_of(&self, tables: &CellTables, job: JobId) -> OpenQueue {
        let scheduler = tables.jobs.get(&job).and_then(|entry| entry.scheduler().cloned());
        let shard = self.division_of(scheduler.as_ref()).shard_first(job);
        OpenQueue { scheduler, shard }
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
        let division = self.division_of(entry.scheduler());
        let queues = division.queues_of(entry);
        let known = self.positions.get(&job);
        let current = match (known, row) {
            (Some(known), Some(row)) => {
                known.key.current(row, entry.turn.as_ref())
                    && known.queues == queues
                    && known.scheduler.as_ref() == entry.scheduler()
            }
            (None, None) => true,
            _ => false,
        };
        if current {
            return;
        }
        self.remove(job);
        let Some(row) = row else { return };
        let key = OpenKey::of(row, entry.turn.clone().unwrap_or_default());
        let scheduler = entry.scheduler().cloned();
        for place in 0..queues {
            let queue = OpenQueue { scheduler: scheduler.clone(), shard: division.shard_behind(job, place) };
            let jobs = self.queues.entry(queue).or_default();
            jobs.aged.insert((key.submitted_ms, job));
            jobs.ordered.insert(key.clone());
            if queues > 1 {
                jobs.slices.insert(job, division.slices(place));
            }
        }
        self.positions.insert(job, OpenPosition { scheduler, queues, key });
    }

    pub(crate) fn remove(&mut self, job: JobId) {
        let Some(OpenPosition { scheduler, queues, key }) = self.positions.remove(&job) else { return };
        let division = self.division_of(scheduler.as_ref());
        for place in 0..queues {
            let queue = OpenQueue { scheduler: scheduler.clone(), shard: division.shard_behind(job, place) };
            let Some(jobs) = self.queues.get_mut(&queue) else { continue };
            jobs.ordered.remove(&key);
            jobs.aged.remove(&(key.submitted_ms, job));
            jobs.slices.remove(&job);
            if jobs.ordered.is_empty() {
                self.queues.remove(&queue);
            }
        }
    }
}
