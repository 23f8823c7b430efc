//! Shares in a tree decide whose turn it is, from the root down. Users under dominant resource fairness (Ghodsi et al.,
//! NSDI 2011, section 4) are leaves below the root. Queues form a hierarchy in which guarantees come first, as in
//! YARN's capacity scheduler.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::Resources;
use borough_model::queue::SHARE_WHOLE;

use super::policy::{Queueing, QueueingPolicy, Turn};
use super::usage::{Amounts, CellTotals, Usage, WHOLE};
use crate::count::CountChange;

/// The order among siblings, the smallest first. Those below their guarantee come first, by the part of it that they
/// have. The others follow, by their share over their weight. Chance breaks ties.
type Rank = (bool, u64, u64);

/// A node of the tree: the root, a queue or a user.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub parent: Option<usize>,
    /// Children that have work waiting.
    children: BTreeSet<(Rank, usize)>,
    /// Its rank among its parent's children, while work waits in it.
    rank: Option<Rank>,
    pub held: Amounts,
    pub weight: u64,
    /// In millionths of the cell.
    pub guaranteed: u64,
    limit: u64,
    chance: u64,
}

/// A queue that would exceed its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limited {
    /// Its number, from 1.
    pub queue: u32,
    /// What it has, in millionths of the cell.
    pub share: u64,
}

/// The shares of all users and queues, and which of them have work waiting.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    pub(super) totals: CellTotals,
    pub(super) branches: Vec<Branch>,
    /// The branch of each turn.
    pub(super) places: BTreeMap<Turn, usize>,
    /// The waiting lane of each branch.
    lanes: BTreeMap<usize, usize>,
    /// How many times anything changed in what anybody holds.
    changes: u64,
}

const TOP: usize = 0;

impl Branch {
    fn new(parent: Option<usize>, chance: u64) -> Self {
        Self {
            parent,
            children: BTreeSet::new(),
            rank: None,
            held: Amounts::new(),
            weight: 1,
            guaranteed: 0,
            limit: u64::MAX,
            chance,
        }
    }

    fn rank_now(&self, totals: &CellTotals) -> Rank {
        let share = totals.share(&self.held);
        if share < self.guaranteed {
            return (false, share.saturating_mul(WHOLE) / self.guaranteed, self.chance);
        }
        (true, share.saturating_mul(1_000) / self.weight.max(1), self.chance)
    }
}

impl Shares {
    /// The shares as they are now. `chance` breaks ties, differently in each batch.
    pub(crate) fn new(
        queueing: &Queueing,
        usage: &Usage,
        totals: CellTotals,
        chance: impl Fn(&Turn) -> u64,
    ) -> Self {
        let top = Branch::new(None, 0);
        let mut shares =
            Self { totals, branches: vec![top], places: BTreeMap::new(), lanes: BTreeMap::new(), changes: 0 };
        if queueing.policy == QueueingPolicy::Hierarchical {
            shares.queues_put(queueing, &chance);
        }
        for (turn, held) in usage.all() {
            let place = shares.place(queueing, turn, &chance);
            shares.held_change(place, held, CountChange::Add);
        }
        shares
    }

    /// Adds the queues, parents before children. Sorting by the length of the path does that: a path is longer than its
    /// parent's.
    fn queues_put(&mut self, queueing: &Queueing, chance: &impl Fn(&Turn) -> u64) {
        let per_mille = |part: u32| u64::from(part) * (WHOLE / u64::from(SHARE_WHOLE));
        let mut by_path: BTreeMap<&str, usize> = BTreeMap::new();
        let mut ordered: Vec<usize> = (0..queueing.queues.len()).collect();
        ordered.sort_by_key(|&number| queueing.queues.get(number).map_or(0, |queue| queue.path.len()));
        for number in ordered {
            let Some(queue) = queueing.queues.get(number) else { continue };
            let parent = queue.parent().and_then(|parent| by_path.get(parent)).copied().unwrap_or(TOP);
            let turn = Turn { queue: u32::try_from(number + 1).unwrap_or(0), user: None };
            let mut branch = Branch::new(Some(parent), chance(&turn));
            branch.weight = u64::from(queue.weight);
            branch.guaranteed = per_mille(queue.guaranteed_per_mille);
            branch.limit = per_mille(queue.limit_per_mille);
            self.branches.push(branch);
            by_path.insert(&queue.path, self.branches.len() - 1);
            self.places.insert(turn, self.branches.len() - 1);
        }
    }

    fn place(&mut self, queueing: &Queueing, turn: &Turn, chance: &impl Fn(&Turn) -> u64) -> usize {
        if let Some(&place) = self.places.get(turn) {
            return place;
        }
        let mut branch = Branch::new(Some(TOP), chance(turn));
        let weight = turn.user.as_ref().and_then(|user| queueing.weights.get(user));
        branch.weight = u64::from(weight.copied().unwrap_or(1));
        self.branches.push(branch);
        self.places.insert(turn.clone(), self.branches.len() - 1);
        self.branches.len() - 1
    }

    /// Adds a lane with waiting work.
    pub(crate) fn lane_put(
        &mut self,
        queueing: &Queueing,
        turn: &Turn,
        lane: usize,
        chance: impl Fn(&Turn) -> u64,
    ) {
        let place = self.place(queueing, turn, &chance);
        self.lanes.insert(place, lane);
        self.waiting(place);
    }

    /// Marks a branch and its ancestors as having work.
    fn waiting(&mut self, place: usize) {
        let mut at = Some(place);
        while let Some(place) = at {
            let Some(branch) = self.branches.get_mut(place).filter(|branch| branch.rank.is_none()) else {
                return;
            };
            let rank = branch.rank_now(&self.totals);
            branch.rank = Some(rank);
            at = branch.parent;
            if let Some(parent) = at.and_then(|parent| self.branches.get_mut(parent)) {
                parent.children.insert((rank, place));
            }
        }
    }

    /// The lane whose turn it is.
    pub(crate) fn next(&self) -> Option<usize> {
        let mut place = TOP;
        loop {
            if let Some(&lane) = self.lanes.get(&place) {
                return Some(lane);
            }
            let &(_, child) = self.branches.get(place)?.children.first()?;
            place = child;
        }
    }

    /// Removes a lane: it is empty, or its queue may have no more.
    pub(crate) fn lane_done(&mut self, turn: &Turn) {
        let Some(&place) = self.places.get(turn) else { return };
        self.lanes.remove(&place);
        let mut at = Some(place);
        while let Some(place) = at {
            let Some(branch) = self.branches.get_mut(place).filter(|branch| branch.children.is_empty())
            else {
                return;
            };
            let (rank, parent) = (branch.rank.take(), branch.parent);
            if let (Some(rank), Some(parent)) =
                (rank, parent.and_then(|parent| self.branches.get_mut(parent)))
            {
                parent.children.remove(&(rank, place));
            }
            at = parent;
        }
    }

    /// Changes what a user or queue holds, and so the shares of its ancestors.
    pub(crate) fn change(&mut self, turn: &Turn, resources: &Resources, change: CountChange) {
        let Some(&place) = self.places.get(turn) else { return };
        self.changes += 1;
        self.held_change(place, resources, change);
    }

    /// A number that grows with each change of what anybody holds.
    pub(crate) fn version(&self) -> u64 {
        self.changes
    }

    fn held_change(&mut self, place: usize, resources: &Resources, change: CountChange) {
        let amounts = self.totals.amounts(resources);
        let mut at = Some(place);
        while let Some(place) = at {
            let Some(branch) = self.branches.get_mut(place) else { return };
            match change {
                CountChange::Add => amounts_add(&mut branch.held, &amounts),
                CountChange::Remove => amounts_take(&mut branch.held, &amounts),
            }
            at = branch.parent;
            let Some(before) = branch.rank else { continue };
            let rank = branch.rank_now(&self.totals);
            branch.rank = Some(rank);
            if let Some(parent) = at.and_then(|parent| self.branches.get_mut(parent)) {
                parent.children.remove(&(before, place));
                parent.children.insert((rank, place));
            }
        }
    }

    /// The queue that `resources` more would take beyond its limit.
    pub(crate) fn limited(&self, turn: &Turn, resources: &Resources) -> Option<Limited> {
        let amounts = self.totals.amounts(resources);
        let mut at = self.places.get(turn).copied();
        while let Some(place) = at {
            let branch = self.branches.get(place)?;
            let mut held = branch.held.clone();
            amounts_add(&mut held, &amounts);
            if branch.limit < WHOLE && self.totals.share(&held) > branch.limit {
                let queue = self.places.iter().find(|&(_, &known)| known == place)?.0.queue;
                return Some(Limited { queue, share: self.totals.share(&branch.held) });
            }
            at = branch.parent;
        }
        None
    }
}

/// Subtracts amounts, down to zero.
pub(super) fn amounts_take(held: &mut Amounts, less: &Amounts) {
    held.iter_mut().zip(less).for_each(|(held, &less)| *held = held.saturating_sub(less));
}

pub(super) fn amounts_add(held: &mut Amounts, more: &Amounts) {
    if held.len() < more.len() {
        held.resize(more.len(), 0);
    }
    held.iter_mut().zip(more).for_each(|(held, &more)| *held = held.saturating_add(more));
}
