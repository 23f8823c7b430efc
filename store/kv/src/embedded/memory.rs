//! The rows in memory: every key with its versions of the last five seconds.
//!
//! The sequencer applies a batch under a version that no reader has yet, then publishes the version. Until then the
//! batch is invisible. Visibility therefore needs no step of its own here, and readers never see half a batch.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard};
use smallvec::{SmallVec, smallvec};

use super::atomic::atomic_apply;
use super::mutation::Mutation;
use crate::contract::Version;
use crate::contract::limits::METADATA_VERSION_KEY;

/// Mutations applied (or keys trimmed) under one hold of the write lock, so that readers never wait for all of a large
/// batch.
const APPLY_CHUNK: usize = 256;

/// A row's key. Keys of the usual length are stored in the map's nodes themselves: a search that follows pointers to
/// keys waits for memory at nearly every step.
pub(crate) type MemoryKey = SmallVec<[u8; 48]>;

/// The values of one key by version, oldest first. `None` is an absence.
#[derive(Debug, Default)]
struct Chain {
    values: SmallVec<[(Version, Option<Bytes>); 1]>,
    /// The checkpoint round in which the key was noted as changed.
    dirty_round: u32,
    /// Whether the key waits among the trims.
    queued: bool,
}

impl Chain {
    fn new(version: Version, value: Bytes) -> Self {
        Self { values: smallvec![(version, Some(value))], dirty_round: 0, queued: false }
    }

    fn at(&self, version: Version) -> Option<&Bytes> {
        let after = self.values.partition_point(|(since, _)| *since <= version);
        self.values.get(after.checked_sub(1)?).and_then(|(_, value)| value.as_ref())
    }

    fn latest(&self) -> Option<&Bytes> {
        self.values.last().and_then(|(_, value)| value.as_ref())
    }

    fn push(&mut self, version: Version, value: Option<Bytes>) {
        match self.values.last_mut() {
            Some((since, last)) if *since == version => *last = value,
            _ => self.values.push((version, value)),
        }
    }

    /// Drops what no read at or above `oldest` can see, and returns what is left.
    fn trim(&mut self, oldest: Version) -> Trimmed {
        let visible = self.values.partition_point(|(since, _)| *since <= oldest).saturating_sub(1);
        self.values.drain(..visible);
        if self.values.len() < 2 {
            // A long chain that became short frees its memory.
            self.values.shrink_to_fit();
        }
        match self.values.as_slice() {
            [(since, None)] if *since <= oldest => Trimmed::Gone,
            [(since, None)] => Trimmed::Again(*since),
            [_, (next, _), ..] => Trimmed::Again(*next),
            _ => Trimmed::Whole,
        }
    }
}

/// The rest of a chain after a trim.
enum Trimmed {
    /// Nothing: the key is gone.
    Gone,
    /// One value.
    Whole,
    /// More can be dropped once the window has passed the version.
    Again(Version),
}

/// Metadata versions kept beyond the window, as many as FoundationDB's client keeps.
const METADATA_VERSIONS_MAX: usize = 1000;

/// Past metadata versions, oldest first: a transaction reads the one of its read version, however old that is.
#[derive(Debug, Default)]
struct MetadataVersions {
    since: VecDeque<(Version, Bytes)>,
    /// Whether older ones were dropped.
    dropped: bool,
}

impl MetadataVersions {
    fn note(&mut self, version: Version, value: &Bytes) {
        self.since.push_back((version, value.clone()));
        if self.since.len() > METADATA_VERSIONS_MAX {
            self.since.pop_front();
            self.dropped = true;
        }
    }

    /// The one at `version`; the outer `None` if that is no longer known.
    fn at(&self, version: Version) -> Option<Option<Bytes>> {
        let after = self.since.partition_point(|(since, _)| *since <= version);
        match after.checked_sub(1).and_then(|at| self.since.get(at)) {
            Some((_, value)) => Some(Some(value.clone())),
            None => (!self.dropped).then_some(None),
        }
    }
}

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
}

impl MemoryRows {
    /// The oldest version that can still be read.
    pub(crate) fn oldest(&self) -> Version {
        self.oldest
    }

    /// The value of `key` at `version`.
    pub(crate) fn get(&self, key: &[u8], version: Version) -> Option<&Bytes> {
        self.chains.get(key).and_then(|chain| chain.at(version))
    }

    /// The metadata version at `version`, which may be older than everything that can be read; `None` if it is no
    /// longer known.
    pub(crate) fn metadata_version(&self, version: Version) -> Option<Option<Bytes>> {
        self.metadata.at(version)
    }

    /// Values held, of all keys and versions.
    #[cfg(test)]
    pub(crate) fn versions_kept(&self) -> usize {
        self.chains.values().map(|chain| chain.values.len()).sum()
    }

    /// The newest value of `key`, published or not.
    fn latest(&self, key: &[u8]) -> Option<&Bytes> {
        self.chains.get(key).and_then(Chain::latest)
    }

    /// Rows of `begin..end` at `version`.
    pub(crate) fn range<'a>(
        &'a self,
        begin: &[u8],
        end: &[u8],
        version: Version,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a Bytes)> + use<'a> {
        // An inverted range would panic in the map; it has no rows.
        let whole = (Bound::Included(begin), Bound::Excluded(end));
        let bounds = if begin < end { whole } else { (Bound::Excluded(begin), Bound::Included(begin)) };
        let rows = self.chains.range::<[u8], _>(bounds);
        rows.filter_map(move |(key, chain)| chain.at(version).map(|value| (key.as_slice(), value)))
    }

    fn put(&mut self, version: Version, key: &[u8], value: Option<Bytes>) {
        if let (METADATA_VERSION_KEY, Some(value)) = (key, &value) {
            self.metadata.note(version, value);
        }
        let chain = match self.chains.entry(MemoryKey::from_slice(key)) {
            Entry::Occupied(entry) => {
                let chain = entry.into_mut();
                chain.push(version, value);
                if !std::mem::replace(&mut chain.queued, true) {
                    self.trims.push_back((version, MemoryKey::from_slice(key)));
                }
                chain
            }
            Entry::Vacant(entry) => {
                let Some(value) = value else { return };
                entry.insert(Chain::new(version, value))
            }
        };
        if let Some(dirty) = &mut self.dirty
            && chain.dirty_round != self.dirty_round
        {
            chain.dirty_round = self.dirty_round;
            dirty.push(MemoryKey::from_slice(key));
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
                if self.latest(key).is_some() {
                    self.put(version, key, None);
                }
            }
            Mutation::ClearRange(begin, end) => {
                let live = self.range(begin, end, Version::MAX).map(|(key, _)| MemoryKey::from_slice(key));
                let live: Vec<MemoryKey> = live.collect();
                live.iter().for_each(|key| self.put(version, key, None));
            }
            Mutation::Atomic(operation, key, operand) => {
                let existing = self.latest(key);
                let value = atomic_apply(*operation, existing, operand);
                if value.is_some() || existing.is_some() {
                    self.put(version, key, value);
                }
            }
        }
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
            match chain.trim(oldest) {
                Trimmed::Gone => drop(self.chains.remove(&key)),
                Trimmed::Whole => chain.queued = false,
                Trimmed::Again(version) => self.trims.push_back((version, key)),
            }
        }
        true
    }
}

/// The image and its lock.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    rows: RwLock<MemoryRows>,
}

impl Memory {
    /// An empty image as of `version`.
    pub(crate) fn empty(version: Version) -> Self {
        Self::with_dirty(std::iter::empty(), version, None)
    }

    /// An image of `rows`, all as of `version`, that keeps the set of changed keys for checkpoints.
    pub(crate) fn tracked(rows: impl Iterator<Item = (Bytes, Bytes)>, version: Version) -> Self {
        Self::with_dirty(rows, version, Some(Vec::new()))
    }

    fn with_dirty(
        rows: impl Iterator<Item = (Bytes, Bytes)>,
        version: Version,
        dirty: Option<Vec<MemoryKey>>,
    ) -> Self {
        let chains = rows.map(|(key, value)| (MemoryKey::from_slice(&key), Chain::new(version, value)));
        let chains: BTreeMap<_, _> = chains.collect();
        let mut metadata = MetadataVersions::default();
        if let Some(value) = chains.get(METADATA_VERSION_KEY).and_then(Chain::latest) {
            metadata.note(version, value);
        }
        let trims = VecDeque::new();
        let rows =
            MemoryRows { chains, oldest: version, trims, dirty, dirty_round: 1, pinned: None, metadata };
        Self { rows: RwLock::new(rows) }
    }

    /// The rows, to read at some version.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, MemoryRows> {
        self.rows.read()
    }

    /// Applies `mutations` as `version`, which must be above every reader's version.
    pub(crate) fn apply(&self, version: Version, mutations: &[Mutation]) {
        for chunk in mutations.chunks(APPLY_CHUNK) {
            let mut rows = self.rows.write();
            chunk.iter().for_each(|mutation| rows.apply(version, mutation));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::contract::AtomicOp;

    fn mutation() -> impl Strategy<Value = Mutation> {
        let key = || (0..12u8).prop_map(|key| Bytes::from(vec![key]));
        let value = || prop::collection::vec(any::<u8>(), 0..3).prop_map(Bytes::from);
        prop_oneof![
            4 => (key(), value()).prop_map(|(key, value)| Mutation::Set(key, value)),
            2 => key().prop_map(Mutation::Clear),
            1 => (key(), key()).prop_map(|(one, other)| {
                Mutation::ClearRange(one.clone().min(other.clone()), one.max(other))
            }),
            2 => (key(), value()).prop_map(|(key, value)| Mutation::Atomic(AtomicOp::Add, key, value)),
            1 => (key(), value()).prop_map(|(key, value)| Mutation::Atomic(AtomicOp::CompareAndClear, key, value)),
        ]
    }

    fn apply(model: &mut BTreeMap<Bytes, Bytes>, mutation: &Mutation) {
        match mutation {
            Mutation::ClearRange(begin, end) => model.retain(|key, _| !(begin <= key && key < end)),
            Mutation::Clear(key) => drop(model.remove(key)),
            Mutation::Atomic(operation, key, operand) => {
                match atomic_apply(*operation, model.get(key), operand) {
                    Some(value) => model.insert(key.clone(), value),
                    None => model.remove(key),
                };
            }
            Mutation::Set(key, value)
            | Mutation::StampedKey(key, value)
            | Mutation::StampedValue(key, value) => {
                model.insert(key.clone(), value.clone());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Every version from the oldest on reads as before, through trims and pins. The oldest versions are dropped.
        #[test]
        fn every_version_in_the_window_reads_as_it_was(
            batches in prop::collection::vec((prop::collection::vec(mutation(), 0..6), 0..6usize, any::<bool>()), 1..40)
        ) {
            let memory = Memory::tracked(std::iter::empty(), 0);
            let mut history = vec![(0, BTreeMap::new())];
            let (mut version, mut forgotten, mut pinned) = (0, 0, None);
            for (mutations, keep, toggle) in batches {
                version += 10;
                memory.apply(version, &mutations);
                let mut rows = history.last().map(|(_, rows)| rows.clone()).unwrap_or_default();
                mutations.iter().for_each(|mutation| apply(&mut rows, mutation));
                history.push((version, rows));
                if toggle {
                    pinned = match pinned {
                        None => { memory.pin(version); Some(version) }
                        Some(_) => { memory.unpin(); None }
                    };
                }
                let oldest = history[history.len().saturating_sub(keep + 1)].0;
                memory.trim(oldest);
                // Never less than what must be kept, and never readable again after it was not.
                let readable = memory.read().oldest();
                prop_assert!(readable <= oldest.max(pinned.unwrap_or(0)) || readable <= forgotten);
                prop_assert!(pinned.is_none_or(|pinned| readable <= pinned));
                forgotten = readable;
                for (at, expected) in history.iter().filter(|(at, _)| *at >= readable) {
                    let found: BTreeMap<Bytes, Bytes> =
                        memory.read().range(b"", b"\xff", *at).map(|(key, value)| (Bytes::copy_from_slice(key), value.clone())).collect();
                    prop_assert_eq!(&found, expected, "at {}", at);
                }
            }
            memory.unpin();
            memory.trim(version);
            let live = history.last().map_or(0, |(_, rows)| rows.len());
            prop_assert_eq!(memory.read().versions_kept(), live, "only what is there now");
        }
    }
}
