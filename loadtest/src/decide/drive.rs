//! The loop of a worker without its store: queue, plan, then the rows that a commit would have written.

use borough_model::task::task_transition;
use borough_model::{Delta, TaskRow};
use borough_scheduler_core::{PLAN_SEED, Plan, PlanCache, PlanCounters, Snapshot, StartOffset, plan_from};
use rustix::time::{ClockId, clock_gettime};

use super::workload::DecideCell;

/// The cost in seconds of this thread's processor time: wall time would include other work of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Driven {
    pub nodes: usize,
    pub tasks: u64,
    pub placed: u64,
    pub batches: u64,
    /// Applying the initial rows.
    pub listing_s: f64,
    /// Queueing, planning, and updating the cache.
    pub decide_s: f64,
    pub queue_s: f64,
    pub plan_s: f64,
    pub remember_s: f64,
    /// Applying the committed rows.
    pub follow_s: f64,
    pub counters: PlanCounters,
    /// Share of the cell's processors that is allocated in the end.
    pub cpu_allocated: f64,
}

impl Driven {
    /// Nanoseconds of deciding per placement.
    pub(crate) fn decide_ns_per_placement(&self) -> f64 {
        self.decide_s * 1e9 / self.placed.max(1) as f64
    }
}

/// Processor time of this thread.
pub(crate) fn thread_cpu_s() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// Adds the seconds of processor time of `work` to `spent`.
pub(crate) fn timed<T>(spent: &mut f64, work: impl FnOnce() -> T) -> T {
    let begin = thread_cpu_s();
    let answer = work();
    *spent += thread_cpu_s() - begin;
    answer
}

/// Wall time of the run: deciding takes it as an argument.
const NOW_MS: i64 = 1_700_000_000_000;

/// Places everything that fits.
pub(crate) fn drive(workload: &DecideCell, batch: usize) -> anyhow::Result<Driven> {
    let mut driven = Driven { nodes: workload.nodes, tasks: workload.tasks, ..Driven::default() };
    let mut snapshot = Snapshot::new(workload.settings.clone());
    timed(&mut driven.listing_s, || {
        for delta in &workload.deltas {
            snapshot.apply(delta);
        }
    });
    let (mut cache, start_offset) = (PlanCache::default(), StartOffset::undivided(PLAN_SEED));
    loop {
        let queue = timed(&mut driven.queue_s, || snapshot.pending(&|_| true, NOW_MS, batch));
        if queue.tasks.is_empty() {
            if queue.more {
                continue;
            }
            break;
        }
        let planned = timed(&mut driven.plan_s, || {
            plan_from(snapshot.tables(), &queue, NOW_MS, start_offset, &mut cache)
        });
        timed(&mut driven.remember_s, || snapshot.remember(&planned, NOW_MS));
        let deltas = committed(&snapshot, &planned)?;
        timed(&mut driven.follow_s, || {
            for delta in &deltas {
                snapshot.apply(delta);
            }
        });
        driven.batches += 1;
        driven.placed += planned.placements.len() as u64;
        driven.counters.nodes_scored += planned.counters.nodes_scored;
        driven.counters.nodes_examined += planned.counters.nodes_examined;
        driven.counters.classes += planned.counters.classes;
    }
    driven.decide_s = driven.queue_s + driven.plan_s + driven.remember_s;
    let (used, limit) = snapshot.tables().nodes().fold((0_u64, 0_u64), |(used, limit), node| {
        (used + node.alloc.used.cpu_millis, limit + node.limits.cpu_millis)
    });
    driven.cpu_allocated = used as f64 / limit.max(1) as f64;
    Ok(driven)
}

/// The journal's deltas after a commit of the plan.
pub(crate) fn committed(snapshot: &Snapshot, planned: &Plan) -> anyhow::Result<Vec<Delta>> {
    let mut deltas = Vec::with_capacity(planned.placements.len() + planned.changes.len());
    for placement in &planned.placements {
        let before = snapshot
            .tables()
            .task_row(placement.task)
            .cloned()
            .unwrap_or_else(|| TaskRow::never_placed(placement.task));
        let event = placement.event(None);
        let mut row = task_transition(&before, &event, NOW_MS)?.row;
        row.revision = before.revision + 1;
        deltas.push(Delta::Task { row });
    }
    let changes = planned.changes.iter();
    deltas.extend(changes.map(|change| Delta::NodeAlloc { node: change.node, alloc: change.alloc.clone() }));
    Ok(deltas)
}
