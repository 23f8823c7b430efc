//! What is stored besides a job's row and specs.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The gate of a job: what every placement of its tasks guards on, a key of its own beside the row.
///
/// It is written by every change that can make a placement in flight wrong: stop, end, shrink, change of spec. It is
/// not written by what cannot: growth, another priority, counting tasks that have ended. So those never fail a
/// placement, though they write the job's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct JobGate {
    /// The revision of the job's row with which the gate was last written: no two writes are alike.
    #[n(0)]
    pub revision: u64,
}
