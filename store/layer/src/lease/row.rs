//! Stored rows of a lease: two keys, so that a heartbeat voids no work of its own holder.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The holder of a lease. Changes only with the holder; protected transactions read it with a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct LeaseRow {
    /// Counts holders: the fencing token.
    #[n(0)]
    pub epoch: u64,
    /// Empty if the lease has no holder.
    #[n(1)]
    pub holder: String,
    /// The generation of the store in which it was given. An embedded directory that is opened again voids earlier
    /// leases.
    #[n(2)]
    pub generation: u64,
    /// Milliseconds without a heartbeat after which an observer may take it. A duration, never a point in time.
    #[n(3)]
    pub duration_ms: u64,
}

/// The holder's heartbeat. Never read by protected transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct LeaseBeat {
    #[n(0)]
    pub epoch: u64,
    /// Counts renewals.
    #[n(1)]
    pub beat: u64,
}
