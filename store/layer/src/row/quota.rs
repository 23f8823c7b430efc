//! Stored rows of a quota.

use borough_model::Resources;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A limit, set by an operator.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct QuotaRow {
    /// The most that may be admitted at once.
    #[n(0)]
    pub limit: Resources,
    /// The most tasks admitted at once; absent: no limit.
    #[n(1)]
    pub tasks_max: Option<u64>,
    /// Valid from this wall time on, milliseconds since 1970; absent: without a beginning.
    #[n(2)]
    pub from_ms: Option<i64>,
    /// Valid up to this wall time, milliseconds since 1970; absent: without an end.
    #[n(3)]
    pub until_ms: Option<i64>,
    /// Counts every change of this row.
    #[n(4)]
    pub revision: u64,
}

/// The admitted amount, less the releases that admission has folded in.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct QuotaUsed {
    /// The sum over admitted tasks.
    #[n(0)]
    pub used: Resources,
    /// Admitted tasks.
    #[n(1)]
    pub tasks: u64,
}
