//! Moving a cell between stores: an export is a file with the cell's rows as of one position, an import makes a cell of
//! it in another store, of any engine.
//!
//! What is carried is what the cell is: settings, nodes, jobs, tasks, gangs, endpoints, quotas, results of keyed
//! requests, and the indexes of all these. What belongs to a store's attempt is not: leases and heartbeats, the
//! journal, tokens of constraints. The import begins a new store epoch, so every position of before is refused, and the
//! stamps of names are given again.
//!
//! An import takes many transactions, one per block of the file; the gate says `importing` until the last of them,
//! which comes only after the whole file was verified. How far it is stands in the cell itself, so that it goes on
//! where it was interrupted.

mod error;
mod export;
mod file;
mod import;
mod row;
#[cfg(test)]
mod tests;

pub use error::ExportFileError;
pub use export::{ExportSummary, cell_export, rows_export};
pub use file::{ExportEnd, ExportHeader, ExportReader, ExportWriter, FileBlock, FileRow, file_verify};
pub use import::{
    ImportBegun, ImportError, Imported, cell_import_begin, cell_import_run, cell_import_standing,
};
pub use row::ImportRow;
