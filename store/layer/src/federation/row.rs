//! What the directory knows of a cell.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Where a cell is.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct FederationCell {
    /// The store its keys are in, as `--store` takes it; empty: the one that holds the directory.
    #[n(0)]
    pub store: String,
    /// Counts every change of this row.
    #[n(1)]
    pub revision: u64,
    /// Wall time of the last change, milliseconds since 1970.
    #[n(2)]
    pub changed_ms: i64,
}
