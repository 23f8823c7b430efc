//! The size of a journal, measured by what was added since the last look: the embedded engine visits every entry that
//! it measures, and there may be millions.

use std::collections::VecDeque;

use borough_kv::{Transaction, Versionstamp};

use super::trim::journal_floor;
use super::{Cursor, journal_head};
use crate::error::StoreResult;
use crate::keys::{CellSpace, JournalKey, Key, Prefix};

/// Bytes of a segment, about: what was removed of a journal is known to a segment.
const SEGMENT_BYTES: u64 = 4 << 20;

/// What a process knows of a journal's size. It is exact on the embedded engine, except for the segment that is being
/// removed, which counts whole until all of it is gone.
#[derive(Debug, Default)]
pub struct JournalMeter {
    /// The position up to which the segments go.
    upto: Cursor,
    segments: VecDeque<MeteredPart>,
}

/// A part of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MeteredPart {
    /// Its last position, or one after it.
    end: Versionstamp,
    bytes: u64,
}

/// A look at a journal.
#[derive(Debug)]
pub struct JournalLook {
    head: Cursor,
    floor: Option<Cursor>,
    added: Vec<MeteredPart>,
}

impl JournalMeter {
    /// Measures what was appended since the last [`JournalMeter::note`]. Without conflicts.
    pub async fn look(&self, tx: &Transaction, space: &CellSpace) -> StoreResult<JournalLook> {
        let head = journal_head(tx, space).await?;
        let floor = journal_floor(tx, space).await?.map(|floor| floor.trimmed_to);
        let after = self.known(&head).then_some(self.upto.stamp);
        let key = |stamp, part| JournalKey { store_epoch: head.store_epoch, stamp, part }.encode(space);
        let begin = match after {
            Some(stamp) => key(stamp, u32::MAX),
            None => Prefix::<JournalKey>::of(&head.store_epoch).range(space).start,
        };
        let end = key(head.stamp, u32::MAX);
        let mut added = Vec::new();
        if begin < end {
            let points = tx.range_split_points(&begin..&end, SEGMENT_BYTES).await?;
            for (from, to) in points.iter().zip(points.iter().skip(1)) {
                let bytes = tx.estimated_range_size(from..to).await?;
                let end = JournalKey::decode(space, to).map_or(head.stamp, |key| key.stamp);
                added.push(MeteredPart { end, bytes });
            }
        }
        Ok(JournalLook { head, floor, added })
    }

    /// Records a look. Returns the bytes of the journal.
    pub fn note(&mut self, look: JournalLook) -> u64 {
        if !self.known(&look.head) {
            self.segments.clear();
        }
        self.upto = look.head;
        self.segments.extend(look.added.into_iter().filter(|segment| segment.bytes > 0));
        let floor = look.floor.filter(|floor| floor.store_epoch == self.upto.store_epoch);
        while floor.zip(self.segments.front()).is_some_and(|(floor, segment)| segment.end <= floor.stamp) {
            self.segments.pop_front();
        }
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Whether the segments are of the journal with this head.
    fn known(&self, head: &Cursor) -> bool {
        self.upto.store_epoch == head.store_epoch && self.upto <= *head && self.upto != Cursor::default()
    }
}
