//! The direction in which a count changes.

/// Whether an amount is added to a count or removed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountChange {
    Add,
    Remove,
}

impl CountChange {
    /// Applies the change to a count, within the bounds of `u32`.
    pub(crate) fn tasks(self, count: u32, by: u32) -> u32 {
        match self {
            Self::Add => count.saturating_add(by),
            Self::Remove => count.saturating_sub(by),
        }
    }

    /// Applies the change to an amount, within the bounds of `u64`.
    pub(crate) fn amount(self, amount: u64, by: u64) -> u64 {
        match self {
            Self::Add => amount.saturating_add(by),
            Self::Remove => amount.saturating_sub(by),
        }
    }
}
