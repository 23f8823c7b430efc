//! Counts the bytes of the journal: committed entries less trimmed ones.

use std::collections::BTreeMap;

use borough_kv::Versionstamp;

/// A sample of the journal's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalSample {
    pub entries: u64,
    pub bytes: u64,
}

/// The entries that were committed here.
#[derive(Debug, Default)]
pub(super) struct JournalBook {
    entries: BTreeMap<Versionstamp, u64>,
    size: JournalSample,
}

impl JournalBook {
    /// Records a committed entry.
    pub(super) fn appended(&mut self, stamp: Versionstamp, bytes: u64) {
        self.entries.insert(stamp, bytes);
        self.size.entries += 1;
        self.size.bytes += bytes;
    }

    /// Records that everything up to `floor` was removed.
    pub(super) fn trimmed(&mut self, floor: Versionstamp) {
        while let Some(entry) = self.entries.first_entry()
            && *entry.key() <= floor
        {
            self.size.entries -= 1;
            self.size.bytes -= entry.remove();
        }
    }

    /// The remaining entries.
    pub(super) fn size(&self) -> JournalSample {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trim_has_removed_is_not_in_the_journal() {
        let mut book = JournalBook::default();
        // Commits are not seen in their order.
        for (version, bytes) in [(3, 30), (1, 10), (2, 20)] {
            book.appended(Versionstamp::new(version, 0), bytes);
        }
        assert_eq!(book.size(), JournalSample { entries: 3, bytes: 60 });
        book.trimmed(Versionstamp::new(2, 0));
        assert_eq!(book.size(), JournalSample { entries: 1, bytes: 30 });
        book.trimmed(Versionstamp::new(1, 0));
        assert_eq!(book.size(), JournalSample { entries: 1, bytes: 30 });
    }
}
