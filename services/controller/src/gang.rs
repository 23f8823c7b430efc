//! Gangs past their time. A worker, or its successor, gives up a gang that gathers in vain. Without a successor, the
//! gang would hold its nodes' capacity for ever.

use borough_model::GangId;
use borough_model::task::{GangRow, GangState, TaskRow, TaskState};
use borough_store::gang::gang_expire;
use borough_store::mirror::MirrorState;
use borough_store::task::gang_holds_settle;
use borough_store::{StoreError, StoreResult};

use crate::act::ActionExecutor;

/// Rows visited in one transaction when holds are settled.
const SETTLE_MAX: usize = 256;

/// Gangs that need an action: those that still gather after their time, that wait for victims and have lost a member,
/// or that have holds to settle.
pub fn gangs_overdue(state: &MirrorState, now_ms: i64) -> Vec<GangId> {
    let holding = |gang: &GangRow| {
        let holds = |row: &TaskRow| row.state == TaskState::Held && row.gang == Some(gang.id);
        let waits = gang.state == GangState::Waiting;
        let counts = |row: &TaskRow| holds(row) && (!waits || row.gang_epoch == gang.epoch);
        state.job_tasks(gang.job).filter(|row| counts(row)).count()
    };
    let left = |gang: &GangRow| match gang.state {
        GangState::Gathering => true,
        GangState::Waiting => holding(gang) < gang.min_member as usize,
        GangState::Committed | GangState::Released => holding(gang) > 0,
    };
    let over = state.gangs().values().filter(|gang| gang.expires_ms <= now_ms);
    over.filter(|gang| left(gang)).map(|gang| gang.id).collect()
}

/// Ends an overdue gang: gives up one that gathers, or waits and has lost a member. Then settles its holds: they become
/// placements if the gang was committed, and are released otherwise.
pub async fn gang_end(executor: &ActionExecutor, gang: GangId) -> StoreResult<()> {
    let ended = executor.change("gang_expire", |tx, mut changes| async move {
        gang_expire(&tx, &mut changes, gang).await?;
        Ok(((), changes))
    });
    match ended.await {
        Ok(()) => tracing::warn!(%gang, "a gang did not come together, and its worker is gone"),
        // Committed or released already: only its holds must be settled.
        Err(StoreError::Gang(_)) => {}
        Err(error) => return Err(error),
    }
    let mut after = None;
    loop {
        let sweep = executor.change("gang_settle", |tx, mut changes| async move {
            let sweep = gang_holds_settle(&tx, &mut changes, gang, after, SETTLE_MAX).await?;
            Ok((sweep, changes))
        });
        after = sweep.await?.next;
        if after.is_none() {
            return Ok(());
        }
    }
}
