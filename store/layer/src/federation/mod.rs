//! The federation's directory: which cells there are, and where their keys live.
//!
//! Cells do not need it to work: it is read when a name is turned into a store, and cached.

mod row;
#[cfg(test)]
mod tests;

pub use row::{FederationCell, StoreGeneration};

use borough_kv::Transaction;
use borough_model::Name;

use crate::error::{StoreError, StoreResult};
use crate::keys::{self, CellSpace, FederationCellKey, Prefix, RangeOptions, StoreGenerationKey};

/// Where a cell is that is in the store which holds the directory. Any name of that store would be one machine's: what
/// one calls `/etc/a.cluster` another calls `/etc/b.cluster`.
pub const STORE_HERE: &str = "";

/// Enters `cell` into the directory as one of this store, where it is not entered yet. Where it is, nothing is
/// written: only an explicit act moves a cell.
pub async fn federation_cell_enter(tx: &Transaction, cell: &Name, at_ms: i64) -> StoreResult<FederationCell> {
    let key = FederationCellKey { cell: cell.clone() };
    match keys::read(tx, &CellSpace::federation(), &key).await? {
        Some(row) => Ok(row),
        None => federation_cell_set(tx, cell, STORE_HERE, at_ms).await,
    }
}

/// Says where `cell` is, whatever the directory said before. What it says already is not written.
pub async fn federation_cell_set(
    tx: &Transaction,
    cell: &Name,
    store: &str,
    at_ms: i64,
) -> StoreResult<FederationCell> {
    let space = CellSpace::federation();
    let key = FederationCellKey { cell: cell.clone() };
    let before = keys::read(tx, &space, &key).await?;
    let revision = match before {
        Some(row) if row.store == store => return Ok(row),
        Some(row) => row.revision.saturating_add(1),
        None => 1,
    };
    let row = FederationCell { store: store.to_owned(), revision, changed_ms: at_ms };
    keys::write(tx, &space, &key, &row)?;
    Ok(row)
}

/// Where `cell` is.
pub async fn federation_cell_read(tx: &Transaction, cell: &Name) -> StoreResult<FederationCell> {
    let row = keys::read(tx, &CellSpace::federation(), &FederationCellKey { cell: cell.clone() }).await?;
    row.ok_or_else(|| StoreError::not_found(format!("cell {cell} in the federation's directory")))
}

/// Every cell, by name.
pub async fn federation_cell_list(tx: &Transaction) -> StoreResult<Vec<(Name, FederationCell)>> {
    let space = CellSpace::federation();
    let rows = keys::range::<FederationCellKey>(tx, &space, &Prefix::all(), RangeOptions::snapshot()).await?;
    Ok(rows.into_iter().map(|(key, row)| (key.cell, row)).collect())
}

/// Takes `cell` out of the directory. Its keys stay where they are.
pub fn federation_cell_remove(tx: &Transaction, cell: &Name) -> StoreResult<()> {
    keys::clear(tx, &CellSpace::federation(), &FederationCellKey { cell: cell.clone() })
}

/// Notes that the store was opened again by its one process, and so voids every lease given before: claims carry the
/// generation. Never on a store that outlives its clients (FoundationDB), where this stays 0. Repeating it after an
/// unknown result counts once more, which does no harm.
pub async fn store_generation_begin(tx: &Transaction, at_ms: i64) -> StoreResult<StoreGeneration> {
    let before = store_generation_read(tx).await?;
    let row = StoreGeneration { generation: before.generation.saturating_add(1), opened_ms: at_ms };
    keys::write(tx, &CellSpace::federation(), &StoreGenerationKey {}, &row)?;
    Ok(row)
}

/// Which opening of the store this is.
pub async fn store_generation_read(tx: &Transaction) -> StoreResult<StoreGeneration> {
    Ok(keys::read(tx, &CellSpace::federation(), &StoreGenerationKey {}).await?.unwrap_or_default())
}
