//! Rows that were stored besides a job's row and specs.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The value that a job's gate had in cells of earlier commits. Nothing reads or writes it: the gate is a key for
/// conflicts alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct JobGate {
    #[n(0)]
    pub revision: u64,
}
