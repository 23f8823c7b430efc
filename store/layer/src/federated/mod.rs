//! Federated jobs, in the cell that is the home of the federation: what their owners want, what was promised to each
//! cell, and how the tasks were last divided. Nothing here calls a cell.

mod part;
mod question;
#[cfg(test)]
mod tests;

use borough_kv::Transaction;
use borough_model::federation::{
    FEDERATED_VERSIONS_MAX, FederatedJob, FederatedJobRow, FederatedState, FederatedStatus, FederatedVersion,
    RebalancedTasks, ReleaseOrder, ReleaseOrderKind, ReleaseRefusal, SplitPolicy, parts_finished,
};
use borough_model::{Delta, FederatedJobId, Name};

use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{
    self, CellSpace, FederatedJobKey, FederatedPartKey, FederatedStatusKey, FederatedVersionKey, Prefix,
    RangeOptions,
};

pub use part::{
    FederatedChange, federated_parts_each, federated_parts_of, federated_record, federated_status_of,
    federated_statuses_each,
};
pub use question::{
    federated_answer, federated_answer_watch, federated_ask, federated_question_end, federated_questions_open,
};

/// What a submission has done.
#[derive(Clone, Debug, PartialEq)]
pub struct FederatedSubmitted {
    pub row: FederatedJobRow,
    /// Whether the job is another one than before.
    pub changed: bool,
}

/// Adds a federated job as `new`, or changes the one that has the name. The same again changes nothing. A change for
/// another revision than `expected` is refused; 0: any.
///
/// # Errors
/// The job cannot be admitted, is at another revision than expected, or is being stopped.
pub async fn federated_submit(
    tx: &Transaction,
    changes: &mut ChangeSet,
    new: FederatedJobId,
    spec: &FederatedJob,
    expected: u64,
) -> StoreResult<FederatedSubmitted> {
    spec.validate().map_err(|errors| StoreError::InvalidSpec { errors })?;
    let key = FederatedJobKey { user: spec.job.user.clone(), name: spec.job.name.clone() };
    let known = keys::read(tx, changes.space(), &key).await?;
    let revision =
        known.as_ref().filter(|row| row.state != FederatedState::Stopped).map_or(0, |row| row.revision);
    if expected != 0 && expected != revision {
        let active = if revision == 0 { "active " } else { "" };
        let what = format!("{active}federated job {}/{}", key.user, key.name);
        let by = known.as_ref().map(|row| &row.changed_by);
        let look = format!("borough federation job status {}", key.name);
        return Err(StoreError::overtaken(&what, expected, revision, by, &look));
    }
    let (at_ms, by) = (changes.at_ms(), changes.actor().to_owned());
    let status = match &known {
        Some(row) => federated_status_of(tx, changes.space(), row.id).await?.unwrap_or_default(),
        None => FederatedStatus::default(),
    };
    let before = match known {
        Some(row) if row.state == FederatedState::Stopping => return Err(federated_stopping(&row)),
        Some(row) if is_over(tx, changes.space(), &row, &status).await? => {
            removed(tx, changes, &row)?;
            None
        }
        other => other,
    };
    let Some(before) = before else {
        let row = FederatedJobRow::first(new, spec.clone(), at_ms, by);
        version_write(tx, changes, &row)?;
        row_write(tx, changes, &row)?;
        return Ok(FederatedSubmitted { row, changed: true });
    };
    match before.run_with(spec, &status, at_ms, by) {
        None => Ok(FederatedSubmitted { row: before, changed: false }),
        Some(row) => {
            change_write(tx, changes, &before, &row)?;
            Ok(FederatedSubmitted { row, changed: true })
        }
    }
}

/// Whether nothing of a job goes on: it is stopped, or all its tasks have ended by themselves. Its name is free then.
async fn is_over(
    tx: &Transaction,
    space: &CellSpace,
    row: &FederatedJobRow,
    status: &FederatedStatus,
) -> StoreResult<bool> {
    match row.state {
        FederatedState::Stopped => Ok(true),
        FederatedState::Stopping => Ok(false),
        FederatedState::Active => {
            Ok(parts_finished(row, status, &federated_parts_of(tx, space, row.id).await?))
        }
    }
}

/// Writes the change of a job, with its version if that is another one.
fn change_write(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &FederatedJobRow,
    row: &FederatedJobRow,
) -> StoreResult<()> {
    if row.version != before.version {
        version_write(tx, changes, row)?;
        let oldest = row.version.saturating_sub(FEDERATED_VERSIONS_MAX);
        if oldest > 0 {
            keys::clear(tx, changes.space(), &FederatedVersionKey { job: row.id, version: oldest })?;
        }
    }
    row_write(tx, changes, row)
}

/// Changes how many tasks a federated job has.
///
/// # Errors
/// There is no such job, it is being stopped or over, or it cannot have so many.
pub async fn federated_scale(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    name: &Name,
    count: u32,
) -> StoreResult<FederatedJobRow> {
    let before = federated_get(tx, changes.space(), user, name).await?;
    let mut spec = before.spec.clone();
    spec.job.count = count;
    active_check(&before)?;
    let status = federated_status_of(tx, changes.space(), before.id).await?.unwrap_or_default();
    if is_over(tx, changes.space(), &before, &status).await? {
        let reason = format!(
            "federated job {user}/{name}: all its tasks have ended; to run it again: borough federation job run FILE"
        );
        return Err(StoreError::refused(reason));
    }
    spec.validate().map_err(|errors| StoreError::InvalidSpec { errors })?;
    let (at_ms, by) = (changes.at_ms(), changes.actor().to_owned());
    let Some(row) = before.changed_to(&spec, at_ms, by) else { return Ok(before) };
    change_write(tx, changes, &before, &row)?;
    Ok(row)
}

/// Orders that the tasks of a federated job are divided again. The federation carries it out once. A change for another
/// revision than `expected` is refused; 0: any.
///
/// # Errors
/// There is no such job, it does not run, is at another revision, has its whole count in each cell, or an earlier
/// rebalance is not carried out yet.
pub async fn federated_rebalance(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    name: &Name,
    which: RebalancedTasks,
    expected: u64,
) -> StoreResult<FederatedJobRow> {
    let before = federated_get(tx, changes.space(), user, name).await?;
    active_check(&before)?;
    let look = format!("borough federation job status {user}/{name}");
    if expected != 0 && before.revision != expected {
        let what = format!("federated job {user}/{name}");
        let by = Some(&before.changed_by);
        return Err(StoreError::overtaken(&what, expected, before.revision, by, &look));
    }
    rebalance_check(&before)?;
    let status = federated_status_of(tx, changes.space(), before.id).await?.unwrap_or_default();
    if before.rebalance.is_some_and(|last| last.number > status.rebalanced) {
        let reason = format!(
            "federated job {user}/{name}: its last rebalance is not carried out yet; look again: {look}"
        );
        return Err(StoreError::refused_with(RefusalRemedy::ReadAgain, reason));
    }
    let state = before.state;
    let row = changed(changes, before, state).rebalanced(which);
    row_write(tx, changes, &row)?;
    Ok(row)
}

/// Refuses to rebalance a job of which there is nothing to divide.
///
/// # Errors
/// Each cell has its whole count.
pub fn rebalance_check(row: &FederatedJobRow) -> StoreResult<()> {
    if row.spec.federation.split != SplitPolicy::Duplicate {
        return Ok(());
    }
    let (user, name) = (row.user(), row.name());
    let reason = format!(
        "federated job {user}/{name} has split: duplicate, so each cell has its whole count and nothing is divided"
    );
    Err(StoreError::refused(reason))
}

/// Refuses a change of a job that does not run.
///
/// # Errors
/// It is being stopped, or is stopped.
pub fn active_check(row: &FederatedJobRow) -> StoreResult<()> {
    match row.state {
        FederatedState::Active => Ok(()),
        FederatedState::Stopping => Err(federated_stopping(row)),
        FederatedState::Stopped => {
            let (user, name) = (row.user(), row.name());
            let reason = format!(
                "federated job {user}/{name} is stopped; to run it again: borough federation job run FILE"
            );
            Err(StoreError::refused(reason))
        }
    }
}

/// Orders something of the release of a federated job. The federation carries it out once, and nothing else is ordered
/// until then.
///
/// # Errors
/// There is no such job, or its release is at no point where that can be done.
pub async fn federated_order(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    name: &Name,
    kind: ReleaseOrderKind,
) -> StoreResult<FederatedJobRow> {
    let before = federated_get(tx, changes.space(), user, name).await?;
    let status = federated_status_of(tx, changes.space(), before.id).await?.unwrap_or_default();
    let number = before.order.map_or(0, |order| order.number);
    let busy = |what: &str| {
        let reason =
            format!("federated job {user}/{name}: {what}; look again: borough federation job status {name}");
        StoreError::refused_with(RefusalRemedy::ReadAgain, reason)
    };
    let Some(mut release) = status.release.filter(|release| release.version == before.version) else {
        return Err(busy("the federation has not begun its newest version yet"));
    };
    if number != status.ordered {
        return Err(busy("an earlier order is not carried out yet"));
    }
    let refused =
        |refused: ReleaseRefusal| StoreError::refused(format!("federated job {user}/{name}: {refused}"));
    kind.apply(&mut release).map_err(refused)?;
    let order = Some(ReleaseOrder { number: number.saturating_add(1), kind });
    let state = before.state;
    let row = FederatedJobRow { order, ..changed(changes, before, state) };
    row_write(tx, changes, &row)?;
    Ok(row)
}

/// Has each cell of a federated job told to stop it. Once more changes nothing.
///
/// # Errors
/// There is no such job.
pub async fn federated_stop(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    name: &Name,
) -> StoreResult<FederatedJobRow> {
    let before = federated_get(tx, changes.space(), user, name).await?;
    if before.state != FederatedState::Active {
        return Ok(before);
    }
    let row = changed(changes, before, FederatedState::Stopping);
    row_write(tx, changes, &row)?;
    Ok(row)
}

/// Records that no cell has the job of this id any more. `None` if the name has another job by now, or none.
pub async fn federated_stopped(
    tx: &Transaction,
    changes: &mut ChangeSet,
    row: &FederatedJobRow,
) -> StoreResult<Option<FederatedJobRow>> {
    let key = FederatedJobKey { user: row.user().clone(), name: row.name().clone() };
    let known = keys::read(tx, changes.space(), &key).await?;
    let Some(known) = known.filter(|known| known.id == row.id && known.state == FederatedState::Stopping)
    else {
        return Ok(None);
    };
    // Who has stopped it stays known.
    let by = known.changed_by.clone();
    let row = FederatedJobRow { changed_by: by, ..changed(changes, known, FederatedState::Stopped) };
    row_write(tx, changes, &row)?;
    Ok(Some(row))
}

/// Forgets a federated job. Cells are not told: their parts go on as jobs of their own.
///
/// # Errors
/// There is no such job.
pub async fn federated_forget(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    name: &Name,
) -> StoreResult<FederatedJobRow> {
    let row = federated_get(tx, changes.space(), user, name).await?;
    removed(tx, changes, &row)?;
    Ok(row)
}

/// A federated job by its name.
///
/// # Errors
/// There is none.
pub async fn federated_get(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    name: &Name,
) -> StoreResult<FederatedJobRow> {
    let key = FederatedJobKey { user: user.clone(), name: name.clone() };
    let row = keys::read(tx, space, &key).await?;
    row.ok_or_else(|| StoreError::not_found(format!("federated job {user}/{name}")))
}

/// The versions of a federated job that are kept, the newest first. Reads without conflicts.
pub async fn federated_versions(
    tx: &Transaction,
    space: &CellSpace,
    job: FederatedJobId,
) -> StoreResult<Vec<(u64, FederatedVersion)>> {
    let options = RangeOptions { reverse: true, ..RangeOptions::snapshot() };
    let rows = keys::range::<FederatedVersionKey>(tx, space, &Prefix::of(&job), options).await?;
    Ok(rows.into_iter().map(|(key, version)| (key.version, version)).collect())
}

/// One version of a federated job, if it is kept. Reads without conflicts.
pub async fn federated_version(
    tx: &Transaction,
    space: &CellSpace,
    job: FederatedJobId,
    version: u64,
) -> StoreResult<Option<FederatedVersion>> {
    keys::read_snapshot(tx, space, &FederatedVersionKey { job, version }).await
}

/// The refusal of a change of a job that is being stopped.
pub fn federated_stopping(row: &FederatedJobRow) -> StoreError {
    let (user, name) = (row.user(), row.name());
    let reason = format!(
        "federated job {user}/{name} is being stopped; look again: borough federation job status {name}"
    );
    StoreError::refused_with(RefusalRemedy::ReadAgain, reason)
}

fn changed(changes: &ChangeSet, before: FederatedJobRow, state: FederatedState) -> FederatedJobRow {
    FederatedJobRow {
        state,
        revision: before.revision.saturating_add(1),
        changed_ms: changes.at_ms(),
        changed_by: changes.actor().to_owned(),
        ..before
    }
}

fn row_write(tx: &Transaction, changes: &mut ChangeSet, row: &FederatedJobRow) -> StoreResult<()> {
    let key = FederatedJobKey { user: row.user().clone(), name: row.name().clone() };
    keys::write(tx, changes.space(), &key, row)?;
    changes.push(Delta::FederatedJob { row: Box::new(row.clone()) });
    Ok(())
}

fn version_write(tx: &Transaction, changes: &ChangeSet, row: &FederatedJobRow) -> StoreResult<()> {
    let key = FederatedVersionKey { job: row.id, version: row.version };
    let version =
        FederatedVersion { spec: row.spec.clone(), at_ms: row.changed_ms, by: row.changed_by.clone() };
    keys::write(tx, changes.space(), &key, &version)
}

/// Removes a job with all that is kept of it.
fn removed(tx: &Transaction, changes: &mut ChangeSet, row: &FederatedJobRow) -> StoreResult<()> {
    let (space, job) = (changes.space().clone(), row.id);
    let (user, name) = (row.user().clone(), row.name().clone());
    keys::clear(tx, &space, &FederatedJobKey { user: user.clone(), name: name.clone() })?;
    keys::clear(tx, &space, &FederatedStatusKey { job })?;
    keys::clear_prefix::<FederatedVersionKey>(tx, &space, &Prefix::of(&job))?;
    keys::clear_prefix::<FederatedPartKey>(tx, &space, &Prefix::of(&job))?;
    changes.push(Delta::FederatedJobRemoved { id: job, user, name });
    Ok(())
}
