//! Sets of keys and key ranges: what a transaction has read, written, cleared or made unreadable.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use bytes::Bytes;

use crate::database::key_after;

/// Disjoint, coalesced, half-open key ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ends: BTreeMap<Bytes, Bytes>,
}

impl RangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.ends.clear();
    }

    /// Adds `begin..end`, merging what it overlaps or touches. An empty range adds nothing.
    pub(crate) fn insert(&mut self, begin: Bytes, end: Bytes) {
        if begin >= end {
            return;
        }
        let mut merged = (begin, end);
        if let Some((before, before_end)) = self.ends.range(..=merged.0.clone()).next_back()
            && *before_end >= merged.0
        {
            merged.0 = before.clone();
            merged.1 = merged.1.max(before_end.clone());
        }
        while let Some((next, next_end)) = self.ends.range(merged.0.clone()..=merged.1.clone()).next() {
            let next = next.clone();
            merged.1 = merged.1.max(next_end.clone());
            self.ends.remove(&next);
        }
        self.ends.insert(merged.0, merged.1);
    }

    /// Takes `begin..end` out of the set.
    pub(crate) fn remove(&mut self, begin: &Bytes, end: &Bytes) {
        if begin >= end || self.ends.is_empty() {
            return;
        }
        if let Some((before, before_end)) = self.ends.range(..begin.clone()).next_back()
            && before_end > begin
        {
            let (before, before_end) = (before.clone(), before_end.clone());
            self.ends.insert(before, begin.clone());
            if before_end > *end {
                self.ends.insert(end.clone(), before_end);
                return;
            }
        }
        while let Some((next, next_end)) = self.ends.range(begin.clone()..end.clone()).next() {
            let (next, next_end) = (next.clone(), next_end.clone());
            self.ends.remove(&next);
            if next_end > *end {
                self.ends.insert(end.clone(), next_end);
            }
        }
    }

    /// The range that covers `key`.
    pub(crate) fn covering(&self, key: &[u8]) -> Option<(&Bytes, &Bytes)> {
        let bounds = (Bound::Unbounded, Bound::Included(key));
        self.ends.range::<[u8], _>(bounds).next_back().filter(|(_, end)| end.as_ref() > key)
    }

    /// Whether a range covers `key`.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        !self.ends.is_empty() && self.covering(key).is_some()
    }

    /// The first position of the set at or after `from`, below `end`.
    pub(crate) fn first_at_or_after(&self, from: &[u8], end: &[u8]) -> Option<Bytes> {
        if self.ends.is_empty() || from >= end {
            return None;
        }
        if self.contains(from) {
            return Some(Bytes::copy_from_slice(from));
        }
        let bounds = (Bound::Included(from), Bound::Excluded(end));
        self.ends.range::<[u8], _>(bounds).next().map(|(begin, _)| begin.clone())
    }

    /// The end of the last range that begins below `before`, cut at `before`, where it is above `floor`.
    pub(crate) fn last_end_before(&self, before: &[u8], floor: &[u8]) -> Option<Bytes> {
        if self.ends.is_empty() {
            return None;
        }
        let bounds = (Bound::Unbounded, Bound::Excluded(before));
        let (_, end) = self.ends.range::<[u8], _>(bounds).next_back()?;
        let end = if end.as_ref() > before { Bytes::copy_from_slice(before) } else { end.clone() };
        (end.as_ref() > floor).then_some(end)
    }

    /// Whether any range overlaps `begin..end`.
    pub(crate) fn intersects(&self, begin: &[u8], end: &[u8]) -> bool {
        self.first_at_or_after(begin, end).is_some()
    }

    /// Every range, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.ends.iter()
    }

    /// The parts of the set inside `begin..end`.
    pub(crate) fn within(&self, begin: &Bytes, end: &Bytes) -> Vec<(Bytes, Bytes)> {
        let mut parts = Vec::new();
        if let Some((_, covered_end)) = self.covering(begin) {
            parts.push((begin.clone(), covered_end.min(end).clone()));
        }
        let bounds = (Bound::Excluded(begin.clone()), Bound::Excluded(end.clone()));
        if begin < end {
            parts.extend(self.ends.range(bounds).map(|(from, to)| (from.clone(), to.min(end).clone())));
        }
        parts
    }
}

/// A key, or a half-open range of keys. A range of one key is always a point, so that equal sets compare equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Point(Bytes),
    Range(Bytes, Bytes),
}

impl Span {
    /// The span `begin..end`, a point where it holds one key.
    pub(crate) fn new(begin: Bytes, end: Bytes) -> Self {
        if is_key_after(&begin, &end) { Self::Point(begin) } else { Self::Range(begin, end) }
    }

    /// Bytes of keys this span counts in a transaction.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Point(key) => key.len().saturating_mul(2).saturating_add(1),
            Self::Range(begin, end) => begin.len().saturating_add(end.len()),
        }
    }

    /// The span as a half-open range.
    pub(crate) fn to_range(&self) -> Range<Bytes> {
        match self {
            Self::Point(key) => key.clone()..Bytes::from(key_after(key)),
            Self::Range(begin, end) => begin.clone()..end.clone(),
        }
    }
}

/// Appends a span that begins at or after the last one, or joins the two if they touch.
fn span_join(spans: &mut Vec<Span>, next: Span) {
    let touches = match (spans.last(), &next) {
        (None, _) => false,
        (Some(Span::Point(last)), Span::Point(key)) => is_key_after(last, key),
        (Some(Span::Point(last)), Span::Range(begin, _)) => begin == last || is_key_after(last, begin),
        (Some(Span::Range(_, end)), Span::Point(begin) | Span::Range(begin, _)) => begin <= end,
    };
    match spans.last_mut().filter(|_| touches) {
        None => spans.push(next),
        Some(last) => {
            let (one, other) = (last.to_range(), next.to_range());
            *last = Span::new(one.start, one.end.max(other.end));
        }
    }
}

/// Whether `end` is the first key after `begin`.
pub(crate) fn is_key_after(begin: &[u8], end: &[u8]) -> bool {
    end.len() == begin.len().saturating_add(1) && end.last() == Some(&0) && end.starts_with(begin)
}

/// A conflict set. Points are kept apart from ranges, since nearly all spans are points.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanSet {
    points: BTreeSet<Bytes>,
    ranges: RangeSet,
}

impl SpanSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.points.clear();
        self.ranges.clear();
    }

    pub(crate) fn insert(&mut self, span: Span) {
        match span {
            Span::Point(key) => {
                if !self.ranges.contains(&key) {
                    self.points.insert(key);
                }
            }
            Span::Range(begin, end) => self.ranges.insert(begin, end),
        }
    }

    /// Every span, in order, joined if they touch, as FoundationDB counts and names them.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> =
            Vec::with_capacity(self.points.len().saturating_add(self.ranges.ends.len()));
        let mut ranges = self.ranges.ends.iter().peekable();
        for point in &self.points {
            while let Some((begin, end)) = ranges.next_if(|(begin, _)| *begin <= point) {
                span_join(&mut spans, Span::new(begin.clone(), end.clone()));
            }
            span_join(&mut spans, Span::Point(point.clone()));
        }
        ranges.for_each(|(begin, end)| span_join(&mut spans, Span::new(begin.clone(), end.clone())));
        spans
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every key of up to two letters: enough to distinguish any two sets of such keys.
    fn universe() -> Vec<Vec<u8>> {
        let letters = 0..4u8;
        let two = letters.clone().flat_map(|one| (0..4u8).map(move |other| vec![one, other]));
        std::iter::once(vec![]).chain(letters.map(|one| vec![one])).chain(two).collect()
    }

    proptest! {
        /// Points and ranges, added one by one, compared with a set that has no points.
        #[test]
        fn spans_that_touch_are_one(
            spans in prop::collection::vec((0..21usize, 0..21usize, any::<bool>()), 0..12)
        ) {
            let mut keys = universe();
            keys.sort();
            let (mut set, mut plain) = (SpanSet::default(), RangeSet::default());
            for (one, other, point) in spans {
                let key = Bytes::from(keys[one.min(other)].clone());
                let end = if point || one == other { key_after(&key).into() } else { Bytes::from(keys[one.max(other)].clone()) };
                plain.insert(key.clone(), end.clone());
                set.insert(Span::new(key, end));
            }
            let plain: Vec<Span> = plain.iter().map(|(begin, end)| Span::new(begin.clone(), end.clone())).collect();
            prop_assert_eq!(set.spans(), plain);
        }

        /// The set against one flag per key.
        #[test]
        fn it_holds_exactly_what_was_put_in_and_not_taken_out(
            steps in prop::collection::vec((any::<bool>(), 0..21usize, 0..21usize), 1..30)
        ) {
            let mut keys = universe();
            keys.sort();
            let (mut set, mut held) = (RangeSet::default(), vec![false; keys.len()]);
            for (insert, one, other) in steps {
                let (begin, end) = (one.min(other), one.max(other));
                let bounds = (Bytes::from(keys[begin].clone()), Bytes::from(keys[end].clone()));
                if insert { set.insert(bounds.0, bounds.1) } else { set.remove(&bounds.0, &bounds.1) }
                held[begin..end].fill(insert);
                for (index, key) in keys.iter().enumerate() {
                    prop_assert_eq!(set.contains(key), held[index], "{:?} in {:?}", key, set);
                }
                let disjoint = set.ends.iter().zip(set.ends.iter().skip(1)).all(|((_, end), (next, _))| end < next);
                prop_assert!(disjoint, "{:?}", set);
                let (from, to) = (&keys[begin], &keys[end]);
                let first = held[begin..end].iter().position(|held| *held).map(|at| keys[begin + at].clone());
                prop_assert_eq!(set.first_at_or_after(from, to).map(|key| key.to_vec()), first);
            }
        }
    }
}
