//! The gate closes while workers decide. Whatever a worker has read before, it places nothing in a cell that drains or
//! has moved.

use std::time::Duration;

use borough_kv::{FaultPlan, Versionstamp};
use borough_model::TaskState;
use borough_store::cell::CellState;
use borough_testkit::{Role, in_simulated_time, seeds};

use crate::cell::{Cell, slow};

/// Runs in which a batch may be faster than each change.
const TRIES: u64 = 20;
/// Actions that start work.
const PLACES: [&str; 4] = ["placement_commit", "gang_begin", "gang_hold", "gang_commit"];

/// A cell in which a batch has lost a guard before anything was placed, and its worker; `None`: the batch was faster
/// than each change.
async fn conflicted(seed: u64) -> Option<(Cell, Role)> {
    let cell = Cell::with_faults(seed, slow()).await;
    cell.node_add().await;
    cell.job_submit("stays", None).await;
    cell.job_submit("changes", None).await;
    let worker = cell.worker(0, 1, &["default"]);
    // Each change of the job fails the batch in flight; the other job's task survives.
    cell.until("a batch has lost a guard, or was committed", async || {
        cell.priority_turn("changes").await;
        cell.conflicts() > 0 || cell.placed().await > 0
    })
    .await;
    if cell.placed().await > 0 {
        worker.end().await;
        return None;
    }
    Some((cell, worker))
}

#[test]
fn nothing_is_placed_when_the_gate_closes_between_a_conflict_and_the_survivors_commit() {
    for seed in seeds(4) {
        for state in [CellState::Draining, CellState::Moved] {
            in_simulated_time(async {
                let mut found = None;
                for other in 0..TRIES {
                    found = conflicted(seed.wrapping_add(other << 32)).await;
                    if found.is_some() {
                        break;
                    }
                }
                let (cell, worker) = found.expect("no batch has lost a guard");
                assert_eq!(cell.placed().await, 0, "seed {seed}: placed before");
                cell.gate_set(state).await;
                tokio::time::sleep(Duration::from_secs(30)).await;
                assert_eq!(cell.placed().await, 0, "seed {seed}: placed in a cell that is {state:?}");
                // Nothing was lost by it either.
                cell.gate_set(CellState::Open).await;
                cell.until("both are placed", async || cell.placed().await == 2).await;
                worker.end().await;
            });
        }
    }
}

#[test]
fn a_gathering_gang_gives_up_when_the_cell_drains() {
    for seed in seeds(4) {
        in_simulated_time(async {
            let cell = Cell::with_faults(seed, slow()).await;
            cell.node_add().await;
            cell.gang_submit("large", 40, 500).await;
            let worker = cell.worker_gathering(0, 4);
            let held = async || cell.tasks().await.iter().filter(|row| row.state == TaskState::Held).count();
            cell.until("some hold", async || held().await > 0).await;
            cell.gate_set(CellState::Draining).await;
            cell.until("nobody holds", async || held().await == 0).await;
            assert_eq!(cell.placed().await, 0, "seed {seed}");
            worker.end().await;
            assert_eq!(cell.violations().await, [], "seed {seed}");
        });
    }
}

#[test]
fn whatever_the_moment_at_which_the_gate_closes_nothing_is_placed_behind_it() {
    let (mut closed_while_conflicting, mut placed) = (0, 0);
    for seed in seeds(12) {
        in_simulated_time(async {
            let cell = Cell::with_faults(seed, FaultPlan { short_batch: 0.3, ..slow() }).await;
            for _ in 0..3 {
                cell.node_add().await;
            }
            let workers = [cell.worker(0, 2, &["default"]), cell.worker(1, 2, &["default"])];
            let mut closed: Vec<(Versionstamp, Versionstamp)> = Vec::new();
            for number in 0..8 {
                cell.job_submit(&format!("one-{number}"), None).await;
                cell.job_submit(&format!("other-{number}"), None).await;
                cell.gang_submit(&format!("gang-{number}"), 6, 100).await;
                let conflicts = cell.conflicts();
                for _ in 0..cell.below(150) {
                    cell.priority_turn(&format!("other-{number}")).await;
                    tokio::time::sleep(Duration::from_millis(cell.below(30))).await;
                }
                closed_while_conflicting += u32::from(cell.conflicts() > conflicts);
                let state = if cell.below(2) == 0 { CellState::Draining } else { CellState::Moved };
                let from = cell.gate_set(state).await;
                tokio::time::sleep(Duration::from_millis(cell.below(3_000))).await;
                closed.push((from, cell.gate_set(CellState::Open).await));
            }
            for (stamp, action) in cell.actions().await {
                if !PLACES.contains(&action.as_str()) {
                    continue;
                }
                placed += 1;
                let behind = closed.iter().any(|(from, to)| *from < stamp && stamp < *to);
                assert!(!behind, "seed {seed}: {action} at {stamp:?} while the gate was closed");
            }
            workers.into_iter().for_each(|worker| worker.abort());
        });
    }
    // Both kinds of moments must have occurred, or the test would show nothing.
    let met = (closed_while_conflicting, placed);
    assert!(std::env::var("BOROUGH_SEED").is_ok() || (met.0 > 10 && met.1 > 50), "{met:?}");
}
