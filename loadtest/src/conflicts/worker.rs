//! The workers of the simulation: the production code of a round, which takes its measured time.

use std::collections::BTreeMap;

use borough_model::RequestId;
use borough_scheduler::{BATCH_TASKS_MAX, BatchStamp, CellView, SURVIVOR_ATTEMPTS, batch_of_plan};
use borough_scheduler_core::{
    BatchOutcome, BatchSize, OpenQueue, PLAN_SEED, ShardDivision, StartOffset, plan_from,
};
use borough_store::keys::LeaseKey;
use borough_store::placement::{PlacementBatch, placement_losers, placement_survivors};

use super::store::ModelStore;
use crate::decide::drive::timed;
use crate::decide::workload::DecideCell;

const NOW_MS: i64 = 1_700_000_000_000;

/// Seconds spent, over all workers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub decide_s: f64,
    pub decode_s: f64,
    pub apply_s: f64,
    pub commit_s: f64,
}

struct ModelWorker {
    view: CellView,
    queue: OpenQueue,
    start_offset: StartOffset,
    batch_size: BatchSize,
    cursor: usize,
    collisions: u64,
    placed: u64,
}

/// A batch in flight.
struct Flight {
    batch: PlacementBatch,
    version: usize,
    /// Its tasks at first, and tries so far.
    planned: usize,
    attempts: u32,
    more: bool,
}

/// The next event of a worker.
enum Next {
    Round,
    Decided(Box<Flight>),
}

/// Where workers begin to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodesSearched {
    /// Each one in its own part of the nodes.
    Parts,
    /// Anywhere in the cell.
    Whole,
}

/// The workers.
pub(super) struct ModelPool {
    workers: Vec<ModelWorker>,
    /// The next events, by virtual nanoseconds and worker.
    agenda: BTreeMap<(u64, usize), Next>,
    batches: u128,
    pub spent: Spent,
    pub commits: u64,
    pub conflicts: u64,
    pub lost: u64,
}

fn nanoseconds(at_s: f64) -> u64 {
    (at_s * 1e9) as u64
}

impl ModelPool {
    /// So many workers, each of which has listed the cell.
    pub(super) fn new(workload: &DecideCell, workers: u32, searched: NodesSearched) -> Self {
        let worker = |part: u32| {
            let mut view = CellView::new(workload.settings.clone(), ShardDivision::of(workers));
            workload.deltas.iter().for_each(|delta| view.apply_delta(delta));
            let parts = match searched {
                NodesSearched::Whole => 1,
                NodesSearched::Parts => workers,
            };
            ModelWorker {
                view,
                queue: OpenQueue { shard: part, ..OpenQueue::default() },
                start_offset: StartOffset { part, parts, ..StartOffset::undivided(PLAN_SEED) },
                batch_size: BatchSize::new(BATCH_TASKS_MAX),
                cursor: 0,
                collisions: 0,
                placed: 0,
            }
        };
        let workers: Vec<ModelWorker> = (0..workers).map(worker).collect();
        // They do not begin at the same moment.
        let agenda =
            (0..workers.len()).map(|number| ((number as u64 * 100_000, number), Next::Round)).collect();
        let (spent, batches) = (Spent::default(), 0);
        Self { workers, agenda, batches, spent, commits: 0, conflicts: 0, lost: 0 }
    }

    /// Counts the placed tasks.
    pub(super) fn placed(&self) -> u64 {
        self.workers.iter().map(|worker| worker.placed).sum()
    }

    /// Works until nothing is left to place.
    pub(super) fn run(&mut self, store: &mut ModelStore<'_>) -> anyhow::Result<()> {
        while let Some(((at_ns, number), next)) = self.agenda.pop_first() {
            store.now_s = at_ns as f64 / 1e9;
            match next {
                Next::Round => self.round(store, number),
                Next::Decided(flight) => self.decided(store, number, *flight)?,
            }
        }
        Ok(())
    }

    /// Applies the entries that the worker has not read. Returns how long that takes.
    fn read(&mut self, store: &ModelStore<'_>, number: usize) -> f64 {
        let Some(worker) = self.workers.get_mut(number) else { return 0.0 };
        let unseen = store.journal.get(worker.cursor..).unwrap_or_default();
        let decode_s: f64 = unseen.iter().map(|entry| entry.decode_s).sum();
        let mut apply_s = 0.0;
        timed(&mut apply_s, || unseen.iter().for_each(|entry| worker.view.apply(&entry.entry)));
        worker.cursor = store.version();
        self.spent.decode_s += decode_s;
        self.spent.apply_s += apply_s;
        decode_s + apply_s
    }

    fn request_id(&mut self) -> RequestId {
        self.batches += 1;
        RequestId(self.batches)
    }

    fn round(&mut self, store: &mut ModelStore<'_>, number: usize) {
        let read_s = self.read(store, number);
        let id = self.request_id();
        let Some(worker) = self.workers.get_mut(number) else { return };
        let mut decide_s = 0.0;
        let flight = timed(&mut decide_s, || {
            let queue = worker.view.snapshot.pending_in(&worker.queue, NOW_MS, worker.batch_size.batch());
            let seed = PLAN_SEED.wrapping_add(worker.collisions);
            let start_offset =
                StartOffset { seed, beyond: worker.batch_size.beyond(), ..worker.start_offset };
            let plan = plan_from(
                worker.view.snapshot.tables(),
                &queue,
                NOW_MS,
                start_offset,
                &mut worker.view.cache,
            );
            worker.view.snapshot.remember(&plan, NOW_MS);
            let lease = LeaseKey { role: "scheduler".to_owned(), shard: worker.queue.shard };
            let (batch, _) =
                batch_of_plan(&plan, &worker.view, BatchStamp { id, lease, at_ms: NOW_MS }, &BTreeMap::new());
            let planned = batch.placements.len();
            let (version, more) = (worker.cursor, queue.more);
            Flight { batch, version, planned, attempts: 0, more }
        });
        self.spent.decide_s += decide_s;
        let at_s = store.now_s + read_s + decide_s;
        match flight.planned {
            // Nothing fits, or nothing is left.
            0 if !flight.more => {}
            0 => self.happens(at_s, number, Next::Round),
            _ => self.send(store, at_s, number, flight),
        }
    }

    fn send(&mut self, store: &mut ModelStore<'_>, at_s: f64, number: usize, flight: Flight) {
        let decided_s = store.decided_at(at_s, flight.batch.placements.len());
        self.spent.commit_s += decided_s - at_s;
        self.happens(decided_s, number, Next::Decided(Box::new(flight)));
    }

    fn happens(&mut self, at_s: f64, number: usize, next: Next) {
        self.agenda.insert((nanoseconds(at_s), number), next);
    }

    fn decided(
        &mut self,
        store: &mut ModelStore<'_>,
        number: usize,
        mut flight: Flight,
    ) -> anyhow::Result<()> {
        let conflicts = store.commit(&flight.batch, flight.version)?;
        let Some(conflicts) = conflicts else {
            self.commits += 1;
            self.flight_over(store.now_s, number, &flight, flight.batch.placements.len());
            return Ok(());
        };
        self.conflicts += 1;
        flight.attempts += 1;
        let losers = placement_losers(&conflicts, &flight.batch);
        if let Some(worker) = self.workers.get_mut(number) {
            worker.collisions += 1;
        }
        let read_s = self.read(store, number);
        let id = self.request_id();
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        let mut decide_s = 0.0;
        flight.batch =
            timed(&mut decide_s, || placement_survivors(&flight.batch, &losers, &worker.view, id, NOW_MS));
        flight.version = worker.cursor;
        self.spent.decide_s += decide_s;
        let at_s = store.now_s + read_s + decide_s;
        if flight.batch.placements.is_empty() || flight.attempts >= SURVIVOR_ATTEMPTS {
            self.flight_over(at_s, number, &flight, 0);
        } else {
            self.send(store, at_s, number, flight);
        }
        Ok(())
    }

    fn flight_over(&mut self, at_s: f64, number: usize, flight: &Flight, placed: usize) {
        let lost = flight.planned - placed;
        self.lost += lost as u64;
        if let Some(worker) = self.workers.get_mut(number) {
            worker.placed += placed as u64;
            if placed > 0 {
                worker.collisions = 0;
            }
            let planned = flight.planned;
            worker.batch_size.committed(BatchOutcome { planned, lost, more_waiting: flight.more });
        }
        self.happens(at_s, number, Next::Round);
    }
}
