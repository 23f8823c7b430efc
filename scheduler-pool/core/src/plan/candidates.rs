//! Candidate caches: the nodes that a search over the cell has found for one shape. Every class of that shape draws on
//! them, in this plan and in later ones.
//!
//! A cache is a function of the tables alone: the nodes that fit, in the order of its search, as far as it has been
//! followed, with their scores. So a plan with a cache from an earlier plan equals the plan without one. Placements of
//! a plan cost nothing here: a candidate is checked again when a class draws it and its node has changed. The cache
//! follows only freed nodes, because a freed node may fit now.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::PlanCounters;
use super::score::{Score, preference, score};
use crate::filter::{Requirement, fits_in_time};
use crate::node_order::{NodeOrder, StartOffset};
use crate::overlay::PlanOverlay;
use crate::scoring::{MixCache, Scorer, SearchStart};
use crate::seed::{job_seed, mixed};
use crate::tables::{HardRule, NodeTable, STRETCH, Shape, ShapeId, StretchCapacity};

/// A list of nodes replaces the search of the cell if it has at most this part of the nodes: an eighth.
const LISTED_PART: usize = 8;

/// The most entries of a cache that stay for the next plan.
const ENTRIES_MAX: usize = 2_048;

/// The most caches that stay for the next plan, and the most entries of all of them.
const CACHES_MAX: usize = 512;
const ENTRIES_TOTAL_MAX: usize = 65_536;

/// A cache follows this many freed nodes more than it has entries. After more it is rebuilt, which costs less.
const CHANGES_FOLLOWED: usize = 64;

/// A node that fitted when it was last checked.
#[derive(Clone, Debug)]
pub(super) struct CandidateEntry {
    pub node: u32,
    pub rank: u32,
    pub preference: i64,
    pub score: Score,
    /// The node's count of changes at that time.
    moved: u32,
    fits: bool,
}

/// What a cache checks nodes with. The overlay is the one without placements.
pub(super) struct SearchContext<'w, 'a> {
    pub overlay: &'w PlanOverlay<'a>,
    pub requirement: &'w Requirement,
    pub now_ms: i64,
    pub scorer: &'w Arc<Scorer>,
    pub counters: &'w mut PlanCounters,
}

#[derive(Clone, Debug)]
pub(super) struct CandidateCache {
    shape: Arc<Shape>,
    /// Breaks ties between equal nodes.
    pub seed: u64,
    pub order: NodeOrder,
    /// The scorer of its entries.
    pub scorer: Arc<Scorer>,
    facts_version: u64,
    freed_at: u64,
    /// The only nodes that can fit, by rank, if a constraint lists few. Then it does not search the cell.
    listed: Option<Vec<(u32, u32)>>,
    scanned: usize,
    entries: Vec<CandidateEntry>,
    used_at: u64,
}

/// The nodes near the tasks that a rule selects, one list per domain; `None` if any node will do.
fn near_listed<'w>(overlay: &PlanOverlay<'w>, rule: HardRule) -> Option<SmallVec<[&'w [u32]; 4]>> {
    let HardRule::Near { term: id, own, .. } = rule else { return None };
    if own && overlay.term_total(id) == 0 {
        return None;
    }
    let term = overlay.tables.terms.get(id)?;
    let bearing = |value| overlay.tables.nodes.index.with_value(term.attribute, value);
    Some(overlay.term_domains(id).into_iter().map(bearing).collect())
}

/// The nodes of the hard constraint or rule that lists fewest, if they are a small part of the cell.
fn listed(requirement: &Requirement, overlay: &PlanOverlay<'_>, order: NodeOrder) -> Option<Vec<(u32, u32)>> {
    let nodes = overlay.nodes;
    let of_rules = requirement.rules.rules.iter().filter_map(|&rule| near_listed(overlay, rule));
    let of_constraints = requirement.hard.iter().filter_map(|constraint| constraint.listed(nodes));
    let lists = of_constraints.chain(of_rules);
    let total = |lists: &SmallVec<[&[u32]; 4]>| lists.iter().map(|nodes| nodes.len()).sum::<usize>();
    let fewest = lists.min_by_key(total)?;
    if total(&fewest) * LISTED_PART > nodes.count() {
        return None;
    }
    let bearing = fewest.into_iter().flatten();
    let mut listed: Vec<(u32, u32)> =
        bearing.filter_map(|&node| Some((order.rank_of(nodes, node)?, node))).collect();
    listed.sort_unstable();
    listed.dedup();
    Some(listed)
}

impl CandidateCache {
    /// An empty cache. The lists of rules come from `overlay`.
    pub(super) fn new(
        shape: Arc<Shape>,
        requirement: &Requirement,
        overlay: &PlanOverlay<'_>,
        order: NodeOrder,
        seed: u64,
        scorer: Arc<Scorer>,
    ) -> Self {
        Self {
            shape,
            seed,
            order,
            scorer,
            facts_version: overlay.nodes.facts_version(),
            freed_at: overlay.nodes.freed_total(),
            listed: listed(requirement, overlay, order),
            scanned: 0,
            entries: Vec::new(),
            used_at: 0,
        }
    }

    /// Returns true if a later plan may use it: its findings depend on nothing but nodes.
    fn cacheable(&self) -> bool {
        self.shape.job.is_none() && !self.shape.ports_any()
    }

    /// Returns true if the shape belongs to one job.
    pub(super) fn constrained(&self) -> bool {
        self.shape.job.is_some()
    }

    /// The end of the search.
    pub(super) fn end(&self, nodes: &NodeTable) -> usize {
        self.listed.as_ref().map_or_else(|| nodes.count(), Vec::len)
    }

    /// Returns true if there may be more to draw after `drawn` entries.
    pub(super) fn more(&self, drawn: usize, nodes: &NodeTable) -> bool {
        drawn < self.entries.len() || self.scanned < self.end(nodes)
    }

    /// Draws the next node that fits the tables, and advances `drawn`. It leaves ranks from `until` on for later.
    pub(super) fn draw(
        &mut self,
        context: &mut SearchContext<'_, '_>,
        drawn: &mut usize,
        until: usize,
    ) -> Option<CandidateEntry> {
        loop {
            if *drawn >= self.entries.len() && !self.extend(context, until) {
                return None;
            }
            let entry = self.entries.get_mut(*drawn)?;
            if entry.rank as usize >= until {
                return None;
            }
            *drawn += 1;
            entry_renew(entry, context, self.seed);
            if entry.fits {
                return Some(entry.clone());
            }
        }
    }

    /// Continues the search until it finds one more entry.
    fn extend(&mut self, context: &mut SearchContext<'_, '_>, until: usize) -> bool {
        while let Some((rank, node)) = self.next(context, until) {
            if let Some(entry) = entry_made(context, self.seed, rank, node) {
                self.entries.push(entry);
                return true;
            }
        }
        false
    }

    fn next(&mut self, context: &SearchContext<'_, '_>, until: usize) -> Option<(u32, u32)> {
        if let Some(listed) = &self.listed {
            let next = listed.get(self.scanned).copied().filter(|&(rank, _)| (rank as usize) < until)?;
            self.scanned += 1;
            return Some(next);
        }
        let nodes = context.overlay.nodes;
        loop {
            let rank = self.scanned;
            if rank >= until {
                return None;
            }
            let (position, end) = self.order.position(rank)?;
            if position.is_multiple_of(STRETCH) && position + STRETCH <= end && rank + STRETCH <= until {
                let most = nodes.stretches_free().get(position / STRETCH).copied().unwrap_or_default();
                if !could_fit(context.requirement, most) {
                    self.scanned += STRETCH;
                    continue;
                }
            }
            self.scanned += 1;
            return Some((u32::try_from(rank).ok()?, *nodes.order.get(position)?));
        }
    }

    /// Brings a cache of an earlier plan up to date. Returns false if it must be rebuilt.
    fn follow(&mut self, context: &mut SearchContext<'_, '_>) -> bool {
        let nodes = context.overlay.nodes;
        let missed = nodes.freed_since(self.freed_at);
        let Some(missed) = missed.filter(|_| self.facts_version == nodes.facts_version()) else {
            return false;
        };
        if missed.len() > self.entries.len() + CHANGES_FOLLOWED {
            return false;
        }
        for node in missed {
            self.freed(context, node);
        }
        self.freed_at = nodes.freed_total();
        self.entries.retain(|entry| entry.fits);
        true
    }

    /// Follows a freed node. If the search has passed it, it may fit now.
    fn freed(&mut self, context: &mut SearchContext<'_, '_>, node: u32) {
        let Some(rank) = self.order.rank_of(context.overlay.nodes, node) else { return };
        let passed = match &self.listed {
            None => (rank as usize) < self.scanned,
            Some(listed) => {
                let place = listed.binary_search_by_key(&rank, |&(rank, _)| rank);
                place.is_ok_and(|place| place < self.scanned)
            }
        };
        if !passed {
            return;
        }
        match self.entries.binary_search_by_key(&rank, |entry| entry.rank) {
            // A known entry is checked again when it is drawn.
            Ok(place) => {
                if let Some(entry) = self.entries.get_mut(place) {
                    entry.fits = true;
                    entry.moved = context.overlay.nodes.moved(node).wrapping_sub(1);
                }
            }
            Err(place) => {
                if let Some(entry) = entry_made(context, self.seed, rank, node) {
                    self.entries.insert(place, entry);
                }
            }
        }
    }

    /// Drops the entries beyond [`ENTRIES_MAX`].
    fn shortened(&mut self) {
        let Some(beyond) = self.entries.get(ENTRIES_MAX) else { return };
        self.scanned = match &self.listed {
            None => beyond.rank as usize,
            Some(listed) => listed.partition_point(|&(rank, _)| rank < beyond.rank),
        };
        self.entries.truncate(ENTRIES_MAX);
    }
}

fn could_fit(requirement: &Requirement, most: StretchCapacity) -> bool {
    requirement.amount(0) <= most.cpu_millis && requirement.amount(1) <= most.memory_bytes
}

fn entry_made(
    context: &mut SearchContext<'_, '_>,
    seed: u64,
    rank: u32,
    node: u32,
) -> Option<CandidateEntry> {
    context.counters.nodes_examined += 1;
    if !fits_in_time(context.overlay, context.requirement, node, context.now_ms) {
        return None;
    }
    let preference = preference(context.overlay, context.requirement, node, context.scorer);
    let score = entry_scored(context, node, preference, seed);
    Some(CandidateEntry {
        node,
        rank,
        preference,
        score,
        moved: context.overlay.nodes.moved(node),
        fits: true,
    })
}

fn entry_scored(context: &mut SearchContext<'_, '_>, node: u32, preference: i64, seed: u64) -> Score {
    context.counters.nodes_scored += 1;
    score(context.overlay, context.requirement, node, context.scorer, preference, seed)
}

/// Checks an entry again if its node has changed.
fn entry_renew(entry: &mut CandidateEntry, context: &mut SearchContext<'_, '_>, seed: u64) {
    let moved = context.overlay.nodes.moved(entry.node);
    if entry.moved == moved {
        return;
    }
    entry.moved = moved;
    context.counters.nodes_examined += 1;
    entry.fits = fits_in_time(context.overlay, context.requirement, entry.node, context.now_ms);
    if entry.fits {
        // A soft taint changes the preference without any change of attributes.
        entry.preference = preference(context.overlay, context.requirement, entry.node, context.scorer);
        entry.score = entry_scored(context, entry.node, entry.preference, seed);
    }
}

/// The candidate cache of a shape: that of an earlier plan, or an empty one.
pub(super) fn candidates_begun(
    context: &mut SearchContext<'_, '_>,
    overlay: &PlanOverlay<'_>,
    id: ShapeId,
    start_offset: StartOffset,
    cache: &mut PlanCache,
) -> Option<CandidateCache> {
    let tables = overlay.tables;
    let shape: &Arc<Shape> = tables.shapes.get(id)?;
    let (seed, turn) = match (context.scorer.policy().start(), shape.job) {
        (SearchStart::One, _) => (mixed(start_offset.seed), 0),
        (SearchStart::After(tasks), job) => {
            let seed = match job {
                None => mixed(start_offset.seed ^ tables.shapes.seed(id)?),
                Some(job) => {
                    let row = tables.jobs.get(&job)?.row.as_ref()?;
                    job_seed(start_offset.seed, &row.user, &row.name)
                }
            };
            (seed, tables.closed_total / tasks.max(1))
        }
    };
    let order = NodeOrder::new(tables.nodes.count(), start_offset, mixed(seed ^ turn));
    let known = cache.take(id, shape, order, seed, context);
    context.counters.searches_begun += u64::from(known.is_none());
    Some(known.unwrap_or_else(|| {
        CandidateCache::new(
            Arc::clone(shape),
            context.requirement,
            overlay,
            order,
            seed,
            Arc::clone(context.scorer),
        )
    }))
}

/// The candidate caches that plans leave for later plans of the same tables. They change what a plan costs and never
/// what it decides. New tables begin with a new one.
#[derive(Debug, Default)]
pub struct PlanCache {
    candidates: BTreeMap<ShapeId, CandidateCache>,
    /// The card requests of the cell's tasks.
    pub(super) mix: MixCache,
    plans: u64,
}

impl PlanCache {
    /// Takes the cache of a shape from an earlier plan, if it still serves. [`Self::put_back`] returns it.
    pub(super) fn take(
        &mut self,
        id: ShapeId,
        shape: &Arc<Shape>,
        order: NodeOrder,
        seed: u64,
        context: &mut SearchContext<'_, '_>,
    ) -> Option<CandidateCache> {
        let mut candidates = self.candidates.remove(&id)?;
        let same = (Arc::ptr_eq(&candidates.shape, shape) || candidates.shape == *shape)
            && candidates.order == order
            && candidates.seed == seed
            && candidates.scorer == *context.scorer;
        let serves = same && candidates.follow(context);
        context.counters.searches_reused += u64::from(serves);
        serves.then_some(candidates)
    }

    /// Stores the caches that a plan has used, and drops the least recently used ones.
    pub(super) fn put_back(&mut self, caches: impl Iterator<Item = (ShapeId, CandidateCache)>) {
        self.plans += 1;
        for (id, mut candidates) in caches.filter(|(_, candidates)| candidates.cacheable()) {
            candidates.shortened();
            candidates.used_at = self.plans;
            self.candidates.insert(id, candidates);
        }
        let entries = |caches: &BTreeMap<ShapeId, CandidateCache>| {
            caches.values().map(|candidates| candidates.entries.len()).sum::<usize>()
        };
        let mut caches_max = CACHES_MAX;
        while self.candidates.len() > caches_max || entries(&self.candidates) > ENTRIES_TOTAL_MAX {
            caches_max = caches_max.min(self.candidates.len()) / 2;
            let mut used: Vec<(u64, ShapeId)> =
                self.candidates.iter().map(|(&id, candidates)| (candidates.used_at, id)).collect();
            used.sort_unstable_by(|left, right| right.cmp(left));
            used.drain(..caches_max);
            used.into_iter().for_each(|(_, id)| drop(self.candidates.remove(&id)));
        }
    }
}
