//! Reclaim between queues. A queue below its guarantee takes back what other queues have above theirs.
//!
//! Two queues compete at the children of their lowest common ancestor. The claimant's child there must stay within its
//! guarantee after the claim. The victim's child there, and every queue below it on the victim's path, must keep its
//! own guarantee. So an evicted task has nothing to claim from the task that took its place, and no task goes back and
//! forth.

use std::collections::BTreeMap;

use borough_model::Resources;
use smallvec::SmallVec;

use super::policy::Turn;
use super::share::{Shares, amounts_add, amounts_take};
use super::usage::Amounts;

/// The claim of a task on behalf of its queues.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Every victim has a priority below this.
    pub below: u32,
    /// Its queue and the ancestors, the root last. The flag says whether that queue may take from its siblings.
    path: SmallVec<[(usize, bool); 6]>,
}

impl Claim {
    /// Returns whether the queue of its path right below a place may take from its siblings. `None` if the place is not
    /// on its path.
    fn takes_below(&self, place: usize) -> Option<bool> {
        let at = self.path.iter().position(|&(known, _)| known == place)?;
        at.checked_sub(1).and_then(|child| self.path.get(child)).map(|&(_, takes)| takes)
    }

    fn within(&self, place: usize) -> bool {
        self.path.first().is_some_and(|&(leaf, _)| leaf == place)
    }
}

/// A victim, as shares count it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedVictim<'a> {
    /// Its user or queue.
    pub turn: &'a Turn,
    /// The resources that it holds.
    pub resources: &'a Resources,
    /// True if a queue claims it. False if it is evicted for a higher priority.
    pub claimed: bool,
}

/// A queue with a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guaranteed {
    /// Its number, from 1.
    pub queue: u32,
    /// Its present share, in millionths of the cell.
    pub share: u64,
    /// True if it is below its guarantee, and would not exceed it with the task.
    pub lacks: bool,
}

impl Shares {
    /// The queue that reclaims for a task: the lowest that is below its guarantee. If none is, the lowest that has a
    /// guarantee.
    pub(crate) fn guarantee(&self, turn: &Turn, asked: &Resources) -> Option<Guaranteed> {
        let asked = self.totals.amounts(asked);
        let &leaf = self.places.get(turn)?;
        let lacking = self.path(leaf).find(|&place| self.takes(place, &asked));
        let known = |place: &usize| self.branches.get(*place).is_some_and(|branch| branch.guaranteed > 0);
        let place = lacking.or_else(|| self.path(leaf).find(known))?;
        let queue = self.places.iter().find(|&(_, &known)| known == place)?.0.queue;
        let share = self.totals.share(&self.branches.get(place)?.held);
        Some(Guaranteed { queue, share, lacks: lacking.is_some() })
    }

    /// The claim of a task with this request. `None` if no queue on its path may take for it, or if no queue that it
    /// competes with has more than its guarantee.
    pub(crate) fn claim(&self, turn: &Turn, asked: &Resources, below: u32) -> Option<Claim> {
        let &place = self.places.get(turn)?;
        let asked = self.totals.amounts(asked);
        let path: SmallVec<[(usize, bool); 6]> =
            self.path(place).map(|place| (place, self.takes(place, &asked))).collect();
        let claim = Claim { below, path };
        let gives = |(place, branch): (usize, &super::share::Branch)| {
            let taken_from = branch.parent.and_then(|parent| claim.takes_below(parent)) == Some(true);
            let other = claim.path.iter().all(|&(known, _)| known != place);
            taken_from && other && self.totals.share(&branch.held) > branch.guaranteed
        };
        self.branches.iter().enumerate().any(gives).then_some(claim)
    }

    /// How far a queue is above its guarantee where it competes with a claimant, in millionths of the cell over its
    /// weight. `None` if it is not, or if losing `less` would put it, or a queue on its path, below a guarantee.
    pub(crate) fn excess(&self, claim: &Claim, turn: &Turn, less: &Resources) -> Option<u64> {
        let less = self.totals.amounts(less);
        let mut at = *self.places.get(turn)?;
        if claim.within(at) {
            return None;
        }
        loop {
            let branch = self.branches.get(at)?;
            if self.left(&branch.held, &less) < branch.guaranteed {
                return None;
            }
            let parent = branch.parent?;
            if let Some(takes) = claim.takes_below(parent) {
                let beyond = self.totals.share(&branch.held).saturating_sub(branch.guaranteed);
                return (takes && beyond > 0).then(|| beyond.saturating_mul(1_000) / branch.weight.max(1));
            }
            at = parent;
        }
    }

    /// Returns true if all victims can go together: each queue from which something is claimed keeps its guarantee.
    pub(crate) fn guarantees_kept(&self, claim: &Claim, victims: &[SharedVictim<'_>]) -> bool {
        let mut less: BTreeMap<usize, Amounts> = BTreeMap::new();
        let mut claimed = Vec::new();
        for &SharedVictim { turn, resources, claimed: is_claimed } in victims {
            let amounts = self.totals.amounts(resources);
            let Some(&leaf) = self.places.get(turn) else { continue };
            for place in self.path(leaf) {
                amounts_add(less.entry(place).or_default(), &amounts);
            }
            if is_claimed {
                claimed.extend(self.path(leaf).take_while(|&place| claim.takes_below(place).is_none()));
            }
        }
        claimed.into_iter().all(|place| {
            let (branch, less) = (self.branches.get(place), less.get(&place));
            branch.zip(less).is_none_or(|(branch, less)| self.left(&branch.held, less) >= branch.guaranteed)
        })
    }

    /// The place and its ancestors, the root last.
    fn path(&self, place: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(place), |&place| self.branches.get(place)?.parent)
    }

    /// Returns true if a queue is below its guarantee and would not exceed it with `asked` more.
    fn takes(&self, place: usize, asked: &Amounts) -> bool {
        let Some(branch) = self.branches.get(place) else { return false };
        let mut with = branch.held.clone();
        amounts_add(&mut with, asked);
        self.totals.share(&branch.held) < branch.guaranteed && self.totals.share(&with) <= branch.guaranteed
    }

    fn left(&self, held: &Amounts, less: &Amounts) -> u64 {
        let mut left = held.clone();
        amounts_take(&mut left, less);
        self.totals.share(&left)
    }
}
