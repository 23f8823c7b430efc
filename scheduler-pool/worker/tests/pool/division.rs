//! Workers that share the jobs of a cell: large jobs, workers that stand by, and the number of shards under load.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use borough_model::Incarnation;
use borough_testkit::in_simulated_time;

use crate::cell::{Cell, LEASE_MS, slow};

#[test]
fn a_large_job_is_placed_by_several_workers() {
    in_simulated_time(async {
        let cell = Cell::with_faults(1, slow()).await;
        cell.node_add().await;
        cell.node_add().await;
        cell.large_submit("large", 1_000).await;
        let workers: Vec<_> = (0..2).map(|place| cell.worker_slicing(place, 2, 100)).collect();
        cell.until("all is placed", async || cell.placed().await == 1_000).await;
        let tasks = cell.tasks().await;
        assert!(tasks.iter().all(|row| row.incarnation == Incarnation(1)), "a task was placed twice");
        let mut batches: BTreeMap<String, usize> = BTreeMap::new();
        for actor in cell.placed_in_order().await {
            *batches.entry(actor).or_default() += 1;
        }
        let workers_of = batches.keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(workers_of, ["scheduler/0", "scheduler/1"], "{batches:?}");
        assert_eq!(cell.violations().await, []);
        workers.into_iter().for_each(|worker| worker.abort());
    });
}

#[test]
fn a_worker_without_a_shard_stands_by_and_takes_the_place_of_one_that_dies() {
    in_simulated_time(async {
        let cell = Cell::new(2).await;
        let first = cell.worker(0, 1, &["default"]);
        cell.until("the first works", async || cell.holders("default").await.len() == 1).await;
        let second = cell.worker(0, 1, &["default"]);
        cell.until("the second stands by", async || cell.standby().await == [1]).await;
        let dead = cell.holders("default").await.get(&0).cloned().unwrap();
        first.abort();
        let died = cell.now();
        cell.until("the second works", async || {
            cell.holders("default").await.get(&0).is_some_and(|holder| *holder != dead)
        })
        .await;
        assert!(cell.now() - died <= Duration::from_millis(LEASE_MS + 1_000));
        cell.until("nobody stands by", async || cell.standby().await.is_empty()).await;
        // Its successor finds a live worker, and the place of the dead one is free again.
        let third = cell.worker(0, 1, &["default"]);
        cell.until("the third stands by", async || cell.standby().await == [1]).await;
        cell.node_add().await;
        cell.job_submit("job", None).await;
        cell.until("the job is placed", async || cell.placed().await == 1).await;
        second.end().await;
        cell.until("the third works", async || cell.holders("default").await.len() == 1).await;
        third.abort();
    });
}

#[test]
fn a_worker_that_comes_late_gets_a_shard_of_one_that_has_two() {
    in_simulated_time(async {
        let cell = Cell::new(3).await;
        let first = cell.worker(0, 2, &["default"]);
        cell.until("one holds both", async || cell.holders("default").await.len() == 2).await;
        let second = cell.worker(0, 2, &["default"]);
        cell.until("each holds one", async || {
            let holders = cell.holders("default").await;
            holders.values().collect::<BTreeSet<_>>().len() == 2 && holders.len() == 2
        })
        .await;
        first.abort();
        second.abort();
    });
}

#[test]
fn a_pool_grows_under_load_and_shrinks_in_the_calm() {
    in_simulated_time(async {
        let cell = Cell::with_faults(4, slow()).await;
        cell.node_add().await;
        cell.large_submit("large", 5_000).await;
        let workers: Vec<_> = (0..3).map(|_| cell.worker_slicing(0, 1, 500)).collect();
        cell.until("two stand by", async || cell.standby().await == [1, 2]).await;
        cell.until("one of them helps", async || cell.standby().await == [2]).await;
        cell.until("all is placed", async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cell.placed().await == 5_000
        })
        .await;
        let actors: BTreeSet<String> = cell.placed_in_order().await.into_iter().collect();
        assert!(actors.contains("scheduler/1"), "{actors:?}");
        let done = cell.now();
        cell.until("both stand by again", async || cell.standby().await == [1, 2]).await;
        // It was calm already while the last thousand were placed.
        let calm = cell.now() - done;
        assert!(calm >= Duration::from_secs(35), "a pause of {calm:?} is no calm");
        workers.into_iter().for_each(|worker| worker.abort());
    });
}
