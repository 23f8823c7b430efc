//! Whom a task may take the place of, before it is asked where.

use borough_model::Resources;

use crate::overlay::PlanOverlay;
use crate::queueing::{Claim, Guaranteed, Turn};
use crate::tables::{CellJob, CellTables};

/// Whom a task may take the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct PreemptionScope {
    /// Everybody below this priority; 0: nobody.
    pub below: u32,
    /// Those below this priority whose queues have more than they are guaranteed, as long as its own has less; 0:
    /// nobody.
    pub claims_below: u32,
    /// The queue that claims, from 1; 0: none.
    pub queue: u32,
}

impl PreemptionScope {
    /// Whom a task of a job may take the place of.
    pub fn of_task(tables: &CellTables, entry: &CellJob, index: u32) -> Self {
        let below = entry.victims_below(index);
        let queue = entry.turn.as_ref().map_or(0, |turn| turn.queue);
        let claims_below = if tables.settings.reclaims() && queue > 0 { entry.claims_below() } else { 0 };
        Self { below, claims_below, queue: if claims_below > 0 { queue } else { 0 } }
    }

    /// Whether it may take anybody's place.
    pub fn any(self) -> bool {
        self.bound() > 0
    }

    /// No victim has this priority or a higher one.
    pub fn bound(self) -> u32 {
        self.below.max(self.claims_below)
    }

    /// Whether somebody else who cannot be helped shows that nobody with this reach can.
    pub fn within(self, other: Self) -> bool {
        let claims =
            self.queue == 0 || (self.queue == other.queue && self.claims_below <= other.claims_below);
        self.below <= other.below && claims
    }

    /// The same without what its queue may claim.
    pub fn unclaimed(self) -> Self {
        Self { below: self.below, ..Self::default() }
    }

    fn turn(self) -> Turn {
        Turn { queue: self.queue, user: None }
    }

    /// Whom it reaches now for a task that asks for so much, as a plan has left the shares, and what its queue may
    /// claim.
    pub fn now(self, work: &PlanOverlay<'_>, asked: &Resources) -> (Self, Option<Claim>) {
        match self.claim(work, asked) {
            Some(claim) => (self, Some(claim)),
            None => (self.unclaimed(), None),
        }
    }

    /// What its queue may claim then.
    pub fn claim(self, work: &PlanOverlay<'_>, asked: &Resources) -> Option<Claim> {
        let shares = work.shares.as_ref().filter(|_| self.queue > 0)?;
        shares.claim(&self.turn(), asked, self.claims_below)
    }

    /// Whether its queue may ever claim anything, so that time alone may help it.
    pub fn claims(self, work: &PlanOverlay<'_>) -> bool {
        self.guarantee(work, &Resources::default()).is_some()
    }

    /// What its queue is guaranteed, for a task that asks for so much.
    pub fn guarantee(self, work: &PlanOverlay<'_>, asked: &Resources) -> Option<Guaranteed> {
        work.shares.as_ref().filter(|_| self.queue > 0)?.guarantee(&self.turn(), asked)
    }
}
