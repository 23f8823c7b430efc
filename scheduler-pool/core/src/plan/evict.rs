//! The part of a plan that evicts: it places a task that fits nowhere on a node where victims make place for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::TaskId;
use borough_model::task::{Evicted, PortAssignment};
use smallvec::SmallVec;

use super::charge::charge_on;
use super::domain_set::DomainSetId;
use super::token::{TermToken, dependencies, tokens};
use super::{PendingClass, PendingTask, PlannedPlacement, Planner, placement_new};
use crate::count::CountChange;
use crate::filter::{Requirement, ports_given};
use crate::overlay::PlanOverlay;
use crate::preempt::{
    Evictions, HypotheticalRemoval, Offer, PreemptionRequest, PreemptionScope, Victim, VictimSearch, leaving,
    with_removed,
};
use crate::queueing::{Claim, Shares};
use crate::tables::{CellTables, PlanSpec, ResidentState, ShapeId};

/// The victim search for one shape and scope.
#[derive(Clone, Debug)]
struct PlannedPreemption {
    requirement: Arc<Requirement>,
    victim_search: VictimSearch,
    /// True if the search has ended and has no offer left.
    exhausted: bool,
    /// The version of the shares at its beginning.
    shares_at: u64,
}

fn shares_version(overlay: &PlanOverlay<'_>) -> u64 {
    overlay.shares.as_ref().map_or(0, Shares::version)
}

/// A shape with its preemption scope.
type PreemptionKey = (ShapeId, PreemptionScope);

/// The evictions of a plan, and its victim searches.
#[derive(Default)]
pub(super) struct Preemptions {
    searches: BTreeMap<PreemptionKey, PlannedPreemption>,
    pub evictions: Evictions,
}

impl Preemptions {
    /// Returns true if a search of this generation has begun. A claim that compares all nodes begins again once the
    /// shares have changed: any offer may cost more or less then. In larger cells only the best offer is checked again.
    fn begun(&self, key: PreemptionKey, overlay: &PlanOverlay<'_>) -> bool {
        self.searches.get(&key).is_some_and(|preemption| {
            let PlannedPreemption { victim_search, shares_at, .. } = preemption;
            let claims_all = key.1.queue > 0 && victim_search.compares_all();
            victim_search.generation == overlay.generation
                && (!claims_all || *shares_at == shares_version(overlay))
        })
    }

    /// Returns true if the search has no offer left.
    fn exhausted(&self, key: PreemptionKey) -> bool {
        self.searches.get(&key).is_some_and(|preemption| preemption.exhausted)
    }

    /// The scope of a class, if no eviction in it helps any more.
    pub(super) fn none_left(&self, class: &PendingClass) -> Option<PreemptionScope> {
        let keys = [(class.shape, class.scope), (class.shape, class.scope.without_claim())];
        keys.into_iter().any(|key| self.exhausted(key)).then_some(class.scope)
    }

    /// The offer with the least cost. A search without one is marked exhausted.
    fn best(
        &mut self,
        overlay: &mut PlanOverlay<'_>,
        key: PreemptionKey,
        claim: Option<&Claim>,
        now_ms: i64,
    ) -> Option<Offer> {
        let Self { searches, evictions } = self;
        let preemption = searches.get_mut(&key)?;
        if preemption.exhausted && preemption.victim_search.up_to_date(evictions) {
            return None;
        }
        let fresh_ms = overlay.tables.settings.fresh_start_ms();
        let (requirement, below) = (&preemption.requirement, key.1.below);
        let ask = PreemptionRequest { requirement, below, claim, now_ms, fresh_ms };
        let offer = preemption.victim_search.best(overlay, evictions, &ask);
        preemption.exhausted |= offer.is_none();
        offer
    }
}

/// A number for each port of a spec. Ports without a fixed number get one of `dynamic`.
pub(super) fn ports_named(
    spec: &PlanSpec,
    dynamic: impl IntoIterator<Item = u16>,
) -> Option<Vec<PortAssignment>> {
    let mut dynamic = dynamic.into_iter();
    let named = spec.ports.iter().map(|port| {
        let number = port.number.or_else(|| dynamic.next())?;
        Some(PortAssignment { name: port.name.clone(), number })
    });
    named.collect()
}

impl Planner<'_, '_> {
    /// Places a single task by evictions. Once the plan has examined enough tasks for victims, no further search
    /// begins.
    pub(super) fn preempted_alone(
        &mut self,
        pending: PendingTask,
        domain_set: Option<DomainSetId>,
    ) -> Option<PlannedPlacement> {
        let (key, _) = self.preemption_of(pending, domain_set)?;
        let begins = !self.preemptions.begun(key, &self.overlays.current);
        let evictions = &self.preemptions.evictions;
        if key.1.any() && (evictions.full() || (begins && evictions.spent())) {
            self.preemption_cut = true;
            return None;
        }
        self.preempted(pending, domain_set)
    }

    /// Places a task by evictions, in a domain set or anywhere. [`Planner::returned`] takes it back like any other
    /// placement.
    pub(super) fn preempted(
        &mut self,
        pending: PendingTask,
        domain_set: Option<DomainSetId>,
    ) -> Option<PlannedPlacement> {
        let (key, claim) = self.preemption_of(pending, domain_set)?;
        if !key.1.any() {
            return None;
        }
        if !self.preemptions.begun(key, &self.overlays.current) {
            let generation = self.overlays.current.generation;
            let (requirement, victim_search) = self.searches.victims_of(pending.class, key.0, generation)?;
            let shares_at = shares_version(&self.overlays.current);
            let requirement = Arc::new(requirement);
            let begun = PlannedPreemption { requirement, victim_search, exhausted: false, shares_at };
            self.preemptions.searches.insert(key, begun);
        }
        let overlay = &mut self.overlays.current;
        let offer = self.preemptions.best(overlay, key, claim.as_ref(), self.input.now_ms)?;
        let requirement = Arc::clone(&self.preemptions.searches.get(&key)?.requirement);
        self.offer_taken(pending, &requirement, &offer)
    }

    /// The key of a task's victim search, with the claim of its queue now.
    fn preemption_of(
        &mut self,
        pending: PendingTask,
        domain_set: Option<DomainSetId>,
    ) -> Option<(PreemptionKey, Option<Claim>)> {
        let class = self.input.class(pending)?;
        let shape = match domain_set {
            None => class.shape,
            Some(_) => self.searches.search_key(pending.class, domain_set)?.shape,
        };
        let asked = &self.input.tables.shapes.get(class.shape)?.resources;
        let (scope, claim) = class.scope.resolved(&self.overlays.current, asked);
        Some(((shape, scope), claim))
    }

    /// Carries out an offer: charges the overlay, marks the victims, and builds the placement.
    pub(super) fn offer_taken(
        &mut self,
        pending: PendingTask,
        requirement: &Requirement,
        offer: &Offer,
    ) -> Option<PlannedPlacement> {
        let tables = self.input.tables;
        let (evictions, node) = (&mut self.preemptions.evictions, offer.node);
        let entry = tables.jobs.get(&pending.task.job)?;
        let spec = entry.spec_of_task(pending.task.index)?;
        let asked = &tables.shapes.get(self.input.class(pending)?.shape)?.resources;
        let overlay = &mut self.overlays.current;
        let (later, at_once) = leaving(overlay, evictions, node, self.input.now_ms);
        let mut removals: SmallVec<[&HypotheticalRemoval; 8]> =
            at_once.iter().chain(&offer.victims).collect();
        if offer.held {
            removals.extend(&later);
        }
        let charged =
            with_removed(overlay, node, &removals, |overlay| charge_on(overlay, requirement, asked, node));
        let (charge, demand) = charged?;
        let ports = ports_named(spec, ports_given(overlay, requirement, node, self.input.now_ms))?;
        let numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
        let placement = placement_new(tables, pending, node)?;
        let notice_max_ms = spec.preemption.and_then(|preemption| preemption.notice_max_ms);
        let evicted = Evicted { by: pending.task, notice_max_ms, attempt: placement.incarnation };
        let victims: Option<Vec<Victim>> =
            offer.victims.iter().map(|removal| victim(tables, removal, evicted)).collect();
        let victims = victims?;
        victims.iter().for_each(|victim| self.overlays.victim_counted(victim, node, CountChange::Remove));
        evictions.added(node, &victims);
        let overlay = &mut self.overlays.current;
        let reclaims = victims.iter().any(|victim| victim.reclaimed);
        let mut terms = tokens(overlay, requirement, node);
        terms.extend(reclaims.then(TermToken::of_reclaim));
        let dependencies = dependencies(overlay, requirement, node, &mut self.dependencies, evictions);
        let constrained = !terms.is_empty() || !requirement.rules.rules.is_empty();
        overlay.taken(node, &demand, &numbers);
        self.overlays.task_counted(pending.task, node, CountChange::Add);
        let job = self.searches.search_key(pending.class, None)?.job;
        self.searches.task_added(job, node);
        self.rules_eased(&victims);
        let held = offer.held;
        Some(PlannedPlacement { ports, charge, terms, dependencies, constrained, held, victims, ..placement })
    }

    /// Voids the searches if a rule counts one of these victims. Without the victim, nodes may fit that were dropped
    /// when the rule refused them.
    fn rules_eased(&mut self, victims: &[Victim]) {
        if victims.iter().any(|victim| self.overlays.current.counts(victim.task.job)) {
            self.searches_void();
        }
    }
}

fn victim(tables: &CellTables, removal: &HypotheticalRemoval, evicted: Evicted) -> Option<Victim> {
    let TaskId { job, index } = removal.task;
    Some(Victim {
        task: removal.task,
        revision: tables.jobs.get(&job)?.task(index)?.revision,
        priority: u32::from(removal.resident.priority),
        holds: removal.resident.state == ResidentState::Held,
        reclaimed: removal.claimed.is_some(),
        evicted,
    })
}
