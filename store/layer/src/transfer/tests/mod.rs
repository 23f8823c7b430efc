//! Exports of cells that change, imports that are interrupted, and files that are damaged.

mod file;
mod round;

use borough_kv::env::ManualClock;
use borough_kv::{Database, ErrorCode, FaultPlan, Idempotency, Transaction};

use super::*;
use crate::check::CellRows;
use crate::error::{StoreError, StoreResult};
use crate::keys::CellSpace;
use crate::row::{CellState, Cursor};
use crate::testing::{TestStore, name};

/// A store with nothing in it.
fn empty_store(seed: u64, plan: FaultPlan) -> Database {
    TestStore::new(ManualClock::at(5_000), seed, plan, seed ^ 5).faulty()
}

fn header(id: u8, at: Cursor) -> ExportHeader {
    ExportHeader {
        id: [id; 16],
        cell: name("alpha"),
        at,
        state: CellState::Open,
        exported_ms: 1_000,
        program: "0.1.0".to_owned(),
    }
}

/// A file in blocks of a few rows.
fn file_of(rows: &CellRows, header: &ExportHeader, block_rows: usize) -> (Vec<u8>, ExportEnd) {
    let writer = ExportWriter::begin_with(Vec::new(), header, block_rows).unwrap();
    super::export::rows_write(rows, &header.cell, writer).unwrap()
}

async fn run<T>(db: &Database, closure: impl AsyncFn(&Transaction) -> StoreResult<T>) -> StoreResult<T> {
    let closure = &closure;
    db.run("test", Idempotency::Natural, |tx, _| async move { closure(&tx).await }).await
}

async fn begin(
    db: &Database,
    space: &CellSpace,
    header: &ExportHeader,
    replace: ReplaceCell,
) -> StoreResult<ImportBegun> {
    run(db, async |tx| cell_import_begin(tx, space, header, replace, 9_000).await).await
}

/// A whole import. It begins again with the same file if a commit was never answered, as operators do.
async fn import(db: &Database, space: &CellSpace, file: &[u8]) -> Result<Imported, ImportError> {
    loop {
        let mut reader = ExportReader::begin(file)?;
        begin(db, space, &reader.header().clone(), ReplaceCell::Never).await?;
        match cell_import_run(db, space, &mut reader, 9_500, |_| {}).await {
            Err(ImportError::Store(StoreError::Kv(error)))
                if error.code == ErrorCode::TransactionTimedOut => {}
            ended => return ended,
        }
    }
}
