//! Transitions of a unit's row.

use borough_kv::Transaction;
use borough_model::job::JobState;
use borough_model::task::machine::{UnitEvent, unit_gathering, unit_transition};
use borough_model::task::{TaskRow, TaskState, UnitRow, UnitState};
use borough_model::{Delta, JobId, UnitId};

use crate::error::{StoreError, StoreResult};
use crate::job::job_get;
use crate::journal::{ChangeSet, OpenChanges};
use crate::keys::{self, CellSpace, Prefix, RangeOptions, TaskKey, UnitKey};

/// The row of a unit, with a read conflict.
pub async fn unit_get(tx: &Transaction, space: &CellSpace, unit: UnitId) -> StoreResult<UnitRow> {
    let row = keys::read(tx, space, &UnitKey { unit }).await?;
    row.ok_or_else(|| StoreError::not_found(format!("unit {unit}")))
}

/// Opens a unit of a running job, or an epoch more of one that was released, or gives one that gathers more time.
/// Answers the row: holds name its epoch.
pub async fn unit_begin(
    tx: &Transaction,
    changes: &mut OpenChanges<'_>,
    (unit, job): (UnitId, JobId),
    min_member: u32,
    expires_ms: i64,
) -> StoreResult<UnitRow> {
    let row = job_get(tx, changes.space(), job).await?;
    if row.state != JobState::Running {
        return Err(StoreError::refused(format!("job {}/{} does not run", row.user, row.name)));
    }
    match keys::read(tx, changes.space(), &UnitKey { unit }).await? {
        None => {
            let row = unit_gathering(unit, job, min_member, expires_ms);
            unit_write(tx, changes, &row)?;
            Ok(row)
        }
        Some(row) if row.job != job => {
            Err(StoreError::AlreadyExists { what: format!("unit {unit} of another job") })
        }
        Some(row) => unit_event(tx, changes, &row, &UnitEvent::Gather { expires_ms }),
    }
}

/// Makes every hold of `epoch` a placement, where enough members hold and wait for nobody: the one transaction that decides.
/// The rows of those that hold are conflicts, so a hold that is lost in between fails it. Whatever else happens to the job
/// does not.
pub async fn unit_commit(
    tx: &Transaction,
    changes: &mut OpenChanges<'_>,
    unit: UnitId,
    epoch: u64,
) -> StoreResult<UnitRow> {
    let row = unit_get(tx, changes.space(), unit).await?;
    let holding = holding(tx, changes, &row, |task| task.unit_epoch == epoch && !task.promised).await?;
    unit_event(tx, changes, &row, &UnitEvent::Commit { epoch, holding })
}

/// Closes a unit of which all members hold at `epoch`, some of them what their victims have still to give back: it waits for
/// those, for as long as that takes.
pub async fn unit_wait(
    tx: &Transaction,
    changes: &mut OpenChanges<'_>,
    unit: UnitId,
    epoch: u64,
) -> StoreResult<UnitRow> {
    let row = unit_get(tx, changes.space(), unit).await?;
    let holding = holding(tx, changes, &row, |task| task.unit_epoch == epoch).await?;
    unit_event(tx, changes, &row, &UnitEvent::Wait { epoch, holding })
}

/// How many tasks hold for a unit, of those that `counts`. Their rows are conflicts, and no others: one more would not
/// change what is decided.
async fn holding(
    tx: &Transaction,
    changes: &ChangeSet,
    unit: &UnitRow,
    counts: impl Fn(&TaskRow) -> bool,
) -> StoreResult<u32> {
    let prefix = Prefix::<TaskKey>::of(&unit.job);
    let tasks = keys::range(tx, changes.space(), &prefix, RangeOptions::snapshot()).await?;
    let holds = |task: &TaskRow| task.state == TaskState::Held && task.unit == Some(unit.id) && counts(task);
    let mut holding = 0_usize;
    for (key, _) in tasks.iter().filter(|(_, task)| holds(task)) {
        keys::guard(tx, changes.space(), key)?;
        holding = holding.saturating_add(1);
    }
    Ok(u32::try_from(holding).unwrap_or(u32::MAX))
}

/// A member of a unit has lost its hold of `epoch`: where the unit waits for victims, it is given up.
pub(crate) async fn unit_member_lost(
    tx: &Transaction,
    changes: &mut ChangeSet,
    unit: UnitId,
    epoch: u64,
) -> StoreResult<()> {
    let row = keys::read(tx, changes.space(), &UnitKey { unit }).await?;
    let waits = |row: &UnitRow| row.state == UnitState::Waiting && row.epoch == epoch;
    if let Some(row) = row.filter(waits) {
        unit_event(tx, changes, &row, &UnitEvent::GiveUp { epoch })?;
    }
    Ok(())
}

/// Releases a unit whose holds are past their time, or that waits for victims and has lost a member: nobody joins it any more,
/// so what it lacks it lacks for good.
pub async fn unit_expire(tx: &Transaction, changes: &mut ChangeSet, unit: UnitId) -> StoreResult<UnitRow> {
    let row = unit_get(tx, changes.space(), unit).await?;
    if row.state == UnitState::Waiting {
        let epoch = row.epoch;
        let holding = holding(tx, changes, &row, |task| task.unit_epoch == epoch).await?;
        return match holding < row.min_member {
            true => unit_event(tx, changes, &row, &UnitEvent::GiveUp { epoch }),
            false => Ok(row),
        };
    }
    unit_event(tx, changes, &row, &UnitEvent::Expire)
}

/// Releases a unit at `epoch`, whatever its time.
pub async fn unit_give_up(
    tx: &Transaction,
    changes: &mut ChangeSet,
    unit: UnitId,
    epoch: u64,
) -> StoreResult<UnitRow> {
    let row = unit_get(tx, changes.space(), unit).await?;
    unit_event(tx, changes, &row, &UnitEvent::GiveUp { epoch })
}

fn unit_event(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &UnitRow,
    event: &UnitEvent,
) -> StoreResult<UnitRow> {
    let transition = unit_transition(before, event, changes.at_ms())?;
    if transition.changed {
        unit_write(tx, changes, &transition.row)?;
    }
    Ok(transition.row)
}

fn unit_write(tx: &Transaction, changes: &mut ChangeSet, row: &UnitRow) -> StoreResult<()> {
    keys::write(tx, changes.space(), &UnitKey { unit: row.id }, row)?;
    changes.push(Delta::Unit { row: row.clone() });
    Ok(())
}
