//! Rows that are not in memory: those of the last checkpoint, which nothing has changed since.
//!
//! The rows in memory lie over the cold ones. A key whose chain begins after the checkpoint had its cold value before.
//! A key whose chain begins within the checkpoint was absent before: a checkpoint that changes a cold value puts the
//! value before into the chain first. An absence stays in memory until a checkpoint has it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

use super::{MemoryKey, Order};
use crate::contract::{KvError, Version};
use crate::embedded::ranges::RangeSet;

/// Keys that wait to be taken into memory.
const WANTED_MAX: usize = 256;

/// A key with its value.
pub(crate) type ColdRow = (Bytes, Bytes);

/// The rows of a checkpoint, read as they are needed. A row that cannot be read counts as absent, and
/// [`ColdRows::failure`] says why: whoever has read then discards what was read, and the engine stops.
pub(crate) trait ColdRows: Send + Sync {
    fn get(&self, key: &[u8]) -> Option<Bytes>;

    /// The rows of `begin..end`, in order or in reverse order.
    fn range<'a>(&'a self, begin: &[u8], end: &[u8], order: Order) -> Box<dyn Iterator<Item = ColdRow> + 'a>;

    /// Why a row could not be read, once that has happened.
    fn failure(&self) -> Option<KvError>;
}

/// The cold rows of an engine, and where they are needed.
pub(super) struct Cold {
    /// The version of the checkpoint.
    pub(super) version: Version,
    pub(super) rows: Arc<dyn ColdRows>,
    /// Where keys may be that only the cold rows have. It may cover other keys as well.
    pub(super) ranges: RangeSet,
    /// Absences that the checkpoint does not have.
    pub(super) kept: Vec<MemoryKey>,
    /// Keys that were read.
    wanted: Mutex<Vec<MemoryKey>>,
    /// Counts the rows that were read.
    reads: Counter,
}

impl fmt::Debug for Cold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cold")
            .field("version", &self.version)
            .field("ranges", &self.ranges)
            .finish_non_exhaustive()
    }
}

impl Cold {
    pub(super) fn new(version: Version, rows: Arc<dyn ColdRows>, reads: Counter) -> Self {
        let (ranges, wanted) = (RangeSet::default(), Mutex::default());
        Self { version, rows, ranges, kept: Vec::new(), wanted, reads }
    }

    /// The value of `key`, which has no chain.
    pub(super) fn get(&self, key: &[u8]) -> Option<Bytes> {
        let value = self.peek(key)?;
        let mut wanted = self.wanted.lock();
        if wanted.len() < WANTED_MAX {
            wanted.push(MemoryKey::from_slice(key));
        }
        Some(value)
    }

    /// The value of `key`, at every version before its chain.
    pub(super) fn peek(&self, key: &[u8]) -> Option<Bytes> {
        if !self.ranges.contains(key) {
            return None;
        }
        self.reads.inc();
        self.rows.get(key)
    }

    /// Rows of `begin..end`.
    pub(super) fn range<'a>(
        &'a self,
        begin: &[u8],
        end: &[u8],
        order: Order,
    ) -> Option<Box<dyn Iterator<Item = ColdRow> + 'a>> {
        if begin >= end || !self.ranges.intersects(begin, end) {
            return None;
        }
        let mut parts = self.ranges.within(&Bytes::copy_from_slice(begin), &Bytes::copy_from_slice(end));
        if order == Order::Reverse {
            parts.reverse();
        }
        let rows = parts.into_iter().flat_map(move |(from, to)| self.rows.range(&from, &to, order));
        Some(Box::new(rows.inspect(|_| {
            self.reads.inc();
        })))
    }

    /// Takes the keys that were read and had to be fetched.
    pub(super) fn wanted_take(&self) -> Vec<MemoryKey> {
        std::mem::take(&mut self.wanted.lock())
    }
}
