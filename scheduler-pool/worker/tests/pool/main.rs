//! Several production workers on one store in memory, in simulated time. The tests check who takes over a dead worker's
//! shard, which scheduler places which job, and what workers report about themselves.
//!
//! One seed alone: `BOROUGH_SEED=<seed> cargo test -p borough-scheduler --test pool`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod ahead;
mod cell;
mod clocks;
mod crash;
mod division;
mod gang;
mod gate;
mod port;
mod preempt;
mod reclaim;

use std::time::Duration;

use borough_testkit::{in_simulated_time, seeds};

use cell::{Cell, LEASE_MS};

/// The promised time beyond the lease.
const BEYOND: Duration = Duration::from_secs(1);

#[test]
fn a_dead_workers_shard_is_taken_over_within_its_lease_and_a_second() {
    for seed in seeds(25) {
        in_simulated_time(async {
            let cell = Cell::new(seed).await;
            let workers: Vec<_> = (0..3).map(|place| cell.worker(place, 3, &["default"])).collect();
            cell.until("every worker has its shard", async || cell.holders("default").await.len() == 3).await;
            // It dies at any moment between heartbeats.
            tokio::time::sleep(Duration::from_millis(3_000 + cell.below(4_000))).await;
            let before = cell.holders("default").await;
            let mut workers = workers;
            workers.remove(1).abort();
            let died = cell.now();
            let lost = before.get(&1).unwrap().clone();
            cell.until("the shard has passed on", async || {
                cell.holders("default").await.get(&1).is_some_and(|holder| *holder != lost)
            })
            .await;
            let took = cell.now() - died;
            assert!(took <= Duration::from_millis(LEASE_MS) + BEYOND, "seed {seed}: after {took:?}");
            // Its work continues: jobs of every shard are placed.
            cell.node_add().await;
            for number in 0..12 {
                cell.job_submit(&format!("job-{number}"), None).await;
            }
            cell.until("all is placed", async || cell.placed().await == 12).await;
            // The nodes are divided among the running workers.
            cell.until("two parts", async || {
                let statuses = cell.statuses().await;
                statuses.iter().all(|status| status.part_nodes <= 1)
                    && statuses.iter().any(|status| status.shards == 2)
            })
            .await;
            assert!(
                took > Duration::from_millis(LEASE_MS / 2),
                "seed {seed}: a live lease was taken: {took:?}"
            );
            workers.into_iter().for_each(|worker| worker.abort());
        });
    }
}

#[test]
fn a_worker_that_ends_gives_its_shard_back_at_once() {
    in_simulated_time(async {
        let cell = Cell::new(1).await;
        let stays = cell.worker(0, 2, &["default"]);
        let goes = cell.worker(1, 2, &["default"]);
        cell.until("both work", async || cell.holders("default").await.len() == 2).await;
        goes.end().await;
        let ended = cell.now();
        cell.until("one holds both", async || {
            let holders = cell.holders("default").await;
            holders.len() == 2 && holders.get(&0) == holders.get(&1)
        })
        .await;
        // Nobody waits for it, but its owner may take the shard first.
        assert!(cell.now() - ended <= Duration::from_millis(LEASE_MS) + BEYOND);
        stays.abort();
    });
}

#[test]
fn a_job_is_placed_by_the_scheduler_that_it_names_and_by_no_other() {
    in_simulated_time(async {
        let cell = Cell::new(2).await;
        cell.node_add().await;
        let default = cell.worker(0, 1, &["default"]);
        cell.job_submit("plain", None).await;
        cell.job_submit("special", Some("gpu")).await;
        cell.until("the plain job is placed", async || cell.placed().await == 1).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(cell.placed().await, 1, "nobody serves the other");
        assert!(cell.holders("gpu").await.is_empty());
        let both = cell.worker(0, 1, &["gpu", "batch"]);
        cell.until("the other is placed too", async || cell.placed().await == 2).await;
        assert_eq!((cell.holders("gpu").await.len(), cell.holders("batch").await.len()), (1, 1));
        assert_ne!(cell.holders("gpu").await, cell.holders("default").await);
        default.abort();
        both.abort();
    });
}

#[test]
fn a_shard_with_work_without_end_keeps_no_other_from_its_turn() {
    in_simulated_time(async {
        let cell = Cell::new(4).await;
        for _ in 0..4 {
            cell.node_add().await;
        }
        for number in 0..400 {
            cell.job_submit(&format!("job-{number}"), None).await;
        }
        cell.job_submit("special", Some("gpu")).await;
        let worker = cell.worker(0, 1, &["default", "gpu"]);
        cell.until("all is placed", async || cell.placed().await == 401).await;
        let batches = cell.placed_in_order().await;
        let at = batches.iter().position(|actor| actor == "scheduler/gpu/0").unwrap();
        assert!(at < 2 && batches.len() > 6, "batch {at} of {batches:?}");
        worker.abort();
    });
}

#[test]
fn workers_report_what_they_do() {
    in_simulated_time(async {
        let cell = Cell::new(3).await;
        for _ in 0..4 {
            cell.node_add().await;
        }
        let workers = [cell.worker(0, 2, &["default"]), cell.worker(1, 2, &["default"])];
        for number in 0..40 {
            cell.job_submit(&format!("job-{number}"), None).await;
        }
        cell.job_submit_sized("vast", None, 1_000_000).await;
        cell.until("all that fits is placed", async || cell.placed().await == 40).await;
        cell.until("the statuses are stored", async || {
            let statuses = cell.statuses().await;
            statuses.len() == 2 && statuses.iter().map(|status| status.placed).sum::<u64>() == 40
        })
        .await;
        let statuses = cell.statuses().await;
        assert_eq!(
            statuses.iter().map(|status| (status.part_first, status.part_nodes)).collect::<Vec<_>>(),
            [(0, 2), (2, 2)]
        );
        assert_eq!(statuses.iter().map(|status| status.unschedulable).sum::<u64>(), 1);
        assert!(
            statuses.iter().all(|status| status.waiting == 0 && status.age_ms < 2_000 && status.shards == 1),
            "{statuses:?}"
        );
        assert!(
            statuses.iter().all(|status| status.commits > 0 && status.scored_per_mille > 0),
            "{statuses:?}"
        );
        workers.into_iter().for_each(|worker| worker.abort());
        // Its report expires with its lease.
        let third = cell.worker(0, 2, &["default"]);
        cell.until("its successor says nothing of its work", async || {
            cell.statuses().await.iter().all(|status| status.placed == 0)
        })
        .await;
        third.abort();
    });
}
