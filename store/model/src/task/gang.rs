//! The row of a gang.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::{GangId, JobId};

/// A gang: members of a job that are placed together.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct GangRow {
    #[n(0)]
    pub id: GangId,
    #[n(1)]
    pub job: JobId,
    /// Members that must hold before any starts.
    #[n(2)]
    pub min_member: u32,
    #[n(3)]
    pub state: GangState,
    /// Fences holds: those of an older epoch are void.
    #[n(4)]
    pub epoch: u64,
    /// Holds expire at this wall time, milliseconds since 1970.
    #[n(5)]
    pub expires_ms: i64,
    /// Counts every change of this row.
    #[n(6)]
    pub revision: u64,
}

/// How far a gang is on its way to placements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum GangState {
    /// Members collect holds; nothing starts.
    #[n(0)]
    Gathering,
    /// At least `min_member` hold: their holds are placements.
    #[n(1)]
    Committed,
    /// The holds have expired or were given up.
    #[n(2)]
    Released,
    /// All its members hold, and nobody joins it; some wait for their victims. It is committed when each has its share,
    /// and released when one of them is lost.
    #[n(3)]
    Waiting,
}
