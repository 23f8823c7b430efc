//! Key selectors and range reads.

use super::Isolation;
use bytes::Bytes;

/// A key named by its position: the first key after `key` (or at it), then `offset` steps.
///
/// Resolution stops at the ends of the user's keyspace. Each step of the offset costs time: keep it small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySelector {
    pub key: Bytes,
    /// Whether the reference key itself counts as before the selection point.
    pub or_equal: bool,
    /// Keys to step from the selection point; 1 is the first key after it.
    pub offset: i32,
}

impl KeySelector {
    /// The last key less than `key`.
    pub fn last_less_than(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), or_equal: false, offset: 0 }
    }

    /// The last key less than or equal to `key`.
    pub fn last_less_or_equal(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), or_equal: true, offset: 0 }
    }

    /// The first key greater than `key`.
    pub fn first_greater_than(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), or_equal: true, offset: 1 }
    }

    /// The first key greater than or equal to `key`.
    pub fn first_greater_or_equal(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), or_equal: false, offset: 1 }
    }
}

/// How many bytes one batch of a range read should return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StreamingMode {
    /// Everything is wanted, soon. The same as [`StreamingMode::Serial`].
    WantAll,
    /// Batches grow with the iteration, which starts at 1.
    #[default]
    Iterator,
    /// Exactly `limit` rows in one batch; a limit is required (2210 without).
    Exact,
    /// 256 bytes.
    Small,
    /// 1,000 bytes.
    Medium,
    /// 4,096 bytes.
    Large,
    /// 120,000 bytes.
    Serial,
}

/// One batch of a range read. Loop while [`RangeBatch::more`]: a batch may be short for any reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRequest {
    /// First key, inclusive.
    pub begin: KeySelector,
    /// Last key, exclusive. An end before the begin is legal and reads nothing.
    pub end: KeySelector,
    /// The most rows; 0 is no limit.
    pub limit: usize,
    /// The most bytes (the row that exceeds it is the last one); 0 is the mode's default.
    pub target_bytes: usize,
    pub mode: StreamingMode,
    /// Which batch of an [`StreamingMode::Iterator`] read this is, from 1.
    pub iteration: usize,
    /// From the end towards the begin.
    pub reverse: bool,
    pub isolation: Isolation,
}

impl RangeRequest {
    /// All rows from `begin` (inclusive) to `end` (exclusive), with conflicts, in large batches.
    pub fn between(begin: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        Self {
            begin: KeySelector::first_greater_or_equal(begin),
            end: KeySelector::first_greater_or_equal(end),
            limit: 0,
            target_bytes: 0,
            mode: StreamingMode::WantAll,
            iteration: 1,
            reverse: false,
            isolation: Isolation::Serializable,
        }
    }

    /// The same read without read conflicts.
    #[must_use]
    pub fn snapshot(self) -> Self {
        Self { isolation: Isolation::Snapshot, ..self }
    }

    /// The same read of at most `limit` rows.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// The same read from the end.
    #[must_use]
    pub fn reverse(self) -> Self {
        Self { reverse: true, ..self }
    }
}

/// The result of one batch of a range read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RangeBatch {
    /// Keys and values, in the order of the read.
    pub rows: Vec<(Bytes, Bytes)>,
    /// Whether rows may be left beyond the last one.
    pub more: bool,
}
