//! What those who take turns hold while a plan is made, and what may be claimed of it.

use borough_model::{Resources, TaskId};

use super::PlanOverlay;
use crate::preempt::HypotheticalRemoval;
use crate::queueing::{Claim, Given, Turn};

impl PlanOverlay<'_> {
    /// Counts what everybody holds from here on.
    pub fn shares_known(&mut self) {
        self.shares = Some(self.snapshot.shares());
    }

    /// A task has a place, or has one no longer.
    pub fn held_moved(&mut self, task: TaskId, more: bool) {
        let Some(mut shares) = self.shares.take() else { return };
        if let Some((turn, resources)) = self.held_by(task) {
            shares.moved(turn, resources, more);
        }
        self.shares = Some(shares);
    }

    /// With whom a task takes turns, and what it has there.
    fn held_by(&self, task: TaskId) -> Option<(&'_ Turn, &'_ Resources)> {
        let entry = self.snapshot.jobs.get(&task.job)?;
        let (_, spec) = entry.spec.as_ref()?;
        Some((entry.turn.as_ref()?, spec.resources_for(task.index)))
    }

    /// How far the queue of a task is beyond its guarantee; `None`: it keeps what it has.
    pub fn excess(&self, claim: &Claim, task: TaskId) -> Option<u64> {
        let (turn, resources) = self.held_by(task)?;
        self.shares.as_ref()?.excess(claim, turn, resources)
    }

    /// Whether all of them can go together, and every queue from which something is claimed keeps what it is
    /// guaranteed.
    pub fn all_give(&self, claim: &Claim, victims: &[HypotheticalRemoval]) -> bool {
        let given = |victim: &HypotheticalRemoval| -> Option<Given<'_>> {
            let (turn, resources) = self.held_by(victim.task)?;
            Some((turn, resources, victim.claimed.is_some()))
        };
        let given: Vec<Given<'_>> = victims.iter().filter_map(given).collect();
        self.shares.as_ref().is_some_and(|shares| shares.all_give(claim, &given))
    }

    /// The larger of the parts of a node's processor time and memory that a task has, in thousandths.
    pub fn part(&self, node: u32, removal: &HypotheticalRemoval) -> u64 {
        let of = |dimension| {
            removal.amount(dimension).saturating_mul(1000) / self.nodes.limit(dimension, node).max(1)
        };
        of(0).max(of(1))
    }
}
