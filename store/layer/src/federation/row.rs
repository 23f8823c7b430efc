//! What the directory knows of a cell.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Where a cell is.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct FederationCell {
    /// The store its keys are in, as `--store` takes it;
    /// [`STORE_HERE`](super::STORE_HERE): the one that holds the directory.
    #[n(0)]
    pub store: String,
    /// Counts every change of this row.
    #[n(1)]
    pub revision: u64,
    /// Wall time of the last change, milliseconds since 1970.
    #[n(2)]
    pub changed_ms: i64,
}

/// Which opening of the store this is. Leases of an earlier one are void: whoever held them has ended with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct StoreGeneration {
    /// Counts openings; 0 on a store that outlives its clients.
    #[n(0)]
    pub generation: u64,
    /// Wall time of this one, milliseconds since 1970.
    #[n(1)]
    pub opened_ms: i64,
}
