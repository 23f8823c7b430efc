//! The search for a node where a class of tasks can have room by evictions: as far as there is enough to choose from.

use std::collections::BTreeMap;

use borough_model::Resources;

use super::{Answer, Ask, Evictions, Offer, PreemptionCost, Reach, offer_of};
use crate::filter::Requirement;
use crate::plan::{Search, Vantage, Work};
use crate::seed::mixed;
use crate::snapshot::{Room, STRETCH, Snapshot};

/// In cells of so many nodes all are compared.
const NODES_ALL_MAX: usize = 200;

/// In larger ones as many as there are tasks of the class, and so many more (Gödel, SoCC 2023, §4.2).
const NODES_BEYOND: usize = 50;

/// What was found for one shape, and those that it may take the place of.
#[derive(Clone, Debug)]
pub(crate) struct Hunt {
    search: Search,
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

impl Hunt {
    pub fn new(snapshot: &Snapshot, vantage: Vantage, seed: u64, members: usize, generation: u32) -> Self {
        let count = snapshot.nodes.count();
        let enough =
            if count <= NODES_ALL_MAX { usize::MAX } else { members + NODES_BEYOND.max(vantage.beyond) };
        Self {
            search: Search::new(count, vantage, mixed(seed)),
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
    pub fn best(&mut self, work: &mut Work<'_>, evictions: &mut Evictions, ask: &Ask<'_>) -> Option<Offer> {
        let mut again = std::mem::take(&mut self.again);
        again.extend(evictions.log.iter().skip(self.log_at));
        self.log_at = evictions.log.len();
        again.sort_unstable();
        again.dedup();
        self.offers.retain(|_, offer| again.binary_search(&offer.node).is_err());
        for node in again {
            self.looked_at(work, evictions, ask, node);
        }
        let asked = Room { cpu_millis: ask.requirement.amount(0), memory_bytes: ask.requirement.amount(1) };
        while self.offers.len() < self.enough {
            let Some(node) = self.next(work, ask.bound(), asked) else { break };
            self.looked_at(work, evictions, ask, node);
        }
        loop {
            let (known, offer) = self.offers.pop_first()?;
            // What others of the plan took, or whom they evict, may have made it dearer.
            match offer_of(work, evictions, ask, offer.node) {
                Answer::Offer(offer) if offer.cost <= known => {
                    self.again.push(offer.node);
                    return Some(offer);
                }
                Answer::Offer(offer) => drop(self.offers.insert(offer.cost, offer)),
                Answer::Never | Answer::Protected => {}
            }
        }
    }

    fn looked_at(&mut self, work: &mut Work<'_>, evictions: &mut Evictions, ask: &Ask<'_>, node: u32) {
        match offer_of(work, evictions, ask, node) {
            Answer::Offer(offer) => drop(self.offers.insert(offer.cost, offer)),
            Answer::Protected => self.protected = true,
            Answer::Never => {}
        }
    }

    /// The next node of a stretch in which one might have room.
    fn next(&mut self, work: &Work<'_>, bound: u32, asked: Room) -> Option<u32> {
        loop {
            let (position, end) = self.search.position(self.rank)?;
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
    snapshot: &Snapshot,
    (requirement, asked): (&Requirement, &Resources),
    reach: Reach,
    now_ms: i64,
) -> Option<bool> {
    let mut work = Work::new(snapshot);
    if reach.queue > 0 {
        work.shares_known();
    }
    let fresh_ms = snapshot.settings.fresh_start_ms();
    let claims = reach.claims(&work);
    let (reach, claim) = reach.now(&work, asked);
    if !reach.any() {
        return Some(claims);
    }
    let ask = Ask { requirement, below: reach.below, claim: claim.as_ref(), now_ms, fresh_ms };
    let mut evictions = Evictions::default();
    let mut hunt = Hunt::new(snapshot, Vantage::whole(0), 0, 0, 0);
    hunt.enough = 1;
    let found = hunt.best(&mut work, &mut evictions, &ask).is_some();
    (!found).then_some(hunt.protected || claims)
}
