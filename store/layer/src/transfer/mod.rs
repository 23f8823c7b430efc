//! Moves a cell between stores. An export is a file with the cell's rows at one position. An import makes a cell from
//! it in another store, of any engine.
//!
//! An export contains the cell itself: settings, nodes, jobs, tasks, gangs, endpoints, quotas, results of keyed
//! requests, and the indexes of all these. It does not contain what belongs to one store: leases and heartbeats, the
//! journal, tokens of constraints. The import begins a new store epoch, so every earlier position is refused, and the
//! stamps of names are given again.
//!
//! An import takes many transactions, one per block of the file. The gate says `importing` until the last of them,
//! which comes only after the whole file was verified. The cell itself records the progress, so that an interrupted
//! import continues.

mod error;
mod export;
mod file;
mod import;
#[cfg(test)]
mod tests;

pub use error::ExportFileError;
pub use export::{ExportSummary, cell_export, rows_export};
pub use file::{ExportEnd, ExportHeader, ExportReader, ExportWriter, FileBlock, FileRow, file_verify};
pub use import::{
    ImportBegun, ImportError, Imported, ReplaceCell, cell_import_begin, cell_import_progress, cell_import_run,
};

pub use crate::row::ImportRow;
