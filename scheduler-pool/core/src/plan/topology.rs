//! Gangs that stand within few failure domains. How many members a domain has room for is bounded by a count per node
//! that is kept up to date with what the plan takes; the domains that suffice by it are tried, the one with the least
//! room first, so that roomy ones are left for larger gangs. Where none suffices, those are tried that would once
//! everything had gone that may be made to, the one first where fewest have to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::job::{Constraint, ConstraintOperator, GangTopology};
use borough_model::{JobId, Resources};

use super::candidates::CandidateCache;
use super::domain_capacity::DomainCapacity;
use super::equivalence::PlanOf;
use super::gang::{GangOutcome, GangRefusal, GangTrial};

use super::{DomainsShort, GangCause, PendingGang, PendingTask, PlannedPlacement, Planner};
use crate::filter::{Requirement, copies_empty};
use crate::node_order::{NodeOrder, StartOffset};
use crate::overlay::PlanOverlay;
use crate::preempt::{Evictions, PreemptionRequest, PreemptionScope, copies_at_most};
use crate::scoring::Scorer;
use crate::seed::{bytes_mixed, mixed};
use crate::tables::{GangPart, Shape, ShapeId};

/// Shapes of a domain set are numbered from here: no tables has as many.
const SHAPES_FIRST: ShapeId = 1 << 31;

/// So many choices of domains that suffice by the bound are tried; where rules between tasks refuse them all, the gang
/// waits for a change.
const TRIES_MAX: usize = 8;

/// The number of a set of domains that tasks are kept to: an index into [`DomainSets::known`].
pub(super) type DomainSetId = u32;

/// Sets of domains that tasks of a plan are kept to, and what there is room for in each domain.
#[derive(Default)]
pub(super) struct DomainSets {
    /// The attribute and its values; none: any value.
    known: Vec<(u32, Vec<u32>)>,
    /// The search of a class in a domain set, by the search of the class anywhere.
    plans: BTreeMap<(usize, DomainSetId), PlanOf>,
    shapes: Vec<Arc<Shape>>,
    rooms: BTreeMap<(ShapeId, u32), DomainCapacity>,
    /// The same of the tables without what the plan has taken.
    rooms_clear: BTreeMap<(ShapeId, u32), DomainCapacity>,
    /// The domains in which members of a job stand by now.
    resident: BTreeMap<JobId, BTreeSet<u32>>,
}

/// What one part of a gang asks of a set of domains: members in all, and of each shape.
struct DomainDemand {
    need: u64,
    shapes: BTreeMap<ShapeId, u64>,
}

/// The room of a domain: part by part as far as it is asked for, and all of it.
struct Domain {
    value: u32,
    parts: Vec<u64>,
    room: u64,
    /// How many members have room only if others give way.
    evicting: u64,
}

/// Whether domains have room for every part together.
fn suffice<'d>(asked: &[DomainDemand], domains: impl Iterator<Item = &'d Domain> + Clone) -> bool {
    asked.iter().enumerate().all(|(part, asked)| room_of_part(domains.clone(), part) >= asked.need)
}

fn room_of_part<'d>(domains: impl Iterator<Item = &'d Domain>, part: usize) -> u64 {
    domains.filter_map(|domain| domain.parts.get(part)).fold(0, |sum, &room| sum.saturating_add(room))
}

impl Planner<'_, '_> {
    /// Places a gang within as few domains as it wants, where it may by evictions. Where it cannot: why, and whether to
    /// let it sleep.
    pub(super) fn gang_topology(
        &mut self,
        members: &[PendingTask],
        gang: &PendingGang,
        topology: &GangTopology,
        evicts: bool,
    ) -> (GangOutcome, Option<GangRefusal>) {
        let key = self.tables.nodes.texts.known(&topology.attribute);
        let resident = self.resident(gang.job, topology);
        let asked = self.asked(members, gang);
        let mut best = 0;
        let domains = self.domains(&asked, key, false);
        let sets = self.sets(&asked, &domains, topology, &resident);
        let freely = GangTrial::default();
        if let Some(placements) = self.sets_tried((members, gang), topology, sets, &freely, &mut best) {
            return (GangOutcome::Whole(placements), None);
        }
        if topology.preferred {
            return (self.gang_tried(members, gang, &GangTrial { evicts, ..GangTrial::default() }), None);
        }
        let of_gang = (self.gang_scope(members), u64::from(gang.need()));
        if let Some(key) = key.filter(|_| evicts) {
            let cleared = self.domains_cleared(&asked, key, &domains, of_gang, false);
            let sets = self.sets(&asked, &cleared, topology, &resident);
            let evicting = GangTrial { evicts, ..GangTrial::default() };
            if let Some(placements) = self.sets_tried((members, gang), topology, sets, &evicting, &mut best) {
                return (GangOutcome::Whole(placements), None);
            }
        }
        let never = self.out.placements.is_empty() || {
            let mut clear = self.domains(&asked, key, true);
            if let Some(key) = key.filter(|_| evicts) {
                clear = self.domains_cleared(&asked, key, &clear, of_gang, true);
            }
            self.sets(&asked, &clear, topology, &resident).is_empty()
        };
        let cause = if resident.len() >= topology.domains_max as usize {
            GangCause::DomainsTaken
        } else {
            GangCause::DomainsShort(self.domains_short(&asked, &domains, topology, gang.need()))
        };
        (GangOutcome::Short { fitted: best, failed: None }, Some(GangRefusal { cause, never }))
    }

    /// Tries sets of domains one after the other; `best` is the most members that any had room for.
    fn sets_tried(
        &mut self,
        (members, gang): (&[PendingTask], &PendingGang),
        topology: &GangTopology,
        sets: Vec<Vec<u32>>,
        attempt: &GangTrial,
        best: &mut u32,
    ) -> Option<Vec<PlannedPlacement>> {
        let key = self.tables.nodes.texts.known(&topology.attribute)?;
        let resident = self.resident(gang.job, topology);
        for set in sets {
            let fresh = set.iter().filter(|value| !resident.contains(value) && topology.domains_min > 1);
            let first: Vec<DomainSetId> = fresh.map(|&value| self.domain_sets.of(key, vec![value])).collect();
            let rest = Some(self.domain_sets.of(key, set.clone()));
            match self.gang_tried(members, gang, &GangTrial { first, rest, evicts: attempt.evicts }) {
                GangOutcome::Whole(placements) => {
                    let used = placements.iter().filter_map(|placement| {
                        let node = self.tables.nodes.ordinal(placement.node)?;
                        self.tables.nodes.attribute(node, key)
                    });
                    self.domain_sets.resident.entry(gang.job).or_default().extend(used);
                    return Some(placements);
                }
                GangOutcome::Short { fitted, .. } => *best = fitted.max(*best),
            }
        }
        None
    }

    /// What a task that is placed alone is kept to, since others of its gang stand already.
    pub(super) fn domain_set_alone(&mut self, pending: PendingTask) -> Option<DomainSetId> {
        let spec = self.tables.job_spec(pending.task.job)?;
        let topology = spec.gang_topology().filter(|topology| !topology.preferred)?;
        let key = self.tables.nodes.texts.known(&topology.attribute).unwrap_or(u32::MAX);
        let resident = self.resident(pending.task.job, topology);
        let most = topology.domains_max as usize;
        let values = if resident.len() >= most { resident.into_iter().collect() } else { Vec::new() };
        Some(self.domain_sets.of(key, values))
    }

    /// Notes where a task that was placed alone stands.
    pub(super) fn domain_set_taken(&mut self, domain_set: DomainSetId, placement: &PlannedPlacement) {
        let Some(&(key, _)) = self.domain_sets.known.get(domain_set as usize) else { return };
        let Some(node) = self.tables.nodes.ordinal(placement.node) else { return };
        let resident = self.domain_sets.resident.entry(placement.task.job).or_default();
        resident.extend(self.tables.nodes.attribute(node, key));
    }

    /// The domains in which members of a job stand.
    fn resident(&mut self, job: JobId, topology: &GangTopology) -> BTreeSet<u32> {
        if let Some(known) = self.domain_sets.resident.get(&job) {
            return known.clone();
        }
        let nodes = &self.tables.nodes;
        let key = nodes.texts.known(&topology.attribute);
        let entry = self.tables.jobs.get(&job);
        let slots = entry.into_iter().flat_map(|entry| &entry.tasks).filter(|slot| slot.stands());
        let values = slots.filter_map(|slot| nodes.attribute(nodes.ordinal(slot.node?)?, key?));
        let values: BTreeSet<u32> = values.collect();
        self.domain_sets.resident.insert(job, values.clone());
        values
    }

    /// What the parts of a gang ask for.
    fn asked(&self, members: &[PendingTask], gang: &PendingGang) -> Vec<DomainDemand> {
        let part = |part: &GangPart| {
            let mut shapes: BTreeMap<ShapeId, u64> = BTreeMap::new();
            let of_part = |member: &&PendingTask| (part.first..part.end).contains(&member.task.index);
            for member in members.iter().filter(of_part) {
                let class = self.queue.classes.get(member.class as usize);
                class.into_iter().for_each(|class| *shapes.entry(class.shape).or_default() += 1);
            }
            DomainDemand { need: u64::from(part.need), shapes }
        };
        gang.parts.iter().map(part).collect()
    }

    /// The room of every domain for what is asked, as the plan stands, or before it.
    fn domains(&mut self, asked: &[DomainDemand], key: Option<u32>, clear: bool) -> Vec<Domain> {
        let Some(key) = key else { return Vec::new() };
        for &shape in asked.iter().flat_map(|part| part.shapes.keys()) {
            let work = if clear { &self.clear } else { &self.work };
            let rooms = if clear { &mut self.domain_sets.rooms_clear } else { &mut self.domain_sets.rooms };
            match rooms.get_mut(&(shape, key)) {
                Some(rooms) => rooms.follow(work, key, self.now_ms),
                None => {
                    let Some(made) = self.tables.shapes.get(shape) else { continue };
                    let requirement = Requirement::of(made, self.tables);
                    rooms.insert((shape, key), DomainCapacity::made(work, requirement, key, self.now_ms));
                }
            }
        }
        let rooms = if clear { &self.domain_sets.rooms_clear } else { &self.domain_sets.rooms };
        let room = |shape: ShapeId, value| rooms.get(&(shape, key)).map_or(0, |rooms| rooms.of_domain(value));
        let domain = |(value, _): (u32, &[u32])| {
            let part = |part: &DomainDemand| {
                let capped = part.shapes.iter().map(|(&shape, &members)| room(shape, value).min(members));
                capped.fold(0, u64::saturating_add)
            };
            let shapes = asked.iter().flat_map(|part| part.shapes.keys());
            Domain {
                value,
                parts: asked.iter().map(part).collect(),
                room: shapes.map(|&shape| room(shape, value)).fold(0, u64::saturating_add),
                evicting: 0,
            }
        };
        self.tables.nodes.index.values_of(key).map(domain).collect()
    }

    /// The room of every domain once everything has gone that may be made to; `domains` have what there is without
    /// that.
    fn domains_cleared(
        &mut self,
        asked: &[DomainDemand],
        key: u32,
        domains: &[Domain],
        (scope, need): (PreemptionScope, u64),
        clear: bool,
    ) -> Vec<Domain> {
        let shapes: BTreeSet<ShapeId> = asked.iter().flat_map(|part| part.shapes.keys().copied()).collect();
        let mut rooms: BTreeMap<(ShapeId, u32), u64> = BTreeMap::new();
        let mut none = Evictions::default();
        for &id in &shapes {
            let Some(shape) = self.tables.shapes.get(id) else { continue };
            let mut requirement = Requirement::of(shape, self.tables);
            requirement.rules.rules.clear();
            let fresh_ms = self.tables.settings.fresh_start_ms();
            let (work, evictions) = match clear {
                true => (&mut self.clear, &mut none),
                false => (&mut self.work, &mut self.evictions),
            };
            let claim = scope.claim(work, &Resources::default());
            let (below, claim, now_ms) = (scope.below, claim.as_ref(), self.now_ms);
            let ask = PreemptionRequest { requirement: &requirement, below, claim, now_ms, fresh_ms };
            for (value, nodes) in self.tables.nodes.index.values_of(key) {
                let room = nodes.iter().map(|&node| copies_at_most(work, evictions, &ask, node));
                rooms.insert((id, value), room.fold(0, u64::saturating_add));
            }
        }
        self.evictions.examined += none.examined;
        let room = |shape: ShapeId, value| rooms.get(&(shape, value)).copied().unwrap_or(0);
        let cleared = |domain: &Domain| {
            let part = |part: &DomainDemand| {
                let capped =
                    part.shapes.iter().map(|(&shape, &members)| room(shape, domain.value).min(members));
                capped.fold(0, u64::saturating_add)
            };
            let fitted = domain.parts.iter().fold(0, |sum: u64, &room| sum.saturating_add(room));
            Domain {
                value: domain.value,
                parts: asked.iter().map(part).collect(),
                room: shapes.iter().map(|&shape| room(shape, domain.value)).fold(0, u64::saturating_add),
                evicting: need.saturating_sub(fitted),
            }
        };
        domains.iter().map(cleared).collect()
    }

    /// The sets of domains that suffice by the bound, in the order in which they are tried: those of the fewest
    /// domains, where fewest have to give way, with the least room, and among equals by chance.
    fn sets(
        &self,
        asked: &[DomainDemand],
        domains: &[Domain],
        topology: &GangTopology,
        resident: &BTreeSet<u32>,
    ) -> Vec<Vec<u32>> {
        let fixed: Vec<&Domain> = domains.iter().filter(|domain| resident.contains(&domain.value)).collect();
        let empty = |domain: &&Domain| domain.parts.iter().all(|&room| room == 0);
        let others = domains.iter().filter(|domain| !resident.contains(&domain.value) && !empty(domain));
        let mut others: Vec<&Domain> = others.collect();
        others.sort_by_cached_key(|domain| (domain.evicting, domain.room, self.domain_chance(domain.value)));
        let mut roomy = others.clone();
        roomy.sort_by_cached_key(|domain| (domain.room, self.domain_chance(domain.value)));
        let values = |set: &[&Domain]| set.iter().map(|domain| domain.value).collect::<Vec<u32>>();
        let (least, most) = (topology.domains_min as usize, topology.domains_max as usize);
        for count in least.max(fixed.len()).max(1)..=most.max(fixed.len()) {
            let with = |more: &[&'_ Domain]| -> Option<Vec<u32>> {
                let set: Vec<&Domain> = fixed.iter().copied().chain(more.iter().copied()).collect();
                suffice(asked, set.iter().copied()).then(|| values(&set))
            };
            let sets: Vec<Vec<u32>> = match count - fixed.len() {
                0 => with(&[]).into_iter().collect(),
                1 => others.iter().filter_map(|&other| with(&[other])).take(TRIES_MAX).collect(),
                more => roomy
                    .len()
                    .checked_sub(more)
                    .and_then(|from| with(roomy.get(from..)?))
                    .into_iter()
                    .collect(),
            };
            if !sets.is_empty() {
                return sets;
            }
        }
        Vec::new()
    }

    /// Chance, the same in whatever order the tables was filled; workers of different parts of the cell begin
    /// elsewhere.
    fn domain_chance(&self, value: u32) -> (u64, &str) {
        let text = self.tables.nodes.texts.text(value).unwrap_or_default();
        let seed = mixed(self.start_offset.seed ^ u64::from(self.start_offset.part));
        (bytes_mixed(seed, text.bytes()), text)
    }

    /// What keeps a gang waiting for domains: those with most room, and for how many members they have room.
    fn domains_short(
        &self,
        asked: &[DomainDemand],
        domains: &[Domain],
        topology: &GangTopology,
        needed: u32,
    ) -> DomainsShort {
        let fitted_by =
            |domain: &Domain| domain.parts.iter().fold(0, |sum: u64, &room| sum.saturating_add(room));
        let mut roomy: Vec<&Domain> = domains.iter().collect();
        roomy.sort_by_cached_key(|domain| (Reverse(fitted_by(domain)), self.domain_chance(domain.value)));
        roomy.truncate(topology.domains_max as usize);
        roomy.retain(|domain| fitted_by(domain) > 0);
        let of_part =
            |(part, asked): (usize, &DomainDemand)| room_of_part(roomy.iter().copied(), part).min(asked.need);
        let fitted: u64 = asked.iter().enumerate().map(of_part).sum();
        let name =
            |domain: &&Domain| self.tables.nodes.texts.text(domain.value).unwrap_or_default().to_owned();
        DomainsShort {
            attribute: topology.attribute.clone(),
            domains_max: topology.domains_max,
            domains: u32::try_from(domains.len()).unwrap_or(u32::MAX),
            needed,
            nearest: roomy.iter().map(name).collect(),
            fitted: u32::try_from(fitted).unwrap_or(u32::MAX),
        }
    }

    /// How many members at most the cell could hold, were it empty, where that is fewer than a gang needs.
    pub(super) fn gang_most(&self, gang: &PendingGang, members: &[PendingTask]) -> Option<u64> {
        let topology = self.tables.job_spec(gang.job)?.gang_topology().filter(|topology| !topology.preferred);
        let nodes = &self.tables.nodes;
        let mut most = 0u64;
        for asked in self.asked(members, gang) {
            // The bound of members that differ would be that of the smallest: rarely one worth telling.
            let [shape] = asked.shapes.keys().copied().collect::<Vec<ShapeId>>()[..] else { return None };
            let requirement = Requirement::of(self.tables.shapes.get(shape)?, self.tables);
            let room = |&node: &u32| copies_empty(&self.clear, &requirement, node);
            let sum = |of: &[u32]| of.iter().map(room).fold(0, u64::saturating_add);
            let room = match topology {
                None => sum(&nodes.order),
                Some(topology) => {
                    let key = nodes.texts.known(&topology.attribute).unwrap_or(u32::MAX);
                    let mut rooms: Vec<u64> = nodes.index.values_of(key).map(|(_, of)| sum(of)).collect();
                    rooms.sort_unstable_by_key(|&room| Reverse(room));
                    rooms
                        .iter()
                        .take(topology.domains_max as usize)
                        .fold(0u64, |all, &room| all.saturating_add(room))
                }
            };
            most = most.saturating_add(room.min(asked.need));
        }
        (most < u64::from(gang.need())).then_some(most)
    }

    /// The search of a class in a domain set.
    pub(super) fn plan_on(&mut self, class: u32, domain_set: Option<DomainSetId>) -> Option<PlanOf> {
        let anywhere = *self.plan_of.get(class as usize)?;
        let Some(domain_set) = domain_set else { return Some(anywhere) };
        if let Some(&known) = self.domain_sets.plans.get(&(anywhere.number, domain_set)) {
            return Some(known);
        }
        let mut shape: Shape = (**self.tables.shapes.get(anywhere.shape)?).clone();
        let (key, values) = self.domain_sets.known.get(domain_set as usize)?;
        let texts = &self.tables.nodes.texts;
        let operator = if values.is_empty() { ConstraintOperator::Exists } else { ConstraintOperator::In };
        shape.constraints.push(Constraint {
            attribute: texts.text(*key).unwrap_or_default().to_owned(),
            operator,
            values: values.iter().filter_map(|&value| texts.text(value)).map(str::to_owned).collect(),
            preference: None,
        });
        self.domain_sets.shapes.push(Arc::new(shape));
        let shape = SHAPES_FIRST.saturating_add(u32::try_from(self.domain_sets.shapes.len() - 1).ok()?);
        let made = PlanOf { number: self.plans.len(), shape, ..anywhere };
        self.plans.push(None);
        self.members.push(self.members.get(anywhere.number).copied().unwrap_or(1));
        self.domain_sets.plans.insert((anywhere.number, domain_set), made);
        Some(made)
    }
}

impl DomainSets {
    /// The number of a set of domains.
    fn of(&mut self, key: u32, mut values: Vec<u32>) -> DomainSetId {
        values.sort_unstable();
        let domain_set = (key, values);
        let known = self.known.iter().position(|known| *known == domain_set);
        let at = known.unwrap_or_else(|| {
            self.known.push(domain_set);
            self.known.len() - 1
        });
        DomainSetId::try_from(at).unwrap_or(DomainSetId::MAX)
    }

    /// The shape of a class in a domain set; `None` for the number of any other shape.
    pub fn shape(&self, id: ShapeId) -> Option<&Arc<Shape>> {
        self.shapes.get(id.checked_sub(SHAPES_FIRST)? as usize)
    }
}

/// Whether a shape is that of a class in a domain set: what is found out about it is of no use to later plans.
pub(super) fn on_domain_set(id: ShapeId) -> bool {
    id >= SHAPES_FIRST
}

/// The candidates of a class in a domain set.
pub(super) fn candidates_on_domain_set(
    shape: &Arc<Shape>,
    requirement: &Requirement,
    work: &PlanOverlay<'_>,
    start_offset: StartOffset,
    scorer: &Arc<Scorer>,
) -> CandidateCache {
    let seed = mixed(start_offset.seed ^ shape.seed());
    let order = NodeOrder::new(work.nodes.count(), StartOffset::whole(start_offset.seed), seed);
    CandidateCache::new(Arc::clone(shape), requirement, work, (order, seed), Arc::clone(scorer))
}
