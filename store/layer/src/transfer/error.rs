//! Errors in the file of an export.

use std::io;

use crate::error::StoreError;

/// Why a file cannot be read or written. Errors in it are found before anything is stored.
#[derive(Debug, thiserror::Error)]
pub enum ExportFileError {
    /// It is another kind of file. Give the one that `store export` wrote.
    #[error("this is no export of a cell: it begins otherwise")]
    NotExport,
    /// A newer program wrote it. Use that one, or a later one.
    #[error("the export has format {found}, this program reads up to {supported}")]
    Newer {
        found: u32,
        /// The newest format that is read.
        supported: u32,
    },
    /// It ends too early. Copy or export it again.
    #[error("the export is cut off after {at} bytes: its end is missing")]
    Truncated {
        /// The size of the file in bytes.
        at: u64,
    },
    /// It differs from what was written. Copy or export it again.
    #[error("the export is altered at byte {at}: {what}")]
    Altered {
        /// The beginning of the bad block.
        at: u64,
        /// The rule that it breaks.
        what: String,
    },
    /// It has a row that is invalid or that no export contains. Export it again, with a program that knows the store.
    #[error("a row of the export cannot be taken (block at byte {at})")]
    Row {
        /// The beginning of its block.
        at: u64,
        #[source]
        source: Box<StoreError>,
    },
    /// It cannot be read or written.
    #[error("the export cannot be read or written")]
    Io(#[from] io::Error),
}
