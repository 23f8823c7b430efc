//! Where a plan makes room by evictions for what has found none.

use borough_model::task::{Evicted, PortAssignment};
use borough_model::{JobSpec, TaskId};
use smallvec::SmallVec;

use super::PendingTask;
use super::charge::charge_on;
use super::token::{TermToken, dependencies, tokens};
use super::topology::DomainSetId;
use super::{PlannedPlacement, Planner};
use crate::filter::{Requirement, ports_given};
use crate::preempt::{
    HypotheticalRemoval, Offer, PreemptionRequest, PreemptionScope, Victim, VictimSearch, leaving, lifted,
};
use crate::queueing::Claim;
use crate::tables::{ShapeId, Stand};

/// What is known of a preemption for one shape and scope.
#[derive(Clone, Debug)]
pub(super) struct PlannedPreemption {
    requirement: Requirement,
    victim_search: VictimSearch,
    /// Whether the search has ended without a node that is left.
    dry: bool,
}

/// A shape, and whose places it may take.
pub(super) type PreemptionKey = (ShapeId, PreemptionScope);

/// A number for each port of a spec, those that the scheduler hands out taken from `dynamic`.
pub(super) fn ports_named(
    spec: &JobSpec,
    dynamic: impl IntoIterator<Item = u16>,
) -> Option<Vec<PortAssignment>> {
    let mut dynamic = dynamic.into_iter();
    let named = spec.task.ports.iter().map(|port| {
        let number = port.number.or_else(|| dynamic.next())?;
        Some(PortAssignment { name: port.name.clone(), number })
    });
    named.collect()
}

impl Planner<'_, '_> {
    /// Gives a task of its own its node by evictions, or nothing: where the plan has looked for victims long enough,
    /// only as far as its search has begun.
    pub(super) fn preempted_alone(
        &mut self,
        pending: PendingTask,
        context: Option<DomainSetId>,
    ) -> Option<PlannedPlacement> {
        let id = self.preemption_of(pending, context)?;
        let (id, _) = id;
        let begins = !self.preemption_known(id);
        if id.1.any() && (self.evictions.full() || (begins && self.evictions.spent())) {
            self.out.preemption_cut = true;
            return None;
        }
        self.preempted(pending, context)
    }

    /// Gives a task that fits nowhere in a domain set its node there by evictions, or nothing. Taken back by
    /// [`Planner::returned`] like any other placement.
    pub(super) fn preempted(
        &mut self,
        pending: PendingTask,
        context: Option<DomainSetId>,
    ) -> Option<PlannedPlacement> {
        let (id, claim) = self.preemption_of(pending, context)?;
        if !id.1.any() {
            return None;
        }
        if !self.preemption_known(id) {
            self.preemption_begin(pending.class, id)?;
        }
        let fresh_ms = self.tables.settings.fresh_start_ms();
        let evictions = &mut self.evictions;
        let worth = |preemption: &&mut PlannedPreemption| {
            !preemption.dry || !preemption.victim_search.up_to_date(evictions)
        };
        let preemption = self.preemptions.get_mut(&id).filter(worth)?;
        let (below, claim, now_ms) = (id.1.below, claim.as_ref(), self.now_ms);
        let ask = PreemptionRequest { requirement: &preemption.requirement, below, claim, now_ms, fresh_ms };
        match preemption.victim_search.best(&mut self.work, &mut self.evictions, &ask) {
            Some(offer) => self.settled(pending, id, &offer),
            None => {
                preemption.dry = true;
                None
            }
        }
    }

    /// Whether there is a search that still holds.
    fn preemption_known(&self, id: PreemptionKey) -> bool {
        self.preemptions
            .get(&id)
            .is_some_and(|preemption| preemption.victim_search.generation == self.work.generation)
    }

    /// The search for a task, with what its queue may claim now.
    fn preemption_of(
        &mut self,
        pending: PendingTask,
        context: Option<DomainSetId>,
    ) -> Option<(PreemptionKey, Option<Claim>)> {
        let class = *self.queue.classes.get(pending.class as usize)?;
        let shape = match context {
            None => class.shape,
            Some(_) => self.plan_on(pending.class, context)?.shape,
        };
        let asked = &self.tables.shapes.get(class.shape)?.resources;
        let (scope, claim) = class.scope.now(&self.work, asked);
        Some(((shape, scope), claim))
    }

    fn preemption_begin(&mut self, class: u32, id: PreemptionKey) -> Option<()> {
        let plan_of = self.plan_of.get(class as usize)?;
        let shape = self.domain_sets.shape(id.0).or_else(|| self.tables.shapes.get(id.0))?;
        let members = self.members.get(plan_of.number).copied().unwrap_or(1);
        let seed = self.start_offset.seed ^ shape.seed();
        let requirement = Requirement::of(shape, self.tables);
        let victim_search =
            VictimSearch::new(self.tables, self.start_offset, seed, members, self.work.generation);
        self.preemptions.insert(id, PlannedPreemption { requirement, victim_search, dry: false });
        Some(())
    }

    /// Whether the search for a class has ended and nothing is left.
    pub(super) fn preemption_dry(&self, id: PreemptionKey) -> bool {
        self.preemptions.get(&id).is_some_and(|preemption| preemption.dry)
    }

    /// Takes what was offered.
    fn settled(
        &mut self,
        pending: PendingTask,
        id: PreemptionKey,
        offer: &Offer,
    ) -> Option<PlannedPlacement> {
        let preemption = self.preemptions.get(&id)?;
        let (requirement, node) = (&preemption.requirement, offer.node);
        let entry = self.tables.jobs.get(&pending.task.job)?;
        let spec = entry.spec_current()?;
        let class = self.queue.classes.get(pending.class as usize)?;
        let asked = &self.tables.shapes.get(class.shape)?.resources;
        let (later, at_once) = leaving(&self.work, &self.evictions, node, self.now_ms);
        let mut removals: SmallVec<[&HypotheticalRemoval; 8]> =
            at_once.iter().chain(&offer.victims).collect();
        if offer.held {
            removals.extend(&later);
        }
        let charged =
            lifted(&mut self.work, node, &removals, |work| charge_on(work, requirement, asked, node));
        let (charge, demand) = charged?;
        let dynamic = ports_given(&self.work, requirement, node, self.now_ms);
        let ports = ports_named(spec, dynamic)?;
        let numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
        let notice_max_ms = spec.preemption.and_then(|preemption| preemption.notice_max_ms);
        let attempt = entry.task(pending.task.index).map(|slot| slot.incarnation).unwrap_or_default().next();
        let evicted = Evicted { by: pending.task, notice_max_ms, attempt };
        let victims: Option<Vec<Victim>> =
            offer.victims.iter().map(|removal| self.victim(removal, evicted)).collect();
        let victims = victims?;
        for victim in &victims {
            self.work.counted(victim.task.job, node, false);
            self.clear.counted(victim.task.job, node, false);
            self.work.held_moved(victim.task, false);
        }
        self.evictions.added(node, &victims);
        let reclaims = victims.iter().any(|victim| victim.reclaimed);
        let mut terms = tokens(&self.work, requirement, node);
        terms.extend(reclaims.then(TermToken::of_reclaim));
        let dependencies =
            dependencies(&self.work, requirement, node, &mut self.dependencies, &self.evictions);
        let constrained = !terms.is_empty() || !requirement.rules.rules.is_empty();
        self.work.taken(node, &demand, &numbers);
        self.work.counted(pending.task.job, node, true);
        self.work.held_moved(pending.task, true);
        let job = self.plan_of.get(pending.class as usize)?.job;
        self.domains_counted(job, node, |count| count.saturating_add(1));
        let placement = self.placement(entry, pending, node, (ports, charge))?;
        self.rules_eased(&victims);
        Some(PlannedPlacement { terms, dependencies, constrained, held: offer.held, victims, ..placement })
    }

    /// Where victims go of whom a rule speaks, there may be room on nodes that were never looked at since it refused
    /// them: what was found under rules is void.
    fn rules_eased(&mut self, victims: &[Victim]) {
        if victims.iter().any(|victim| self.work.counts(victim.task.job)) {
            self.searches_void();
        }
    }

    /// Lets every search begin again that may have seen what is no longer so.
    pub(super) fn searches_void(&mut self) {
        self.work.generation += 1;
        self.exhausted.clear();
        self.bases.retain(|_, candidates| !candidates.constrained());
    }

    fn victim(&self, removal: &HypotheticalRemoval, evicted: Evicted) -> Option<Victim> {
        let TaskId { job, index } = removal.task;
        Some(Victim {
            task: removal.task,
            revision: self.tables.jobs.get(&job)?.task(index)?.revision,
            priority: u32::from(removal.resident.priority),
            holds: removal.resident.stand == Stand::Holds,
            reclaimed: removal.claimed.is_some(),
            evicted,
        })
    }
}
