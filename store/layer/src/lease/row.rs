//! What is stored of a lease: two keys, so that a heartbeat voids no work of its own holder.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Who holds a lease. Changes only when the holder does; protected transactions read it with a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct LeaseRow {
    /// Counts holders: the fencing token.
    #[n(0)]
    pub epoch: u64,
    /// Who; empty where nobody does.
    #[n(1)]
    pub holder: String,
    /// The generation of the store it was given in: an embedded directory opened again voids what was held before.
    #[n(2)]
    pub generation: u64,
    /// Milliseconds without a heartbeat after which an observer may take it. A length of time, never a moment.
    #[n(3)]
    pub duration_ms: u64,
}

/// The holder's heartbeat. Never read by protected transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct LeaseBeat {
    /// The epoch that beats.
    #[n(0)]
    pub epoch: u64,
    /// Counts renewals.
    #[n(1)]
    pub beat: u64,
}
