//! Queues that reclaim their guarantees, with several workers at once. They take no more than is missing, and no task
//! moves back and forth.

use std::time::Duration;

use borough_kv::FaultPlan;
use borough_model::TaskState;
use borough_model::queue::QueueSpec;
use borough_store::cell::CellMeta;
use borough_testkit::{in_simulated_time, seeds};

use crate::cell::Cell;

/// So many that each worker compares some, and its own first: each for one task.
const PLACES: usize = 256;
const WORKERS: u32 = 4;

fn queues() -> CellMeta {
    let queue = |path: &str| QueueSpec {
        path: path.to_owned(),
        weight: 1,
        guaranteed_per_mille: 500,
        limit_per_mille: 1000,
    };
    let (queueing, reclaim) = ("hierarchical".to_owned(), Some(true));
    CellMeta { queueing, queues: vec![queue("ops"), queue("research")], reclaim, ..CellMeta::default() }
}

#[test]
fn several_workers_take_back_what_is_lacking_and_no_more() {
    for seed in seeds(2) {
        in_simulated_time(async {
            let cell = Cell::with_settings(seed, FaultPlan::standard(), queues()).await;
            for _ in 0..PLACES {
                cell.node_add().await;
            }
            let workers: Vec<_> =
                (0..WORKERS).map(|place| cell.worker(place, WORKERS, &["default"])).collect();
            for number in 0..8 {
                cell.queue_submit(&format!("spare-{number}"), "ops", 32).await;
            }
            cell.until("the cell is full", async || cell.assigned().await == PLACES).await;
            // More than is missing, of jobs in each worker's shard.
            for number in 0..8 {
                cell.queue_submit(&format!("owed-{number}"), "research", 48).await;
            }
            let mut evicted = 0;
            for _ in 0..240 {
                tokio::time::sleep(Duration::from_millis(250)).await;
                let stopping = |row: &borough_model::TaskRow| row.state == TaskState::Stopping;
                for row in cell.tasks().await.into_iter().filter(stopping) {
                    cell.leave(&row).await;
                    evicted += 1;
                }
            }
            assert_eq!(cell.assigned().await, PLACES, "seed {seed}");
            assert_eq!(evicted, PLACES / 2, "seed {seed}");
            for worker in workers {
                worker.end().await;
            }
            assert_eq!(cell.violations().await, [], "seed {seed}");
        });
    }
}
