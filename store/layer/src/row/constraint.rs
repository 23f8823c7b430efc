//! The stored row of a constraint over several nodes.

use borough_model::RequestId;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The token of a constraint over several nodes. Its only meaning is that it changes with every placement that matches
/// the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct ConstraintToken {
    /// The id of the change (a request or batch), so that no two writes are alike.
    #[n(0)]
    pub change: u64,
}

impl ConstraintToken {
    /// The token written by the request or batch `id`.
    pub fn of(id: RequestId) -> Self {
        let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
        Self { change: half(id.0) ^ half(id.0 >> 64) }
    }
}
