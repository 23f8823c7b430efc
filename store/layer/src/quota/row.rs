//! What is stored of a quota.

use borough_model::Resources;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A limit, by an operator. Absent is unlimited only where the band says so.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct QuotaRow {
    /// The most that may be admitted at once.
    #[n(0)]
    pub limit: Resources,
    /// Tasks that may be admitted at once; absent: no limit.
    #[n(1)]
    pub tasks_max: Option<u64>,
    /// Holds from this wall time on, milliseconds since 1970; absent: from ever.
    #[n(2)]
    pub from_ms: Option<i64>,
    /// Holds up to this wall time, milliseconds since 1970; absent: for ever.
    #[n(3)]
    pub until_ms: Option<i64>,
    /// Counts every change of this row.
    #[n(4)]
    pub revision: u64,
}

/// What is admitted, less what admission has folded in of releases.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct QuotaUsed {
    /// The sum over admitted tasks.
    #[n(0)]
    pub used: Resources,
    /// Admitted tasks.
    #[n(1)]
    pub tasks: u64,
}
