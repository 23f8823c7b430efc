//! The index of a service: a number for `index` of a blocking query.

use std::fmt;

use borough_store::Cursor;

/// Bits for the place of a commit within its version.
const BATCH_BITS: u32 = 8;
/// Bits for the epoch of the store.
const EPOCH_BITS: u32 = 4;

/// A position in the journal as one number. A later position of the same store epoch has a greater one. The last bits
/// tell epochs apart, so that an index from before a move of the cell is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableIndex(pub u64);

impl TableIndex {
    /// The index of a position.
    pub fn of(cursor: Cursor) -> Self {
        let version = u64::try_from(cursor.stamp.version()).unwrap_or_default();
        let batch = u64::from(cursor.stamp.batch_index()).min((1 << BATCH_BITS) - 1);
        let epoch = cursor.store_epoch % (1 << EPOCH_BITS);
        // 0 means "no index" to a client.
        Self((version << (BATCH_BITS + EPOCH_BITS) | batch << EPOCH_BITS | epoch).max(1 << EPOCH_BITS))
    }

    /// Returns true if both are of one store epoch, as far as an index tells.
    pub fn is_of_epoch(self, other: Self) -> bool {
        let epoch = |index: Self| index.0 % (1 << EPOCH_BITS);
        epoch(self) == epoch(other)
    }

    /// The index after `self` and at or after `at`: an index grows with each change, even if two have one place.
    pub fn next_at(self, at: Self) -> Self {
        if self.is_of_epoch(at) { at.max(Self(self.0.saturating_add(1 << EPOCH_BITS))) } else { at }
    }
}

impl fmt::Display for TableIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
