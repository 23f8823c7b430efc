//! Candidate caches: the nodes that a search over the cell has found for one shape. Every class of that shape draws on
//! them, in this plan and in later ones.
//!
//! A cache is a function of the tables alone: the nodes that fit, in the order of its search, as far as it has been
//! followed, with their scores. So a plan with a cache from an earlier plan equals the plan without one. Placements of
//! a plan cost nothing here: a candidate is checked again when a class draws it and its node has changed. The cache
//! follows only logged changes: nodes that may fit now, and nodes with another value of an attribute that the shape
//! looks at. A new or removed node voids it, because every search then begins elsewhere.

use std::sync::Arc;

use smallvec::SmallVec;

use super::PlanCounters;
use super::cache::PlanCache;
use super::score::{Score, preference, score};
use crate::filter::{Requirement, fits_in_time};
use crate::node_order::{NodeOrder, StartOffset};
use crate::overlay::PlanOverlay;
use crate::scoring::{Scorer, SearchStart};
use crate::seed::{job_seed, mixed};
use crate::tables::{HardRule, LoggedChange, NodeTable, STRETCH, Shape, ShapeId, StretchCapacity};

/// A list of nodes replaces the search of the cell if it has at most this part of the nodes: an eighth.
const LISTED_PART: usize = 8;

/// The most entries of a cache that stay for the next plan.
const ENTRIES_MAX: usize = 2_048;

/// A cache follows this many changes, and this many more for each of its entries. After more it is rebuilt, which
/// costs less: to find and score an entry costs as much as to skip eight changes of nodes that the search has not met.
const CHANGES_FOLLOWED: usize = 64;
const CHANGES_PER_ENTRY: usize = 8;

/// A node that fitted when it was last checked.
#[derive(Clone, Debug)]
pub(super) struct CandidateEntry {
    pub node: u32,
    pub rank: u32,
    pub preference: i64,
    pub score: Score,
    /// The node's count of changes at that time, see [`moved`].
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
    membership: u64,
    /// The number of logged changes that it has followed.
    followed: u64,
    /// The only nodes that can fit, by rank, if a constraint lists few. Then it does not search the cell.
    listed: Option<Vec<(u32, u32)>>,
    scanned: usize,
    entries: Vec<CandidateEntry>,
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
            membership: overlay.nodes.membership(),
            followed: overlay.nodes.logged_total(),
            listed: listed(requirement, overlay, order),
            scanned: 0,
            entries: Vec::new(),
        }
    }

    /// Returns true if a later plan may use it: its findings depend on nothing but nodes.
    pub(super) fn cacheable(&self) -> bool {
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

    /// Returns true if it is the search of this shape in this order. Brings it up to date then; false if it must be
    /// rebuilt.
    pub(super) fn serves(
        &mut self,
        shape: &Arc<Shape>,
        order: NodeOrder,
        seed: u64,
        context: &mut SearchContext<'_, '_>,
    ) -> bool {
        (Arc::ptr_eq(&self.shape, shape) || self.shape == *shape)
            && self.order == order
            && self.seed == seed
            && self.scorer == *context.scorer
            && self.follow(context)
    }

    /// The bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let listed = self.listed.as_ref().map_or(0, Vec::capacity);
        size_of::<Self>()
            + size_of::<Scorer>()
            + listed * size_of::<(u32, u32)>()
            + self.entries.capacity() * size_of::<CandidateEntry>()
    }

    /// Brings a cache of an earlier plan up to date. Returns false if it must be rebuilt.
    fn follow(&mut self, context: &mut SearchContext<'_, '_>) -> bool {
        let nodes = context.overlay.nodes;
        let missed = nodes.logged_since(self.followed).filter(|_| self.membership == nodes.membership());
        let Some(missed) = missed else { return false };
        let requirement = context.requirement;
        let concerns = |change: &LoggedChange| change.attribute.is_none_or(|key| requirement.looks_at(key));
        let concerning = missed.filter(concerns);
        let most = self.entries.len() * CHANGES_PER_ENTRY + CHANGES_FOLLOWED;
        if concerning.clone().nth(most).is_some() {
            return false;
        }
        for change in concerning {
            self.node_changed(context, change);
        }
        self.followed = nodes.logged_total();
        self.entries.retain(|entry| entry.fits);
        true
    }

    /// Follows a changed node. If the search has passed it, it may fit now.
    fn node_changed(&mut self, context: &mut SearchContext<'_, '_>, change: LoggedChange) {
        let LoggedChange { node, attribute } = change;
        let nodes = context.overlay.nodes;
        let Some(rank) = self.order.rank_of(nodes, node) else { return };
        if attribute.is_some() {
            self.listed_follow(context.requirement, nodes, node, rank);
        }
        match self.entries.binary_search_by_key(&rank, |entry| entry.rank) {
            // A known entry is checked again when it is drawn.
            Ok(place) => {
                if let Some(entry) = self.entries.get_mut(place) {
                    entry.fits = true;
                    entry.moved = moved(nodes, context.scorer, node).wrapping_sub(1);
                }
            }
            Err(place) if self.passed(rank) => {
                if let Some(entry) = entry_made(context, self.seed, rank, node) {
                    self.entries.insert(place, entry);
                }
            }
            Err(_) => {}
        }
    }

    /// Returns true if the search has passed a node.
    fn passed(&self, rank: u32) -> bool {
        match &self.listed {
            None => (rank as usize) < self.scanned,
            Some(listed) => {
                let place = listed.binary_search_by_key(&rank, |&(rank, _)| rank);
                place.is_ok_and(|place| place < self.scanned)
            }
        }
    }

    /// Keeps a node with changed attributes on the list exactly if it meets the constraints.
    fn listed_follow(&mut self, requirement: &Requirement, nodes: &NodeTable, node: u32, rank: u32) {
        let Some(listed) = &mut self.listed else { return };
        let meets = requirement.hard.iter().all(|constraint| constraint.met(nodes, node));
        match listed.binary_search_by_key(&rank, |&(rank, _)| rank) {
            Err(place) if meets => {
                listed.insert(place, (rank, node));
                self.scanned += usize::from(place < self.scanned);
            }
            Ok(place) if !meets => {
                listed.remove(place);
                self.scanned -= usize::from(place < self.scanned);
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Drops the entries beyond [`ENTRIES_MAX`].
    pub(super) fn shortened(&mut self) {
        let Some(beyond) = self.entries.get(ENTRIES_MAX) else { return };
        self.scanned = match &self.listed {
            None => beyond.rank as usize,
            Some(listed) => listed.partition_point(|&(rank, _)| rank < beyond.rank),
        };
        self.entries.truncate(ENTRIES_MAX);
    }
}

/// A number that changes with each change of a node that its score depends on, apart from attributes. Those are
/// followed by name.
fn moved(nodes: &NodeTable, scorer: &Scorer, node: u32) -> u32 {
    let measured = if scorer.profile.reads_load() { nodes.load_moved(node) } else { 0 };
    nodes.moved(node).wrapping_add(measured)
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
        moved: moved(context.overlay.nodes, context.scorer, node),
        fits: true,
    })
}

fn entry_scored(context: &mut SearchContext<'_, '_>, node: u32, preference: i64, seed: u64) -> Score {
    context.counters.nodes_scored += 1;
    score(context.overlay, context.requirement, node, context.scorer, preference, seed)
}

/// Checks an entry again if its node has changed.
fn entry_renew(entry: &mut CandidateEntry, context: &mut SearchContext<'_, '_>, seed: u64) {
    let moved = moved(context.overlay.nodes, context.scorer, entry.node);
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
