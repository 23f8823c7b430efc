//! Stored rows of a quota.

use borough_model::quota::{QuotaBorrow, QuotaLimit};
use borough_model::{Name, Resources};
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The most changes that the row of a line keeps.
pub const QUOTA_CHANGES_MAX: usize = 10;

/// The line of a user or a group in a band, set by an operator.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct QuotaRow {
    /// The most that may be admitted at once. An amount of 0 is no limit.
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
    /// The last [`QUOTA_CHANGES_MAX`] changes, oldest first.
    #[n(5)]
    #[cbor(default)]
    #[serde(default)]
    pub changes: Vec<QuotaChange>,
    /// The group whose line in the same band is charged too.
    #[n(6)]
    #[serde(default)]
    pub parent: Option<Name>,
    /// What may be admitted beyond the limit while the parent has room.
    #[n(7)]
    #[serde(default)]
    pub borrow: Option<QuotaBorrow>,
}

impl QuotaRow {
    /// Returns true if it limits something now, at wall time `now_ms` (milliseconds since 1970).
    pub fn is_in_force(&self, now_ms: i64) -> bool {
        let begun = self.from_ms.is_none_or(|from| from <= now_ms);
        self.is_limit() && begun && self.until_ms.is_none_or(|until| now_ms < until)
    }

    /// Returns true if it limits anything. A removed line keeps its row, for its changes.
    pub fn is_limit(&self) -> bool {
        self.tasks_max.is_some() || !self.limit.is_zero()
    }

    /// What it limits.
    pub fn set(&self) -> QuotaLimit {
        let Self { ref limit, tasks_max, from_ms, until_ms, ref parent, ref borrow, .. } = *self;
        let (parent, borrow) = (parent.clone(), borrow.clone());
        QuotaLimit { resources: limit.clone(), tasks_max, from_ms, until_ms, parent, borrow }
    }
}

impl QuotaChange {
    /// What the line limits from this change on.
    pub fn set(&self) -> QuotaLimit {
        let Self { ref limit, tasks_max, from_ms, until_ms, ref parent, ref borrow, .. } = *self;
        let (parent, borrow) = (parent.clone(), borrow.clone());
        QuotaLimit { resources: limit.clone(), tasks_max, from_ms, until_ms, parent, borrow }
    }
}

/// What a change made of a line.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct QuotaChange {
    /// The revision that it made.
    #[n(0)]
    pub revision: u64,
    /// Wall time, milliseconds since 1970.
    #[n(1)]
    pub at_ms: i64,
    /// Who made it: `user/<name>`.
    #[n(2)]
    pub by: String,
    /// As [`QuotaRow::limit`]. With no limit at all, the change removed the line.
    #[n(3)]
    pub limit: Resources,
    #[n(4)]
    pub tasks_max: Option<u64>,
    #[n(5)]
    pub from_ms: Option<i64>,
    #[n(6)]
    pub until_ms: Option<i64>,
    #[n(7)]
    #[serde(default)]
    pub parent: Option<Name>,
    #[n(8)]
    #[serde(default)]
    pub borrow: Option<QuotaBorrow>,
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
