//! Which rows are in memory: the clock algorithm over the chains in the order of their keys.
//!
//! A hand goes round the keys. It evicts a row that the checkpoint has, and that nobody has read since the hand last
//! passed. A cold row that is read on its own comes back. (Corbató, "A paging experiment with the Multics system",
//! 1968.)

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::chain::{Chain, ChainValue};
use super::cold::{Cold, ColdRows};
use super::{APPLY_CHUNK, Memory, MemoryKey, MemoryRows, Order, ROWS_END};
use crate::contract::{KvError, Version};
use crate::database::key_after;

/// Chains that one step passes, under one hold of the lock.
const STEP: usize = 256;
/// Steps of one call: a burst of writes is evicted over many batches.
const STEPS_MAX: usize = 8;

impl MemoryRows {
    /// One step of the hand.
    fn evict_step(&mut self) {
        let Some(cold) = &mut self.cold else { return };
        let limit = cold.version.min(self.oldest);
        let (mut victims, mut from) = (Vec::new(), None::<Bytes>);
        let mut before = Some(Bytes::copy_from_slice(&self.hand));
        let mut next = None;
        let chains = self.chains.range::<[u8], _>((Bound::Included(self.hand.as_slice()), Bound::Unbounded));
        let mut passed = 0;
        for (key, chain) in chains {
            if passed == STEP {
                next = Some(key.clone());
                break;
            }
            passed += 1;
            if chain.evictable(limit) {
                // There are no chains between two neighbours, so that the range may cover all between them.
                from = from.or_else(|| Some(before.take().unwrap_or_else(|| Bytes::copy_from_slice(key))));
                victims.push(key.clone());
            } else {
                let key = Bytes::copy_from_slice(key);
                cold.ranges_join(from.take(), before.take(), &key);
                before = Some(key_after(&key).into());
            }
        }
        let end = next.as_ref().map_or(Bytes::from_static(ROWS_END), |key| Bytes::copy_from_slice(key));
        cold.ranges_join(from, before, &end);
        self.fruitless = if victims.is_empty() { self.fruitless.saturating_add(passed) } else { 0 };
        self.hand = next.unwrap_or_default();
        for key in victims {
            if let Some(chain) = self.chains.remove(&key) {
                self.bytes = self.bytes.saturating_sub(chain.bytes(&key));
            }
        }
    }

    /// Whether the cold value of `key`, if there is one, goes with a checkpoint of `version`, though it can still be
    /// read.
    fn before_is_lost(&self, key: &MemoryKey, version: Version) -> bool {
        let Some((chain, cold)) = self.chains.get(key).zip(self.cold.as_ref()) else { return false };
        let first = chain.first();
        first > self.oldest && first > cold.version && first <= version && cold.ranges.contains(key)
    }

    fn before_set(&mut self, key: MemoryKey, value: Bytes, version: Version) {
        if !self.before_is_lost(&key, version) {
            return;
        }
        let Some(chain) = self.chains.get_mut(&key) else { return };
        let first = chain.first();
        self.bytes = self.bytes.saturating_sub(chain.bytes(&key));
        chain.before_set(value);
        self.bytes = self.bytes.saturating_add(chain.bytes(&key));
        if !std::mem::replace(&mut chain.queued, true) {
            self.trims.push_back((first, key));
        }
    }

    /// Takes a row into memory that was read while it was cold.
    fn fetch(&mut self, key: MemoryKey) {
        let Some(cold) = self.cold.as_ref().filter(|_| !self.chains.contains_key(&key)) else { return };
        let Some(value) = cold.peek(&key) else { return };
        let chain = Chain::always(value);
        self.bytes = self.bytes.saturating_add(chain.bytes(&key));
        self.chains.insert(key, chain);
    }
}

impl Cold {
    /// Adds a range of evicted rows, which begins at `from` and ends before `next`, the next chain. Without one, joins
    /// what ranges there are between `before`, behind the last chain, and `next`: there may be ranges left whose rows
    /// are gone.
    fn ranges_join(&mut self, from: Option<Bytes>, before: Option<Bytes>, next: &Bytes) {
        let range = match (from, before) {
            (Some(from), _) => Some(from),
            (None, Some(before)) => {
                let parts = self.ranges.within(&before, next);
                parts.into_iter().map(|(from, _)| from).next()
            }
            (None, None) => None,
        };
        if let Some(from) = range {
            self.ranges.insert(from, next.clone());
        }
    }
}

impl Memory {
    /// Records that the cold rows can no longer be read: the engine stops.
    pub(crate) fn cold_fail(&self, error: KvError) {
        self.rows.write().failure.get_or_insert(error);
    }

    /// Whether the rows take so much memory that a checkpoint should make some of them cold.
    pub(crate) fn wants_cold(&self) -> bool {
        let rows = self.rows.read();
        rows.cold.is_some() || rows.bytes > self.bytes_max / 4 * 3
    }

    /// Fetches rows that were read, and evicts others if the rows take too much memory.
    pub(crate) fn balance(&self) {
        let wanted = {
            let rows = self.rows.read();
            let Some(cold) = &rows.cold else { return };
            cold.wanted_take()
        };
        if !wanted.is_empty() {
            let mut rows = self.rows.write();
            wanted.into_iter().for_each(|key| rows.fetch(key));
        }
        for _ in 0..STEPS_MAX {
            let mut rows = self.rows.write();
            // Two rounds, since the first one only forgets what was read.
            let in_vain = rows.fruitless > rows.chains.len().saturating_mul(2);
            if rows.bytes <= self.bytes_max || in_vain {
                return;
            }
            rows.evict_step();
        }
    }

    /// Goes over to the cold rows of a checkpoint of `version`. `changed` are the keys that differ from the checkpoint
    /// before; `None` if they are not known. The caller has pinned `version`, and the rows of the checkpoint before
    /// can be read until this returns.
    pub(crate) fn cold_set(&self, version: Version, cold: Arc<dyn ColdRows>, changed: Option<&[MemoryKey]>) {
        match changed {
            Some(keys) => keys.chunks(APPLY_CHUNK).for_each(|keys| self.before_keep(version, keys)),
            None => {
                let mut from = MemoryKey::new();
                loop {
                    let keys = self.keys_from(&from);
                    self.before_keep(version, &keys);
                    let Some(last) = keys.last() else { break };
                    from = MemoryKey::from_vec(key_after(last));
                }
            }
        }
        let mut rows = self.rows.write();
        let reads = rows.cold_reads.clone();
        let before = rows.cold.replace(Cold::new(version, cold, reads));
        if let (Some(cold), Some(before)) = (&mut rows.cold, &before) {
            cold.ranges = before.ranges.clone();
        }
        let kept = before.as_ref().map(|before| before.kept.clone()).unwrap_or_default();
        rows.trims.extend(kept.into_iter().map(|key| (version, key)));
        rows.fruitless = 0;
        drop(rows);
        // It may read and write when it closes, which nobody should wait for.
        drop(before);
    }

    /// The first rows of `from..` at `version`, which the caller has pinned, in order; none at the end. Only a
    /// checkpoint may call this: it reads cold rows without the lock, and nobody else replaces them.
    pub(crate) fn part_at(&self, from: &[u8], version: Version) -> Vec<(MemoryKey, Bytes)> {
        let (chains, end, cold) = {
            let rows = self.rows.read();
            let chains = rows.chains.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
            let cold = rows.cold.as_ref();
            let value = |chain: &Chain| match chain.at(version) {
                ChainValue::Present(value) => PartValue::Present(value.clone()),
                ChainValue::Before(first) if cold.is_some_and(|cold| cold.version < first) => PartValue::Cold,
                ChainValue::Absent | ChainValue::Before(_) => PartValue::Absent,
            };
            let part: BTreeMap<_, _> =
                chains.take(APPLY_CHUNK).map(|(key, chain)| (key.clone(), value(chain))).collect();
            let last = part.last_key_value().filter(|_| part.len() == APPLY_CHUNK);
            let end = last.map_or_else(|| ROWS_END.to_vec(), |(key, _)| key_after(key));
            (part, end, cold.map(|cold| Arc::clone(&cold.rows)))
        };
        let mut part: BTreeMap<MemoryKey, Bytes> = BTreeMap::new();
        let mut reached = end.clone();
        if let Some(cold) = cold.filter(|_| from < end.as_slice()) {
            for (key, value) in cold.range(from, &end, Order::Forward) {
                // Absent from memory means unchanged, also if it was fetched or evicted meanwhile.
                if matches!(chains.get(key.as_ref()), None | Some(PartValue::Cold)) {
                    part.insert(MemoryKey::from_slice(&key), value);
                }
                if part.len() == APPLY_CHUNK {
                    reached = key_after(&key);
                    break;
                }
            }
        }
        for (key, value) in chains {
            if let PartValue::Present(value) = value
                && key.as_slice() < reached.as_slice()
            {
                part.insert(key, value);
            }
        }
        if part.is_empty() && reached.as_slice() < ROWS_END {
            // Only absences: what follows them.
            return self.part_at(&reached, version);
        }
        part.into_iter().collect()
    }

    fn keys_from(&self, from: &MemoryKey) -> Vec<MemoryKey> {
        let rows = self.rows.read();
        let bounds = (Bound::Included(from.as_slice()), Bound::Unbounded);
        rows.chains.range::<[u8], _>(bounds).take(APPLY_CHUNK).map(|(key, _)| key.clone()).collect()
    }

    /// Puts the cold values of `keys` before their chains, where a checkpoint of `version` loses them.
    fn before_keep(&self, version: Version, keys: &[MemoryKey]) {
        let (lost, cold) = {
            let rows = self.rows.read();
            let Some(cold) = rows.cold.as_ref().map(|cold| Arc::clone(&cold.rows)) else { return };
            let lost = keys.iter().filter(|key| rows.before_is_lost(key, version));
            (lost.cloned().collect::<Vec<_>>(), cold)
        };
        let lost = lost.into_iter().filter_map(|key| cold.get(&key).map(|value| (key, value)));
        let lost: Vec<_> = lost.collect();
        if !lost.is_empty() {
            let mut rows = self.rows.write();
            lost.into_iter().for_each(|(key, value)| rows.before_set(key, value, version));
        }
    }
}

/// The value of a key in memory, as one part of a checkpoint sees it.
enum PartValue {
    Present(Bytes),
    Absent,
    /// The cold one.
    Cold,
}
