//! A job shrinks while its tasks are placed: each charge is released once.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Shrinks the job of two tasks to none, while `meanwhile` happens in the first try. Returns the number of tries.
async fn shrink(cell: &TestCell, meanwhile: impl AsyncFn()) -> u32 {
    let attempts = AtomicU32::new(0);
    let shrinking = cell.change(change(9, "job_scale"), async |tx, changes| {
        let row = job_scale(tx, changes, JobId(1), 0).await?;
        if attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            meanwhile().await;
        }
        Ok(row)
    });
    shrinking.await.unwrap();
    attempts.load(Ordering::SeqCst)
}

async fn balanced(cell: &TestCell) {
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await).await.unwrap();
    assert_eq!(found, []);
}

#[tokio::test]
async fn a_task_that_is_placed_meanwhile_takes_its_charge_along() {
    let cell = world().await;
    let attempts = shrink(&cell, async || place(&cell, 1).await).await;
    assert_eq!(attempts, 2);
    balanced(&cell).await;
}

#[tokio::test]
async fn a_report_of_a_task_that_has_its_own_charge_is_in_nobodys_way() {
    let cell = world().await;
    place(&cell, 0).await;
    let attempts = shrink(&cell, async || {
        apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    });
    assert_eq!(attempts.await, 1);
    balanced(&cell).await;
}
