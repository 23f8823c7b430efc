//! The write map: the transaction's writes so far, folded as FoundationDB folds them.
//!
//! Each written key has a stack of changes that could not be folded into one. Three sets of ranges complete it: cleared
//! ranges, ranges that a pending versionstamped key may become ("unreadable"), and write conflicts. At the commit all
//! clears come first, then each key's stack in key order.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use crate::contract::check::stamp_offset;
use crate::contract::{AtomicOp, Version, Versionstamp};
use crate::database::key_after;
use crate::embedded::atomic::atomic_apply;
use crate::embedded::mutation::{Mutation, stamp_place};
use crate::embedded::ranges::{RangeSet, Span, SpanSet};

/// Whether a write adds a write conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteConflict {
    Added,
    /// An option of the transaction prevents it, or the sequencer adds it.
    Prevented,
}

/// One change in a key's stack.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyChange {
    /// A value, or `None` for a clear that an operation was folded over.
    Set(Option<Bytes>),
    /// A value (or the value of a stamped key) that stays unknown until the commit; as given, with its offset.
    Stamped(AtomicOp, Bytes),
    /// An operation on the change below it.
    Atomic(AtomicOp, Bytes),
}

/// The writes of a transaction to one key.
#[derive(Clone, Debug)]
pub(crate) struct KeyWrites {
    stack: SmallVec<[KeyChange; 1]>,
    /// Reading the key answers 1036.
    pub(crate) unreadable: bool,
}

impl KeyWrites {
    /// Returns true if the value depends on the database's value.
    pub(crate) fn is_dependent(&self) -> bool {
        matches!(self.stack.first(), Some(KeyChange::Atomic(..)))
    }

    /// The value that this transaction sees, over `base` from the database.
    pub(crate) fn value(&self, base: Option<&Bytes>) -> Option<Bytes> {
        let mut value = base.cloned();
        for change in &self.stack {
            value = match change {
                KeyChange::Set(value) => value.clone(),
                KeyChange::Stamped(_, value) => Some(value.clone()),
                KeyChange::Atomic(operation, operand) => atomic_apply(*operation, value.as_ref(), operand),
            };
        }
        value
    }

    /// Folds `change` into the top of the stack, or stacks it.
    fn fold(&mut self, change: KeyChange) {
        let KeyChange::Atomic(operation, operand) = change else {
            self.stack.pop();
            self.stack.push(change);
            return;
        };
        let folded = match self.stack.last() {
            Some(KeyChange::Set(value)) => {
                Some(KeyChange::Set(atomic_apply(operation, value.as_ref(), &operand)))
            }
            Some(KeyChange::Atomic(below, earlier))
                if *below == operation && foldable(operation, earlier, &operand) =>
            {
                atomic_apply(operation, Some(earlier), &operand)
                    .map(|folded| KeyChange::Atomic(operation, folded))
            }
            _ => None,
        };
        match folded {
            Some(folded) => {
                self.stack.pop();
                self.stack.push(folded);
            }
            None => self.stack.push(KeyChange::Atomic(operation, operand)),
        }
    }

    fn mutations(&self, key: &Bytes) -> impl Iterator<Item = Mutation> {
        self.stack.iter().map(move |change| match change.clone() {
            KeyChange::Set(Some(value)) => Mutation::Set(key.clone(), value),
            KeyChange::Set(None) => Mutation::Clear(key.clone()),
            KeyChange::Stamped(AtomicOp::SetVersionstampedKey, value) => {
                Mutation::StampedKey(key.clone(), value)
            }
            KeyChange::Stamped(_, value) => Mutation::StampedValue(key.clone(), value),
            KeyChange::Atomic(operation, operand) => Mutation::Atomic(operation, key.clone(), operand),
        })
    }
}

/// Returns true if two operations of one kind can become one. Some can only with equal operand lengths, comparing never
/// can.
fn foldable(operation: AtomicOp, earlier: &Bytes, operand: &Bytes) -> bool {
    match operation {
        AtomicOp::Add | AtomicOp::BitOr | AtomicOp::BitXor | AtomicOp::Max | AtomicOp::Min => {
            earlier.len() == operand.len()
        }
        AtomicOp::CompareAndClear => false,
        _ => true,
    }
}

/// All writes of a transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteMap {
    keys: BTreeMap<Bytes, KeyWrites>,
    cleared: RangeSet,
    unreadable: RangeSet,
    conflicts: SpanSet,
    /// Changes that were in a range when it became unreadable; they come before all others.
    flushed: Vec<Mutation>,
}

impl WriteMap {
    /// Returns true if reads see nothing of this map.
    pub(crate) fn is_invisible(&self) -> bool {
        self.keys.is_empty() && self.cleared.is_empty() && self.unreadable.is_empty()
    }

    /// Returns true if a commit of this map writes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
            && self.cleared.is_empty()
            && self.flushed.is_empty()
            && self.conflicts.is_empty()
    }

    pub(crate) fn key(&self, key: &[u8]) -> Option<&KeyWrites> {
        self.keys.get(key)
    }

    pub(crate) fn cleared(&self) -> &RangeSet {
        &self.cleared
    }

    pub(crate) fn unreadable(&self) -> &RangeSet {
        &self.unreadable
    }

    /// Written keys of `begin..end`.
    pub(crate) fn range<'a>(
        &'a self,
        begin: &[u8],
        end: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&'a Bytes, &'a KeyWrites)> + use<'a> {
        let whole = (Bound::Included(begin), Bound::Excluded(end));
        let bounds = if begin < end { whole } else { (Bound::Excluded(begin), Bound::Included(begin)) };
        self.keys.range::<[u8], _>(bounds)
    }

    pub(crate) fn conflict_add(&mut self, span: Span) {
        self.conflicts.insert(span);
    }

    pub(crate) fn set(&mut self, key: Bytes, value: Bytes, conflict: WriteConflict) {
        self.change(key, KeyChange::Set(Some(value)), conflict);
    }

    /// Any operation but the two versionstamp ones.
    pub(crate) fn atomic(
        &mut self,
        operation: AtomicOp,
        key: Bytes,
        operand: Bytes,
        conflict: WriteConflict,
    ) {
        self.change(key, KeyChange::Atomic(operation, operand), conflict);
    }

    /// A value that ends in the offset of its stamp, already checked.
    pub(crate) fn stamped_value(&mut self, key: Bytes, value: Bytes, conflict: WriteConflict) {
        self.change(key, KeyChange::Stamped(AtomicOp::SetVersionstampedValue, value), conflict);
    }

    /// A key that ends in the offset of its stamp, already checked. Every key that it may become is unreadable from
    /// here on; the sequencer adds its write conflict.
    pub(crate) fn stamped_key(
        &mut self,
        key: &Bytes,
        value: Bytes,
        read_version: Option<Version>,
        max_key: &Bytes,
    ) {
        let least = Versionstamp::new(read_version.map_or(0, |version| version.saturating_add(1)), 0);
        let begin = stamp_place(key, least);
        let end = Bytes::from(key_after(&stamp_place(key, Versionstamp::MAX))).min(max_key.clone());
        self.flush(&begin, &end);
        self.unreadable.insert(begin, end);
        let mut placed = key.to_vec();
        if let Some(place) = stamp_offset(key).and_then(|at| placed.get_mut(at..at.saturating_add(10))) {
            place.copy_from_slice(&least.0);
        }
        self.change(
            placed.into(),
            KeyChange::Stamped(AtomicOp::SetVersionstampedKey, value),
            WriteConflict::Prevented,
        );
    }

    pub(crate) fn clear(&mut self, span: Span, conflict: WriteConflict) {
        let range = span.to_range();
        if conflict == WriteConflict::Added {
            self.conflicts.insert(span);
        }
        self.keys_remove(&range.start, &range.end);
        self.unreadable.remove(&range.start, &range.end);
        self.cleared.insert(range.start, range.end);
    }

    fn keys_remove(&mut self, begin: &Bytes, end: &Bytes) {
        while let Some((key, _)) = self.keys.range(begin.clone()..end.clone()).next() {
            let key = key.clone();
            self.keys.remove(&key);
        }
    }

    /// Moves the pending changes in `begin..end` before everything else, so that reads fall through to the range.
    fn flush(&mut self, begin: &Bytes, end: &Bytes) {
        if begin >= end {
            return;
        }
        let clears = self.cleared.within(begin, end).into_iter();
        self.flushed.extend(clears.map(|(from, to)| Mutation::ClearRange(from, to)));
        let pending = self.keys.range(begin.clone()..end.clone());
        self.flushed.extend(pending.flat_map(|(key, writes)| writes.mutations(key)));
        self.keys_remove(begin, end);
        self.cleared.remove(begin, end);
    }

    fn change(&mut self, key: Bytes, change: KeyChange, conflict: WriteConflict) {
        if conflict == WriteConflict::Added {
            self.conflicts.insert(Span::Point(key.clone()));
        }
        let stamped = matches!(change, KeyChange::Stamped(..));
        let Some(writes) = self.keys.get_mut(&key) else {
            let unreadable = stamped || self.unreadable.contains(&key);
            let mut writes = KeyWrites { stack: smallvec![], unreadable };
            if matches!(change, KeyChange::Atomic(..)) && self.cleared.contains(&key) {
                writes.stack.push(KeyChange::Set(None));
                writes.fold(change);
            } else {
                writes.stack.push(change);
            }
            self.keys.insert(key, writes);
            return;
        };
        let replaces =
            matches!(change, KeyChange::Set(_) | KeyChange::Stamped(AtomicOp::SetVersionstampedValue, _));
        if !writes.unreadable && replaces {
            writes.stack = smallvec![change];
            writes.unreadable = stamped;
        } else if !writes.unreadable && !stamped {
            writes.fold(change);
        } else {
            writes.unreadable = true;
            writes.stack.push(change);
        }
    }

    /// The changes of a commit, in their order.
    pub(crate) fn mutations(&self) -> Vec<Mutation> {
        let clears = self.cleared.iter().map(|(begin, end)| match Span::new(begin.clone(), end.clone()) {
            Span::Point(key) => Mutation::Clear(key),
            Span::Range(begin, end) => Mutation::ClearRange(begin, end),
        });
        let keys = self.keys.iter().flat_map(|(key, writes)| writes.mutations(key));
        self.flushed.iter().cloned().chain(clears).chain(keys).collect()
    }

    /// The write conflicts of a commit.
    pub(crate) fn conflict_spans(&self) -> Vec<Span> {
        self.conflicts.spans()
    }
}
