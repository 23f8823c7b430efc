//! The scheduler's commit as keys: at a given read version, two guards and three blind writes for each placement, and
//! one journal entry, with conflicting keys reported.
//!
//! The load runs twice. First every transaction in flight has nodes of its own, like workers that keep to their
//! partitions. Then nodes are drawn at random, like workers that do not know each other. The second run shows the cost
//! of conflicts. A lost batch is not tried again here, whereas a scheduler would commit its survivors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use borough_kv::{AtomicOp, ErrorCode, Idempotency, KvError, Transaction};
use serde_json::json;

use super::{Bench, key, load, scatter, value};
use crate::result::StatsSet as _;

/// Nodes that get placements.
const NODES: u64 = 10_000;
/// Placements of one transaction, and transactions in flight.
const SHAPES: [(u64, u64); 8] = [(1, 1), (1, 64), (16, 1), (16, 16), (64, 1), (64, 4), (64, 8), (256, 4)];
/// Bytes of a node's allocation row, of a task's row, and of one placement in the journal.
const NODE_BYTES: usize = 60;
const TASK_BYTES: usize = 120;
const DELTA_BYTES: usize = 120;

/// Key kinds.
const NODE_ALLOC: u64 = 10;
const TASK: u64 = 11;
const NODE_TASK: u64 = 12;
const JOURNAL: u64 = 13;

/// Runs the loads.
pub(super) async fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let tasks = Arc::new(AtomicU64::new(0));
    for ((batch, in_flight), partitioned) in
        SHAPES.into_iter().flat_map(|shape| [(shape, true), (shape, false)])
    {
        if in_flight == 1 && !partitioned {
            continue;
        }
        let (db, tasks) = (bench.db.clone(), Arc::clone(&tasks));
        let lost = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&lost);
        let done = load(in_flight, bench.time, move |client, number| {
            let (db, tasks, lost) = (db.clone(), Arc::clone(&tasks), Arc::clone(&count));
            async move {
                let first = tasks.fetch_add(batch, Ordering::Relaxed);
                let seed = scatter((client << 40) ^ number ^ (first << 8));
                let (parts, part) = if partitioned { (in_flight, client) } else { (1, 0) };
                let node =
                    move |offset: u64| scatter(seed.wrapping_add(offset)) % (NODES / parts) * parts + part;
                let read = |tx: Transaction, _| async move { tx.read_version().await };
                let version =
                    db.run::<_, KvError, _, _>("loadtest_version", Idempotency::ReadOnly, read).await?;
                let place = |tx: &Transaction| batch_write(tx, first, batch, node);
                match db.commit_at("loadtest_placement", version, place).await {
                    Ok(_) => Ok(()),
                    Err(error) if error.error.code == ErrorCode::NotCommitted => {
                        lost.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    }
                    Err(error) => Err(error.error),
                }
            }
        });
        let done = done.await?;
        let lost = usize::try_from(lost.load(Ordering::Relaxed))?;
        let attempts = done.samples_us.len();
        let mut stats = done.stats("transaction", in_flight)?;
        let placed = attempts.saturating_sub(lost).saturating_mul(usize::try_from(batch)?);
        stats.set("batch", json!(batch));
        stats.set("placements_per_s", json!(done.per_second(placed)));
        let permille = lost.saturating_mul(1_000) / attempts.max(1);
        stats.set("conflicts_permille", json!(permille));
        let name = if partitioned { "placement-partitioned" } else { "placement-contended" };
        bench.results.line("kv", name, stats);
    }
    Ok(())
}

fn batch_write(tx: &Transaction, first: u64, batch: u64, node: impl Fn(u64) -> u64) -> Result<(), KvError> {
    for offset in 0..batch {
        let (node, task) = (node(offset), first + offset);
        let (node_key, task_key) = (key(NODE_ALLOC, node), key(TASK, task));
        tx.read_conflict_key(&node_key)?;
        tx.read_conflict_key(&task_key)?;
        tx.set(&node_key, &value(task, NODE_BYTES))?;
        tx.set(&task_key, &value(node, TASK_BYTES))?;
        tx.set(&[key(NODE_TASK, node), task.to_be_bytes().to_vec()].concat(), b"")?;
    }
    let mut stamped = key(JOURNAL, 0);
    let offset = u32::try_from(stamped.len()).unwrap_or(u32::MAX);
    stamped.extend_from_slice(&[0; 10]);
    stamped.extend_from_slice(&offset.to_le_bytes());
    let entry = value(first, DELTA_BYTES.saturating_mul(usize::try_from(batch).unwrap_or(1)));
    tx.atomic(AtomicOp::SetVersionstampedKey, &stamped, &entry)
}
