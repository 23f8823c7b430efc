//! The victims on one node: as few as possible, the least important first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use borough_model::job::{JobKind, band};
use borough_model::{JobId, TaskId};
use smallvec::SmallVec;

use super::removal::{guarantees_kept, part_of_node};
use super::{Evictions, HypotheticalRemoval, PreemptionCost, PreemptionRequest, leaving, with_removed};
use crate::count::CountChange;
use crate::filter::{copies, fits, refusals_fixed};
use crate::overlay::PlanOverlay;
use crate::tables::{ResidentState, ResidentTask, StretchCapacity};

/// A node that takes the task after evictions.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub cost: PreemptionCost,
    pub node: u32,
    pub victims: Vec<HypotheticalRemoval>,
    /// True if the task must wait until the victims, or other leaving tasks, have gone.
    pub held: bool,
}

/// What evictions on a node can do for a task.
#[derive(Clone, Debug)]
pub(crate) enum NodeAnswer {
    Offer(Offer),
    /// No eviction helps.
    Never,
    /// Evictions would help if some tasks had not only just started, or if the budgets of their jobs allowed it.
    Protected,
}

/// How many more evictions of a job its budget allows; `None` if it has no budget.
fn budget_left(overlay: &PlanOverlay<'_>, evictions: &Evictions, job: JobId) -> Option<u32> {
    let left = overlay.tables.jobs.get(&job)?.disruptions_left()?;
    Some(left.saturating_sub(evictions.of_job(job)))
}

/// The seconds that a task has run, times the thousandths of the node's processor time and memory that it has.
fn work_lost(overlay: &PlanOverlay<'_>, node: u32, removal: &HypotheticalRemoval, now_ms: i64) -> u64 {
    if removal.resident.state == ResidentState::Held {
        return 0;
    }
    let share = |dimension: usize| {
        let of = u128::from(overlay.nodes.limit(dimension, node)).max(1);
        u128::from(removal.amount(dimension)) * 1000 / of
    };
    let seconds = u128::from(now_ms.saturating_sub(removal.resident.since_ms).max(0).unsigned_abs() / 1000);
    u64::try_from((share(0) + share(1)) * seconds).unwrap_or(u64::MAX)
}

/// The tasks of a node that may be evicted, and whether any was left out because it has only just started.
fn candidates(
    overlay: &PlanOverlay<'_>,
    evictions: &Evictions,
    ask: &PreemptionRequest<'_>,
    node: u32,
) -> (Vec<HypotheticalRemoval>, bool) {
    let mut protected = false;
    let mut may = |task: TaskId, resident: ResidentTask| {
        let stays = matches!(resident.state, ResidentState::Leaving | ResidentState::Gathering);
        if stays || evictions.has(task) {
            return None;
        }
        let claimed = match ask.claim {
            _ if u32::from(resident.priority) < ask.below => None,
            Some(claim) if u32::from(resident.priority) < claim.below => Some(overlay.excess(claim, task)?),
            _ => return None,
        };
        let fresh = resident.state == ResidentState::Running
            && ask.now_ms.saturating_sub(resident.since_ms) < ask.fresh_ms;
        protected |= fresh;
        (!fresh).then_some(claimed)
    };
    let there = overlay.nodes.resident.on(overlay.nodes.id(node));
    let lower: Vec<HypotheticalRemoval> = there
        .filter_map(|(task, resident)| {
            let claimed = may(task, resident)?;
            HypotheticalRemoval::of(overlay, task, resident, claimed)
        })
        .collect();
    (lower, protected)
}

/// The order in which tasks are spared: by priority, budget, the excess of their queue, lost work, id.
type Rank = (Reverse<u16>, bool, u64, Reverse<u64>, TaskId);

/// Returns true if the budget of a job binds this preemptor: of a service, within its own band. A higher band gets the
/// room in any case.
fn budget_binds(
    overlay: &PlanOverlay<'_>,
    ask: &PreemptionRequest<'_>,
    removal: &HypotheticalRemoval,
) -> bool {
    let entry = overlay.tables.jobs.get(&removal.task.job);
    let serves =
        entry.and_then(|entry| entry.spec_current()).is_some_and(|spec| spec.kind == JobKind::Service);
    serves && band(u32::from(removal.resident.priority)) == ask.band()
}

/// Sorts tasks so that those to be spared first come first: the highest priority, then those beyond their job's budget,
/// then those that have done most work. The second value is true if a budget keeps some of them.
fn sparing_order(
    overlay: &PlanOverlay<'_>,
    evictions: &Evictions,
    ask: &PreemptionRequest<'_>,
    node: u32,
    removals: Vec<HypotheticalRemoval>,
) -> (Vec<HypotheticalRemoval>, bool) {
    let mut known: Vec<(u16, u64, HypotheticalRemoval)> = removals
        .into_iter()
        .map(|removal| (removal.resident.priority, work_lost(overlay, node, &removal, ask.now_ms), removal))
        .collect();
    let mut kept = false;
    // The budget covers the least important tasks of a job.
    known.sort_by_key(|(priority, lost, removal)| (*priority, *lost, removal.task));
    let mut left: BTreeMap<JobId, Option<u32>> = BTreeMap::new();
    let mut ranked: Vec<(Rank, HypotheticalRemoval)> = Vec::with_capacity(known.len());
    for (priority, lost, removal) in known {
        let job = removal.task.job;
        let left = left.entry(job).or_insert_with(|| budget_left(overlay, evictions, job));
        let beyond = *left == Some(0);
        *left = left.map(|left| left.saturating_sub(1));
        if beyond && budget_binds(overlay, ask, &removal) {
            kept = true;
            continue;
        }
        let excess = removal.claimed.unwrap_or(0);
        ranked.push(((Reverse(priority), !beyond, excess, Reverse(lost), removal.task), removal));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    (ranked.into_iter().map(|(_, removal)| removal).collect(), kept)
}

/// The cost for a preemptor that does not wait.
fn cost(
    overlay: &PlanOverlay<'_>,
    evictions: &Evictions,
    node: u32,
    now_ms: i64,
    victims: &[HypotheticalRemoval],
) -> PreemptionCost {
    let mut of_job: BTreeMap<JobId, u32> = BTreeMap::new();
    for victim in victims {
        *of_job.entry(victim.task.job).or_default() += 1;
    }
    let beyond = |(job, count): (JobId, u32)| {
        count.saturating_sub(budget_left(overlay, evictions, job).unwrap_or(u32::MAX))
    };
    let lost = victims.iter().map(|victim| work_lost(overlay, node, victim, now_ms));
    let excess = victims.iter().filter_map(|victim| victim.claimed).min();
    PreemptionCost {
        highest: victims.iter().map(|victim| u32::from(victim.resident.priority)).max(),
        violations: of_job.into_iter().map(beyond).fold(0, u32::saturating_add),
        victims: u32::try_from(victims.len()).unwrap_or(u32::MAX),
        excess: Reverse(excess.unwrap_or(0)),
        work_lost: lost.fold(0, u64::saturating_add),
        waits: false,
        node: overlay.nodes.id(node),
    }
}

/// Returns what evictions on a node can do for a task. Leaves `overlay` as it was.
pub(crate) fn offer_of(
    overlay: &mut PlanOverlay<'_>,
    evictions: &mut Evictions,
    ask: &PreemptionRequest<'_>,
    node: u32,
) -> NodeAnswer {
    let asked =
        StretchCapacity { cpu_millis: ask.requirement.amount(0), memory_bytes: ask.requirement.amount(1) };
    let fixed = refusals_fixed(overlay.nodes, ask.requirement, node, ControlFlow::Break);
    // The table's maximum does not know about evictions of this plan.
    let plain = !evictions.nodes.contains(&node);
    if fixed.is_break() || (plain && !overlay.nodes.node_could_fit(node, ask.bound(), asked)) {
        return NodeAnswer::Never;
    }
    let (lower, protected) = candidates(overlay, evictions, ask, node);
    let (later, at_once) = leaving(overlay, evictions, node, ask.now_ms);
    evictions.examined += (lower.len() + later.len() + at_once.len()) as u64 + 1;
    let (ordered, kept) = sparing_order(overlay, evictions, ask, node, lower);
    let going: SmallVec<[&HypotheticalRemoval; 8]> = later.iter().chain(&at_once).collect();
    going.iter().for_each(|removal| removal.remove(overlay, node));
    let victims = victims(overlay, ask, node, ordered);
    going.iter().for_each(|removal| removal.restore(overlay, node));
    let Some(victims) = victims else {
        return if protected || kept { NodeAnswer::Protected } else { NodeAnswer::Never };
    };
    let held = held(overlay, ask, node, &at_once, &victims);
    let cost = PreemptionCost { waits: held, ..cost(overlay, evictions, node, ask.now_ms, &victims) };
    NodeAnswer::Offer(Offer { cost, node, victims, held })
}

/// How many equal tasks a node could hold after every possible eviction and departure. Rules between tasks stay as
/// `ask` has them. Leaves `overlay` as it was.
pub(crate) fn copies_after_evictions(
    overlay: &mut PlanOverlay<'_>,
    evictions: &mut Evictions,
    ask: &PreemptionRequest<'_>,
    node: u32,
) -> u64 {
    if refusals_fixed(overlay.nodes, ask.requirement, node, ControlFlow::Break).is_break() {
        return 0;
    }
    let (lower, _) = candidates(overlay, evictions, ask, node);
    let (later, at_once) = leaving(overlay, evictions, node, ask.now_ms);
    let removals: SmallVec<[&HypotheticalRemoval; 8]> = lower.iter().chain(&later).chain(&at_once).collect();
    evictions.examined += removals.len() as u64 + 1;
    with_removed(overlay, node, &removals, |overlay| copies(overlay, ask.requirement, node, ask.now_ms))
}

/// The fewest victims with which every queue keeps its guarantee. If evicting the least important tasks would break a
/// guarantee, the largest tasks are tried instead.
fn victims(
    overlay: &mut PlanOverlay<'_>,
    ask: &PreemptionRequest<'_>,
    node: u32,
    ordered: Vec<HypotheticalRemoval>,
) -> Option<Vec<HypotheticalRemoval>> {
    let Some(claim) = ask.claim else { return fewest_victims(overlay, ask, node, &ordered) };
    let found = fewest_victims(overlay, ask, node, &ordered)?;
    if guarantees_kept(overlay, claim, &found) {
        return Some(found);
    }
    let mut ordered = ordered;
    ordered.sort_by_cached_key(|removal| {
        (removal.claimed.is_none(), part_of_node(overlay, node, removal), removal.task)
    });
    fewest_victims(overlay, ask, node, &ordered).filter(|found| guarantees_kept(overlay, claim, found))
}

/// The fewest victims: every other task is spared, one after another, as long as the preemptor still fits.
fn fewest_victims(
    overlay: &mut PlanOverlay<'_>,
    ask: &PreemptionRequest<'_>,
    node: u32,
    ordered: &[HypotheticalRemoval],
) -> Option<Vec<HypotheticalRemoval>> {
    ordered.iter().for_each(|removal| removal.remove_counted(overlay, node));
    if !fits(overlay, ask.requirement, node, ask.now_ms) {
        ordered.iter().for_each(|removal| removal.restore_counted(overlay, node));
        return None;
    }
    let mut victims = Vec::new();
    for removal in ordered {
        removal.restore_counted(overlay, node);
        if !fits(overlay, ask.requirement, node, ask.now_ms) {
            removal.remove_counted(overlay, node);
            victims.push(removal.clone());
        }
    }
    victims.iter().for_each(|removal: &HypotheticalRemoval| removal.restore_counted(overlay, node));
    Some(victims)
}

/// Returns true if the task must wait: for a running victim, or because the tasks that leave at once do not free
/// enough.
fn held(
    overlay: &mut PlanOverlay<'_>,
    ask: &PreemptionRequest<'_>,
    node: u32,
    at_once: &[HypotheticalRemoval],
    victims: &[HypotheticalRemoval],
) -> bool {
    if victims.iter().any(|removal| removal.resident.state == ResidentState::Running) {
        return true;
    }
    let removals: SmallVec<[&HypotheticalRemoval; 8]> = at_once.iter().chain(victims).collect();
    victims.iter().for_each(|removal| overlay.trial_count(removal.task.job, node, CountChange::Remove));
    let now =
        with_removed(overlay, node, &removals, |overlay| fits(overlay, ask.requirement, node, ask.now_ms));
    victims.iter().for_each(|removal| overlay.trial_count(removal.task.job, node, CountChange::Add));
    !now
}
