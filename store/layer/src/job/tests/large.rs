//! A job with the largest number of tasks: every verb and every step of the controller is a small transaction, however
//! many rows it has.

use borough_model::task::{ChargeOwner, StopReason, TaskRow, TaskState, Verdict};
use borough_model::{Incarnation, TaskId};

use super::*;
use crate::journal::ChangeSet;
use crate::keys::{self, TaskKey};
use crate::task::{TaskSweep, task_unwanted_stop, task_wanted_revive};

const TASKS: u32 = 100_000;
/// A tenth of what a transaction may hold.
const BYTES_MAX: usize = 1_000_000;
/// Rows in one step of the controller.
const STEP: usize = 256;

/// A change that must be small.
async fn small<T>(
    cell: &TestCell,
    action: &'static str,
    closure: impl AsyncFn(&borough_kv::Transaction, &mut ChangeSet) -> StoreResult<T>,
) -> T {
    let changing = cell.change(change(7, action), async |tx, changes| {
        let value = closure(tx, changes).await?;
        let bytes = tx.approximate_size().await?;
        assert!(bytes < BYTES_MAX, "{action}: {bytes} bytes");
        Ok(value)
    });
    changing.await.unwrap()
}

/// Visits all rows in steps. Returns how many have changed.
async fn sweep(
    cell: &TestCell,
    action: &'static str,
    step: impl AsyncFn(&borough_kv::Transaction, &mut ChangeSet, Option<TaskId>) -> StoreResult<TaskSweep>,
) -> usize {
    let (mut after, mut changed) = (None, 0);
    loop {
        let swept = small(cell, action, async |tx, changes| step(tx, changes, after).await).await;
        changed += swept.changed;
        after = swept.next;
        if after.is_none() {
            return changed;
        }
    }
}

/// The rows that a shrink to nothing leaves, written directly.
async fn rows_write(cell: &TestCell) {
    for first in (0..TASKS).step_by(5_000) {
        let write = cell.run(async |tx| {
            for index in first..first + 5_000 {
                let id = TaskId { job: JobId(1), index };
                let mut row = TaskRow::never_placed(id);
                (row.state, row.stop) = (TaskState::Dead, Some(StopReason::JobShrunk));
                (row.verdict, row.incarnation) = (Some(Verdict::Stopped), Incarnation(1));
                (row.revision, row.spec_version) = (5, 1);
                row.charge.owner = ChargeOwner::Released;
                keys::write(&tx, &cell.space, &TaskKey::of(id), &row)?;
            }
            Ok(())
        });
        write.await.unwrap();
    }
}

async fn charged(cell: &TestCell, band: Band) -> u64 {
    let read = cell.run(async |tx| quota_usage(&tx, &cell.space, &name("ada"), band).await);
    read.await.unwrap().tasks
}

#[tokio::test]
async fn a_hundred_thousand_dead_tasks_come_back_and_go_again_in_small_transactions() {
    let cell = TestCell::new().await;
    submit(&cell, &spec("wide", 0), 1).await.unwrap();
    rows_write(&cell).await;
    let scale = async |count: u32| {
        small(&cell, "job_scale", async |tx, changes| job_scale(tx, changes, JobId(1), count).await).await;
    };
    scale(TASKS).await;
    assert_eq!(charged(&cell, Band::Batch).await, u64::from(TASKS), "charged before they are revived");
    // Reviving all rows in the verb itself would exceed one transaction.
    let all = usize::try_from(TASKS).unwrap();
    let at_once = cell.change(change(7, "at_once"), async |tx, changes| {
        task_wanted_revive(tx, changes, JobId(1), None, all).await
    });
    let code = at_once.await.unwrap_err();
    assert!(
        matches!(&code, StoreError::Kv(error) if error.code == borough_kv::ErrorCode::TransactionTooLarge)
    );
    let revive = async |tx: &borough_kv::Transaction, changes: &mut ChangeSet, after: Option<TaskId>| {
        task_wanted_revive(tx, changes, JobId(1), after, STEP).await
    };
    // The job shrinks again and grows, which revives half of them.
    scale(TASKS / 2).await;
    assert_eq!(charged(&cell, Band::Batch).await, u64::from(TASKS / 2));
    assert_eq!(sweep(&cell, "task_revive", revive).await, all / 2);
    scale(TASKS).await;
    // Another band takes the charges of revived and not revived tasks.
    small(&cell, "job_priority", async |tx, changes| job_priority_set(tx, changes, JobId(1), 250).await)
        .await;
    let bands = (charged(&cell, Band::Batch).await, charged(&cell, Band::Production).await);
    assert_eq!(bands, (0, u64::from(TASKS)));
    assert_eq!(sweep(&cell, "task_revive", revive).await, all / 2);
    assert_eq!(sweep(&cell, "task_revive", revive).await, 0);
    assert_eq!(charged(&cell, Band::Production).await, u64::from(TASKS));
    small(&cell, "job_stop", async |tx, changes| job_stop(tx, changes, JobId(1)).await).await;
    let stop = async |tx: &borough_kv::Transaction, changes: &mut ChangeSet, after: Option<TaskId>| {
        task_unwanted_stop(tx, changes, JobId(1), after, STEP).await
    };
    assert_eq!(sweep(&cell, "task_stop", stop).await, all);
    small(&cell, "job_end", async |tx, changes| job_tasks_gone(tx, changes, JobId(1)).await).await;
    assert_eq!(charged(&cell, Band::Production).await, 0);
    small(&cell, "jobs_remove", async |tx, changes| jobs_remove(tx, changes, &[JobId(1)], usize::MAX).await)
        .await;
}
