//! The search for a node where a class of tasks can have room by evictions: as far as there is enough to choose from.

use std::collections::BTreeMap;

use borough_model::Resources;

use super::{Evictions, NodeAnswer, Offer, PreemptionCost, PreemptionRequest, PreemptionScope, offer_of};
use crate::filter::Requirement;
use crate::node_order::{NodeOrder, StartOffset};
use crate::overlay::PlanOverlay;
use crate::seed::mixed;
use crate::tables::{CellTables, STRETCH, StretchCapacity};

/// In cells of so many nodes all are compared.
const NODES_ALL_MAX: usize = 200;

/// In larger ones as many as there are tasks of the class, and so many more (Gödel, SoCC 2023, §4.2).
const NODES_BEYOND: usize = 50;

/// What was found for one shape, and those that it may take the place of.
#[derive(Clone, Debug)]
pub(crate) struct VictimSearch {
    order: NodeOrder,
    /// The next rank to be looked at.
    rank: usize,
    /// How many nodes are to be found.
    enough: usize,
    offers: BTreeMap<PreemptionCost, Offer>,
    /// Nodes to be looked at again, since something was taken of them.
    again: Vec<u32>,
    /// How much of the evictions of the plan it has seen.
    log_at: usize,
    /// The plan's generation when it began.
    pub generation: u32,
    /// Whether some node would do but for tasks that have only just started.
    pub protected: bool,
}

impl VictimSearch {
    pub fn new(
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

    /// Whether nothing has happened since that could have made room for it.
    pub fn up_to_date(&self, evictions: &Evictions) -> bool {
        self.log_at == evictions.log.len()
    }

    /// The node where room is made at the least cost.
    pub fn best(
        &mut self,
        work: &mut PlanOverlay<'_>,
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
            self.looked_at(work, evictions, ask, node);
        }
        let asked = StretchCapacity {
            cpu_millis: ask.requirement.amount(0),
            memory_bytes: ask.requirement.amount(1),
        };
        while self.offers.len() < self.enough {
            let Some(node) = self.next(work, ask.bound(), asked) else { break };
            self.looked_at(work, evictions, ask, node);
        }
        loop {
            let (known, offer) = self.offers.pop_first()?;
            // What others of the plan took, or whom they evict, may have made it dearer.
            match offer_of(work, evictions, ask, offer.node) {
                NodeAnswer::Offer(offer) if offer.cost <= known => {
                    self.again.push(offer.node);
                    return Some(offer);
                }
                NodeAnswer::Offer(offer) => drop(self.offers.insert(offer.cost, offer)),
                NodeAnswer::Never | NodeAnswer::Protected => {}
            }
        }
    }

    fn looked_at(
        &mut self,
        work: &mut PlanOverlay<'_>,
        evictions: &mut Evictions,
        ask: &PreemptionRequest<'_>,
        node: u32,
    ) {
        match offer_of(work, evictions, ask, node) {
            NodeAnswer::Offer(offer) => drop(self.offers.insert(offer.cost, offer)),
            NodeAnswer::Protected => self.protected = true,
            NodeAnswer::Never => {}
        }
    }

    /// The next node of a stretch in which one might have room.
    fn next(&mut self, work: &PlanOverlay<'_>, bound: u32, asked: StretchCapacity) -> Option<u32> {
        loop {
            let (position, end) = self.order.position(self.rank)?;
            let stretch = position / STRETCH;
            if work.nodes.stretch_reclaimable(stretch, bound, asked) {
                self.rank += 1;
                return work.nodes.order.get(position).copied();
            }
            self.rank += ((stretch + 1) * STRETCH).min(end) - position;
        }
    }
}

/// Whether no eviction anywhere helps, as the cell is without any plan; and whether time alone could change that.
pub(crate) fn helps_nowhere(
    tables: &CellTables,
    (requirement, asked): (&Requirement, &Resources),
    scope: PreemptionScope,
    now_ms: i64,
) -> Option<bool> {
    let mut work = PlanOverlay::new(tables);
    if scope.queue > 0 {
        work.shares_known();
    }
    let fresh_ms = tables.settings.fresh_start_ms();
    let claims = scope.claims(&work);
    let (scope, claim) = scope.now(&work, asked);
    if !scope.any() {
        return Some(claims);
    }
    let ask = PreemptionRequest { requirement, below: scope.below, claim: claim.as_ref(), now_ms, fresh_ms };
    let mut evictions = Evictions::default();
    let mut victim_search = VictimSearch::new(tables, StartOffset::whole(0), 0, 0, 0);
    victim_search.enough = 1;
    let found = victim_search.best(&mut work, &mut evictions, &ask).is_some();
    (!found).then_some(victim_search.protected || claims)
}
