//! Gangs with a topology: they must fit within few failure domains. A count per node, which follows what the plan
//! takes, bounds the members that a domain could take. The plan tries the sets of domains that suffice by this bound.
//! The fullest comes first, so that emptier ones stay free for larger gangs. If none suffices, it tries those that
//! would after evictions, the set with the fewest evictions first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::GangTopology;
use borough_model::{JobId, Resources};

use super::domain_capacity::DomainCapacity;
use super::domain_set::DomainSetId;
use super::gang::{GangOutcome, GangRefusal, GangTrial};
use super::{
    DomainsShort, GangCause, PendingGang, PendingTask, PlanInput, PlanOverlays, PlannedPlacement, Planner,
};
use crate::filter::{Requirement, copies_empty};
use crate::preempt::{Evictions, PreemptionRequest, PreemptionScope, copies_after_evictions};
use crate::seed::{bytes_mixed, mixed};
use crate::tables::{CellTables, GangPart, ShapeId};

/// At most this many sets of domains that suffice by the bound are tried. If rules between tasks refuse all of them,
/// the gang waits for a change.
const TRIES_MAX: usize = 8;

/// What a plan knows about domains for gangs.
#[derive(Default)]
pub(super) struct GangDomains {
    /// How many members of a shape each domain of an attribute could take, as the plan has left it.
    capacity: BTreeMap<(ShapeId, u32), DomainCapacity>,
    /// The same before the plan placed anything.
    capacity_before: BTreeMap<(ShapeId, u32), DomainCapacity>,
    /// The domains in which members of a job are placed.
    resident: BTreeMap<JobId, BTreeSet<u32>>,
}

/// The state of the cell in which capacity is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CapacityOf {
    /// As the plan has left it.
    Plan,
    /// Before the plan placed anything.
    Tables,
}

/// What one role of a gang asks of a set of domains: members in all, and of each shape.
struct DomainDemand {
    need: u64,
    shapes: BTreeMap<ShapeId, u64>,
}

fn shapes_of(asked: &[DomainDemand]) -> BTreeSet<ShapeId> {
    asked.iter().flat_map(|part| part.shapes.keys().copied()).collect()
}

/// The capacity of a domain for a gang.
struct Domain {
    value: u32,
    parts: Vec<u64>,
    capacity: u64,
    /// How many members fit only after evictions.
    evicting: u64,
}

/// The trial of a gang in sets of domains.
#[derive(Clone, Copy)]
struct DomainTrial<'a> {
    members: &'a [PendingTask],
    gang: &'a PendingGang,
    topology: &'a GangTopology,
    /// True if it may evict.
    evicts: bool,
}

/// The evictions that a gang may ask for.
struct GangAsk {
    scope: PreemptionScope,
    /// How many members it still needs.
    need: u64,
}

/// Returns true if the domains together could take every role.
fn suffice<'d>(asked: &[DomainDemand], domains: impl Iterator<Item = &'d Domain> + Clone) -> bool {
    asked.iter().enumerate().all(|(part, asked)| part_capacity(domains.clone(), part) >= asked.need)
}

fn part_capacity<'d>(domains: impl Iterator<Item = &'d Domain>, part: usize) -> u64 {
    domains.filter_map(|domain| domain.parts.get(part)).fold(0, |sum, &capacity| sum.saturating_add(capacity))
}

impl GangDomains {
    /// The domains in which members of a job are placed.
    fn resident(&mut self, tables: &CellTables, job: JobId, topology: &GangTopology) -> BTreeSet<u32> {
        let placed = || {
            let nodes = &tables.nodes;
            let key = nodes.texts.known(&topology.attribute);
            let entry = tables.jobs.get(&job);
            let slots =
                entry.into_iter().flat_map(|entry| &entry.tasks).filter(|slot| slot.counts_for_gang());
            slots.filter_map(|slot| nodes.attribute(nodes.ordinal(slot.node?)?, key?)).collect()
        };
        self.resident.entry(job).or_insert_with(placed).clone()
    }

    /// Records the domain of a placed member. `key` names the domains.
    pub(super) fn task_placed(&mut self, tables: &CellTables, placement: &PlannedPlacement, key: u32) {
        let Some(node) = tables.nodes.ordinal(placement.node) else { return };
        let resident = self.resident.entry(placement.task.job).or_default();
        resident.extend(tables.nodes.attribute(node, key));
    }

    /// The capacity of every domain for the gang.
    fn domains(
        &mut self,
        input: PlanInput<'_>,
        overlays: &PlanOverlays<'_>,
        asked: &[DomainDemand],
        key: u32,
        of: CapacityOf,
    ) -> Vec<Domain> {
        let (overlay, capacity) = match of {
            CapacityOf::Plan => (&overlays.current, &mut self.capacity),
            CapacityOf::Tables => (&overlays.without_placements, &mut self.capacity_before),
        };
        let shapes = shapes_of(asked);
        for &shape in &shapes {
            match capacity.get_mut(&(shape, key)) {
                Some(known) => known.follow(overlay, key, input.now_ms),
                None => {
                    let Some(made) = input.tables.shapes.get(shape) else { continue };
                    let requirement = Requirement::of(made, input.tables);
                    capacity
                        .insert((shape, key), DomainCapacity::made(overlay, requirement, key, input.now_ms));
                }
            }
        }
        let capacity = |shape, value| capacity.get(&(shape, key)).map_or(0, |known| known.of_domain(value));
        let domain = |(value, _): (u32, &[u32])| Domain::of(value, asked, &shapes, &capacity);
        input.tables.nodes.index.values_of(key).map(domain).collect()
    }
}

impl Domain {
    /// A domain with this capacity for each shape.
    fn of(
        value: u32,
        asked: &[DomainDemand],
        shapes: &BTreeSet<ShapeId>,
        capacity: &impl Fn(ShapeId, u32) -> u64,
    ) -> Self {
        let part = |part: &DomainDemand| {
            let capped = part.shapes.iter().map(|(&shape, &members)| capacity(shape, value).min(members));
            capped.fold(0, u64::saturating_add)
        };
        Self {
            value,
            parts: asked.iter().map(part).collect(),
            capacity: shapes.iter().map(|&shape| capacity(shape, value)).fold(0, u64::saturating_add),
            evicting: 0,
        }
    }

    /// How many members of any role it could take.
    fn fitted(&self) -> u64 {
        self.parts.iter().fold(0, |sum: u64, &capacity| sum.saturating_add(capacity))
    }
}

impl Planner<'_, '_> {
    /// Places a gang within the domains that its topology allows, by evictions if it may. Otherwise returns why it does
    /// not fit.
    pub(super) fn gang_topology(
        &mut self,
        members: &[PendingTask],
        gang: &PendingGang,
        topology: &GangTopology,
        evicts: bool,
    ) -> (GangOutcome, Option<GangRefusal>) {
        let tables = self.input.tables;
        let key = tables.nodes.texts.known(&topology.attribute);
        let resident = self.gang_domains.resident(tables, gang.job, topology);
        let asked = self.asked(members, gang);
        let mut best = 0;
        let domains = self.domains(&asked, key, CapacityOf::Plan);
        let sets = self.sets(&asked, &domains, topology, &resident);
        let freely = DomainTrial { members, gang, topology, evicts: false };
        if let Some(placements) = self.sets_tried(&freely, sets, &mut best) {
            return (GangOutcome::Placed(placements), None);
        }
        if topology.preferred {
            return (self.gang_tried(members, gang, &GangTrial { evicts, ..GangTrial::default() }), None);
        }
        let ask = GangAsk { scope: self.gang_scope(members), need: u64::from(gang.need()) };
        if let Some(key) = key.filter(|_| evicts) {
            let after = self.domains_after_evictions(&asked, key, &domains, &ask, CapacityOf::Plan);
            let sets = self.sets(&asked, &after, topology, &resident);
            let evicting = DomainTrial { evicts, ..freely };
            if let Some(placements) = self.sets_tried(&evicting, sets, &mut best) {
                return (GangOutcome::Placed(placements), None);
            }
        }
        let never = self.placements.is_empty() || {
            let mut before = self.domains(&asked, key, CapacityOf::Tables);
            if let Some(key) = key.filter(|_| evicts) {
                before = self.domains_after_evictions(&asked, key, &before, &ask, CapacityOf::Tables);
            }
            self.sets(&asked, &before, topology, &resident).is_empty()
        };
        let cause = if resident.len() >= topology.domains_max as usize {
            GangCause::DomainsTaken
        } else {
            let nearest = self.nearest(&domains, topology);
            let mut short = self.domains_short(&asked, &domains, &nearest, topology, gang.need());
            if asked.len() > 1 {
                // The bounds of several roles count the same free room once for each of them.
                let seen = if best > 0 { best } else { self.fitted(&freely, &asked, key, &nearest) };
                short.fitted = short.fitted.min(seen);
            }
            GangCause::DomainsShort(short)
        };
        (GangOutcome::Short { fitted: best, failed: None }, Some(GangRefusal { cause, never }))
    }

    fn domains(&mut self, asked: &[DomainDemand], key: Option<u32>, of: CapacityOf) -> Vec<Domain> {
        let domains = |key| self.gang_domains.domains(self.input, &self.overlays, asked, key, of);
        key.map(domains).unwrap_or_default()
    }

    /// Tries sets of domains one after the other. `best` becomes the most members that fitted in any.
    fn sets_tried(
        &mut self,
        trial: &DomainTrial<'_>,
        sets: Vec<Vec<u32>>,
        best: &mut u32,
    ) -> Option<Vec<PlannedPlacement>> {
        let &DomainTrial { members, gang, topology, evicts } = trial;
        let tables = self.input.tables;
        let key = tables.nodes.texts.known(&topology.attribute)?;
        let resident = self.gang_domains.resident(tables, gang.job, topology);
        for set in sets {
            let known = &mut self.searches.domain_sets;
            let fresh = set.iter().filter(|value| !resident.contains(value) && topology.domains_min > 1);
            let first: Vec<DomainSetId> = fresh.map(|&value| known.of(key, vec![value])).collect();
            let rest = Some(known.of(key, set.clone()));
            match self.gang_tried(members, gang, &GangTrial { first, rest, evicts }) {
                GangOutcome::Placed(placements) => {
                    for placement in &placements {
                        self.gang_domains.task_placed(tables, placement, key);
                    }
                    return Some(placements);
                }
                GangOutcome::Short { fitted, .. } => *best = fitted.max(*best),
            }
        }
        None
    }

    /// The domain set of a task that is placed alone, because other members of its gang are placed already.
    pub(super) fn domain_set_alone(&mut self, pending: PendingTask) -> Option<DomainSetId> {
        let tables = self.input.tables;
        let spec = tables.plan_spec(pending.task.job)?;
        let topology = spec.gang_topology().filter(|topology| !topology.preferred)?;
        let key = tables.nodes.texts.known(&topology.attribute).unwrap_or(u32::MAX);
        let resident = self.gang_domains.resident(tables, pending.task.job, topology);
        let most = topology.domains_max as usize;
        let values = if resident.len() >= most { resident.into_iter().collect() } else { Vec::new() };
        Some(self.searches.domain_sets.of(key, values))
    }

    /// The demand of each role of a gang.
    fn asked(&self, members: &[PendingTask], gang: &PendingGang) -> Vec<DomainDemand> {
        let part = |part: &GangPart| {
            let mut shapes: BTreeMap<ShapeId, u64> = BTreeMap::new();
            let of_part = |member: &&PendingTask| (part.first..part.end).contains(&member.task.index);
            for member in members.iter().filter(of_part) {
                let class = self.input.class(*member);
                class.into_iter().for_each(|class| *shapes.entry(class.shape).or_default() += 1);
            }
            DomainDemand { need: u64::from(part.need), shapes }
        };
        gang.parts.iter().map(part).collect()
    }

    /// The capacity of every domain after all possible evictions. `domains` have the capacity without evictions.
    fn domains_after_evictions(
        &mut self,
        asked: &[DomainDemand],
        key: u32,
        domains: &[Domain],
        gang: &GangAsk,
        of: CapacityOf,
    ) -> Vec<Domain> {
        let tables = self.input.tables;
        let shapes = shapes_of(asked);
        let mut capacities: BTreeMap<(ShapeId, u32), u64> = BTreeMap::new();
        let mut none = Evictions::default();
        for &id in &shapes {
            let Some(shape) = tables.shapes.get(id) else { continue };
            let mut requirement = Requirement::of(shape, tables);
            requirement.rules.rules.clear();
            let fresh_ms = tables.settings.fresh_start_ms();
            let (overlay, evictions) = match of {
                CapacityOf::Tables => (&mut self.overlays.without_placements, &mut none),
                CapacityOf::Plan => (&mut self.overlays.current, &mut self.preemptions.evictions),
            };
            let claim = gang.scope.claim(overlay, &Resources::default());
            let (below, claim, now_ms) = (gang.scope.below, claim.as_ref(), self.input.now_ms);
            let ask = PreemptionRequest { requirement: &requirement, below, claim, now_ms, fresh_ms };
            for (value, nodes) in tables.nodes.index.values_of(key) {
                let capacity =
                    nodes.iter().map(|&node| copies_after_evictions(overlay, evictions, &ask, node));
                capacities.insert((id, value), capacity.fold(0, u64::saturating_add));
            }
        }
        self.preemptions.evictions.examined += none.examined;
        let capacity = |shape, value| capacities.get(&(shape, value)).copied().unwrap_or(0);
        let after = |domain: &Domain| Domain {
            evicting: gang.need.saturating_sub(domain.fitted()),
            ..Domain::of(domain.value, asked, &shapes, &capacity)
        };
        domains.iter().map(after).collect()
    }

    /// The sets of domains that suffice by the bound, in the order in which they are tried. Fewer domains come first,
    /// then fewer evictions, then less free capacity. Chance decides among equals.
    fn sets(
        &self,
        asked: &[DomainDemand],
        domains: &[Domain],
        topology: &GangTopology,
        resident: &BTreeSet<u32>,
    ) -> Vec<Vec<u32>> {
        let fixed: Vec<&Domain> = domains.iter().filter(|domain| resident.contains(&domain.value)).collect();
        let empty = |domain: &&Domain| domain.parts.iter().all(|&capacity| capacity == 0);
        let others = domains.iter().filter(|domain| !resident.contains(&domain.value) && !empty(domain));
        let mut others: Vec<&Domain> = others.collect();
        others.sort_by_cached_key(|domain| {
            (domain.evicting, domain.capacity, self.domain_chance(domain.value))
        });
        let mut emptiest = others.clone();
        emptiest.sort_by_cached_key(|domain| (domain.capacity, self.domain_chance(domain.value)));
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
                more => emptiest
                    .len()
                    .checked_sub(more)
                    .and_then(|from| with(emptiest.get(from..)?))
                    .into_iter()
                    .collect(),
            };
            if !sets.is_empty() {
                return sets;
            }
        }
        Vec::new()
    }

    /// A chance that does not depend on the order in which the tables were filled. Workers with different parts of the
    /// cell begin with different domains.
    fn domain_chance(&self, value: u32) -> (u64, &str) {
        let text = self.input.tables.nodes.texts.text(value).unwrap_or_default();
        let seed = mixed(self.input.start_offset.seed ^ u64::from(self.input.start_offset.part));
        (bytes_mixed(seed, text.bytes()), text)
    }

    /// The domains that could take most members.
    fn nearest<'d>(&self, domains: &'d [Domain], topology: &GangTopology) -> Vec<&'d Domain> {
        let mut emptiest: Vec<&Domain> = domains.iter().collect();
        emptiest.sort_by_cached_key(|domain| (Reverse(domain.fitted()), self.domain_chance(domain.value)));
        emptiest.truncate(topology.domains_max as usize);
        emptiest.retain(|domain| domain.fitted() > 0);
        emptiest
    }

    /// How many members a trial places in domains that do not suffice by the bound.
    fn fitted(
        &mut self,
        trial: &DomainTrial<'_>,
        asked: &[DomainDemand],
        key: Option<u32>,
        domains: &[&Domain],
    ) -> u32 {
        let Some(key) = key.filter(|_| !suffice(asked, domains.iter().copied())) else { return u32::MAX };
        let set = domains.iter().map(|domain| domain.value).collect();
        let rest = Some(self.searches.domain_sets.of(key, set));
        match self.gang_tried(trial.members, trial.gang, &GangTrial { rest, ..GangTrial::default() }) {
            GangOutcome::Short { fitted, .. } => fitted,
            GangOutcome::Placed(_) => u32::MAX,
        }
    }

    /// Why a gang waits for domains, and how many members the `nearest` of them could take by the bound.
    fn domains_short(
        &self,
        asked: &[DomainDemand],
        domains: &[Domain],
        nearest: &[&Domain],
        topology: &GangTopology,
        needed: u32,
    ) -> DomainsShort {
        let of_part = |(part, asked): (usize, &DomainDemand)| {
            part_capacity(nearest.iter().copied(), part).min(asked.need)
        };
        let fitted: u64 = asked.iter().enumerate().map(of_part).sum();
        let name = |domain: &&Domain| {
            self.input.tables.nodes.texts.text(domain.value).unwrap_or_default().to_owned()
        };
        DomainsShort {
            attribute: topology.attribute.clone(),
            domains_max: topology.domains_max,
            domains: u32::try_from(domains.len()).unwrap_or(u32::MAX),
            needed,
            nearest: nearest.iter().map(name).collect(),
            fitted: u32::try_from(fitted).unwrap_or(u32::MAX),
        }
    }

    /// How many members of a gang the empty cell could hold, if that is fewer than it needs.
    pub(super) fn members_max_empty(&self, gang: &PendingGang, members: &[PendingTask]) -> Option<u64> {
        let topology =
            self.input.tables.plan_spec(gang.job)?.gang_topology().filter(|topology| !topology.preferred);
        let nodes = &self.input.tables.nodes;
        let mut most = 0u64;
        for asked in self.asked(members, gang) {
            // Members of different shapes have no useful bound: it would be that of the smallest.
            let [shape] = asked.shapes.keys().copied().collect::<Vec<ShapeId>>()[..] else { return None };
            let requirement = Requirement::of(self.input.tables.shapes.get(shape)?, self.input.tables);
            let capacity = |&node: &u32| copies_empty(&self.overlays.without_placements, &requirement, node);
            let sum = |of: &[u32]| of.iter().map(capacity).fold(0, u64::saturating_add);
            let capacity = match topology {
                None => sum(&nodes.order),
                Some(topology) => {
                    let key = nodes.texts.known(&topology.attribute).unwrap_or(u32::MAX);
                    let mut capacities: Vec<u64> =
                        nodes.index.values_of(key).map(|(_, of)| sum(of)).collect();
                    capacities.sort_unstable_by_key(|&capacity| Reverse(capacity));
                    capacities
                        .iter()
                        .take(topology.domains_max as usize)
                        .fold(0u64, |all, &capacity| all.saturating_add(capacity))
                }
            };
            most = most.saturating_add(capacity.min(asked.need));
        }
        (most < u64::from(gang.need())).then_some(most)
    }
}
