//! Decides when the checkpoint's file should be written again as a whole.
//!
//! redb reuses the pages that a change frees, and shortens the file only if its end is free. A store that was large
//! once, or whose rows vary in size, would keep a mostly free file for ever. The file is therefore compared with the
//! size of a fresh file for as many bytes of rows.

/// The stored columns: one type for every row of the checkpoint's table about itself.
pub(super) type SpaceRow = (i64, i64, u64, u64);

/// The size of a checkpoint. All zero for a file without this row: it is written again once it is larger than the
/// slack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    /// Bytes of keys and values when the file was last written as a whole.
    pub(super) whole_payload: u64,
    /// Bytes of the file then.
    pub(super) whole_file: u64,
    /// Bytes of keys and values now.
    pub(super) payload: u64,
}

impl Space {
    pub(super) fn from_row(row: SpaceRow) -> Self {
        let (whole_payload, whole_file, payload, _) = row;
        let count = |stored: i64| u64::try_from(stored).unwrap_or(0);
        Self { whole_payload: count(whole_payload), whole_file: count(whole_file), payload }
    }

    pub(super) fn to_row(self) -> SpaceRow {
        let count = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        (count(self.whole_payload), count(self.whole_file), self.payload, 0)
    }

    /// The bytes that a fresh file of these rows would take, in proportion to the last one.
    pub(super) fn expected_bytes(self) -> u64 {
        let product = u128::from(self.whole_file).saturating_mul(u128::from(self.payload));
        u64::try_from(product / u128::from(self.whole_payload.max(1))).unwrap_or(u64::MAX)
    }

    /// Returns true if a fresh file would save more than half of `file_bytes` and more than `slack_bytes`.
    pub(super) fn rewrite_due(self, file_bytes: u64, slack_bytes: u64) -> bool {
        file_bytes.saturating_sub(self.expected_bytes()) > slack_bytes.max(self.expected_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_due_when_most_of_it_is_free() {
        let space = Space { whole_payload: 1000, whole_file: 4000, payload: 2000 };
        assert_eq!(Space::from_row(space.to_row()), space);
        assert_eq!(space.expected_bytes(), 8000);
        assert!(!space.rewrite_due(16_000, 100));
        assert!(space.rewrite_due(16_001, 100));
        assert!(!space.rewrite_due(16_001, 9000));
        assert!(Space { payload: 0, ..space }.rewrite_due(101, 100), "nothing is left");
        assert!(Space::default().rewrite_due(101, 100), "a file that does not say");
        assert!(!Space { payload: u64::MAX, ..space }.rewrite_due(u64::MAX, 100));
    }
}
