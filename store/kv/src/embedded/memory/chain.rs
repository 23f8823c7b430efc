//! The values of one key by version.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use super::MemoryKey;
use crate::contract::Version;

/// Bytes that a key with one value takes besides them: its place in the tree, which is about two thirds full, and the
/// header of the value.
const CHAIN_BYTES: usize = 224;
/// Bytes that each further value takes besides its own.
const VALUE_BYTES: usize = 48;
/// Before every version that can be read.
const ALWAYS: Version = 0;

/// The values of one key by version, oldest first. `None` is an absence.
#[derive(Debug)]
pub(super) struct Chain {
    values: SmallVec<[(Version, Option<Bytes>); 1]>,
    /// The checkpoint round in which the key was noted as changed.
    pub(super) dirty_round: u32,
    /// Whether the key waits among the trims.
    pub(super) queued: bool,
    /// Whether it was read since eviction last passed it.
    used: AtomicBool,
}

/// What a chain knows about its key at a version.
pub(super) enum ChainValue<'a> {
    Present(&'a Bytes),
    Absent,
    /// The version is before its first value.
    Before(Version),
}

/// The rest of a chain after a trim.
pub(super) enum Trimmed {
    /// Nothing: the key is gone.
    Gone,
    /// One value.
    Whole,
    /// More can be dropped once the window has passed the version.
    Again(Version),
    /// An absence that the cold rows do not have yet.
    Kept,
}

impl Chain {
    pub(super) fn new(version: Version, value: Option<Bytes>) -> Self {
        let values = smallvec![(version, value)];
        Self { values, dirty_round: 0, queued: false, used: AtomicBool::new(false) }
    }

    /// One of a value that is the same at every version that can be read.
    pub(super) fn always(value: Bytes) -> Self {
        Self::new(ALWAYS, Some(value))
    }

    pub(super) fn at(&self, version: Version) -> ChainValue<'_> {
        let after = self.values.partition_point(|(since, _)| *since <= version);
        match after.checked_sub(1).and_then(|at| self.values.get(at)) {
            Some((_, Some(value))) => {
                if !self.used.load(Ordering::Relaxed) {
                    self.used.store(true, Ordering::Relaxed);
                }
                ChainValue::Present(value)
            }
            Some((_, None)) => ChainValue::Absent,
            None => ChainValue::Before(self.first()),
        }
    }

    /// The version of the first value.
    pub(super) fn first(&self) -> Version {
        self.values.first().map_or(ALWAYS, |(since, _)| *since)
    }

    pub(super) fn latest(&self) -> Option<&Bytes> {
        self.values.last().and_then(|(_, value)| value.as_ref())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn push(&mut self, version: Version, value: Option<Bytes>) {
        match self.values.last_mut() {
            Some((since, last)) if *since == version => *last = value,
            _ => self.values.push((version, value)),
        }
    }

    /// Adds the value before the first one.
    pub(super) fn before_set(&mut self, value: Bytes) {
        self.values.insert(0, (ALWAYS, Some(value)));
    }

    /// Drops what no read at or above `oldest` can see, and returns what is left. `cold` is the version of the cold
    /// rows, if there are any: they show an absence only from then on.
    pub(super) fn trim(&mut self, oldest: Version, cold: Option<Version>) -> Trimmed {
        let visible = self.values.partition_point(|(since, _)| *since <= oldest).saturating_sub(1);
        self.values.drain(..visible);
        if self.values.len() < 2 {
            // A long chain that became short frees its memory.
            self.values.shrink_to_fit();
        }
        match self.values.as_slice() {
            [(since, None)] if *since <= oldest => match cold {
                Some(cold) if *since > cold => Trimmed::Kept,
                _ => Trimmed::Gone,
            },
            [(since, None)] => Trimmed::Again(*since),
            [_, (next, _), ..] => Trimmed::Again(*next),
            _ => Trimmed::Whole,
        }
    }

    /// Whether cold rows as of `limit` answer the same at every version that can be read, and nobody has asked since
    /// the last call.
    pub(super) fn evictable(&self, limit: Version) -> bool {
        let same = matches!(self.values.as_slice(), [(since, Some(_))] if *since <= limit) && !self.queued;
        same && !self.used.swap(false, Ordering::Relaxed)
    }

    /// About the bytes that it takes with its key.
    pub(super) fn bytes(&self, key: &MemoryKey) -> usize {
        let values = self.values.iter().map(|(_, value)| value.as_ref().map_or(0, Bytes::len) + VALUE_BYTES);
        let key = if key.spilled() { key.len() } else { 0 };
        values.fold(CHAIN_BYTES.saturating_add(key), usize::saturating_add)
    }
}
