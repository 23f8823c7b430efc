//! Reads and their conflicts: exactly the ranges that FoundationDB's client adds.

use bytes::Bytes;

use super::state::TransactionState;
use super::view::{Resolved, View, ViewPosition};
use super::writes::WriteMap;
use crate::contract::limits::METADATA_VERSION_KEY;
use crate::contract::{ErrorCode, Isolation, KeySelector, KvResult, RangeBatch, RangeRequest, StreamingMode};
use crate::database::key_after;
use crate::embedded::memory::{MemoryRows, Order};
use crate::embedded::ranges::{RangeSet, Span};

/// Bytes of the first, second, … batch of an iterator read.
const ITERATOR_BYTES: [usize; 10] = [4096, 6144, 9216, 13824, 20736, 31104, 46656, 69984, 80000, 120_000];

/// The size that a row counts in a batch besides its key and value.
const ROW_OVERHEAD_BYTES: usize = 8;

/// The limits of one batch. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BatchLimits {
    rows: Option<usize>,
    bytes: Option<usize>,
}

impl BatchLimits {
    fn of(request: &RangeRequest) -> KvResult<Self> {
        let rows = (request.limit > 0).then_some(request.limit);
        let asked = (request.target_bytes > 0).then_some(request.target_bytes);
        let of_mode = match request.mode {
            StreamingMode::Exact if rows.is_none() && asked.is_none() => {
                return Err(ErrorCode::ExactModeWithoutLimits.into());
            }
            StreamingMode::Exact => None,
            StreamingMode::Small => Some(256),
            StreamingMode::Medium => Some(1000),
            StreamingMode::Large => Some(4096),
            StreamingMode::Serial | StreamingMode::WantAll => Some(120_000),
            StreamingMode::Iterator => {
                let index = request.iteration.checked_sub(1).ok_or(ErrorCode::ClientInvalidOperation)?;
                ITERATOR_BYTES.get(index).or(ITERATOR_BYTES.last()).copied()
            }
        };
        let bytes = match (asked, of_mode) {
            (Some(asked), Some(of_mode)) => Some(asked.min(of_mode)),
            (asked, of_mode) => asked.or(of_mode),
        };
        Ok(Self { rows, bytes })
    }

    /// Counts one row. Returns true if it is the last one that fits.
    fn reached_with(&mut self, key: &[u8], value: &Bytes) -> bool {
        let size = key.len().saturating_add(value.len()).saturating_add(ROW_OVERHEAD_BYTES);
        let take = |left: &mut Option<usize>, by: usize| {
            *left = left.map(|left| left.saturating_sub(by));
            *left == Some(0)
        };
        let rows = take(&mut self.rows, 1);
        take(&mut self.bytes, size) || rows
    }
}

/// The value of `key`, with its conflict.
pub(super) fn get(
    state: &mut TransactionState,
    rows: &MemoryRows,
    key: &[u8],
    isolation: Isolation,
) -> KvResult<Option<Bytes>> {
    let value = state.view(rows, isolation)?.get(key)?;
    let writes = &state.writes;
    let untouched = match writes.key(key) {
        Some(own) => own.is_dependent(),
        None => !writes.cleared().contains(key),
    };
    state.consulted = untouched || state.hides_own_writes(isolation);
    if isolation == Isolation::Serializable && state.consulted {
        state.read_conflict_insert(Span::Point(Bytes::copy_from_slice(key)));
    }
    Ok(value)
}

/// The metadata version. It comes with a read version from the database, so that is never too old for it.
pub(super) fn metadata_version(
    state: &mut TransactionState,
    rows: &MemoryRows,
    isolation: Isolation,
) -> KvResult<Option<Bytes>> {
    let own = !state.hides_own_writes(isolation) && state.writes.key(METADATA_VERSION_KEY).is_some();
    let version = state.read_version.filter(|_| !own && !state.version_given);
    let Some(value) = version.and_then(|version| rows.metadata_version(version)) else {
        return get(state, rows, METADATA_VERSION_KEY, isolation);
    };
    (state.consulted, state.came_along) = (true, true);
    if isolation == Isolation::Serializable {
        state.read_conflict_insert(Span::Point(Bytes::from_static(METADATA_VERSION_KEY)));
    }
    Ok(value)
}

/// The key of `selector`, with the conflict of everything between it and the selector's own key.
pub(super) fn get_key(
    state: &mut TransactionState,
    rows: &MemoryRows,
    selector: &KeySelector,
    isolation: Isolation,
) -> KvResult<Bytes> {
    let place = ViewPosition::of(selector);
    let resolved = state.view(rows, isolation)?.key_resolve(&place)?;
    let (begin, end) = match place.offset {
        ..=0 => (resolved.clone(), place.key),
        _ => (place.key, key_after(&resolved).into()),
    };
    read_note(state, begin, end, isolation);
    Ok(resolved)
}

/// One batch of a range, with its conflict.
pub(super) fn get_range(
    state: &mut TransactionState,
    rows: &MemoryRows,
    request: &RangeRequest,
) -> KvResult<RangeBatch> {
    let limits = BatchLimits::of(request)?;
    let (begin, end) = (ViewPosition::of(&request.begin), ViewPosition::of(&request.end));
    if begin.offset >= end.offset && begin.key >= end.key {
        return Ok(RangeBatch::default());
    }
    let view = state.view(rows, request.isolation)?;
    let from = bound(&view, &begin)?;
    let to = bound(&view, &end)?;
    let batch = batch_read(&view, request, &from.key, &to.key, limits)?;
    let (first, last) = if request.reverse {
        conflict_backward(&begin, &end, &batch)
    } else {
        conflict_forward(&begin, &end, &batch)
    };
    // The side that a cut batch did not reach does not count, and neither does any if begin and end have crossed.
    let crossed = from.left >= to.left && from.key >= to.key;
    let (cut_begin, cut_end) = (batch.more && request.reverse, batch.more && !request.reverse);
    let off = |left: fn(i32) -> bool| !crossed && (left(from.left) || left(to.left));
    let to_begin = off(|left| left < 1) && begin.offset <= 0 && !cut_begin;
    let through_end = off(|left| left > 1) && end.offset > 0 && !cut_end;
    let first = if to_begin { Bytes::new() } else { first };
    let last = if through_end { state.max_key.clone() } else { last };
    if state.options.read_your_writes_disabled {
        let sought = (request.reverse && end.offset > 1).then(|| view.key_resolve(&end)).transpose()?;
        read_note(state, first, last, Isolation::Snapshot);
        if request.isolation == Isolation::Serializable {
            conflict_apart(state, request, &begin, end.clone(), &to, &batch, sought);
        }
    } else {
        read_note(state, first, last, request.isolation);
    }
    state.consulted &= !looks_at_nothing(request, &begin, &end, &state.max_key);
    Ok(batch)
}

/// Adds what a range read depends on with own writes off, which is another part of FoundationDB's client: its
/// `NativeAPI`, `getRangeFinished`. `sought` is the key of an end of several steps, which a backward read looks up.
fn conflict_apart(
    state: &mut TransactionState,
    request: &RangeRequest,
    begin: &ViewPosition,
    mut end: ViewPosition,
    to: &Resolved,
    batch: &RangeBatch,
    sought: Option<Bytes>,
) {
    let reverse = request.reverse;
    let off_end = to.left > 1 && !reverse;
    if let Some(sought) = sought {
        conflict_add(state, end.key, key_after(&sought).into());
        end = ViewPosition { key: sought, offset: 1 };
        if begin.offset >= end.offset && begin.key >= end.key {
            return;
        }
    }
    let keys = || batch.rows.iter().map(|(key, _)| key);
    let (lowest, highest) = (keys().min(), keys().max());
    let begin_known = begin.offset > 0 && (!reverse || !batch.more || begin.offset > 1);
    let mut first = match lowest {
        _ if begin.key.is_empty() && begin.offset < 1 => Bytes::new(),
        Some(lowest) if !begin_known => lowest.clone(),
        _ => begin.key.clone(),
    };
    if end.offset > begin.offset {
        first = first.min(end.key.clone());
    }
    let end_known = end.offset <= 1 && (reverse || !batch.more || end.offset <= 0);
    let mut last = match highest {
        // It continues into the system's keys.
        Some(_) if off_end && !batch.more => key_after(&state.max_key).into(),
        Some(highest) if !end_known => key_after(highest).into(),
        _ => end.key,
    };
    if begin.offset < end.offset {
        last = last.max(begin.key.clone());
    }
    conflict_add(state, first, last);
}

/// Returns true if a range is empty without a read: one that ends at the beginning of the keys, or begins at their end.
/// If its selectors crossed, one of them is looked up first, unless it is such an end itself.
fn looks_at_nothing(
    request: &RangeRequest,
    begin: &ViewPosition,
    end: &ViewPosition,
    max_key: &Bytes,
) -> bool {
    let first = |place: &ViewPosition| place.key.is_empty();
    let last = |place: &ViewPosition| place.key >= *max_key;
    if end.is_bound() && first(end) || begin.is_bound() && last(begin) {
        return true;
    }
    let sought = if request.reverse { begin } else { end };
    let at_edge = if sought.offset <= 0 { first(sought) } else { last(sought) };
    if begin.key > end.key && !sought.is_bound() && !at_edge {
        return false;
    }
    end.offset <= 1 && first(end) || begin.offset >= 1 && last(begin)
}

/// Records that a read depends on `begin..end`: whether the database contributed, and its conflict.
fn read_note(state: &mut TransactionState, begin: Bytes, end: Bytes, isolation: Isolation) {
    if isolation == Isolation::Serializable {
        conflict_add(state, begin.clone(), end.clone());
    }
    let end = end.min(state.max_key.clone());
    if begin >= end {
        return;
    }
    let plain = state.hides_own_writes(isolation) || state.writes.is_invisible();
    state.consulted = plain || !undecided(&state.writes, begin, end).is_empty();
}

/// A selector as a bound: the plain form is its own key, unread, so that it adds no conflict of its own.
fn bound(view: &View<'_>, place: &ViewPosition) -> KvResult<Resolved> {
    if place.is_bound() {
        let key = place.key.clone().min(view.max_key.clone());
        return Ok(Resolved { key, left: 1 });
    }
    view.bound_resolve(place)
}

fn batch_read(
    view: &View<'_>,
    request: &RangeRequest,
    from: &Bytes,
    to: &Bytes,
    limits: BatchLimits,
) -> KvResult<RangeBatch> {
    let reverse = request.reverse;
    let mut limits = limits;
    let mut batch = RangeBatch::default();
    if view.is_plain(from, to) {
        let order = if reverse { Order::Reverse } else { Order::Forward };
        for (key, value) in view.rows.range(from, to, view.version, order) {
            batch.more = limits.reached_with(&key, &value);
            batch.rows.push((Bytes::copy_from_slice(&key), value));
            if batch.more {
                break;
            }
        }
        return Ok(batch);
    }
    let (mut from, mut to) = (from.clone(), to.clone());
    while let Some((key, value)) = if reverse { view.previous(&from, &to)? } else { view.next(&from, &to)? } {
        batch.more = limits.reached_with(&key, &value);
        if reverse {
            to = key.clone();
        } else {
            from = key_after(&key).into();
        }
        batch.rows.push((key, value));
        if batch.more {
            break;
        }
    }
    Ok(batch)
}

/// What a forward read depends on: a cut batch does not depend on anything after its last row.
fn conflict_forward(begin: &ViewPosition, end: &ViewPosition, batch: &RangeBatch) -> (Bytes, Bytes) {
    let (mut first, mut last) = if begin.key < end.key {
        let cut = end.offset > 0 && batch.more;
        (begin.key.clone(), if cut { begin.key.clone() } else { end.key.clone() })
    } else {
        (end.key.clone(), begin.key.clone())
    };
    if let (Some((lowest, _)), Some((highest, _))) = (batch.rows.first(), batch.rows.last()) {
        if begin.offset <= 0 {
            first = first.min(lowest.clone());
        }
        if last <= *highest {
            last = key_after(highest).into();
        }
    }
    (first, last)
}

/// The mirror image: a cut batch does not depend on anything before its last row.
fn conflict_backward(begin: &ViewPosition, end: &ViewPosition, batch: &RangeBatch) -> (Bytes, Bytes) {
    let (mut first, mut last) = if begin.key < end.key {
        let cut = begin.offset <= 1 && batch.more;
        (if cut { end.key.clone() } else { begin.key.clone() }, end.key.clone())
    } else {
        (end.key.clone(), begin.key.clone())
    };
    if let (Some((highest, _)), Some((lowest, _))) = (batch.rows.first(), batch.rows.last()) {
        first = first.min(lowest.clone());
        if end.offset > 0 && last <= *highest {
            last = key_after(highest).into();
        }
    }
    (first, last)
}

/// Adds the parts of `begin..end` that this transaction has not decided by its own writes. A range that leaves the
/// user's keys ends after their end, as FoundationDB names it.
pub(super) fn conflict_add(state: &mut TransactionState, begin: Bytes, end: Bytes) {
    if begin >= end {
        return;
    }
    if state.options.read_your_writes_disabled || state.writes.is_invisible() {
        state.read_conflict_insert(Span::new(begin, end));
        return;
    }
    for (from, to) in undecided(&state.writes, begin, end).iter() {
        state.read_conflict_insert(Span::new(from.clone(), to.clone()));
    }
}

/// The parts of `begin..end` that own writes do not decide.
fn undecided(writes: &WriteMap, begin: Bytes, end: Bytes) -> RangeSet {
    let mut undecided = RangeSet::default();
    undecided.insert(begin.clone(), end.clone());
    for (from, to) in writes.cleared().within(&begin, &end) {
        undecided.remove(&from, &to);
    }
    for (key, own) in writes.range(&begin, &end) {
        if !own.is_dependent() {
            undecided.remove(key, &key_after(key).into());
        }
    }
    undecided
}
