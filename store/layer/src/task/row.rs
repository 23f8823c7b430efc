//! What is stored besides a task's row.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The token of a constraint over several nodes: it means nothing but that it changes with every placement and
/// removal that matches the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct ConstraintToken {
    /// The incarnation-independent id of the change (a request or batch), so that no two writes are alike.
    #[n(0)]
    pub change: u64,
}
