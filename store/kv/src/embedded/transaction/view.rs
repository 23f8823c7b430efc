//! What a transaction sees: the rows at its read version with its own writes laid over them.

use bytes::Bytes;

use super::writes::WriteMap;
use crate::contract::{ErrorCode, KeySelector, KvResult, Version};
use crate::database::key_after;
use crate::embedded::memory::Rows;

/// A selector in its plain form: `offset` steps from the first key at or after `key`, which is step 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: Bytes,
    pub(crate) offset: i32,
}

impl Place {
    pub(crate) fn of(selector: &KeySelector) -> Self {
        let key = if selector.or_equal { key_after(&selector.key).into() } else { selector.key.clone() };
        Self { key, offset: selector.offset }
    }

    /// Whether this is the first key at or after `key`, which as a bound of a range needs no reading.
    pub(crate) fn is_bound(&self) -> bool {
        self.offset == 1
    }
}

/// Where a selector led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) key: Bytes,
    /// Stepping ran off the beginning of the keyspace.
    pub(crate) to_begin: bool,
    /// Stepping ran off the end.
    pub(crate) through_end: bool,
}

/// Refuses what waits for its stamp.
fn readable(unreadable: bool) -> KvResult<()> {
    if unreadable { Err(ErrorCode::AccessedUnreadable.into()) } else { Ok(()) }
}

/// Rows at a version under a transaction's writes.
pub(crate) struct View<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) version: Version,
    /// `None` where the read does not see own writes.
    pub(crate) writes: Option<&'a WriteMap>,
    /// Reads of single keys see the placeholder of a pending stamp instead of failing.
    pub(crate) bypass_unreadable: bool,
    /// The end of the keys this transaction may read.
    pub(crate) max_key: &'a Bytes,
}

impl<'a> View<'a> {
    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> KvResult<Option<Bytes>> {
        let base = self.rows.get(key, self.version);
        let Some(writes) = self.writes else { return Ok(base.cloned()) };
        if let Some(own) = writes.key(key) {
            readable(own.unreadable && !self.bypass_unreadable)?;
            return Ok(own.value(base));
        }
        readable(writes.unreadable().contains(key) && !self.bypass_unreadable)?;
        Ok(if writes.cleared().contains(key) { None } else { base.cloned() })
    }

    /// The first row of `from..end`.
    pub(crate) fn next(&self, from: &[u8], end: &[u8]) -> KvResult<Option<(Bytes, Bytes)>> {
        let Some(writes) = self.writes else { return Ok(self.base_first(from, end)) };
        let mut from = Bytes::copy_from_slice(from);
        loop {
            let base = self.uncleared_first(writes, &from, end);
            let own = writes.range(&from, end).next();
            let key = match (&base, own) {
                (Some((base, _)), Some((own, _))) => Some(base.min(own)),
                (base, own) => base.as_ref().map(|(key, _)| key).or_else(|| own.map(|(key, _)| key)),
            };
            let unreadable = writes.unreadable().first_at_or_after(&from, end);
            readable(unreadable.is_some_and(|at| key.is_none_or(|key| at <= *key)))?;
            let Some(key) = key.cloned() else { return Ok(None) };
            let Some((_, own)) = own.filter(|(own, _)| **own == key) else { return Ok(base) };
            readable(own.unreadable)?;
            if let Some(value) = own.value(self.rows.get(&key, self.version)) {
                return Ok(Some((key, value)));
            }
            from = key_after(&key).into();
        }
    }

    /// The last row of `begin..before`.
    pub(crate) fn previous(&self, begin: &[u8], before: &[u8]) -> KvResult<Option<(Bytes, Bytes)>> {
        let Some(writes) = self.writes else { return Ok(self.base_last(begin, before)) };
        let mut before = Bytes::copy_from_slice(before);
        loop {
            let base = self.uncleared_last(writes, begin, &before);
            let own = writes.range(begin, &before).next_back();
            let key = match (&base, own) {
                (Some((base, _)), Some((own, _))) => Some(base.max(own)),
                (base, own) => base.as_ref().map(|(key, _)| key).or_else(|| own.map(|(key, _)| key)),
            };
            let unreadable = writes.unreadable().last_end_before(&before, begin);
            readable(unreadable.is_some_and(|end| key.is_none_or(|key| end > *key)))?;
            let Some(key) = key.cloned() else { return Ok(None) };
            let Some((_, own)) = own.filter(|(own, _)| **own == key) else { return Ok(base) };
            readable(own.unreadable)?;
            if let Some(value) = own.value(self.rows.get(&key, self.version)) {
                return Ok(Some((key, value)));
            }
            before = key;
        }
    }

    /// Whether own writes may change what `begin..end` holds.
    pub(crate) fn is_plain(&self, begin: &[u8], end: &[u8]) -> bool {
        self.writes.is_none_or(|writes| {
            writes.range(begin, end).next().is_none()
                && !writes.cleared().intersects(begin, end)
                && !writes.unreadable().intersects(begin, end)
        })
    }

    fn base_first(&self, from: &[u8], end: &[u8]) -> Option<(Bytes, Bytes)> {
        self.rows.range(from, end, self.version).next().map(|(key, value)| (key.clone(), value.clone()))
    }

    fn base_last(&self, begin: &[u8], before: &[u8]) -> Option<(Bytes, Bytes)> {
        self.rows
            .range(begin, before, self.version)
            .next_back()
            .map(|(key, value)| (key.clone(), value.clone()))
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

    /// Follows a selector, stopping at the ends of the keyspace.
    pub(crate) fn resolve(&self, place: &Place) -> KvResult<Resolved> {
        let (mut to_begin, mut through_end) = (false, false);
        let mut key = place.key.clone().min(self.max_key.clone());
        if place.offset >= 1 {
            let mut from = key.clone();
            for _ in 0..place.offset {
                let Some((found, _)) = self.next(&from, self.max_key)? else {
                    key = self.max_key.clone();
                    through_end = true;
                    break;
                };
                from = key_after(&found).into();
                key = found;
            }
        } else {
            for _ in place.offset..=0 {
                let Some((found, _)) = self.previous(b"", &key)? else {
                    key = Bytes::new();
                    to_begin = true;
                    break;
                };
                key = found;
            }
        }
        Ok(Resolved { key, to_begin, through_end })
    }
}
