//! Hypothetical removals: a victim search takes tasks off a node on trial, and puts them back.

use borough_model::{JobId, TaskId};
use smallvec::SmallVec;

use super::Evictions;
use crate::count::CountChange;
use crate::filter::Requirement;
use crate::overlay::PlanOverlay;
use crate::queueing::{Claim, SharedVictim};
use crate::tables::{ResidentState, ResidentTask};

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
    pub(crate) fn of(
        overlay: &PlanOverlay<'_>,
        task: TaskId,
        resident: ResidentTask,
        claimed: Option<u64>,
    ) -> Option<Self> {
        let charge = overlay.nodes.resident.charge(resident)?;
        let demand = Requirement::of_resources(charge, overlay.nodes).demand;
        Some(Self { task, resident, claimed, demand })
    }

    /// The amount that it takes of a dimension.
    pub(crate) fn amount(&self, dimension: usize) -> u64 {
        self.demand.iter().find(|&&(known, _)| known == dimension).map_or(0, |&(_, amount)| amount)
    }

    /// Takes it off its node on trial.
    pub(crate) fn remove(&self, overlay: &mut PlanOverlay<'_>, node: u32) {
        overlay.trial_free(node, &self.demand);
    }

    pub(crate) fn restore(&self, overlay: &mut PlanOverlay<'_>, node: u32) {
        overlay.trial_take(node, &self.demand);
    }

    /// As [`Self::remove`], and takes it out of the terms that count it.
    pub(crate) fn remove_counted(&self, overlay: &mut PlanOverlay<'_>, node: u32) {
        self.remove(overlay, node);
        overlay.trial_count(self.task.job, node, CountChange::Remove);
    }

    /// As [`Self::restore`], and puts it back into the terms that count it.
    pub(crate) fn restore_counted(&self, overlay: &mut PlanOverlay<'_>, node: u32) {
        self.restore(overlay, node);
        overlay.trial_count(self.task.job, node, CountChange::Add);
    }
}

/// The leaving tasks of a node, this plan's victims among them. First those that leave with delay, then those that
/// leave at once.
///
/// A task that should be gone by now cannot be ended. It frees nothing for anybody.
pub(crate) fn leaving(
    overlay: &PlanOverlay<'_>,
    evictions: &Evictions,
    node: u32,
    now_ms: i64,
) -> (Vec<HypotheticalRemoval>, Vec<HypotheticalRemoval>) {
    let there = overlay.nodes.resident.on(overlay.nodes.id(node));
    let state = |task: &TaskId, resident: &ResidentTask| match evictions.tasks.get(task) {
        Some(state) => Some(*state),
        None => {
            let leaves =
                resident.state == ResidentState::Leaving && !overdue(overlay, task.job, resident, now_ms);
            leaves.then_some(ResidentState::Leaving)
        }
    };
    let going = there.filter_map(|(task, resident)| {
        Some((state(&task, &resident)?, HypotheticalRemoval::of(overlay, task, resident, None)?))
    });
    let (at_once, later): (Vec<_>, Vec<_>) = going.partition(|(state, _)| *state == ResidentState::Held);
    let removals = |going: Vec<(ResidentState, HypotheticalRemoval)>| {
        going.into_iter().map(|(_, removal)| removal).collect()
    };
    (removals(later), removals(at_once))
}

fn overdue(overlay: &PlanOverlay<'_>, job: JobId, resident: &ResidentTask, now_ms: i64) -> bool {
    let spec = overlay.tables.jobs.get(&job).and_then(|entry| entry.spec_current());
    resident.leaving_since_ms > 0
        && spec.is_some_and(|spec| now_ms >= spec.leave_due_ms(resident.leaving_since_ms))
}

/// Asks a question about a node without these tasks, and puts them back. Rules between tasks do not change here: the
/// caller takes victims out of the terms itself.
pub(crate) fn with_removed<'a, T>(
    overlay: &mut PlanOverlay<'a>,
    node: u32,
    removals: &[&HypotheticalRemoval],
    ask: impl FnOnce(&PlanOverlay<'a>) -> T,
) -> T {
    removals.iter().for_each(|removal| removal.remove(overlay, node));
    let answer = ask(overlay);
    removals.iter().for_each(|removal| removal.restore(overlay, node));
    answer
}

/// The larger of the two parts of a node's processor time and memory that a task has, in thousandths.
pub(super) fn part_of_node(overlay: &PlanOverlay<'_>, node: u32, removal: &HypotheticalRemoval) -> u64 {
    let of = |dimension| {
        removal.amount(dimension).saturating_mul(1000) / overlay.nodes.limit(dimension, node).max(1)
    };
    of(0).max(of(1))
}

/// Returns true if all victims can go together, so that every queue from which something is claimed keeps its
/// guarantee.
pub(super) fn guarantees_kept(
    overlay: &PlanOverlay<'_>,
    claim: &Claim,
    victims: &[HypotheticalRemoval],
) -> bool {
    let shared = |victim: &HypotheticalRemoval| {
        let (turn, resources) = overlay.held_by(victim.task)?;
        Some(SharedVictim { turn, resources, claimed: victim.claimed.is_some() })
    };
    let victims: Vec<SharedVictim<'_>> = victims.iter().filter_map(shared).collect();
    overlay.shares.as_ref().is_some_and(|shares| shares.guarantees_kept(claim, &victims))
}
