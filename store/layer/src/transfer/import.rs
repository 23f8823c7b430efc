//! Imports an export as a cell, block by block.

use std::io::Read;

use borough_kv::{Database, Idempotency, RangeRequest, Transaction};

use super::export::is_carried;
use super::file::{ExportHeader, ExportReader, FileBlock, FileRow};
use super::{ExportFileError, ImportRow};
use crate::error::{StoreError, StoreResult};
use crate::federation::{STORE_HERE, federation_cell_set};
use crate::gate::cell_gate_read;
use crate::key_kind::KeyKind;
use crate::keys::{self, CellGateKey, CellSpace, ImportKey, NameRevisionKey, StoredRow};
use crate::row::{CellGate, CellState};

/// The state in which an import begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportBegun {
    /// From the first block.
    Fresh,
    /// After so many blocks, which an earlier run has stored.
    Resumed(ImportRow),
    /// It is done: the cell came from this very export.
    Done,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The gate of the cell, which is open now.
    pub gate: CellGate,
    /// Rows of the export.
    pub rows: u64,
    /// Blocks that this run has stored.
    pub blocks_stored: u64,
}

/// Checks that `key` (without the cell's prefix) and `value` are a row that an export contains.
pub(super) fn row_check(space: &CellSpace, key: &[u8], value: &[u8]) -> StoreResult<KeyKind> {
    let full = [space.prefix(), key].concat();
    let kind = StoredRow::decode(space, &full, value)?.kind();
    if !is_carried(kind) {
        return Err(StoreError::refused(format!("an export has no rows of kind {kind}")));
    }
    Ok(kind)
}

/// The progress of an import into `space`; `None` without one.
pub async fn cell_import_progress(tx: &Transaction, space: &CellSpace) -> StoreResult<Option<ImportRow>> {
    keys::read(tx, space, &ImportKey {}).await
}

/// Which cell an import may remove first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceCell {
    Never,
    /// One that has moved or is half imported.
    Closed,
}

/// Begins an import, or finds the one that was begun with the same file. Fails if the cell exists and may not be
/// replaced.
///
/// Repeating it after an unknown result finds what the first call did.
pub async fn cell_import_begin(
    tx: &Transaction,
    space: &CellSpace,
    header: &ExportHeader,
    replace: ReplaceCell,
    at_ms: i64,
) -> StoreResult<ImportBegun> {
    let gate = keys::read(tx, space, &CellGateKey {}).await?;
    let import = cell_import_progress(tx, space).await?;
    let own = import.filter(|import| import.export == header.id);
    match (&gate, own) {
        (Some(CellGate { state: CellState::Importing, .. }), Some(import)) => {
            return Ok(ImportBegun::Resumed(import));
        }
        // The row stays: it records which export the cell came from.
        (Some(CellGate { state: CellState::Open | CellState::Draining, .. }), Some(_)) => {
            return Ok(ImportBegun::Done);
        }
        (Some(gate), _) => replace_check(space, gate, replace)?,
        (None, _) => empty_check(tx, space, replace).await?,
    }
    let range = space.range();
    tx.clear_range(&range.start, &range.end)?;
    let epoch_before = gate.as_ref().map_or(0, |gate| gate.store_epoch).max(header.at.store_epoch);
    let gate = CellGate {
        store_epoch: epoch_before.saturating_add(1),
        state: CellState::Importing,
        revision: gate.map_or(0, |gate| gate.revision).saturating_add(1),
        changed_ms: at_ms,
    };
    keys::write(tx, space, &CellGateKey {}, &gate)?;
    let row = ImportRow { export: header.id, blocks: 0, rows: 0, began_ms: at_ms };
    keys::write(tx, space, &ImportKey {}, &row)?;
    Ok(ImportBegun::Fresh)
}

fn replace_check(space: &CellSpace, gate: &CellGate, replace: ReplaceCell) -> StoreResult<()> {
    let closed = matches!(gate.state, CellState::Moved | CellState::Importing);
    if closed && replace == ReplaceCell::Closed {
        return Ok(());
    }
    let what = match gate.state {
        CellState::Importing => format!("cell {space}, half imported from another export"),
        CellState::Moved => format!("cell {space}, which has moved from here"),
        CellState::Open | CellState::Draining => format!("cell {space}"),
    };
    Err(StoreError::AlreadyExists { what })
}

/// Without a gate the cell does not exist. If it has keys all the same, nobody may overwrite them.
async fn empty_check(tx: &Transaction, space: &CellSpace, replace: ReplaceCell) -> StoreResult<()> {
    let range = space.range();
    let first = tx.range_all(RangeRequest::between(range.start, range.end).limit(1)).await?;
    if first.is_empty() || replace == ReplaceCell::Closed {
        return Ok(());
    }
    Err(StoreError::refused(format!(
        "there are keys of a cell {space} without its gate; `store check` shows them"
    )))
}

/// Stores the rows of `reader` that are not stored yet, and opens the cell once the file has ended correctly. Begin
/// with [`cell_import_begin`]; after an interruption, begin again with the same file from its first byte.
///
/// Calls `progress` with the number of stored blocks after each one.
pub async fn cell_import_run<R: Read>(
    db: &Database,
    space: &CellSpace,
    reader: &mut ExportReader<R>,
    at_ms: i64,
    mut progress: impl FnMut(u64),
) -> Result<Imported, ImportError> {
    let (mut number, mut stored) = (0_u64, 0_u64);
    let id = reader.header().id;
    let import = db.run("cell_import_standing", Idempotency::ReadOnly, |tx, _| async move {
        cell_import_progress(&tx, space).await
    });
    let before = import.await?.map_or(0, |import| import.blocks);
    let end = loop {
        let (rows, at) = match reader.block()? {
            FileBlock::End(end) => break end,
            FileBlock::Rows { rows, at } => (rows, at),
        };
        number = number.saturating_add(1);
        if number <= before {
            continue;
        }
        for (key, value) in &rows {
            row_check(space, key, value)
                .map_err(|source| ExportFileError::Row { at, source: Box::new(source) })?;
        }
        let rows = &rows;
        let run = db.run("cell_import_block", Idempotency::Natural, |tx, _| async move {
            block_store(&tx, space, (id, number), rows).await
        });
        run.await?;
        stored = stored.saturating_add(1);
        progress(number);
    };
    let state =
        if reader.header().state == CellState::Draining { CellState::Draining } else { CellState::Open };
    let open = db.run("cell_import_open", Idempotency::Natural, |tx, _| async move {
        cell_open(&tx, space, (id, end.blocks), state, at_ms).await
    });
    Ok(Imported { gate: open.await?, rows: end.rows, blocks_stored: stored })
}

/// Why an import has not finished.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is bad. Nothing of the cell is visible.
    #[error("the export cannot be taken")]
    File(#[from] ExportFileError),
    /// The store failed. Repeat the import with the same file: it continues where it stopped.
    #[error("the store refused")]
    Store(#[from] StoreError),
}

/// Stores one block. The row that counts blocks is read with a conflict, so that no block is stored twice or by two
/// processes.
async fn block_store(
    tx: &Transaction,
    space: &CellSpace,
    (export, number): ([u8; 16], u64),
    rows: &[FileRow],
) -> StoreResult<()> {
    let Some(mut import) = cell_import_progress(tx, space).await?.filter(|row| row.export == export) else {
        return Err(StoreError::refused(format!("the import of cell {space} was replaced by another")));
    };
    if import.blocks >= number {
        return Ok(());
    }
    if import.blocks.saturating_add(1) != number {
        return Err(StoreError::refused(format!("blocks of the import are missing before block {number}")));
    }
    for (key, value) in rows {
        let full = [space.prefix(), key].concat();
        match StoredRow::decode(space, &full, value)? {
            // A stamp of the old store means nothing in this one.
            StoredRow::NameRevision(NameRevisionKey { user, job }, _) => {
                keys::write_stamped_value(tx, space, &NameRevisionKey { user, job })?;
            }
            _ => tx.set(&full, value)?,
        }
    }
    import.blocks = number;
    import.rows = import.rows.saturating_add(u64::try_from(rows.len()).unwrap_or(u64::MAX));
    keys::write(tx, space, &ImportKey {}, &import)
}

/// Opens the cell, in a new epoch: a reader that saw it half imported lists again.
async fn cell_open(
    tx: &Transaction,
    space: &CellSpace,
    (export, blocks): ([u8; 16], u64),
    state: CellState,
    at_ms: i64,
) -> StoreResult<CellGate> {
    let gate = cell_gate_read(tx, space).await?;
    if gate.state != CellState::Importing {
        return Ok(gate);
    }
    let import = cell_import_progress(tx, space).await?;
    if import.is_none_or(|import| import.export != export || import.blocks != blocks) {
        return Err(StoreError::refused(format!("the import of cell {space} was replaced by another")));
    }
    let gate = CellGate {
        store_epoch: gate.store_epoch.saturating_add(1),
        state,
        revision: gate.revision.saturating_add(1),
        changed_ms: at_ms,
    };
    keys::write(tx, space, &CellGateKey {}, &gate)?;
    if let Some(cell) = space.name() {
        federation_cell_set(tx, cell, STORE_HERE, at_ms).await?;
    }
    Ok(gate)
}
