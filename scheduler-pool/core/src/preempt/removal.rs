//! Hypothetical removals: a victim search takes tasks off a node on trial, and puts them back.

use borough_model::node::leave_due_ms;
use borough_model::{JobId, TaskId};
use smallvec::SmallVec;

use super::Evictions;
use crate::filter::Requirement;
use crate::overlay::PlanOverlay;
use crate::queueing::{Claim, Given};
use crate::tables::{ResidentTask, Stand};

type Demand = SmallVec<[(usize, u64); 6]>;

/// A task that a victim search may take off its node on trial.
#[derive(Clone, Debug)]
pub(crate) struct HypotheticalRemoval {
    pub task: TaskId,
    pub resident: ResidentTask,
    /// How far its queue is above its guarantee, if it is evicted by a claim. `None` if it is evicted for a higher
    /// priority, or leaves anyway.
    pub claimed: Option<u64>,
    demand: Demand,
}

impl HypotheticalRemoval {
    pub fn of(
        work: &PlanOverlay<'_>,
        task: TaskId,
        resident: ResidentTask,
        claimed: Option<u64>,
    ) -> Option<Self> {
        let charge = work.nodes.resident.charge(resident)?;
        let demand = Requirement::of_resources(charge, work.nodes).demand;
        Some(Self { task, resident, claimed, demand })
    }

    /// The amount that it takes of a dimension.
    pub fn amount(&self, dimension: usize) -> u64 {
        self.demand.iter().find(|&&(known, _)| known == dimension).map_or(0, |&(_, amount)| amount)
    }

    /// Supposes it away, or back.
    pub fn suppose(&self, work: &mut PlanOverlay<'_>, node: u32, away: bool) {
        work.supposed_free(node, &self.demand, away);
    }

    /// As [`Self::remove`], and takes it out of the terms that count it.
    pub fn suppose_counted(&self, work: &mut PlanOverlay<'_>, node: u32, away: bool) {
        self.suppose(work, node, away);
        work.supposed_counted(self.task.job, node, !away);
    }
}

/// The leaving tasks of a node, this plan's victims among them. First those that leave with delay, then those that
/// leave at once.
///
/// A task that should be gone by now cannot be ended. It frees nothing for anybody.
pub(crate) fn leaving(
    work: &PlanOverlay<'_>,
    evictions: &Evictions,
    node: u32,
    now_ms: i64,
) -> (Vec<HypotheticalRemoval>, Vec<HypotheticalRemoval>) {
    let there = work.nodes.resident.on(work.nodes.id(node));
    let stand = |task: &TaskId, resident: &ResidentTask| match evictions.tasks.get(task) {
        Some(stand) => Some(*stand),
        None => {
            let leaves = resident.stand == Stand::Leaves && !overdue(work, task.job, resident, now_ms);
            leaves.then_some(Stand::Leaves)
        }
    };
    let going = there.filter_map(|(task, resident)| {
        Some((stand(&task, &resident)?, HypotheticalRemoval::of(work, task, resident, None)?))
    });
    let (at_once, later): (Vec<_>, Vec<_>) = going.partition(|(stand, _)| *stand == Stand::Holds);
    let removals =
        |going: Vec<(Stand, HypotheticalRemoval)>| going.into_iter().map(|(_, removal)| removal).collect();
    (removals(later), removals(at_once))
}

fn overdue(work: &PlanOverlay<'_>, job: JobId, resident: &ResidentTask, now_ms: i64) -> bool {
    let spec = work.tables.jobs.get(&job).and_then(|entry| entry.spec_current());
    resident.leaves_since_ms > 0
        && spec.is_some_and(|spec| now_ms >= leave_due_ms(resident.leaves_since_ms, spec))
}

/// Asks a question about a node without these tasks, and puts them back. Rules between tasks do not change here: the
/// caller takes victims out of the terms itself.
pub(crate) fn lifted<'a, T>(
    work: &mut PlanOverlay<'a>,
    node: u32,
    removals: &[&HypotheticalRemoval],
    ask: impl FnOnce(&PlanOverlay<'a>) -> T,
) -> T {
    removals.iter().for_each(|removal| removal.suppose(work, node, true));
    let answer = ask(work);
    removals.iter().for_each(|removal| removal.suppose(work, node, false));
    answer
}

/// The larger of the two parts of a node's processor time and memory that a task has, in thousandths.
pub(super) fn part_of_node(work: &PlanOverlay<'_>, node: u32, removal: &HypotheticalRemoval) -> u64 {
    let of =
        |dimension| removal.amount(dimension).saturating_mul(1000) / work.nodes.limit(dimension, node).max(1);
    of(0).max(of(1))
}

/// Returns true if all victims can go together, so that every queue from which something is claimed keeps its
/// guarantee.
pub(super) fn all_give(work: &PlanOverlay<'_>, claim: &Claim, victims: &[HypotheticalRemoval]) -> bool {
    let given = |victim: &HypotheticalRemoval| -> Option<Given<'_>> {
        let (turn, resources) = work.held_by(victim.task)?;
        Some((turn, resources, victim.claimed.is_some()))
    };
    let given: Vec<Given<'_>> = victims.iter().filter_map(given).collect();
    work.shares.as_ref().is_some_and(|shares| shares.all_give(claim, &given))
}
