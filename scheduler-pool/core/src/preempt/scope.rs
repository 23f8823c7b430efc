//! The preemption scope: which tasks a preemptor may evict, on whatever node.

use borough_model::Resources;

use crate::overlay::PlanOverlay;
use crate::queueing::{Claim, Guaranteed, Turn};
use crate::tables::{CellJob, CellTables};

/// Which tasks a preemptor may evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct PreemptionScope {
    /// It may evict every task below this priority; 0: none.
    pub below: u32,
    /// Its queue may claim from tasks below this priority in queues above their guarantee, while it is below its own;
    /// 0: from none.
    pub claims_below: u32,
    /// The queue that claims, from 1; 0: none.
    pub queue: u32,
}

impl PreemptionScope {
    /// The scope of a task of a job.
    pub(crate) fn of_task(tables: &CellTables, entry: &CellJob, index: u32) -> Self {
        let below = entry.victims_below(index);
        let queue = entry.turn.as_ref().map_or(0, |turn| turn.queue);
        let claims_below = if tables.settings.reclaims() && queue > 0 { entry.claims_below() } else { 0 };
        Self { below, claims_below, queue: if claims_below > 0 { queue } else { 0 } }
    }

    /// Returns true if it may evict any task.
    pub(crate) fn any(self) -> bool {
        self.bound() > 0
    }

    /// Every victim has a priority below this.
    pub(crate) fn bound(self) -> u32 {
        self.below.max(self.claims_below)
    }

    /// Returns true if `other` covers at least the same victims. A failed search for `other` then proves that this
    /// scope finds none either.
    pub(crate) fn covered_by(self, other: Self) -> bool {
        let claims =
            self.queue == 0 || (self.queue == other.queue && self.claims_below <= other.claims_below);
        self.below <= other.below && claims
    }

    /// The scope without the claim of its queue.
    pub(crate) fn without_claim(self) -> Self {
        Self { below: self.below, ..Self::default() }
    }

    fn turn(self) -> Turn {
        Turn { queue: self.queue, user: None }
    }

    /// The scope in force for a task that asks for this, with the shares as a plan has left them, and the claim of its
    /// queue.
    pub(crate) fn resolved(self, overlay: &PlanOverlay<'_>, asked: &Resources) -> (Self, Option<Claim>) {
        match self.claim(overlay, asked) {
            Some(claim) => (self, Some(claim)),
            None => (self.without_claim(), None),
        }
    }

    /// The claim of its queue for such a task.
    pub(crate) fn claim(self, overlay: &PlanOverlay<'_>, asked: &Resources) -> Option<Claim> {
        let shares = overlay.shares.as_ref().filter(|_| self.queue > 0)?;
        shares.claim(&self.turn(), asked, self.claims_below)
    }

    /// Returns true if its queue has a guarantee, so that time alone may help it.
    pub(crate) fn claims(self, overlay: &PlanOverlay<'_>) -> bool {
        self.guarantee(overlay, &Resources::default()).is_some()
    }

    /// The guarantee of its queue, for a task that asks for this.
    pub(crate) fn guarantee(self, overlay: &PlanOverlay<'_>, asked: &Resources) -> Option<Guaranteed> {
        overlay.shares.as_ref().filter(|_| self.queue > 0)?.guarantee(&self.turn(), asked)
    }
}
