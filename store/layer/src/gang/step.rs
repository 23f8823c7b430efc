//! Transitions of a gang's row.

use borough_kv::Transaction;
use borough_model::job::JobState;
use borough_model::task::machine::{GangEvent, gang_gathering, gang_transition};
use borough_model::task::{GangRow, GangState, TaskRow, TaskState};
use borough_model::{Delta, GangId, JobId};

use crate::error::{StoreError, StoreResult};
use crate::job::job_get;
use crate::journal::{ChangeSet, OpenChanges};
use crate::keys::{self, CellSpace, GangKey, Prefix, RangeOptions, TaskKey};

/// The row of a gang, with a read conflict.
pub async fn gang_get(tx: &Transaction, space: &CellSpace, gang: GangId) -> StoreResult<GangRow> {
    let row = keys::read(tx, space, &GangKey { gang }).await?;
    row.ok_or_else(|| StoreError::not_found(format!("gang {gang}")))
}

/// Opens a gang of a running job. Opens the next epoch of a released gang, and extends the time of one that gathers.
/// Returns the row: holds name its epoch.
pub async fn gang_begin(
    tx: &Transaction,
    changes: &mut OpenChanges<'_>,
    gang: GangId,
    job: JobId,
    min_member: u32,
    expires_ms: i64,
) -> StoreResult<GangRow> {
    let row = job_get(tx, changes.space(), job).await?;
    if row.state != JobState::Running {
        return Err(StoreError::refused(format!("job {}/{} does not run", row.user, row.name)));
    }
    match keys::read(tx, changes.space(), &GangKey { gang }).await? {
        None => {
            let row = gang_gathering(gang, job, min_member, expires_ms);
            gang_write(tx, changes, &row)?;
            Ok(row)
        }
        Some(row) if row.job != job => {
            Err(StoreError::AlreadyExists { what: format!("gang {gang} of another job") })
        }
        Some(row) => gang_event(tx, changes, &row, &GangEvent::Gather { expires_ms }),
    }
}

/// Turns every hold of `epoch` into a placement, if enough members hold and none waits for victims. This one
/// transaction decides. The rows of the holding members are conflicts, so a hold lost meanwhile fails it. Other changes
/// to the job do not.
pub async fn gang_commit(
    tx: &Transaction,
    changes: &mut OpenChanges<'_>,
    gang: GangId,
    epoch: u64,
) -> StoreResult<GangRow> {
    let row = gang_get(tx, changes.space(), gang).await?;
    let holding = holding(tx, changes, &row, |task| task.gang_epoch == epoch && !task.promised).await?;
    gang_event(tx, changes, &row, &GangEvent::Commit { epoch, holding })
}

/// Counts the tasks that hold for a gang and that `counts`. Only their rows are conflicts: one more hold would not
/// change the decision.
async fn holding(
    tx: &Transaction,
    changes: &ChangeSet,
    gang: &GangRow,
    counts: impl Fn(&TaskRow) -> bool,
) -> StoreResult<u32> {
    let prefix = Prefix::<TaskKey>::of(&gang.job);
    let tasks = keys::range(tx, changes.space(), &prefix, RangeOptions::snapshot()).await?;
    let holds = |task: &TaskRow| task.state == TaskState::Held && task.gang == Some(gang.id) && counts(task);
    let mut holding = 0_usize;
    for (key, _) in tasks.iter().filter(|(_, task)| holds(task)) {
        keys::guard(tx, changes.space(), key)?;
        holding = holding.saturating_add(1);
    }
    Ok(u32::try_from(holding).unwrap_or(u32::MAX))
}

/// A member of a gang has lost its hold of `epoch`. A gang that waits for victims is then given up.
pub(crate) async fn gang_member_lost(
    tx: &Transaction,
    changes: &mut ChangeSet,
    gang: GangId,
    epoch: u64,
) -> StoreResult<()> {
    let row = keys::read(tx, changes.space(), &GangKey { gang }).await?;
    let waits = |row: &GangRow| row.state == GangState::Waiting && row.epoch == epoch;
    if let Some(row) = row.filter(waits) {
        gang_event(tx, changes, &row, &GangEvent::GiveUp { epoch })?;
    }
    Ok(())
}

/// Releases a gang whose holds have expired, or that waits for victims and has lost a member: no member can join it any
/// more, so it stays incomplete.
pub async fn gang_expire(tx: &Transaction, changes: &mut ChangeSet, gang: GangId) -> StoreResult<GangRow> {
    let row = gang_get(tx, changes.space(), gang).await?;
    if row.state == GangState::Waiting {
        let epoch = row.epoch;
        let holding = holding(tx, changes, &row, |task| task.gang_epoch == epoch).await?;
        let released = holding < row.min_member;
        return if released { gang_event(tx, changes, &row, &GangEvent::GiveUp { epoch }) } else { Ok(row) };
    }
    gang_event(tx, changes, &row, &GangEvent::Expire)
}

/// Releases a gang at `epoch`, even before its time.
pub async fn gang_give_up(
    tx: &Transaction,
    changes: &mut ChangeSet,
    gang: GangId,
    epoch: u64,
) -> StoreResult<GangRow> {
    let row = gang_get(tx, changes.space(), gang).await?;
    gang_event(tx, changes, &row, &GangEvent::GiveUp { epoch })
}

fn gang_event(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &GangRow,
    event: &GangEvent,
) -> StoreResult<GangRow> {
    let transition = gang_transition(before, event, changes.at_ms())?;
    if transition.changed {
        gang_write(tx, changes, &transition.row)?;
    }
    Ok(transition.row)
}

fn gang_write(tx: &Transaction, changes: &mut ChangeSet, row: &GangRow) -> StoreResult<()> {
    keys::write(tx, changes.space(), &GangKey { gang: row.id }, row)?;
    changes.push(Delta::Gang { row: row.clone() });
    Ok(())
}
