//! What one transaction of the model sees and depends on: the rows at its version under its own writes, and the ranges
//! of each read. It is kept as plainly as possible: lists of marks, later ones over earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use super::super::model::{ModelRows, atomic};
use super::step::Selector;
use borough_kv::contract::{AtomicOp, ErrorCode};
use borough_kv::database::key_after;

/// A half-open range of keys.
pub(super) type KeyRange = (Vec<u8>, Vec<u8>);

/// The rows of a read, or its error.
pub(super) type ModelRead = Result<Vec<(Vec<u8>, Vec<u8>)>, ErrorCode>;

/// A selector in its plain form: `offset` steps from the first key at or after the key.
pub(super) type Plain = (Vec<u8>, i32);

/// One change of a key.
#[derive(Clone, Debug)]
pub(super) enum ModelChange {
    Set(Option<Vec<u8>>),
    Atomic(AtomicOp, Vec<u8>),
}

/// What a transaction did to one key.
#[derive(Clone, Debug)]
struct OwnWrite {
    /// Whether the result needs nothing from the database.
    independent: bool,
    changes: Vec<ModelChange>,
}

/// Ranges with or without a mark: the last one over a key counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(Vec<(KeyRange, bool)>);

impl Marks {
    fn set(&mut self, span: KeyRange, marked: bool) {
        self.0.push((span, marked));
    }

    fn at(&self, key: &[u8]) -> bool {
        let covers = |(begin, end): &KeyRange| begin.as_slice() <= key && key < end.as_slice();
        self.0.iter().rev().find(|(span, _)| covers(span)).is_some_and(|(_, marked)| *marked)
    }

    /// Whether any key of `begin..end` is marked.
    fn within(&self, begin: &[u8], end: &[u8]) -> bool {
        let borders = self.0.iter().flat_map(|((from, to), _)| [from.as_slice(), to.as_slice()]);
        let mut places =
            std::iter::once(begin).chain(borders.filter(|place| *place >= begin && *place < end));
        begin < end && places.any(|place| self.at(place))
    }
}

/// What a transaction has written, as its reads see it.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    entries: BTreeMap<Vec<u8>, OwnWrite>,
    cleared: Marks,
    unreadable: Marks,
}

impl Own {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.cleared.0.is_empty() && self.unreadable.0.is_empty()
    }

    /// Returns true if any value or key waits for its stamp.
    pub(super) fn has_unreadable(&self) -> bool {
        !self.unreadable.0.is_empty()
    }

    pub(super) fn clear(&mut self, begin: &[u8], end: &[u8]) {
        let span = (begin.to_vec(), end.to_vec());
        self.entries.retain(|key, _| !(begin <= key.as_slice() && key.as_slice() < end));
        self.cleared.set(span.clone(), true);
        self.unreadable.set(span, false);
    }

    pub(super) fn change(&mut self, key: &[u8], change: ModelChange) {
        let alone = matches!(change, ModelChange::Set(_)) || self.cleared.at(key);
        let below = self.cleared.at(key).then_some(ModelChange::Set(None));
        let fresh = || OwnWrite { independent: alone, changes: below.into_iter().collect() };
        let entry = self.entries.entry(key.to_vec()).or_insert_with(fresh);
        // A set after an operation makes the key independent, except for a key that cannot be read anyway.
        if matches!(change, ModelChange::Set(_)) && !self.unreadable.at(key) {
            *entry = OwnWrite { independent: true, changes: Vec::new() };
        }
        entry.changes.push(change);
    }

    /// A value that waits for its stamp.
    pub(super) fn stamped_value(&mut self, key: &[u8], template: Vec<u8>) {
        self.change(key, ModelChange::Set(Some(template)));
        self.unreadable.set((key.to_vec(), key_after(key)), true);
    }

    /// A key that waits for its stamp and may become any key in `span`. Until then it is at `placed`.
    pub(super) fn stamped_key(&mut self, span: KeyRange, placed: &[u8], value: Vec<u8>) {
        let (begin, end) = &span;
        self.entries.retain(|key, _| !(begin <= key && key < end));
        self.cleared.set(span.clone(), false);
        self.unreadable.set(span, true);
        self.change(placed, ModelChange::Set(Some(value)));
        self.unreadable.set((placed.to_vec(), key_after(placed)), true);
    }

    /// Returns true if the transaction's own writes decide `key`, whatever the database has.
    fn decides(&self, key: &[u8]) -> bool {
        self.entries.get(key).map_or_else(|| self.cleared.at(key), |entry| entry.independent)
    }

    /// The parts of `begin..end` that own writes do not decide.
    pub(super) fn undecided(&self, begin: &[u8], end: &[u8]) -> Vec<KeyRange> {
        let marks = self.cleared.0.iter().flat_map(|((from, to), _)| [from.clone(), to.clone()]);
        let entries = self.entries.keys().flat_map(|key| [key.clone(), key_after(key)]);
        let mut borders: BTreeSet<Vec<u8>> = marks
            .chain(entries)
            .filter(|border| border.as_slice() > begin && border.as_slice() < end)
            .collect();
        borders.extend([begin.to_vec(), end.to_vec()]);
        let pieces = borders.iter().zip(borders.iter().skip(1));
        pieces.filter(|(from, _)| !self.decides(from)).map(|(from, to)| (from.clone(), to.clone())).collect()
    }
}

/// A key that a walk stops at. An own operation without a result leaves a key without a value.
type ModelCell = (Vec<u8>, Option<Vec<u8>>);

/// What a read sees.
pub(super) struct ModelView {
    cells: Vec<ModelCell>,
    unreadable: Marks,
    pub(super) max_key: Vec<u8>,
}

/// The result of a selector as the end of a range.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) key: Vec<u8>,
    /// The remaining offset: 1, unless it left the keyspace at its beginning (less) or its end (more).
    pub(super) left: i32,
}

fn entry_value(entry: &OwnWrite, base: Option<&Vec<u8>>) -> Option<Vec<u8>> {
    entry.changes.iter().fold(base.cloned(), |value, change| match change {
        ModelChange::Set(value) => value.clone(),
        ModelChange::Atomic(operation, operand) => atomic(*operation, value.as_deref(), operand),
    })
}

impl ModelView {
    pub(super) fn new(base: &ModelRows, own: &Own) -> Self {
        let kept = base.iter().filter(|(key, _)| !own.cleared.at(key) && !own.entries.contains_key(*key));
        let mut cells: Vec<ModelCell> = kept.map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        cells.extend(own.entries.iter().map(|(key, entry)| (key.clone(), entry_value(entry, base.get(key)))));
        cells.sort();
        Self { cells, unreadable: own.unreadable.clone(), max_key: vec![0xff] }
    }

    /// The value of `key`; with `bypass` also if a stamp is pending.
    pub(super) fn get(&self, key: &[u8], bypass: bool) -> Result<Option<Vec<u8>>, ErrorCode> {
        if self.unreadable.at(key) && !bypass {
            return Err(ErrorCode::AccessedUnreadable);
        }
        Ok(self.cells.iter().find(|(one, _)| one == key).and_then(|(_, value)| value.clone()))
    }

    /// Cells that a walk may reach: not the metadata version, which is beyond them.
    fn walked(&self) -> impl DoubleEndedIterator<Item = &ModelCell> {
        self.cells.iter().filter(|(key, _)| *key < self.max_key)
    }

    /// Returns true if an own operation has left a key without a value.
    pub(super) fn has_emptied(&self) -> bool {
        self.cells.iter().any(|(_, value)| value.is_none())
    }

    fn forward(&self, from: &[u8]) -> Result<Option<&ModelCell>, ErrorCode> {
        let cell = self.walked().find(|(key, _)| key.as_slice() >= from);
        let walked = cell.map_or_else(|| self.max_key.clone(), |(key, _)| key_after(key));
        if self.unreadable.within(from, &walked) { Err(ErrorCode::AccessedUnreadable) } else { Ok(cell) }
    }

    fn backward(&self, before: &[u8]) -> Result<Option<&ModelCell>, ErrorCode> {
        let cell = self.walked().rev().find(|(key, _)| key.as_slice() < before);
        let walked = cell.map_or(b"".as_slice(), |(key, _)| key);
        if self.unreadable.within(walked, before) { Err(ErrorCode::AccessedUnreadable) } else { Ok(cell) }
    }

    /// The key of a selector. A key without a value counts as a step, but is never the result.
    pub(super) fn get_key(&self, key: &[u8], offset: i32) -> Result<Vec<u8>, ErrorCode> {
        let mut place = key.to_vec();
        if offset >= 1 {
            for _ in 1..offset {
                let Some((key, _)) = self.forward(&place)? else { return Ok(self.max_key.clone()) };
                place = key_after(key);
            }
            while let Some((key, value)) = self.forward(&place)? {
                if value.is_some() {
                    return Ok(key.clone());
                }
                place = key_after(key);
            }
            return Ok(self.max_key.clone());
        }
        for _ in offset..0 {
            let Some((key, _)) = self.backward(&place)? else { return Ok(Vec::new()) };
            place.clone_from(key);
        }
        while let Some((key, value)) = self.backward(&place)? {
            if value.is_some() {
                return Ok(key.clone());
            }
            place.clone_from(key);
        }
        Ok(Vec::new())
    }

    /// A selector as the end of a range: here a key without a value counts like any other.
    pub(super) fn bound(&self, key: &[u8], offset: i32) -> Result<Bound, ErrorCode> {
        let mut place = key.to_vec().min(self.max_key.clone());
        for left in (2..=offset).rev() {
            let Some((key, _)) = self.forward(&place)? else {
                return Ok(Bound { key: self.max_key.clone(), left });
            };
            place = key_after(key);
        }
        for left in offset..1 {
            let Some((key, _)) = self.backward(&place)? else {
                return Ok(Bound { key: Vec::new(), left });
            };
            place.clone_from(key);
        }
        Ok(Bound { key: place, left: 1 })
    }

    /// At most `limit` rows of `begin..end` in the order of the read, up to the first unreadable one.
    pub(super) fn rows(&self, begin: &[u8], end: &[u8], limit: usize, reverse: bool) -> ModelRead {
        let (mut from, mut to, mut rows) = (begin.to_vec(), end.to_vec(), Vec::new());
        while rows.len() < limit {
            let step =
                if reverse { self.backward_within(&from, &to)? } else { self.forward_within(&from, &to)? };
            let Some((key, value)) = step else { break };
            if reverse {
                to.clone_from(key)
            } else {
                from = key_after(key)
            }
            rows.extend(value.clone().map(|value| (key.clone(), value)));
        }
        Ok(rows)
    }

    fn forward_within(&self, from: &[u8], end: &[u8]) -> Result<Option<&ModelCell>, ErrorCode> {
        let cell = self.walked().find(|(key, _)| key.as_slice() >= from && key.as_slice() < end);
        let walked = cell.map_or_else(|| end.to_vec(), |(key, _)| key_after(key));
        if self.unreadable.within(from, &walked) { Err(ErrorCode::AccessedUnreadable) } else { Ok(cell) }
    }

    fn backward_within(&self, begin: &[u8], before: &[u8]) -> Result<Option<&ModelCell>, ErrorCode> {
        let cell = self.walked().rev().find(|(key, _)| key.as_slice() < before && key.as_slice() >= begin);
        let walked = cell.map_or(begin, |(key, _)| key);
        if self.unreadable.within(walked, before) { Err(ErrorCode::AccessedUnreadable) } else { Ok(cell) }
    }
}

/// The plain form of a selector whose key is `key`.
pub(super) fn plain(key: Vec<u8>, selector: &Selector) -> Plain {
    (if selector.or_equal { key_after(&key) } else { key }, selector.offset)
}

/// The request and the result of a range read, which decide its dependence.
pub(super) struct RangeRead<'a> {
    pub(super) begin: Plain,
    pub(super) end: Plain,
    pub(super) to_begin: bool,
    pub(super) through_end: bool,
    pub(super) reverse: bool,
    pub(super) more: bool,
    /// Keys, in the order of the read.
    pub(super) keys: Vec<&'a [u8]>,
    pub(super) max_key: Vec<u8>,
}

impl RangeRead<'_> {
    /// The ranges that the read depends on with own writes off: `NativeAPI.actor.cpp`, `getRangeFinished`. `sought` is
    /// the key of an end of several steps, which a backward read looks up; `off_end` says that the end left the keys.
    pub(super) fn dependence_apart(&self, sought: Option<Vec<u8>>, off_end: bool) -> Vec<KeyRange> {
        let (begin, begin_offset) = &self.begin;
        let (mut end, mut end_offset) = self.end.clone();
        let mut spans = Vec::new();
        if let Some(sought) = sought {
            spans.push((end, key_after(&sought)));
            (end, end_offset) = (sought, 1);
            if *begin_offset >= end_offset && *begin >= end {
                return spans;
            }
        }
        let (lowest, highest) = (self.keys.iter().min(), self.keys.iter().max());
        let mut from = begin.clone();
        if let Some(lowest) = lowest
            && (*begin_offset <= 0 || (self.reverse && self.more && *begin_offset <= 1))
        {
            from = lowest.to_vec();
        }
        if begin.is_empty() && *begin_offset < 1 {
            from.clear();
        }
        if end_offset > *begin_offset && end < from {
            from.clone_from(&end);
        }
        let mut to = end.clone();
        if let Some(highest) = highest {
            if !(end_offset <= 1 && (self.reverse || !self.more || end_offset <= 0)) {
                to = key_after(highest);
            }
            if off_end && !self.more {
                to = key_after(&self.max_key);
            }
        }
        if *begin_offset < end_offset && *begin > to {
            to.clone_from(begin);
        }
        spans.push((from, to));
        spans
    }

    /// The range that the read depends on, before own writes are taken out: `ReadYourWrites.actor.cpp`,
    /// `addConflictRange`.
    pub(super) fn dependence(&self) -> KeyRange {
        let ((begin, begin_offset), (end, end_offset)) = (&self.begin, &self.end);
        let (mut from, mut to) = (begin.min(end).clone(), begin.max(end).clone());
        if begin < end && self.more {
            if !self.reverse && *end_offset > 0 {
                to.clone_from(begin);
            } else if self.reverse && *begin_offset <= 1 {
                from.clone_from(end);
            }
        }
        // The side that a cut read did not reach does not count.
        if self.to_begin && *begin_offset <= 0 && !(self.more && self.reverse) {
            from.clear();
        }
        if self.through_end && *end_offset > 0 && (self.reverse || !self.more) {
            to.clone_from(&self.max_key);
        }
        if let (Some(lowest), Some(highest)) = (self.keys.iter().min(), self.keys.iter().max()) {
            if self.reverse || *begin_offset <= 0 {
                from = from.min(lowest.to_vec());
            }
            if to.as_slice() <= *highest && (!self.reverse || *end_offset > 0) {
                to = key_after(highest);
            }
        }
        (from, to)
    }
}
