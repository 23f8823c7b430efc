//! Decides where a broken watch resumes, and which of its messages were delivered before. Pure.
//!
//! All changes of one commit share one cursor, and a stream may break between them. Resuming from that cursor would
//! lose the rest of the commit. The watch therefore resumes from the last complete cursor, which the last change of a
//! commit and every bookmark mark. It skips as many changes after that as the broken stream had already delivered.

use borough_proto::v1::Cursor;

/// The delivered part of a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resumption {
    /// Everything up to and with this cursor was delivered. Absent: a snapshot is still incomplete.
    base: Option<Cursor>,
    /// The cursor of the newest changes after the base.
    newest: Option<Cursor>,
    /// Delivered changes with the newest cursor.
    delivered: u32,
    /// Changes with the newest cursor that the open stream has sent.
    sent: u32,
}

impl Resumption {
    /// A watch that continues after `base`, or starts with a snapshot.
    pub(crate) fn after(base: Option<Cursor>) -> Self {
        Self { base, ..Self::default() }
    }

    /// Where a new stream must start. Absent: with a snapshot.
    pub(crate) fn reopened(&mut self) -> Option<Cursor> {
        self.sent = 0;
        self.base.clone()
    }

    /// Returns true if a snapshot is still incomplete.
    pub(crate) fn in_snapshot(&self) -> bool {
        self.base.is_none()
    }

    /// Records that everything up to `cursor` was sent. Returns false if more than that was delivered already: a
    /// gateway that is behind another one may send such a cursor.
    pub(crate) fn complete(&mut self, cursor: &Cursor) -> bool {
        let passed = |known: &Option<Cursor>| known.as_ref().is_none_or(|known| !before(cursor, known));
        let is_ahead = passed(&self.base) && passed(&self.newest);
        if is_ahead {
            *self = Self::after(Some(cursor.clone()));
        }
        is_ahead
    }

    /// Returns true if a change with `cursor` must be delivered, and counts it as delivered.
    pub(crate) fn accept(&mut self, cursor: &Cursor) -> bool {
        let Some(base) = &self.base else { return true };
        if cursor == base || before(cursor, base) {
            return false;
        }
        match &self.newest {
            Some(newest) if newest == cursor => {
                self.sent += 1;
                let new = self.sent > self.delivered;
                self.delivered = self.delivered.max(self.sent);
                new
            }
            Some(newest) if before(cursor, newest) => false,
            _ => {
                if let Some(finished) = self.newest.replace(cursor.clone()) {
                    self.base = Some(finished);
                }
                (self.delivered, self.sent) = (1, 1);
                true
            }
        }
    }
}

/// Returns true if `left` is before `right`; cursors of different epochs have no order.
fn before(left: &Cursor, right: &Cursor) -> bool {
    left.store_epoch == right.store_epoch && left.stamp < right.stamp
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cursor(stamp: u8) -> Cursor {
        Cursor { store_epoch: 1, stamp: vec![0, 0, 0, 0, 0, 0, 0, 0, 0, stamp].into() }
    }

    /// One message of a watch, as a gateway would send it: a stamp, and a change or a bookmark.
    type Sent = (u8, Option<u32>);

    fn log(entries: &[u8]) -> Vec<Sent> {
        let mut number = 0;
        let mut sent = Vec::new();
        for (stamp, &changes) in (1..).zip(entries) {
            for _ in 0..changes % 4 {
                number += 1;
                sent.push((stamp, Some(number)));
            }
            if changes & 4 != 0 {
                sent.push((stamp, None));
            }
        }
        sent
    }

    proptest! {
        /// However often a stream breaks, every change is delivered once and in order.
        #[test]
        fn breaks_neither_lose_nor_repeat(
            entries in prop::collection::vec(0_u8..8, 1..20),
            breaks in prop::collection::vec(0_usize..12, 0..12),
        ) {
            let log = log(&entries);
            let mut resumption = Resumption::after(Some(cursor(0)));
            let mut delivered = Vec::new();
            for limit in breaks.into_iter().chain([usize::MAX]) {
                let from = resumption.reopened().expect("never a snapshot").stamp[9];
                for &(stamp, change) in log.iter().filter(|sent| sent.0 > from).take(limit) {
                    match change {
                        None => {
                            resumption.complete(&cursor(stamp));
                        }
                        Some(change) if resumption.accept(&cursor(stamp)) => delivered.push(change),
                        Some(_) => {}
                    }
                }
            }
            let all: Vec<u32> = log.iter().filter_map(|sent| sent.1).collect();
            prop_assert_eq!(delivered, all);
        }
    }

    #[test]
    fn what_is_complete_is_not_delivered_again() {
        let mut resumption = Resumption::after(Some(cursor(5)));
        assert!(!resumption.accept(&cursor(5)));
        assert!(resumption.accept(&cursor(6)));
        resumption.complete(&cursor(6));
        assert_eq!(resumption.reopened(), Some(cursor(6)));
        assert!(!resumption.accept(&cursor(6)));
        assert!(resumption.accept(&cursor(7)));
    }

    #[test]
    fn a_late_bookmark_does_not_go_back() {
        let mut resumption = Resumption::after(Some(cursor(5)));
        assert!(resumption.accept(&cursor(7)));
        resumption.complete(&cursor(6));
        assert!(!resumption.accept(&cursor(6)));
        assert_eq!(resumption.reopened(), Some(cursor(5)));
    }

    #[test]
    fn a_snapshot_starts_again_until_it_is_complete() {
        let mut resumption = Resumption::after(None);
        assert!(resumption.accept(&cursor(3)));
        assert!(resumption.in_snapshot());
        assert_eq!(resumption.reopened(), None);
        assert!(resumption.accept(&cursor(3)));
        resumption.complete(&cursor(3));
        assert_eq!(resumption.reopened(), Some(cursor(3)));
    }
}
