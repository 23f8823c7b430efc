//! Stored rows of the directory.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Where a cell's keys are.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct FederationCell {
    /// The store, as `--store` takes it. [`STORE_HERE`](crate::federation::STORE_HERE) is the store that holds the
    /// directory.
    #[n(0)]
    pub store: String,
    /// Counts every change of this row.
    #[n(1)]
    pub revision: u64,
    /// Wall time of the last change, milliseconds since 1970.
    #[n(2)]
    pub changed_ms: i64,
}

/// Counts the openings of the store. Leases of an earlier opening are void: their holders have ended with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct StoreGeneration {
    /// 0 on a store that outlives its clients.
    #[n(0)]
    pub generation: u64,
    /// Wall time of this opening, milliseconds since 1970.
    #[n(1)]
    pub opened_ms: i64,
}
