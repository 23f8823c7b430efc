//! The candidate caches that plans leave for later plans, bounded by their bytes.
//!
//! If they need more, those go whose shapes are expected to be planned again last. A shape is expected again after as
//! many plans as lay between its last two, and a new one after twice the usual interval. Of equal ones the latest goes.
//! So, if more classes take turns than fit, the ones that are kept stay and serve. An order by last use would drop each
//! class just before its turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::candidates::{CandidateCache, SearchContext};
use crate::node_order::NodeOrder;
use crate::scoring::MixCache;
use crate::tables::{Shape, ShapeId};

/// The most bytes of the candidates that stay for later plans. A class of a few tasks takes 4 to 5 KiB, so this holds
/// some seven thousand of them.
const BYTES_MAX: usize = 32 << 20;

/// Above the bound, caches are dropped until this part of it is free: an eighth. So the caches are ordered rarely.
const FREED_PART: usize = 8;

/// The weight of a new interval in the mean: a sixty-fourth.
const INTERVAL_WEIGHT: u64 = 64;

/// The most shapes of which the last plan is remembered, whether their caches are kept or not. An entry takes about 20
/// bytes.
const SHAPES_MAX: usize = 1 << 16;

/// A cache that no plan uses now.
#[derive(Debug)]
struct StoredCache {
    candidates: CandidateCache,
    use_now: CacheUse,
    bytes: usize,
}

/// When a shape was planned.
#[derive(Clone, Copy, Debug, Default)]
struct CacheUse {
    /// The number of its last plan.
    at: u64,
    /// The plans between its last two; `None` if only one is known.
    interval: Option<u64>,
}

impl CacheUse {
    /// In how many plans after `now` a cache is expected again. `usual` is the mean interval of all.
    fn expected(self, now: u64, usual: u64) -> u64 {
        let age = now.saturating_sub(self.at);
        match self.interval {
            Some(interval) => age.max(interval),
            None => age.saturating_add(usual.saturating_mul(2)),
        }
    }
}

/// The candidate caches that plans leave for later plans of the same tables. They change what a plan costs and never
/// what it decides. New tables begin with a new one.
#[derive(Debug)]
pub struct PlanCache {
    stored: BTreeMap<ShapeId, StoredCache>,
    /// The number of the last plan of each shape.
    planned: BTreeMap<ShapeId, u64>,
    /// The bytes of the stored caches.
    bytes: usize,
    bytes_max: usize,
    /// The mean interval between two plans of a shape, times [`INTERVAL_WEIGHT`].
    interval_sum: u64,
    /// The card requests of the cell's tasks.
    pub(super) mix: MixCache,
    plans: u64,
}

impl Default for PlanCache {
    fn default() -> Self {
        Self::bounded(BYTES_MAX)
    }
}

impl PlanCache {
    /// An empty cache that keeps candidates of at most so many bytes between plans.
    pub fn bounded(bytes_max: usize) -> Self {
        Self {
            stored: BTreeMap::new(),
            planned: BTreeMap::new(),
            bytes: 0,
            bytes_max,
            interval_sum: 0,
            mix: MixCache::default(),
            plans: 0,
        }
    }

    /// The bytes of the candidates that it keeps.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the cache of a shape from an earlier plan, if it still serves. [`Self::put_back`] returns it.
    pub(super) fn take(
        &mut self,
        id: ShapeId,
        shape: &Arc<Shape>,
        order: NodeOrder,
        seed: u64,
        context: &mut SearchContext<'_, '_>,
    ) -> Option<CandidateCache> {
        let StoredCache { mut candidates, bytes, .. } = self.stored.remove(&id)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        if !candidates.serves(shape, order, seed, context) {
            return None;
        }
        context.counters.searches_reused += 1;
        Some(candidates)
    }

    /// Stores the caches that a plan has used.
    pub(super) fn put_back(&mut self, caches: impl Iterator<Item = (ShapeId, CandidateCache)>) {
        self.plans += 1;
        for (id, mut candidates) in caches.filter(|(_, candidates)| candidates.cacheable()) {
            candidates.shortened();
            let use_now = self.shape_planned(id);
            let bytes = candidates.bytes();
            let before = self.stored.insert(id, StoredCache { candidates, use_now, bytes });
            self.bytes = self.bytes + bytes - before.map_or(0, |before| before.bytes);
        }
        if self.bytes > self.bytes_max {
            self.evict();
        }
    }

    /// Records that the present plan had a shape.
    fn shape_planned(&mut self, id: ShapeId) -> CacheUse {
        let at = self.plans;
        let interval = self.planned.insert(id, at).map(|before| at.saturating_sub(before));
        if let Some(interval) = interval {
            let sum = if self.interval_sum == 0 { interval * INTERVAL_WEIGHT } else { self.interval_sum };
            self.interval_sum = sum - sum / INTERVAL_WEIGHT + interval;
        }
        if self.planned.len() > SHAPES_MAX {
            let mut plans: Vec<u64> = self.planned.values().copied().collect();
            plans.sort_unstable();
            let middle = plans.get(SHAPES_MAX / 2).copied().unwrap_or(at);
            self.planned.retain(|_, &mut plan| plan > middle);
        }
        CacheUse { at, interval }
    }

    /// Drops the caches of the shapes that are expected again last.
    fn evict(&mut self) {
        let usual = self.interval_sum / INTERVAL_WEIGHT;
        let order = self.stored.iter().map(|(&id, stored)| {
            let StoredCache { use_now, .. } = stored;
            (use_now.expected(self.plans, usual), use_now.at, id)
        });
        let mut order: Vec<(u64, u64, ShapeId)> = order.collect();
        order.sort_unstable();
        let kept = self.bytes_max - self.bytes_max / FREED_PART;
        while let Some((_, _, id)) = order.pop().filter(|_| self.bytes > kept) {
            if let Some(stored) = self.stored.remove(&id) {
                self.bytes = self.bytes.saturating_sub(stored.bytes);
            }
        }
    }
}
