//! The rows of the engine: those in memory, with their versions of the last five seconds, over the cold ones.
//!
//! The sequencer applies a batch under a version that no reader has yet, then publishes the version. Until then the
//! batch is invisible. Visibility therefore needs no step of its own here, and readers never see half a batch.
//!
//! Rows that nothing has changed since the last checkpoint may be cold: only the checkpoint has them ([`cold`]). An
//! engine whose rows take more memory than it may have evicts some ([`evict`]).

mod chain;
mod cold;
mod evict;
mod metadata;
mod range;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard};
use prometheus_client::metrics::counter::Counter;
use smallvec::SmallVec;

use self::chain::{Chain, ChainValue, Trimmed};
use self::cold::Cold;
pub(crate) use self::cold::{ColdRow, ColdRows};
use self::metadata::MetadataVersions;
pub(crate) use self::range::{Order, Rows};
pub(crate) use self::usage::register as usage_register;
use super::atomic::atomic_apply;
use super::mutation::Mutation;
use crate::contract::limits::METADATA_VERSION_KEY;
use crate::contract::{KvError, Version};

/// Mutations applied (or keys trimmed) under one hold of the write lock, so that readers never wait for all of a large
/// batch.
const APPLY_CHUNK: usize = 256;

/// Above every key of the contract, the longest of them included.
pub(crate) const ROWS_END: &[u8] = &[0xff; 4];

/// A row's key. Keys of the usual length are stored in the map's nodes themselves: a search that follows pointers to
/// keys waits for memory at nearly every step.
pub(crate) type MemoryKey = SmallVec<[u8; 48]>;

/// The rows behind the lock.
#[derive(Debug, Default)]
pub(crate) struct MemoryRows {
    chains: BTreeMap<MemoryKey, Chain>,
    /// Reads below this version are no longer possible.
    oldest: Version,
    /// Keys to trim once the window has passed the version. Each key is listed at most once, so that a key written
    /// thousands of times in the window is visited once per trim. The order is nearly that of versions; a key out of
    /// order delays those behind it by at most one window.
    trims: VecDeque<(Version, MemoryKey)>,
    /// Keys changed since the last checkpoint took them, in no order; `None` without checkpoints.
    dirty: Option<Vec<MemoryKey>>,
    /// Counts how often `dirty` was taken. Chains begin at 0, which is never a round.
    dirty_round: u32,
    /// A checkpoint reads at this version: nothing that it can see is trimmed.
    pinned: Option<Version>,
    metadata: MetadataVersions,
    cold: Option<Cold>,
    /// Counts the rows that were read from the checkpoint.
    cold_reads: Counter,
    /// About the bytes of all chains.
    bytes: usize,
    /// Where eviction continues.
    hand: MemoryKey,
    /// Chains that eviction has passed since it last evicted one.
    fruitless: usize,
    /// Why the cold rows can no longer be read.
    failure: Option<KvError>,
}

impl MemoryRows {
    /// The oldest version that can still be read.
    pub(crate) fn oldest(&self) -> Version {
        self.oldest
    }

    /// The value of `key` at `version`.
    pub(crate) fn get(&self, key: &[u8], version: Version) -> Option<Bytes> {
        let Some(chain) = self.chains.get(key) else { return self.cold.as_ref()?.get(key) };
        match chain.at(version) {
            ChainValue::Present(value) => Some(value.clone()),
            ChainValue::Absent => None,
            ChainValue::Before(first) => self.cold.as_ref().filter(|cold| cold.version < first)?.peek(key),
        }
    }

    /// The metadata version at `version`, which may be older than everything that can be read; `None` if it is no
    /// longer known.
    pub(crate) fn metadata_version(&self, version: Version) -> Option<Option<Bytes>> {
        self.metadata.at(version)
    }

    /// Why a cold row could not be read, once that has happened.
    pub(crate) fn failure(&self) -> Option<KvError> {
        self.failure.clone().or_else(|| self.cold.as_ref()?.rows.failure())
    }

    /// Values held, of all keys and versions.
    #[cfg(test)]
    pub(crate) fn versions_kept(&self) -> usize {
        self.chains.values().map(Chain::len).sum()
    }

    /// Rows of `begin..end` at `version`.
    pub(crate) fn range(&self, begin: &[u8], end: &[u8], version: Version, order: Order) -> Rows<'_> {
        // An inverted range would panic in the map; it has no rows.
        let whole = (Bound::Included(begin), Bound::Excluded(end));
        let bounds = if begin < end { whole } else { (Bound::Excluded(begin), Bound::Included(begin)) };
        let cold = self.cold.as_ref();
        let cold = cold.and_then(|cold| Some((cold.version, cold.range(begin, end, order)?)));
        Rows::new(self.chains.range::<[u8], _>(bounds), order, version, cold)
    }

    /// Whether `key` may have a value now, published or not.
    fn may_have(&self, key: &[u8]) -> bool {
        match self.chains.get(key) {
            Some(chain) => chain.latest().is_some(),
            None => self.is_cold(key),
        }
    }

    /// Whether only the cold rows may have `key`, unless a chain has it.
    fn is_cold(&self, key: &[u8]) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.ranges.contains(key))
    }

    fn put(&mut self, version: Version, key: &[u8], value: Option<Bytes>) {
        if let (METADATA_VERSION_KEY, Some(value)) = (key, &value) {
            self.metadata.note(version, value);
        }
        let hides = value.is_none() && self.is_cold(key);
        let (chain, grown) = match self.chains.entry(MemoryKey::from_slice(key)) {
            Entry::Occupied(entry) => {
                self.bytes = self.bytes.saturating_sub(entry.get().bytes(entry.key()));
                let chain = entry.into_mut();
                chain.push(version, value);
                (chain, true)
            }
            Entry::Vacant(entry) if value.is_some() => (entry.insert(Chain::new(version, value)), false),
            // It hides the cold value.
            Entry::Vacant(entry) if hides => (entry.insert(Chain::new(version, None)), true),
            Entry::Vacant(_) => return,
        };
        let key = MemoryKey::from_slice(key);
        self.bytes = self.bytes.saturating_add(chain.bytes(&key));
        if grown && !std::mem::replace(&mut chain.queued, true) {
            self.trims.push_back((version, key.clone()));
        }
        if let Some(dirty) = &mut self.dirty
            && chain.dirty_round != self.dirty_round
        {
            chain.dirty_round = self.dirty_round;
            dirty.push(key);
        }
    }

    fn apply(&mut self, version: Version, mutation: &Mutation) {
        match mutation {
            // The two stamped forms are resolved before this. Unresolved, they would set their template.
            Mutation::Set(key, value)
            | Mutation::StampedKey(key, value)
            | Mutation::StampedValue(key, value) => {
                self.put(version, key, Some(value.clone()));
            }
            Mutation::Clear(key) => {
                if self.may_have(key) {
                    self.put(version, key, None);
                }
            }
            Mutation::ClearRange(begin, end) => {
                let live = self.live(begin, end);
                live.iter().for_each(|key| self.put(version, key, None));
            }
            Mutation::Atomic(operation, key, operand) => {
                let existing = self.get(key, Version::MAX);
                let value = atomic_apply(*operation, existing.as_ref(), operand);
                if value.is_some() || existing.is_some() {
                    self.put(version, key, value);
                }
            }
        }
    }

    /// The keys of `begin..end` that have a value now, published or not.
    fn live(&self, begin: &[u8], end: &[u8]) -> Vec<MemoryKey> {
        let rows = self.range(begin, end, Version::MAX, Order::Forward);
        rows.map(|(key, _)| MemoryKey::from_slice(&key)).collect()
    }

    /// Trims a chunk of the versions before `oldest`. Returns true if more is left.
    fn trim(&mut self, oldest: Version) -> bool {
        let oldest = self.pinned.map_or(oldest, |pinned| pinned.min(oldest));
        self.oldest = self.oldest.max(oldest);
        for _ in 0..APPLY_CHUNK {
            let Some((_, key)) = self.trims.pop_front_if(|(version, _)| *version <= oldest) else {
                return false;
            };
            let Some(chain) = self.chains.get_mut(&key) else { continue };
            self.bytes = self.bytes.saturating_sub(chain.bytes(&key));
            let trimmed = chain.trim(oldest, self.cold.as_ref().map(|cold| cold.version));
            if !matches!(trimmed, Trimmed::Gone) {
                self.bytes = self.bytes.saturating_add(chain.bytes(&key));
            }
            match trimmed {
                Trimmed::Gone => drop(self.chains.remove(&key)),
                Trimmed::Whole => chain.queued = false,
                Trimmed::Again(version) => self.trims.push_back((version, key)),
                Trimmed::Kept => {
                    if let Some(cold) = &mut self.cold {
                        cold.kept.push(key);
                    }
                }
            }
        }
        true
    }
}

/// The image and its lock.
#[derive(Debug)]
pub(crate) struct Memory {
    rows: RwLock<MemoryRows>,
    /// Bytes that the rows may take before some are evicted.
    bytes_max: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { rows: RwLock::default(), bytes_max: usize::MAX }
    }
}

/// The rows of a store at its opening, all as of one version.
#[derive(Default)]
pub(crate) struct OpenedRows {
    /// The first rows, in order.
    pub(crate) rows: Vec<(Bytes, Bytes)>,
    pub(crate) version: Version,
    /// From which key on the rows are cold, and where they are.
    pub(crate) cold: Option<(Bytes, Arc<dyn ColdRows>)>,
}

/// About the bytes that a row takes in memory.
pub(crate) fn row_bytes(key: &[u8], value: &[u8]) -> usize {
    Chain::new(0, None).bytes(&MemoryKey::from_slice(key)).saturating_add(value.len())
}

impl Memory {
    /// An empty image as of `version`, of an engine without a disk.
    pub(crate) fn empty(version: Version) -> Self {
        let rows = MemoryRows { oldest: version, dirty_round: 1, ..MemoryRows::default() };
        Self { rows: RwLock::new(rows), ..Self::default() }
    }

    /// An image of a store with a disk. It keeps the set of changed keys for checkpoints, and evicts rows if they take
    /// more than `bytes_max`.
    pub(crate) fn opened(opened: OpenedRows, bytes_max: usize) -> Self {
        let OpenedRows { rows, version, cold } = opened;
        let chains = rows.into_iter();
        let chains =
            chains.map(|(key, value)| (MemoryKey::from_slice(&key), Chain::new(version, Some(value))));
        let chains: BTreeMap<_, _> = chains.collect();
        let cold_reads = Counter::default();
        let cold = cold.map(|(from, rows)| {
            let mut cold = Cold::new(version, rows, cold_reads.clone());
            cold.ranges.insert(from, Bytes::from_static(ROWS_END));
            cold
        });
        let bytes = chains.iter().map(|(key, chain)| chain.bytes(key)).sum();
        let (oldest, dirty, dirty_round) = (version, Some(Vec::new()), 1);
        let rows = MemoryRows {
            chains,
            oldest,
            dirty,
            dirty_round,
            cold,
            cold_reads,
            bytes,
            ..MemoryRows::default()
        };
        let metadata = rows.get(METADATA_VERSION_KEY, version);
        let memory = Self { rows: RwLock::new(rows), bytes_max };
        if let Some(value) = metadata {
            memory.rows.write().metadata.note(version, &value);
        }
        memory
    }

    /// The rows, to read at some version.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, MemoryRows> {
        self.rows.read()
    }

    /// Applies `mutations` as `version`, which must be above every reader's version.
    pub(crate) fn apply(&self, version: Version, mutations: &[Mutation]) {
        let wide = |mutation: &Mutation| matches!(mutation, Mutation::ClearRange(..));
        for part in mutations.chunk_by(|one, other| !wide(one) && !wide(other)) {
            if let [Mutation::ClearRange(begin, end)] = part {
                self.range_clear(version, begin, end);
                continue;
            }
            for chunk in part.chunks(APPLY_CHUNK) {
                let mut rows = self.rows.write();
                chunk.iter().for_each(|mutation| rows.apply(version, mutation));
            }
        }
    }

    /// Clears a range. Nobody else writes, so what there is to clear may be read beside readers.
    fn range_clear(&self, version: Version, begin: &[u8], end: &[u8]) {
        let live = self.rows.read().live(begin, end);
        for chunk in live.chunks(APPLY_CHUNK) {
            let mut rows = self.rows.write();
            chunk.iter().for_each(|key| rows.put(version, key, None));
        }
    }

    /// Drops what only reads below `oldest` could see.
    pub(crate) fn trim(&self, oldest: Version) {
        // In chunks too: after a long checkpoint much must be trimmed at once.
        while self.rows.write().trim(oldest) {}
    }

    /// Keeps what a read at `version` sees until [`Memory::unpin`].
    pub(crate) fn pin(&self, version: Version) {
        self.rows.write().pinned = Some(version);
    }

    /// Ends [`Memory::pin`].
    pub(crate) fn unpin(&self) {
        self.rows.write().pinned = None;
    }

    /// Takes the keys changed since the last call, in no order, some perhaps twice.
    pub(crate) fn dirty_take(&self) -> Vec<MemoryKey> {
        let mut rows = self.rows.write();
        // Zero marks a new chain, so it is skipped.
        rows.dirty_round = rows.dirty_round.wrapping_add(1).max(1);
        rows.dirty.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns keys whose checkpoint failed.
    pub(crate) fn dirty_return(&self, keys: Vec<MemoryKey>) {
        if let Some(dirty) = &mut self.rows.write().dirty {
            dirty.extend(keys);
        }
    }
}
