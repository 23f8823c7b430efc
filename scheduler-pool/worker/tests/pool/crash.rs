//! A job with tasks that fail at once, for ever.

use std::time::Duration;

use borough_model::job::{JobKind, RestartMode, RestartSpec};
use borough_model::{Delta, Incarnation, TaskState};
use borough_testkit::{in_simulated_time, job_spec};

use crate::cell::Cell;

const TASKS: u32 = 40;
/// For so long the tasks fail.
const FOR: Duration = Duration::from_secs(300);
/// The attempts of a task in that time: the pauses double from 10 ms to 10 s, and eleven failures take 10 s.
const ATTEMPTS: u64 = 11 + 30;

/// The job asks for the shortest pauses, without an end. Its tasks get ever longer ones, so that the journal grows
/// slowly. A job of another user that comes meanwhile is placed with the next batch.
#[test]
fn a_job_that_fails_at_once_for_ever_grows_the_journal_slowly_and_keeps_nobody_waiting() {
    in_simulated_time(async {
        let cell = Cell::new(1).await;
        cell.node_add().await;
        let worker = cell.worker(0, 1, &["default"]);
        let mut spec = job_spec("ann", "fails", JobKind::Service);
        spec.count = TASKS;
        spec.task.resources.cpu_millis = 100;
        spec.restart = RestartSpec {
            mode: RestartMode::Always,
            attempts_max: None,
            backoff_initial_ms: 10,
            backoff_max_ms: 10,
            reset_after_ms: 0,
        };
        cell.spec_submit(&spec).await;
        let (from, mut other) = (cell.now(), None);
        while cell.now() - from < FOR {
            for row in cell.tasks().await {
                if row.state == TaskState::Assigned && Some(row.id.job) != other {
                    cell.fails(&row).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            if other.is_none() && cell.now() - from > FOR / 2 {
                let mut spec = job_spec("ben", "works", JobKind::Service);
                spec.task.resources.cpu_millis = 100;
                cell.spec_submit(&spec).await;
                other = Some(cell.job_of("ben", "works").await);
            }
        }
        worker.end().await;
        let rows = cell.tasks().await;
        let mut attempts = rows.iter().filter(|row| Some(row.id.job) != other).map(|row| row.incarnation);
        assert!(attempts.all(|Incarnation(attempt)| attempt <= ATTEMPTS && attempt > 20), "{rows:?}");
        let journal = cell.journal().await;
        let bound = 3 * usize::try_from(ATTEMPTS).unwrap() * usize::try_from(TASKS).unwrap();
        assert!(journal.len() <= bound, "{} entries, and at most {bound} are expected", journal.len());
        let submitted = journal.iter().position(|entry| {
            entry.deltas.iter().any(|delta| matches!(delta, Delta::Job { row, .. } if Some(row.id) == other))
        });
        let batches =
            journal.iter().skip(submitted.unwrap()).filter(|entry| entry.action == "placement_commit");
        let mut batches = batches.enumerate();
        let (place, _) = batches
            .find(|(_, entry)| {
                entry
                    .deltas
                    .iter()
                    .any(|delta| matches!(delta, Delta::Task { row } if Some(row.id.job) == other))
            })
            .unwrap();
        assert!(place <= 2, "after {place} batches of the job that fails");
    });
}
