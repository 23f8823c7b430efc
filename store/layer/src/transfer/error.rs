//! What can be wrong with the file of an export.

use std::io;

use crate::error::StoreError;

/// Why a file is not taken, or not written. What is wrong with it is found before anything is stored.
#[derive(Debug, thiserror::Error)]
pub enum ExportFileError {
    /// It is another kind of file. Give the one that `store export` wrote.
    #[error("this is no export of a cell: it begins otherwise")]
    NotExport,
    /// A newer program wrote it. Use that one, or a later one.
    #[error("the export has format {found}, this program reads up to {supported}")]
    Newer {
        /// Its format.
        found: u32,
        /// The newest format that is read.
        supported: u32,
    },
    /// It ends before its end. Copy or export it again.
    #[error("the export is cut off after {at} bytes: its end is missing")]
    Truncated {
        /// Bytes there are.
        at: u64,
    },
    /// It is not what was written. Copy or export it again.
    #[error("the export is altered at byte {at}: {what}")]
    Altered {
        /// Where the block begins that is not right.
        at: u64,
        /// What does not hold.
        what: String,
    },
    /// A row of it is none, or none that a cell is made of. Export it again, with a program that knows the store.
    #[error("a row of the export cannot be taken (block at byte {at})")]
    Row {
        /// Where its block begins.
        at: u64,
        /// What is wrong with it.
        #[source]
        source: Box<StoreError>,
    },
    /// It cannot be read or written.
    #[error("the export cannot be read or written")]
    Io(#[from] io::Error),
}
