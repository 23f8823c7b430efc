//! The stored row of a name.

use borough_model::task::Endpoint;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// An endpoint with the revision of the task's row that it follows from.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct EndpointRow {
    #[n(0)]
    pub endpoint: Endpoint,
    /// The revision of the task's row.
    #[n(1)]
    pub revision: u64,
}
