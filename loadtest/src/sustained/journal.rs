//! How many bytes the journal holds: entries as they were committed, less those that a trim has removed.

use std::collections::BTreeMap;

use borough_kv::Versionstamp;

/// The journal at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalSample {
    /// Entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The entries that were committed here.
#[derive(Debug, Default)]
pub struct JournalBook {
    entries: BTreeMap<Versionstamp, u64>,
    size: JournalSample,
}

impl JournalBook {
    /// An entry was committed.
    pub fn appended(&mut self, stamp: Versionstamp, bytes: u64) {
        self.entries.insert(stamp, bytes);
        self.size.entries += 1;
        self.size.bytes += bytes;
    }

    /// Everything up to `floor` was removed.
    pub fn trimmed(&mut self, floor: Versionstamp) {
        while let Some(entry) = self.entries.first_entry()
            && *entry.key() <= floor
        {
            self.size.entries -= 1;
            self.size.bytes -= entry.remove();
        }
    }

    /// What is left.
    pub fn size(&self) -> JournalSample {
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
