//! The gangs of a plan: as many members of each role as are needed, or none of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::change::task_wanted;
use super::domain_set::DomainSetId;
use super::refusal::Refusal;
use super::{GangCause, PendingGang, PendingTask, PlannedPlacement, Planner};
use crate::census::NodeCensus;
use crate::count::CountChange;
use crate::filter::Requirement;
use crate::preempt::{PreemptionScope, VICTIMS_MAX};

/// Gangs of more members evict nobody. They and their victims ([`VICTIMS_MAX`]) must fit one commit.
const GANG_PREEMPTS_MAX: u32 = 2_000;

/// A placed member, and the domain set that it was restricted to.
type PlacedMember = (PendingTask, PlannedPlacement, Option<DomainSetId>);

/// How a gang is tried.
#[derive(Default)]
pub(super) struct GangTrial {
    /// Each of its first members goes into one of these.
    pub first: Vec<DomainSetId>,
    /// The others go here; `None`: anywhere.
    pub rest: Option<DomainSetId>,
    /// True if it may evict.
    pub evicts: bool,
}

/// The outcome of a trial.
pub(super) enum GangOutcome {
    /// It has all members that it needs.
    Placed(Vec<PlannedPlacement>),
    /// `fitted` members found a node and one did not, and nothing is taken. `failed` is set if that member was free to
    /// go anywhere.
    Short { fitted: u32, failed: Option<(PendingTask, Arc<NodeCensus>)> },
}

/// Why a gang fits no set of domains.
pub(super) struct GangRefusal {
    pub cause: GangCause,
    /// True if it would not fit even if the plan had placed nothing.
    pub never: bool,
}

/// What a plan found out about a gang that it did not place.
struct GangFailure {
    /// The member that found no node, with its census.
    failed: Option<(PendingTask, Arc<NodeCensus>)>,
    fitted: u32,
    /// Why no set of domains can take it, if it has a gang topology.
    refused: Option<GangRefusal>,
}

impl Planner<'_, '_> {
    /// Places as many members of a gang as it needs, or none of them.
    pub(super) fn gang(&mut self, members: &[PendingTask]) -> bool {
        let queue = self.input.queue;
        let gang = members.first().and_then(|member| queue.gangs.get(member.gang? as usize));
        let Some(gang) = gang else { return false };
        if !members.iter().all(|member| task_wanted(self.input.tables, member.task)) {
            return false;
        }
        let topology = self.input.tables.plan_spec(gang.job).and_then(|spec| spec.gang_topology().cloned());
        // All of its victim searches or none. A search that every plan begins and none completes would never succeed.
        let may_evict = self.gang_scope(members).any() && gang.need() <= GANG_PREEMPTS_MAX;
        let evicts = may_evict && !self.preemptions.evictions.spent();
        let (tried, refused) = match topology {
            None => (self.gang_tried(members, gang, &GangTrial { evicts, ..GangTrial::default() }), None),
            Some(topology) => self.gang_topology(members, gang, &topology, evicts),
        };
        self.preemption_cut |= may_evict && !evicts && matches!(tried, GangOutcome::Short { .. });
        match tried {
            GangOutcome::Placed(placements) => {
                self.placements.extend(placements);
                true
            }
            GangOutcome::Short { fitted, failed } => {
                // Evictions that were not tried may still help.
                let refused =
                    refused.map(|known| GangRefusal { never: known.never && evicts == may_evict, ..known });
                self.gang_unplaced(gang, members, GangFailure { failed, fitted, refused });
                false
            }
        }
    }

    /// Whom a gang may evict: the widest scope of its members.
    pub(super) fn gang_scope(&self, members: &[PendingTask]) -> PreemptionScope {
        let scope = |member: &PendingTask| self.input.class(*member).map(|class| class.scope);
        members.iter().filter_map(scope).max().unwrap_or_default()
    }

    /// Tries a gang once.
    pub(super) fn gang_tried(
        &mut self,
        members: &[PendingTask],
        gang: &PendingGang,
        trial: &GangTrial,
    ) -> GangOutcome {
        let mut placed: Vec<PlacedMember> = Vec::new();
        let victims_max = self.preemptions.evictions.count() + VICTIMS_MAX;
        for part in &gang.parts {
            let of_part = |member: &&PendingTask| (part.first..part.end).contains(&member.task.index);
            let of_part: Vec<PendingTask> = members.iter().filter(of_part).copied().collect();
            let mut failed = None;
            let mut needed = part.need;
            for member in self.smallest_first(of_part) {
                if needed == 0 {
                    break;
                }
                let domain_set = trial.first.get(placed.len()).copied().or(trial.rest);
                let placement = self.placed(member, domain_set);
                let evicts = trial.evicts && self.preemptions.evictions.count() < victims_max;
                let evicting = || self.preempted(member, domain_set);
                match if evicts { placement.or_else(evicting) } else { placement } {
                    Some(placement) => {
                        placed.push((member, placement, domain_set));
                        needed -= 1;
                    }
                    None => failed = failed.or(Some(member)),
                }
            }
            if needed > 0 {
                let fitted = u32::try_from(placed.len()).unwrap_or(u32::MAX);
                let failed = failed.filter(|_| trial.rest.is_none());
                let failed = failed.and_then(|member| Some((member, self.census(member)?)));
                self.all_returned(&placed);
                return GangOutcome::Short { fitted, failed };
            }
        }
        GangOutcome::Placed(placed.into_iter().map(|(_, placement, _)| placement).collect())
    }

    fn all_returned(&mut self, placed: &[PlacedMember]) {
        for (member, placement, domain_set) in placed.iter().rev() {
            self.returned(*member, placement, *domain_set);
        }
        if !placed.is_empty() {
            self.searches_void();
        }
    }

    /// The possible members of a gang in the order in which they are tried. The smallest come first, so that as many as
    /// possible fit. The size is measured relative to the largest member, per dimension.
    fn smallest_first(&self, members: Vec<PendingTask>) -> Vec<PendingTask> {
        let alike = members.windows(2).all(|pair| matches!(pair, [one, next] if one.class == next.class));
        if alike {
            return members;
        }
        let demand = |member: &PendingTask| -> SmallVec<[(usize, u64); 6]> {
            let class = self.input.class(*member);
            let shape = class.and_then(|class| self.input.tables.shapes.get(class.shape));
            shape
                .map(|shape| Requirement::of_resources(&shape.resources, &self.input.tables.nodes).demand)
                .unwrap_or_default()
        };
        let mut most: BTreeMap<usize, u64> = BTreeMap::new();
        for (dimension, amount) in members.iter().flat_map(demand) {
            let most = most.entry(dimension).or_default();
            *most = amount.max(*most);
        }
        let size = |member: &PendingTask| -> u128 {
            let share = |(dimension, amount): (usize, u64)| {
                let most = most.get(&dimension).copied().unwrap_or(1).max(1);
                u128::from(amount) * 1_000_000 / u128::from(most)
            };
            demand(member).into_iter().map(share).sum()
        };
        let mut ordered = members;
        ordered.sort_by_cached_key(size);
        ordered
    }

    /// Records a gang that was not placed.
    fn gang_unplaced(&mut self, gang: &PendingGang, members: &[PendingTask], failure: GangFailure) {
        let GangFailure { failed, fitted, refused } = failure;
        let first = || members.first().and_then(|member| Some((*member, self.census(*member)?)));
        let Some((failed, census)) = failed.or_else(first) else { return };
        let Some(&class) = self.input.class(failed) else { return };
        let needed = gang.need();
        let never = refused.as_ref().is_some_and(|refused| refused.never);
        let within = matches!(&refused, Some(refused) if matches!(refused.cause, GangCause::DomainsShort(_)));
        let mut causes = vec![match refused {
            Some(refused) => refused.cause,
            None => GangCause::Short { needed, fitted },
        }];
        if let Some(most) = self.members_max_empty(gang, members).filter(|&most| most < u64::from(needed)) {
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            causes.push(GangCause::Never { needed, most, within });
        }
        let tasks = members.iter().map(|member| member.task.index).collect();
        let no_victims = self.preemptions.none_left(&class);
        let gang = fitted > 0 || never;
        self.refusals.added(class, tasks, Refusal { census, causes, gang, never, no_victims, pinned: false });
    }

    /// Takes back the placement of a member, because its gang did not fit.
    fn returned(
        &mut self,
        pending: PendingTask,
        placement: &PlannedPlacement,
        domain_set: Option<DomainSetId>,
    ) {
        let Some(node) = self.input.tables.nodes.ordinal(placement.node) else { return };
        let numbers: Vec<u16> = placement.ports.iter().map(|port| port.number).collect();
        let Some(search_key) = self.searches.search_key(pending.class, domain_set) else { return };
        let demand = Requirement::of_resources(&placement.charge, &self.input.tables.nodes).demand;
        self.overlays.current.returned(node, &demand, &numbers);
        self.overlays.task_counted(placement.task, node, CountChange::Remove);
        self.preemptions.evictions.removed(&placement.victims);
        for victim in &placement.victims {
            self.overlays.victim_counted(victim, node, CountChange::Add);
        }
        self.searches.task_removed(search_key.job, node);
    }
}
