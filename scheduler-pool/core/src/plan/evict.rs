//! Where a plan makes room by evictions for what has found none.

use borough_model::task::{Evicted, PortAssignment};
use borough_model::{JobSpec, TaskId};
use smallvec::SmallVec;

use super::charge::charge_on;
use super::together::Ground;
use super::token::{TermToken, tokens, witnesses};
use super::{Placement, Planner};
use crate::filter::{Requirement, ports_given};
use crate::pending::PendingTask;
use crate::preempt::{Ask, Hunt, Lift, Offer, Reach, Victim, leaving, lifted};
use crate::queueing::Claim;
use crate::snapshot::{ShapeId, Stand};

/// What is known of making room for one shape at the cost of some.
#[derive(Clone, Debug)]
pub(super) struct Making {
    requirement: Requirement,
    hunt: Hunt,
    /// Whether the search has ended without a node that is left.
    dry: bool,
}

/// A shape, and whose places it may take.
pub(super) type MakingId = (ShapeId, Reach);

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
    /// Gives a task of its own its node by evictions, or nothing: where the plan has looked for victims long enough, only as far
    /// as its search has begun.
    pub(super) fn preempted_alone(
        &mut self,
        pending: PendingTask,
        ground: Option<Ground>,
    ) -> Option<Placement> {
        let id = self.making_of(pending, ground)?;
        let (id, _) = id;
        let begins = !self.making_known(id);
        if id.1.any() && (self.evictions.full() || (begins && self.evictions.spent())) {
            self.out.preemption_cut = true;
            return None;
        }
        self.preempted(pending, ground)
    }

    /// Gives a task that fits nowhere on a ground its node there by evictions, or nothing. Taken back by
    /// [`Planner::returned`] like any other placement.
    pub(super) fn preempted(&mut self, pending: PendingTask, ground: Option<Ground>) -> Option<Placement> {
        let (id, claim) = self.making_of(pending, ground)?;
        if !id.1.any() {
            return None;
        }
        if !self.making_known(id) {
            self.making_begin(pending.class, id)?;
        }
        let fresh_ms = self.snapshot.settings.fresh_start_ms();
        let evictions = &mut self.evictions;
        let worth = |making: &&mut Making| !making.dry || !making.hunt.up_to_date(evictions);
        let making = self.makings.get_mut(&id).filter(worth)?;
        let (below, claim, now_ms) = (id.1.below, claim.as_ref(), self.now_ms);
        let ask = Ask { requirement: &making.requirement, below, claim, now_ms, fresh_ms };
        match making.hunt.best(&mut self.work, &mut self.evictions, &ask) {
            Some(offer) => self.settled(pending, id, &offer),
            None => {
                making.dry = true;
                None
            }
        }
    }

    /// Whether there is a search that still holds.
    fn making_known(&self, id: MakingId) -> bool {
        self.makings.get(&id).is_some_and(|making| making.hunt.generation == self.work.generation)
    }

    /// The search for a task, with what its queue may claim now.
    fn making_of(
        &mut self,
        pending: PendingTask,
        ground: Option<Ground>,
    ) -> Option<(MakingId, Option<Claim>)> {
        let class = *self.queue.classes.get(pending.class as usize)?;
        let shape = match ground {
            None => class.shape,
            Some(_) => self.plan_on(pending.class, ground)?.shape,
        };
        let asked = &self.snapshot.shapes.get(class.shape)?.resources;
        let (reach, claim) = class.reach.now(&self.work, asked);
        Some(((shape, reach), claim))
    }

    fn making_begin(&mut self, class: u32, id: MakingId) -> Option<()> {
        let plan_of = self.plan_of.get(class as usize)?;
        let shape = self.grounds.shape(id.0).or_else(|| self.snapshot.shapes.get(id.0))?;
        let members = self.members.get(plan_of.number).copied().unwrap_or(1);
        let seed = self.vantage.seed ^ shape.seed();
        let requirement = Requirement::of(shape, self.snapshot);
        let hunt = Hunt::new(self.snapshot, self.vantage, seed, members, self.work.generation);
        self.makings.insert(id, Making { requirement, hunt, dry: false });
        Some(())
    }

    /// Whether the search for a class has ended and nothing is left.
    pub(super) fn preemption_dry(&self, id: MakingId) -> bool {
        self.makings.get(&id).is_some_and(|making| making.dry)
    }

    /// Takes what was offered.
    fn settled(&mut self, pending: PendingTask, id: MakingId, offer: &Offer) -> Option<Placement> {
        let making = self.makings.get(&id)?;
        let (requirement, node) = (&making.requirement, offer.node);
        let entry = self.snapshot.jobs.get(&pending.task.job)?;
        let spec = entry.spec_current()?;
        let class = self.queue.classes.get(pending.class as usize)?;
        let asked = &self.snapshot.shapes.get(class.shape)?.resources;
        let (later, at_once) = leaving(&self.work, &self.evictions, node, self.now_ms);
        let mut lifts: SmallVec<[&Lift; 8]> = at_once.iter().chain(&offer.victims).collect();
        if offer.held {
            lifts.extend(&later);
        }
        let charged = lifted(&mut self.work, node, &lifts, |work| charge_on(work, requirement, asked, node));
        let (charge, demand) = charged?;
        let dynamic = ports_given(&self.work, requirement, node, self.now_ms);
        let ports = ports_named(spec, dynamic)?;
        let numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
        let notice_max_ms = spec.preemption.and_then(|preemption| preemption.notice_max_ms);
        let life = entry.task(pending.task.index).map(|slot| slot.incarnation).unwrap_or_default().next();
        let evicted = Evicted { by: pending.task, notice_max_ms, life };
        let victims: Option<Vec<Victim>> =
            offer.victims.iter().map(|lift| self.victim(lift, evicted)).collect();
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
        let witnesses = witnesses(&self.work, requirement, node, &mut self.witnesses, &self.evictions);
        let ruled = !terms.is_empty() || !requirement.rules.rules.is_empty();
        self.work.taken(node, &demand, &numbers);
        self.work.counted(pending.task.job, node, true);
        self.work.held_moved(pending.task, true);
        let job = self.plan_of.get(pending.class as usize)?.job;
        self.domains_counted(job, node, |count| count.saturating_add(1));
        let placement = self.placement(entry, pending, node, (ports, charge))?;
        self.rules_eased(&victims);
        Some(Placement { terms, witnesses, ruled, held: offer.held, victims, ..placement })
    }

    /// Where victims go of whom a rule speaks, there may be room on nodes that were never looked at since it refused them: what was
    /// found under rules is void.
    fn rules_eased(&mut self, victims: &[Victim]) {
        if victims.iter().any(|victim| self.work.counts(victim.task.job)) {
            self.searches_void();
        }
    }

    /// Lets every search begin anew that may have seen what is no longer so.
    pub(super) fn searches_void(&mut self) {
        self.work.generation += 1;
        self.exhausted.clear();
        self.bases.retain(|_, base| !base.ruled());
    }

    fn victim(&self, lift: &Lift, evicted: Evicted) -> Option<Victim> {
        let TaskId { job, index } = lift.task;
        Some(Victim {
            task: lift.task,
            revision: self.snapshot.jobs.get(&job)?.task(index)?.revision,
            priority: u32::from(lift.standing.priority),
            holds: lift.standing.stand == Stand::Holds,
            reclaimed: lift.claimed.is_some(),
            evicted,
        })
    }
}
