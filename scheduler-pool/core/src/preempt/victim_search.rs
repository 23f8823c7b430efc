//! The victim search: the nodes where evictions let a task of a class in, until there are enough to choose from.

use std::collections::BTreeMap;

use borough_model::Resources;

use super::{Evictions, NodeAnswer, Offer, PreemptionCost, PreemptionRequest, PreemptionScope, offer_of};
use crate::filter::Requirement;
use crate::node_order::{NodeOrder, StartOffset};
use crate::overlay::PlanOverlay;
use crate::seed::mixed;
use crate::tables::{CellTables, STRETCH, StretchCapacity};

/// In cells of at most this many nodes all are compared.
const NODES_ALL_MAX: usize = 200;

/// In larger ones the search collects as many offers as the class has tasks, and this many more (Gödel, SoCC 2023,
/// §4.2).
const NODES_BEYOND: usize = 50;

/// The offers for one shape and scope.
#[derive(Clone, Debug)]
pub(crate) struct VictimSearch {
    order: NodeOrder,
    /// The next rank to examine.
    rank: usize,
    /// How many offers the search collects.
    enough: usize,
    offers: BTreeMap<PreemptionCost, Offer>,
    /// Nodes to examine again, because something was taken from them.
    again: Vec<u32>,
    /// The length of the plan's eviction log that it has followed.
    log_at: usize,
    pub generation: u32,
    /// True if some node would do if its tasks had not only just started.
    pub protected: bool,
}

impl VictimSearch {
    pub(crate) fn new(
        tables: &CellTables,
        start_offset: StartOffset,
        seed: u64,
        members: usize,
        generation: u32,
    ) -> Self {
        let count = tables.nodes.count();
        let enough =
            if count <= NODES_ALL_MAX { usize::MAX } else { members + NODES_BEYOND.max(start_offset.beyond) };
        Self {
            order: NodeOrder::new(count, start_offset, mixed(seed)),
            rank: 0,
            enough,
            offers: BTreeMap::new(),
            again: Vec::new(),
            log_at: 0,
            generation,
            protected: false,
        }
    }

    /// Returns true if it compares all nodes of the cell.
    pub(crate) fn compares_all(&self) -> bool {
        self.enough == usize::MAX
    }

    /// Returns true if it has seen every eviction of the plan.
    pub(crate) fn up_to_date(&self, evictions: &Evictions) -> bool {
        self.log_at == evictions.log.len()
    }

    /// The offer with the least cost.
    pub(crate) fn best(
        &mut self,
        overlay: &mut PlanOverlay<'_>,
        evictions: &mut Evictions,
        ask: &PreemptionRequest<'_>,
    ) -> Option<Offer> {
        let mut again = std::mem::take(&mut self.again);
        again.extend(evictions.log.iter().skip(self.log_at));
        self.log_at = evictions.log.len();
        again.sort_unstable();
        again.dedup();
        self.offers.retain(|_, offer| again.binary_search(&offer.node).is_err());
        for node in again {
            self.examine(overlay, evictions, ask, node);
        }
        let asked = StretchCapacity {
            cpu_millis: ask.requirement.amount(0),
            memory_bytes: ask.requirement.amount(1),
        };
        while self.offers.len() < self.enough {
            let Some(node) = self.next(overlay, ask.bound(), asked) else { break };
            self.examine(overlay, evictions, ask, node);
        }
        loop {
            let (known, offer) = self.offers.pop_first()?;
            // Other tasks of the plan may have made it more expensive since.
            match offer_of(overlay, evictions, ask, offer.node) {
                NodeAnswer::Offer(offer) if offer.cost <= known => {
                    self.again.push(offer.node);
                    return Some(offer);
                }
                NodeAnswer::Offer(offer) => drop(self.offers.insert(offer.cost, offer)),
                NodeAnswer::Never | NodeAnswer::Protected => {}
            }
        }
    }

    fn examine(
        &mut self,
        overlay: &mut PlanOverlay<'_>,
        evictions: &mut Evictions,
        ask: &PreemptionRequest<'_>,
        node: u32,
    ) {
        match offer_of(overlay, evictions, ask, node) {
            NodeAnswer::Offer(offer) => drop(self.offers.insert(offer.cost, offer)),
            NodeAnswer::Protected => self.protected = true,
            NodeAnswer::Never => {}
        }
    }

    /// The next node of a stretch that could have enough capacity after evictions.
    fn next(&mut self, overlay: &PlanOverlay<'_>, bound: u32, asked: StretchCapacity) -> Option<u32> {
        loop {
            let (position, end) = self.order.position(self.rank)?;
            let stretch = position / STRETCH;
            if overlay.nodes.stretch_could_fit(stretch, bound, asked) {
                self.rank += 1;
                return overlay.nodes.order.get(position).copied();
            }
            self.rank += ((stretch + 1) * STRETCH).min(end) - position;
        }
    }
}

/// Returns `Some` if no eviction on any node helps, with the cell as it is without any plan. The value is true if time
/// alone could change that.
pub(crate) fn no_victims_anywhere(
    tables: &CellTables,
    requirement: &Requirement,
    asked: &Resources,
    scope: PreemptionScope,
    now_ms: i64,
) -> Option<bool> {
    let mut overlay = PlanOverlay::new(tables);
    if scope.queue > 0 {
        overlay.shares_known();
    }
    let fresh_ms = tables.settings.fresh_start_ms();
    let claims = scope.claims(&overlay);
    let (scope, claim) = scope.resolved(&overlay, asked);
    if !scope.any() {
        return Some(claims);
    }
    let ask = PreemptionRequest { requirement, below: scope.below, claim: claim.as_ref(), now_ms, fresh_ms };
    let mut evictions = Evictions::default();
    let mut victim_search = VictimSearch::new(tables, StartOffset::undivided(0), 0, 0, 0);
    victim_search.enough = 1;
    let found = victim_search.best(&mut overlay, &mut evictions, &ask).is_some();
    (!found).then_some(victim_search.protected || claims)
}
