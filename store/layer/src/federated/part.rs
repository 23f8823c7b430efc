//! What was promised to the cells of federated jobs. Only the federation process that leads writes it. It is no part of
//! the journal: it changes with every report of a cell.

use std::collections::BTreeMap;

use borough_kv::{Database, Idempotency, Transaction};
use borough_model::federation::{FederatedJobRow, FederatedPart, FederatedStatus};
use borough_model::{FederatedJobId, Name};

use crate::error::StoreResult;
use crate::keys::{
    self, CellSpace, FederatedJobKey, FederatedPartKey, FederatedStatusKey, Key, Prefix, RangeOptions,
    chunk_read,
};

/// Rows that one transaction reads.
const CHUNK_ROWS: usize = 1_000;

/// What a leader records of one job.
#[derive(Clone, Debug, Default)]
pub struct FederatedChange {
    /// Parts as they are now.
    pub parts: Vec<FederatedPart>,
    /// Cells whose part is over.
    pub gone: Vec<Name>,
    pub status: Option<FederatedStatus>,
}

/// Records a change of a job, unless the name has another one by now, or none. The caller holds the lease of the
/// federation. Returns whether it was recorded.
pub async fn federated_record(
    tx: &Transaction,
    space: &CellSpace,
    job: &FederatedJobRow,
    change: &FederatedChange,
) -> StoreResult<bool> {
    let key = FederatedJobKey { user: job.user().clone(), name: job.name().clone() };
    let known = keys::read(tx, space, &key).await?;
    if known.is_none_or(|known| known.id != job.id) {
        return Ok(false);
    }
    for part in &change.parts {
        keys::write(tx, space, &FederatedPartKey { job: job.id, cell: part.cell.clone() }, part)?;
    }
    for cell in &change.gone {
        keys::clear(tx, space, &FederatedPartKey { job: job.id, cell: cell.clone() })?;
    }
    if let Some(status) = &change.status {
        keys::write(tx, space, &FederatedStatusKey { job: job.id }, status)?;
    }
    Ok(true)
}

/// The parts of a job, by cell. Reads without conflicts.
pub async fn federated_parts_of(
    tx: &Transaction,
    space: &CellSpace,
    job: FederatedJobId,
) -> StoreResult<BTreeMap<Name, FederatedPart>> {
    let prefix = Prefix::of(&job);
    let rows = keys::range::<FederatedPartKey>(tx, space, &prefix, RangeOptions::snapshot()).await?;
    Ok(rows.into_iter().map(|(key, part)| (key.cell, part)).collect())
}

/// How a job was last divided. Reads without conflicts.
pub async fn federated_status_of(
    tx: &Transaction,
    space: &CellSpace,
    job: FederatedJobId,
) -> StoreResult<Option<FederatedStatus>> {
    keys::read_snapshot(tx, space, &FederatedStatusKey { job }).await
}

/// Every part of every job, in transactions of a bounded size.
pub async fn federated_parts_each(
    db: &Database,
    space: &CellSpace,
    mut sink: impl FnMut(FederatedJobId, FederatedPart),
) -> StoreResult<()> {
    each::<FederatedPartKey>(db, space, |key, part| sink(key.job, part)).await
}

/// How each job was last divided, in transactions of a bounded size.
pub async fn federated_statuses_each(
    db: &Database,
    space: &CellSpace,
    mut sink: impl FnMut(FederatedJobId, FederatedStatus),
) -> StoreResult<()> {
    each::<FederatedStatusKey>(db, space, |key, status| sink(key.job, status)).await
}

async fn each<K: Key>(
    db: &Database,
    space: &CellSpace,
    mut sink: impl FnMut(K, K::Value),
) -> StoreResult<()> {
    let mut after: Option<K> = None;
    loop {
        let from = &after;
        let chunk = db.run("federated_list_chunk", Idempotency::ReadOnly, |tx, _| async move {
            chunk_read::<K>(&tx, space, &Prefix::all(), from.clone(), CHUNK_ROWS).await
        });
        let (rows, next): (Vec<(K, K::Value)>, Option<K>) = chunk.await?;
        rows.into_iter().for_each(|(key, value)| sink(key, value));
        if next.is_none() {
            return Ok(());
        }
        after = next;
    }
}
