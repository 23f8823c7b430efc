//! What a failed transaction says about the items that shared it.

use borough_kv::ErrorCode;
use borough_store::StoreError;

/// What caused a transaction to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The store or the whole cell: every item of the batch may be tried again.
    Store,
    /// The batch as a whole: it is always in conflict, or too long. Smaller batches may commit.
    Batch,
    /// One item of the batch, or its size: the other items commit without it.
    Item,
}

/// The cause of a batch's error.
pub fn fault_of(error: &StoreError) -> WriteFault {
    match error {
        StoreError::Kv(kv) => match kv.code {
            ErrorCode::TransactionTooLarge | ErrorCode::KeyTooLarge | ErrorCode::ValueTooLarge => {
                WriteFault::Item
            }
            ErrorCode::TransactionTooOld
            | ErrorCode::FutureVersion
            | ErrorCode::NotCommitted
            | ErrorCode::ProcessBehind
            | ErrorCode::CommitUnknownResult
            | ErrorCode::ClusterVersionChanged => WriteFault::Batch,
            // Locked, throttled, out of memory: smaller batches would only add load.
            _ => WriteFault::Store,
        },
        StoreError::CellClosed { .. } | StoreError::CellUnknown { .. } => WriteFault::Store,
        _ => WriteFault::Item,
    }
}
