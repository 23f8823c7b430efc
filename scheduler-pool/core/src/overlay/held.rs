//! The shares of users and queues while a plan is made, and what a queue may claim of them.

use borough_model::{Resources, TaskId};

use super::PlanOverlay;
use crate::count::CountChange;
use crate::queueing::{Claim, Turn};

impl PlanOverlay<'_> {
    /// Starts to follow the shares.
    pub(crate) fn shares_known(&mut self) {
        self.shares = Some(self.tables.shares());
    }

    /// Adds what a task holds to the shares, or removes it.
    pub(crate) fn held_change(&mut self, task: TaskId, change: CountChange) {
        let Some(mut shares) = self.shares.take() else { return };
        if let Some((turn, resources)) = self.held_by(task) {
            shares.change(turn, resources, change);
        }
        self.shares = Some(shares);
    }

    /// The user or queue of a task, and what the task holds there.
    pub(crate) fn held_by(&self, task: TaskId) -> Option<(&'_ Turn, &'_ Resources)> {
        let entry = self.tables.jobs.get(&task.job)?;
        let (_, spec) = entry.spec.as_ref()?;
        Some((entry.turn.as_ref()?, spec.resources_for(task.index)))
    }

    /// How far the queue of a task is above its guarantee; `None` if the task keeps what it has.
    pub(crate) fn excess(&self, claim: &Claim, task: TaskId) -> Option<u64> {
        let (turn, resources) = self.held_by(task)?;
        self.shares.as_ref()?.excess(claim, turn, resources)
    }
}
