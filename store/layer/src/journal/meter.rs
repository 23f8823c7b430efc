//! The size of a journal, measured by what was added since the last look: the embedded engine visits every entry that
//! it measures, and there may be millions.

use std::collections::VecDeque;

use borough_kv::{RangeRequest, Transaction, Versionstamp};

use super::trim::{journal_floor, successor};
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
    segments: VecDeque<JournalSegment>,
}

/// Whole entries of a journal, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalSegment {
    /// The stamp of the first entry after it, or one before that.
    pub(super) end: Versionstamp,
    pub(super) bytes: u64,
}

/// A look at a journal.
#[derive(Debug)]
pub struct JournalLook {
    head: Cursor,
    /// The stamp of the oldest entry.
    oldest: Option<Versionstamp>,
    added: Vec<JournalSegment>,
}

impl JournalMeter {
    /// Measures what was appended since the last [`JournalMeter::note`]. Without conflicts.
    pub async fn look(&self, tx: &Transaction, space: &CellSpace) -> StoreResult<JournalLook> {
        let head = journal_head(tx, space).await?;
        let oldest = journal_oldest(tx, space, head.store_epoch).await?;
        let after = self.knows(&head).then_some(self.upto.stamp);
        let key = |stamp, part| JournalKey { store_epoch: head.store_epoch, stamp, part }.encode(space);
        let begin = match after {
            Some(stamp) => key(stamp, u32::MAX),
            None => Prefix::<JournalKey>::of(&head.store_epoch).range(space).start,
        };
        let end = key(head.stamp, u32::MAX);
        let mut added = Vec::new();
        if begin < end {
            let points = tx.range_split_points(&begin..&end, SEGMENT_BYTES).await?;
            let mut from = begin;
            for point in points.iter().skip(1) {
                // A point may lie within an entry: the segment ends before that entry.
                let inner = JournalKey::decode(space, point).ok().filter(|_| *point < end);
                let (stop, to) = match inner {
                    Some(inner) => (inner.stamp, key(inner.stamp, 0)),
                    None => (successor(head.stamp), end.clone()),
                };
                if from < to {
                    let bytes = tx.estimated_range_size(&from..&to).await?;
                    added.push(JournalSegment { end: stop, bytes });
                    from = to;
                }
            }
        }
        Ok(JournalLook { head, oldest, added })
    }

    /// Records a look. Returns the bytes of the journal.
    pub fn note(&mut self, look: JournalLook) -> u64 {
        if !self.knows(&look.head) {
            self.segments.clear();
        }
        self.upto = look.head;
        self.segments.extend(look.added.into_iter().filter(|segment| segment.bytes > 0));
        let oldest = look.oldest.unwrap_or(Versionstamp::MAX);
        let gone = self.segments.iter().take_while(|segment| segment.end <= oldest).count();
        self.segments.drain(..gone);
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Whether the segments are of the journal with this head.
    pub(super) fn knows(&self, head: &Cursor) -> bool {
        self.upto.store_epoch == head.store_epoch && self.upto <= *head && self.upto != Cursor::default()
    }

    /// The segments in order, the oldest first. The first ones may be removed already.
    pub(super) fn segments(&self) -> impl Iterator<Item = &JournalSegment> {
        self.segments.iter()
    }
}

/// The stamp of the oldest entry. Reads one part of it.
pub(super) async fn journal_oldest(
    tx: &Transaction,
    space: &CellSpace,
    store_epoch: u64,
) -> StoreResult<Option<Versionstamp>> {
    let all = Prefix::<JournalKey>::of(&store_epoch).range(space);
    let floor = journal_floor(tx, space).await?.map(|floor| floor.trimmed_to);
    let floor = floor.filter(|floor| floor.store_epoch == store_epoch);
    // Everything up to the floor is gone. An engine may still have to pass its traces.
    let begin = match floor {
        Some(floor) => JournalKey { store_epoch, stamp: floor.stamp, part: u32::MAX }.encode(space),
        None => all.start,
    };
    let rows = tx.range_all(RangeRequest::between(begin, all.end).limit(1).snapshot()).await?;
    Ok(rows.first().map(|(key, _)| JournalKey::decode(space, key)).transpose()?.map(|key| key.stamp))
}
