//! The federation's directory: its cells, and the stores of their keys.
//!
//! Cells do not need it to work. It is read when a name is resolved to a store, and cached.

#[cfg(test)]
mod tests;

pub use crate::row::{FederationCell, StoreGeneration};

use borough_kv::Transaction;
use borough_model::Name;

use crate::error::{StoreError, StoreResult};
use crate::keys::{self, CellSpace, FederationCellKey, Prefix, RangeOptions, StoreGenerationKey};

/// The location of a cell in the store that holds the directory itself. A path would mean something on one machine
/// only: two machines may name the same store differently.
pub const STORE_HERE: &str = "";

/// Adds `cell` to the directory as one of this store. An existing entry stays as it is: only an explicit command moves
/// a cell.
pub async fn federation_cell_enter(tx: &Transaction, cell: &Name, at_ms: i64) -> StoreResult<FederationCell> {
    let key = FederationCellKey { cell: cell.clone() };
    match keys::read(tx, &CellSpace::federation(), &key).await? {
        Some(row) => Ok(row),
        None => federation_cell_set(tx, cell, STORE_HERE, at_ms).await,
    }
}

/// Sets the store of `cell`, whatever the directory had. Writes nothing if it is the same.
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

/// The directory's entry of `cell`.
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

/// Removes `cell` from the directory. Its keys stay in their store.
pub fn federation_cell_remove(tx: &Transaction, cell: &Name) -> StoreResult<()> {
    keys::clear(tx, &CellSpace::federation(), &FederationCellKey { cell: cell.clone() })
}

/// Records that the only process of the store has opened it again. This voids every lease given before, since claims
/// carry the generation. Never call it on a store that outlives its clients (FoundationDB); its generation stays 0.
/// Repeating it after an unknown result counts once more, which does no harm.
pub async fn store_generation_begin(tx: &Transaction, at_ms: i64) -> StoreResult<StoreGeneration> {
    let before = store_generation_read(tx).await?;
    let row = StoreGeneration { generation: before.generation.saturating_add(1), opened_ms: at_ms };
    keys::write(tx, &CellSpace::federation(), &StoreGenerationKey {}, &row)?;
    Ok(row)
}

/// The generation of the store, which counts its openings.
pub async fn store_generation_read(tx: &Transaction) -> StoreResult<StoreGeneration> {
    Ok(keys::read(tx, &CellSpace::federation(), &StoreGenerationKey {}).await?.unwrap_or_default())
}
