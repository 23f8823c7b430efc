//! The rows of a range: those in memory, laid over the cold ones.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::btree_map;
use std::iter::Peekable;

use bytes::Bytes;

use super::MemoryKey;
use super::chain::{Chain, ChainValue};
use super::cold::ColdRow;
use crate::contract::Version;

/// The order of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Forward,
    Reverse,
}

/// Chains in one of the two orders.
pub(super) struct Chains<'a> {
    range: btree_map::Range<'a, MemoryKey, Chain>,
    order: Order,
}

impl<'a> Iterator for Chains<'a> {
    type Item = (&'a MemoryKey, &'a Chain);

    fn next(&mut self) -> Option<Self::Item> {
        match self.order {
            Order::Forward => self.range.next(),
            Order::Reverse => self.range.next_back(),
        }
    }
}

/// Rows of a range at a version, in one of the two orders.
pub(crate) struct Rows<'a> {
    chains: Peekable<Chains<'a>>,
    cold: Option<Peekable<Box<dyn Iterator<Item = ColdRow> + 'a>>>,
    cold_version: Version,
    version: Version,
    order: Order,
}

impl<'a> Rows<'a> {
    pub(super) fn new(
        range: btree_map::Range<'a, MemoryKey, Chain>,
        order: Order,
        version: Version,
        cold: Option<(Version, Box<dyn Iterator<Item = ColdRow> + 'a>)>,
    ) -> Self {
        let (cold_version, cold) = cold.unzip();
        Self {
            chains: Chains { range, order }.peekable(),
            cold: cold.map(Iterator::peekable),
            cold_version: cold_version.unwrap_or(0),
            version,
            order,
        }
    }

    /// The next cold row, and whether it has the key of the next chain; `None` if that chain comes first.
    fn cold_next(&mut self) -> Option<(ColdRow, bool)> {
        let cold = self.cold.as_mut()?;
        let (key, _) = cold.peek()?;
        let order = match (self.chains.peek(), self.order) {
            (None, _) => Ordering::Less,
            (Some((chain, _)), Order::Forward) => key.as_ref().cmp(chain.as_slice()),
            (Some((chain, _)), Order::Reverse) => chain.as_slice().cmp(key.as_ref()),
        };
        if order.is_gt() {
            return None;
        }
        Some((cold.next()?, order.is_eq()))
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = (Cow<'a, [u8]>, Bytes);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let below = match self.cold_next() {
                Some(((key, value), false)) => return Some((Cow::Owned(key.into()), value)),
                Some(((_, value), true)) => Some(value),
                None => None,
            };
            let (key, chain) = self.chains.next()?;
            let value = match chain.at(self.version) {
                ChainValue::Present(value) => Some(value.clone()),
                ChainValue::Absent => None,
                ChainValue::Before(first) => below.filter(|_| first > self.cold_version),
            };
            if let Some(value) = value {
                return Some((Cow::Borrowed(key.as_slice()), value));
            }
        }
    }
}
