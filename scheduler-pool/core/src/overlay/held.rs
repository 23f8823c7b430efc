//! What those who take turns hold while a plan is made, and what may be claimed of it.

use borough_model::{Resources, TaskId};

use super::PlanOverlay;
use crate::queueing::{Claim, Turn};

impl PlanOverlay<'_> {
    /// Counts what everybody holds from here on.
    pub fn shares_known(&mut self) {
        self.shares = Some(self.tables.shares());
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
    pub fn held_by(&self, task: TaskId) -> Option<(&'_ Turn, &'_ Resources)> {
        let entry = self.tables.jobs.get(&task.job)?;
        let (_, spec) = entry.spec.as_ref()?;
        Some((entry.turn.as_ref()?, spec.resources_for(task.index)))
    }

    /// How far the queue of a task is beyond its guarantee; `None`: it keeps what it has.
    pub fn excess(&self, claim: &Claim, task: TaskId) -> Option<u64> {
        let (turn, resources) = self.held_by(task)?;
        self.shares.as_ref()?.excess(claim, turn, resources)
    }
}
