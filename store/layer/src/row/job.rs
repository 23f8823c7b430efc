//! Rows that are stored besides a job's row and specs.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The gate of a job: the key that every placement of its tasks guards on.
///
/// Changes that can make a placement in flight wrong write it: stop, end, shrink, change of priority or of spec. Other
/// changes write only the job's row: growth and counting ended tasks. Those never fail a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct JobGate {
    /// The revision of the job's row with which the gate was last written. No two writes are alike.
    #[n(0)]
    pub revision: u64,
}
