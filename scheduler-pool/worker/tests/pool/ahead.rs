//! A worker plans its next batch while the store commits the batch before. Whatever becomes of that commit, the next
//! batch overtakes nobody, takes nothing twice, and is committed under the lease alone.

use std::time::Duration;

use borough_kv::{FaultPlan, Versionstamp};
use borough_model::job::JobKind;
use borough_model::{Delta, JobId};
use borough_store::lease::{LeaseAcquired, LeaseClaim, lease_acquire, lease_read};
use borough_testkit::{in_simulated_time, job_spec, seeds};

use crate::cell::{Cell, LEASE_MS, slow};

/// The most tasks of a batch.
const BATCH: u32 = 64;

#[test]
fn a_worker_plans_the_next_batch_while_the_store_commits() {
    in_simulated_time(async {
        let cell = Cell::with_faults(1, slow()).await;
        cell.node_add().await;
        cell.large_submit("large", 8 * BATCH).await;
        let worker = cell.worker(0, 1, &["default"]);
        cell.until("all are placed", async || cell.placed().await == 512).await;
        // All but the first batch, and perhaps a last one.
        assert!(cell.planned_ahead() >= 7, "{} batches", cell.planned_ahead());
        assert_eq!(cell.conflicts(), 0);
        worker.end().await;
        assert_eq!(cell.violations().await, []);
    });
}

/// The commit of the more urgent job fails again and again. Its tasks keep their turn before those of the other job,
/// which the worker has planned meanwhile.
#[test]
fn the_batch_behind_a_failed_one_does_not_overtake_it() {
    for seed in seeds(8) {
        in_simulated_time(async {
            let cell = Cell::with_faults(seed, slow()).await;
            cell.node_add().await;
            cell.tasks_submit("urgent", BATCH, 150).await;
            cell.tasks_submit("behind", BATCH, 100).await;
            let worker = cell.worker(0, 1, &["default"]);
            let urgent = cell.job("urgent").await;
            for _ in 0..5 {
                let before = cell.conflicts();
                cell.until("a batch has lost a guard", async || {
                    cell.priority_turn("urgent").await;
                    cell.conflicts() > before || cell.placed().await > BATCH as usize
                })
                .await;
            }
            cell.until("all are placed", async || cell.placed().await == 128).await;
            // The jobs that have waited longest have four tasks in each batch, and those survive a conflict.
            let order = cell.jobs_in_order().await;
            let before = order.iter().take_while(|job| **job != urgent).count();
            assert!(before < 32, "seed {seed}: {before} tasks went before the urgent ones");
            worker.end().await;
            assert_eq!(cell.violations().await, [], "seed {seed}");
        });
    }
}

/// The tasks take the nodes to the last bit. A charge that was assumed and not taken back would keep some of them
/// waiting for ever, and capacity that was given twice would be a violation.
#[test]
fn whatever_becomes_of_a_commit_in_flight_the_next_batch_is_right() {
    let mut ahead = 0;
    for seed in seeds(4) {
        let found = std::cell::Cell::new(0);
        in_simulated_time(async {
            let faults = FaultPlan {
                commit_refused: 0.1,
                commit_then_unknown: 0.2,
                no_commit_then_unknown: 0.2,
                timed_out_then_commit: 0.05,
                ..slow()
            };
            let cell = Cell::with_faults(seed, faults).await;
            cell.node_add().await;
            cell.node_add().await;
            let workers = [cell.worker(0, 2, &["default"]), cell.worker(1, 2, &["default"])];
            cell.until("both work", async || cell.holders("default").await.len() == 2).await;
            for number in 0..16 {
                cell.fifths_submit(&format!("job-{number}"), 40).await;
            }
            cell.until("all are placed", async || cell.placed().await == 640).await;
            assert!(cell.tasks().await.iter().all(|row| row.incarnation.0 == 1), "seed {seed}: placed twice");
            found.set(cell.planned_ahead());
            for worker in workers {
                worker.end().await;
            }
            assert_eq!(cell.violations().await, [], "seed {seed}");
        });
        ahead += found.get();
    }
    assert!(ahead > 3, "{ahead} batches were planned ahead");
}

/// The lease passes on while a batch is in flight and the next one is planned.
#[test]
fn a_batch_that_is_planned_ahead_ends_with_the_lease() {
    let mut ahead = 0;
    for seed in seeds(4) {
        let found = std::cell::Cell::new(0);
        in_simulated_time(async {
            let cell = Cell::with_faults(seed, slow()).await;
            cell.node_add().await;
            cell.large_submit("large", 20 * BATCH).await;
            let worker = cell.worker(0, 1, &["default"]);
            cell.until("some are placed", async || cell.placed().await > 0).await;
            tokio::time::sleep(Duration::from_millis(cell.below(3_000))).await;
            found.set(cell.planned_ahead());
            let taken = cell.lease_take().await;
            tokio::time::sleep(Duration::from_millis(LEASE_MS / 2)).await;
            for (stamp, action) in cell.actions().await {
                let behind = action == "placement_commit" && stamp > taken;
                assert!(!behind, "seed {seed}: placed without the lease");
            }
            // The worker gets the shard back once the other holder is silent.
            let before = cell.placed().await;
            cell.until("more are placed", async || cell.placed().await > before).await;
            worker.end().await;
            assert_eq!(cell.violations().await, [], "seed {seed}");
        });
        ahead += found.get();
    }
    assert!(ahead > 3, "{ahead} batches were planned ahead");
}

/// A batch that depends on other tasks is planned on what is known, and not on what is assumed.
#[test]
fn a_gang_is_not_planned_ahead() {
    in_simulated_time(async {
        let cell = Cell::with_faults(1, slow()).await;
        cell.node_add().await;
        for number in 0..6 {
            cell.gang_submit(&format!("gang-{number}"), 40, 10).await;
        }
        let worker = cell.worker(0, 1, &["default"]);
        cell.until("all are placed", async || cell.placed().await == 240).await;
        assert_eq!(cell.planned_ahead(), 0);
        worker.end().await;
        assert_eq!(cell.violations().await, []);
    });
}

impl Cell {
    /// How many batches were planned ahead and then committed.
    fn planned_ahead(&self) -> u64 {
        self.counter("planned_ahead")
    }

    /// Admits a job of so many small tasks at a priority.
    async fn tasks_submit(&self, job: &str, count: u32, priority: u32) {
        let mut spec = job_spec("ann", job, JobKind::Batch);
        (spec.count, spec.priority) = (count, priority);
        spec.task.resources.cpu_millis = 10;
        self.spec_submit(&spec).await;
    }

    /// Admits a job of so many tasks of a fifth of a core.
    async fn fifths_submit(&self, job: &str, count: u32) {
        let mut spec = job_spec("ann", job, JobKind::Batch);
        spec.count = count;
        spec.task.resources.cpu_millis = 200;
        self.spec_submit(&spec).await;
    }

    /// The job of each placed task, in the order of the journal.
    async fn jobs_in_order(&self) -> Vec<JobId> {
        let entries = self.journal().await.into_iter().filter(|entry| entry.action == "placement_commit");
        let deltas = entries.flat_map(|entry| entry.deltas);
        let job = |delta| match delta {
            Delta::Task { row } => Some(row.id.job),
            _ => None,
        };
        deltas.filter_map(job).collect()
    }

    /// Another holder takes the lease of shard 0 at once, as if its worker had been silent. Returns the stamp.
    async fn lease_take(&self) -> Versionstamp {
        self.written("lease_take", async |tx, space| {
            let state = lease_read(tx, space, "scheduler", 0).await?;
            let claim = LeaseClaim {
                role: "scheduler".to_owned(),
                shard: 0,
                holder: "another".to_owned(),
                duration_ms: LEASE_MS,
                generation: 0,
                expired: Some(state),
            };
            let acquired = lease_acquire(tx, space, &claim).await?;
            assert!(matches!(acquired, LeaseAcquired::Held(_)), "{acquired:?}");
            Ok(())
        })
        .await
    }
}
