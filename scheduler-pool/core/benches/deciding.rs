//! What deciding costs: a plan of a batch, and following the journal. Cells of 1,000 and 10,000 nodes, half full.
//!
//! | benchmark | unit of work |
//! |---|---|
//! | `plan/cold` | one task of a batch of 64, planned without candidates of earlier plans |
//! | `plan/warm` | the same with the candidates that the plan before has left |
//! | `snapshot/deltas` | one delta: a task row or a node's allocation, as a placement writes them |

#![expect(clippy::expect_used, reason = "a bench says what it expected")]

use std::hint::black_box;

use borough_model::task::task_transition;
use borough_model::{Delta, JobId, TaskRow};
use borough_scheduler_core::{
    PLAN_SEED, PendingQueue, Plan, PlanCache, Snapshot, StartOffset, plan, plan_from,
};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

#[path = "../tests/deciding/stored.rs"]
#[expect(dead_code, reason = "a bench needs some of the fixtures of the tests")]
mod stored;

use stored::{StoredCell, node, spec};

/// Nodes of the cells.
const NODES: [u64; 2] = [1_000, 10_000];
/// Tasks of a batch.
const BATCH: usize = 64;

/// A cell whose nodes have a load of their own, and a job that waits with more than a batch of tasks.
fn cell(nodes: u64) -> (StoredCell, Snapshot) {
    let mut stored = StoredCell { now_ms: 1_000_000, ..StoredCell::default() };
    (0..nodes).for_each(|number| stored.node_put(node(number, 8 + number % 3, 32)));
    let resident = u32::try_from(nodes * 2).unwrap_or(u32::MAX);
    stored.job_submit(JobId(1), &spec("ann", "resident", resident, 2_000, 4_096));
    let mut snapshot = stored.snapshot(1);
    stored.journal.clear();
    while planned(&mut stored, &mut snapshot) > 0 {}
    for job in 0..8 {
        stored.job_submit(JobId(2 + job), &spec("bob", &format!("waiting-{job}"), 64, 250 + 250 * job, 512));
    }
    stored.journal_apply(&mut snapshot);
    (stored, snapshot)
}

fn planned(stored: &mut StoredCell, snapshot: &mut Snapshot) -> usize {
    let queue = snapshot.pending(&|_| true, stored.now_ms, 1_000);
    let outcome = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
    stored.commit(&outcome);
    stored.journal_apply(snapshot);
    outcome.placements.len()
}

fn batch(snapshot: &Snapshot, now_ms: i64) -> PendingQueue {
    let queue = snapshot.clone().pending(&|_| true, now_ms, BATCH);
    assert_eq!(queue.tasks.len(), BATCH);
    queue
}

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    group.throughput(Throughput::Elements(BATCH as u64));
    for nodes in NODES {
        let (stored, snapshot) = cell(nodes);
        let queue = batch(&snapshot, stored.now_ms);
        group.bench_function(BenchmarkId::new("cold", nodes), |bencher| {
            bencher.iter(|| plan(snapshot.tables(), black_box(&queue), stored.now_ms, PLAN_SEED));
        });
        let start_offset = StartOffset::undivided(PLAN_SEED);
        let mut cache = PlanCache::default();
        group.bench_function(BenchmarkId::new("warm", nodes), |bencher| {
            let tables = snapshot.tables();
            bencher.iter(|| plan_from(tables, black_box(&queue), stored.now_ms, start_offset, &mut cache));
        });
    }
    group.finish();
}

/// The deltas of a committed plan.
fn deltas(stored: &StoredCell, outcome: &Plan) -> Vec<Delta> {
    let tasks = outcome.placements.iter().map(|placement| {
        let before = TaskRow::never_placed(placement.task);
        let placed =
            task_transition(&before, &placement.event(None), stored.now_ms).expect("it may be placed");
        Delta::Task { row: placed.row }
    });
    let allocs = outcome
        .changes
        .iter()
        .map(|change| Delta::NodeAlloc { node: change.node, alloc: change.alloc.clone() });
    tasks.chain(allocs).collect()
}

fn following(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("snapshot");
    for nodes in NODES {
        let (stored, snapshot) = cell(nodes);
        let queue = batch(&snapshot, stored.now_ms);
        let deltas = deltas(&stored, &plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED));
        group.throughput(Throughput::Elements(deltas.len() as u64));
        group.bench_function(BenchmarkId::new("deltas", nodes), |bencher| {
            let follow = |mut snapshot: Snapshot| {
                for delta in &deltas {
                    snapshot.apply(black_box(delta));
                }
                snapshot
            };
            bencher.iter_batched(|| snapshot.clone(), follow, BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, plans, following);
criterion_main!(benches);
