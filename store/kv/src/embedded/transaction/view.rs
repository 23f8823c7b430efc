//! What a transaction sees: the rows at its read version with its own writes laid over them.

use bytes::Bytes;

use super::writes::WriteMap;
use crate::contract::{ErrorCode, KeySelector, KvResult, Version};
use crate::database::key_after;
use crate::embedded::memory::{MemoryRows, Order};

/// A selector in its plain form: `offset` steps from the first key at or after `key`, which is step 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViewPosition {
    pub(crate) key: Bytes,
    pub(crate) offset: i32,
}

impl ViewPosition {
    pub(crate) fn of(selector: &KeySelector) -> Self {
        let key = if selector.or_equal { key_after(&selector.key).into() } else { selector.key.clone() };
        Self { key, offset: selector.offset }
    }

    /// Returns true if this is the first key at or after `key`, which needs no read as a bound of a range.
    pub(crate) fn is_bound(&self) -> bool {
        self.offset == 1
    }
}

/// A key with its value, or without one if an own operation left none.
type KeyCell = (Bytes, Option<Bytes>);

/// The position where a selector cuts a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) key: Bytes,
    /// The remaining offset at the end: 1, unless it left the keyspace at its beginning (less) or its end (more).
    pub(crate) left: i32,
}

/// Refuses values that wait for their stamp.
fn readable(unreadable: bool) -> KvResult<()> {
    if unreadable { Err(ErrorCode::AccessedUnreadable.into()) } else { Ok(()) }
}

/// Rows at a version under a transaction's writes.
pub(crate) struct View<'a> {
    pub(crate) rows: &'a MemoryRows,
    pub(crate) version: Version,
    /// `None` if the read does not see own writes.
    pub(crate) writes: Option<&'a WriteMap>,
    /// Reads of single keys return the placeholder of a pending stamp instead of failing.
    pub(crate) bypass_unreadable: bool,
    /// The end of the keys this transaction may read.
    pub(crate) max_key: &'a Bytes,
}

impl<'a> View<'a> {
    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> KvResult<Option<Bytes>> {
        let base = self.rows.get(key, self.version);
        let Some(writes) = self.writes else { return Ok(base) };
        if let Some(own) = writes.key(key) {
            readable(own.unreadable && !self.bypass_unreadable)?;
            return Ok(own.value(base.as_ref()));
        }
        readable(writes.unreadable().contains(key) && !self.bypass_unreadable)?;
        Ok(if writes.cleared().contains(key) { None } else { base })
    }

    /// The first row of `from..end`.
    pub(crate) fn next(&self, from: &[u8], end: &[u8]) -> KvResult<Option<(Bytes, Bytes)>> {
        let mut from = Bytes::copy_from_slice(from);
        while let Some((key, value)) = self.cell_next(&from, end)? {
            if let Some(value) = value {
                return Ok(Some((key, value)));
            }
            from = key_after(&key).into();
        }
        Ok(None)
    }

    /// The last row of `begin..before`.
    pub(crate) fn previous(&self, begin: &[u8], before: &[u8]) -> KvResult<Option<(Bytes, Bytes)>> {
        let mut before = Bytes::copy_from_slice(before);
        while let Some((key, value)) = self.cell_previous(begin, &before)? {
            if let Some(value) = value {
                return Ok(Some((key, value)));
            }
            before = key;
        }
        Ok(None)
    }

    /// The first key of `from..end` with a row, or with an own operation that left no value.
    fn cell_next(&self, from: &[u8], end: &[u8]) -> KvResult<Option<KeyCell>> {
        let present = |(key, value)| (key, Some(value));
        let Some(writes) = self.writes else { return Ok(self.base_first(from, end).map(present)) };
        let base = self.uncleared_first(writes, from, end);
        let own = writes.range(from, end).next();
        let key = match (&base, own) {
            (Some((base, _)), Some((own, _))) => Some(base.min(own)),
            (base, own) => base.as_ref().map(|(key, _)| key).or_else(|| own.map(|(key, _)| key)),
        };
        let unreadable = writes.unreadable().first_at_or_after(from, end);
        readable(unreadable.is_some_and(|at| key.is_none_or(|key| at <= *key)))?;
        let Some(key) = key.cloned() else { return Ok(None) };
        let Some((_, own)) = own.filter(|(own, _)| **own == key) else { return Ok(base.map(present)) };
        readable(own.unreadable)?;
        let value = own.value(self.rows.get(&key, self.version).as_ref());
        Ok(Some((key, value)))
    }

    /// The last such key of `begin..before`.
    fn cell_previous(&self, begin: &[u8], before: &[u8]) -> KvResult<Option<KeyCell>> {
        let present = |(key, value)| (key, Some(value));
        let Some(writes) = self.writes else { return Ok(self.base_last(begin, before).map(present)) };
        let base = self.uncleared_last(writes, begin, before);
        let own = writes.range(begin, before).next_back();
        let key = match (&base, own) {
            (Some((base, _)), Some((own, _))) => Some(base.max(own)),
            (base, own) => base.as_ref().map(|(key, _)| key).or_else(|| own.map(|(key, _)| key)),
        };
        let unreadable = writes.unreadable().last_end_before(before, begin);
        readable(unreadable.is_some_and(|end| key.is_none_or(|key| end > *key)))?;
        let Some(key) = key.cloned() else { return Ok(None) };
        let Some((_, own)) = own.filter(|(own, _)| **own == key) else { return Ok(base.map(present)) };
        readable(own.unreadable)?;
        let value = own.value(self.rows.get(&key, self.version).as_ref());
        Ok(Some((key, value)))
    }

    /// Returns true if own writes cannot change the rows of `begin..end`.
    pub(crate) fn is_plain(&self, begin: &[u8], end: &[u8]) -> bool {
        self.writes.is_none_or(|writes| {
            writes.range(begin, end).next().is_none()
                && !writes.cleared().intersects(begin, end)
                && !writes.unreadable().intersects(begin, end)
        })
    }

    fn base_first(&self, from: &[u8], end: &[u8]) -> Option<(Bytes, Bytes)> {
        self.base_end(from, end, Order::Forward)
    }

    fn base_last(&self, begin: &[u8], before: &[u8]) -> Option<(Bytes, Bytes)> {
        self.base_end(begin, before, Order::Reverse)
    }

    /// The row of `begin..end` that comes first in an order, without own writes.
    fn base_end(&self, begin: &[u8], end: &[u8], order: Order) -> Option<(Bytes, Bytes)> {
        let (key, value) = self.rows.range(begin, end, self.version, order).next()?;
        Some((Bytes::copy_from_slice(&key), value))
    }

    fn uncleared_first(&self, writes: &WriteMap, from: &[u8], end: &[u8]) -> Option<(Bytes, Bytes)> {
        let mut row = self.base_first(from, end)?;
        while let Some((_, cleared_end)) = writes.cleared().covering(&row.0) {
            row = self.base_first(cleared_end, end)?;
        }
        Some(row)
    }

    fn uncleared_last(&self, writes: &WriteMap, begin: &[u8], before: &[u8]) -> Option<(Bytes, Bytes)> {
        let mut row = self.base_last(begin, before)?;
        while let Some((cleared_begin, _)) = writes.cleared().covering(&row.0) {
            row = self.base_last(begin, cleared_begin)?;
        }
        Some(row)
    }

    /// The key of a selector, within the ends of the keyspace. As in FoundationDB's client, a key that an own operation
    /// left without a value counts as a step, but is never the result.
    pub(crate) fn key_resolve(&self, place: &ViewPosition) -> KvResult<Bytes> {
        let mut key = place.key.clone().min(self.max_key.clone());
        if place.offset >= 1 {
            for _ in 1..place.offset {
                let Some((found, _)) = self.cell_next(&key, self.max_key)? else {
                    return Ok(self.max_key.clone());
                };
                key = key_after(&found).into();
            }
            let found = self.next(&key, self.max_key)?;
            return Ok(found.map_or_else(|| self.max_key.clone(), |(key, _)| key));
        }
        for _ in place.offset..0 {
            let Some((found, _)) = self.cell_previous(b"", &key)? else { return Ok(Bytes::new()) };
            key = found;
        }
        Ok(self.previous(b"", &key)?.map_or_else(Bytes::new, |(key, _)| key))
    }

    /// The position where a selector cuts a range: before its key, or before a key that an own operation left without a
    /// value.
    pub(crate) fn bound_resolve(&self, place: &ViewPosition) -> KvResult<Resolved> {
        let mut key = place.key.clone().min(self.max_key.clone());
        for step in 1..place.offset {
            let Some((found, _)) = self.cell_next(&key, self.max_key)? else {
                let left = place.offset.saturating_sub(step).saturating_add(1);
                return Ok(Resolved { key: self.max_key.clone(), left });
            };
            key = key_after(&found).into();
        }
        for left in place.offset..1 {
            let Some((found, _)) = self.cell_previous(b"", &key)? else {
                return Ok(Resolved { key: Bytes::new(), left });
            };
            key = found;
        }
        Ok(Resolved { key, left: 1 })
    }
}
