//! Divides tasks among the cells of one group after the other, within the bounds of each cell.

use std::cmp::Reverse;

use super::verdict::CellReason;
use crate::federation::facts::CellFacts;
use crate::federation::spec::SplitPolicy;

/// What one cell may have, and what it gets.
#[derive(Clone, Debug)]
pub(super) struct Portion<'c> {
    /// Its place by name.
    pub(super) at: usize,
    pub(super) facts: &'c CellFacts,
    /// Absent: it is no cell of the job.
    pub(super) group: Option<usize>,
    pub(super) preference: Preference,
    /// For parts in proportion.
    pub(super) weight: u64,
    /// At least so many, or none.
    pub(super) min: u32,
    pub(super) max: u32,
    /// What it has if nothing new is placed.
    pub(super) kept: u32,
    /// Whether it has tasks that stay, except stuck ones for which others have room.
    pub(super) stays: bool,
    /// Tasks of these that go to other cells, as far as those have room.
    pub(super) stuck: u32,
    /// It has so many for certain.
    pub(super) floor: u32,
    /// The most that it can have.
    pub(super) ceiling: u32,
    pub(super) given: u32,
    /// Why it gets no new tasks.
    pub(super) reason: Option<CellReason>,
}

/// Which cells of a group come first: the lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Preference {
    /// Cells without tasks come after those with tasks.
    pub(super) empty: bool,
    pub(super) place: u64,
}

impl Portion<'_> {
    /// Tasks that are known to run.
    pub(super) fn running(&self) -> u32 {
        if self.facts.silent_since_ms.is_some() { 0 } else { self.facts.running }
    }

    /// The tasks that it takes if it is to have any: none are asked for that one task alone would not be.
    pub(super) fn cost(&self) -> u32 {
        if self.min > 1 { self.min } else { 0 }
    }

    /// Returns true if it has no tasks yet and can have as many as it must.
    pub(super) fn is_open(&self) -> bool {
        self.floor == 0 && self.ceiling >= self.min.max(1)
    }
}

/// Gives each cell its floor, and divides the other tasks up to `count` among the cells. The portions are sorted by
/// group. The sum of the floors is at most `count`.
pub(super) fn place(policy: SplitPolicy, portions: &mut [Portion<'_>], count: u32) {
    let floors = |portions: &[Portion<'_>]| portions.iter().map(|one| u64::from(one.floor)).sum::<u64>();
    let mut left = u64::from(count);
    let mut later = floors(portions);
    for group in portions.chunk_by_mut(|left, right| left.group == right.group) {
        later = later.saturating_sub(floors(group));
        group_place(policy, group, left.saturating_sub(later));
        let given: u64 = group.iter().map(|portion| u64::from(portion.given)).sum();
        left = left.saturating_sub(given);
    }
}

/// Divides tasks among the cells of a group, which are in the order of preference.
fn group_place(policy: SplitPolicy, group: &mut [Portion<'_>], tasks: u64) {
    let mut spent: u64 = group.iter().map(|portion| u64::from(portion.floor)).sum();
    let mut ranges: Vec<CellRange> = Vec::new();
    for portion in group.iter() {
        let mut range = CellRange { at: portion.at, least: portion.floor, most: 0, weight: portion.weight };
        if portion.floor > 0 {
            let lift = u64::from(portion.min.saturating_sub(portion.floor));
            // One that is below its least number and cannot reach it gets nothing new.
            let reaches = portion.ceiling >= portion.min && spent.saturating_add(lift) <= tasks;
            range.least = if reaches { portion.floor.max(portion.min) } else { portion.floor };
            range.most = if reaches { portion.ceiling } else { portion.floor };
            spent = spent.saturating_add(u64::from(range.least.saturating_sub(portion.floor)));
        }
        ranges.push(range);
    }
    let has: u64 = ranges.iter().map(|range| u64::from(range.most)).sum();
    let open: Vec<usize> =
        group.iter().enumerate().filter(|(_, portion)| portion.is_open()).map(|(at, _)| at).collect();
    let offers: Vec<CellOffer> = open
        .iter()
        .filter_map(|at| group.get(*at))
        .map(|portion| CellOffer { cost: u64::from(portion.cost()), gain: u64::from(portion.ceiling) })
        .collect();
    let extent = match policy {
        SplitPolicy::Pack | SplitPolicy::Order => Extent::Enough,
        SplitPolicy::Free | SplitPolicy::Weight | SplitPolicy::Duplicate => Extent::All,
    };
    let budget = tasks.saturating_sub(spent);
    let chosen = choose(&offers, budget, tasks.saturating_sub(has), extent);
    for (at, _) in open.iter().zip(chosen).filter(|(_, chosen)| *chosen) {
        if let (Some(portion), Some(range)) = (group.get(*at), ranges.get_mut(*at)) {
            range.least = portion.cost();
            range.most = portion.ceiling;
        }
    }
    let given = match extent {
        Extent::Enough => fill_in_order(&ranges, tasks),
        Extent::All => fill_evenly(&ranges, tasks),
    };
    for (portion, given) in group.iter_mut().zip(given) {
        portion.given = given;
    }
}

/// What a cell, or a domain, would add if it is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellOffer {
    pub(super) cost: u64,
    pub(super) gain: u64,
}

/// How many offers are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// No more than are needed.
    Enough,
    /// As many as the budget allows.
    All,
}

/// Chooses offers in their order, so that the costs are within the budget. If the gains are less than `need` together,
/// offers that gain more replace those that gain less. If all cost the same, no other choice gains more.
pub(super) fn choose(offers: &[CellOffer], budget: u64, need: u64, extent: Extent) -> Vec<bool> {
    let mut chosen = vec![false; offers.len()];
    let mut choice = Choice { left: budget, gain: 0, need, extent };
    choice.take(offers, &mut chosen);
    let mut order: Vec<usize> = (0..offers.len()).collect();
    order.sort_by_key(|at| Reverse(offers.get(*at).map(|offer| offer.gain)));
    let mut come: Vec<usize> = order.iter().copied().filter(|at| chosen.get(*at) == Some(&false)).collect();
    let mut go: Vec<usize> = order.iter().copied().filter(|at| chosen.get(*at) == Some(&true)).collect();
    come.reverse();
    while choice.gain < choice.need {
        let (Some(enters), Some(leaves)) = (come.last().copied(), go.last().copied()) else { break };
        let (Some(new), Some(old)) = (offers.get(enters), offers.get(leaves)) else { break };
        if new.gain <= old.gain {
            break;
        }
        come.pop();
        if new.cost <= choice.left.saturating_add(old.cost) {
            go.pop();
            choice.left = choice.left.saturating_add(old.cost).saturating_sub(new.cost);
            choice.gain = choice.gain.saturating_add(new.gain).saturating_sub(old.gain);
            for (at, is) in [(enters, true), (leaves, false)] {
                if let Some(chosen) = chosen.get_mut(at) {
                    *chosen = is;
                }
            }
        }
    }
    choice.take(offers, &mut chosen);
    chosen
}

/// What is chosen so far.
struct Choice {
    left: u64,
    gain: u64,
    need: u64,
    extent: Extent,
}

impl Choice {
    /// Takes offers in their order while the budget allows.
    fn take(&mut self, offers: &[CellOffer], chosen: &mut [bool]) {
        for (offer, chosen) in offers.iter().zip(chosen) {
            let enough = self.extent == Extent::Enough && self.gain >= self.need;
            if !*chosen && !enough && offer.cost <= self.left {
                *chosen = true;
                self.left = self.left.saturating_sub(offer.cost);
                self.gain = self.gain.saturating_add(offer.gain);
            }
        }
    }
}

/// How many tasks a cell gets at least and at most.
#[derive(Clone, Copy, Debug)]
struct CellRange {
    at: usize,
    least: u32,
    most: u32,
    weight: u64,
}

/// Each range gets its least, and then each is filled before the next.
fn fill_in_order(ranges: &[CellRange], tasks: u64) -> Vec<u32> {
    let least: u64 = ranges.iter().map(|range| u64::from(range.least)).sum();
    let mut left = tasks.saturating_sub(least);
    let fill = |range: &CellRange| {
        let more = u64::from(range.most.saturating_sub(range.least)).min(left);
        left = left.saturating_sub(more);
        range.least.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
    };
    ranges.iter().map(fill).collect()
}

/// A place on the way of the level of water: a cell begins or stops to rise with it.
#[derive(Clone, Copy, Debug)]
struct LevelTurn {
    /// The level is `tasks / weight`.
    tasks: u32,
    range: CellRange,
    begins: bool,
}

/// Divides tasks in proportion to the weights: each range gets the level times its weight, within its bounds. The level
/// is where the sum is right. The bounds are whole, so that only the ranges between theirs are rounded.
fn fill_evenly(ranges: &[CellRange], tasks: u64) -> Vec<u32> {
    let sum = |part: fn(&CellRange) -> u32| ranges.iter().map(|range| u64::from(part(range))).sum::<u64>();
    if tasks <= sum(|range| range.least) {
        return ranges.iter().map(|range| range.least).collect();
    }
    if tasks >= sum(|range| range.most) {
        return ranges.iter().map(|range| range.most).collect();
    }
    let turns = |range: &CellRange| {
        [
            LevelTurn { tasks: range.least, range: *range, begins: true },
            LevelTurn { tasks: range.most, range: *range, begins: false },
        ]
    };
    let mut turns: Vec<LevelTurn> =
        ranges.iter().filter(|range| range.least < range.most).flat_map(turns).collect();
    let scaled =
        |turn: &LevelTurn, other: &LevelTurn| u128::from(turn.tasks) * u128::from(other.range.weight);
    turns.sort_by(|left, right| scaled(left, right).cmp(&scaled(right, left)));
    // The sum at a level is what stands still, and the level times the weights of those that rise.
    let mut still = u128::from(sum(|range| range.least));
    let mut rising: u128 = 0;
    for turn in &turns {
        let weight = u128::from(turn.range.weight);
        if (u128::from(tasks).saturating_sub(still)) * weight <= u128::from(turn.tasks) * rising {
            break;
        }
        if turn.begins {
            still = still.saturating_sub(u128::from(turn.range.least));
            rising = rising.saturating_add(weight);
        } else {
            still = still.saturating_add(u128::from(turn.range.most));
            rising = rising.saturating_sub(weight);
        }
    }
    let level = WaterLevel { tasks: u128::from(tasks).saturating_sub(still), weight: rising.max(1) };
    level.shares(ranges, tasks)
}

/// The level of the water: so many tasks for so much weight.
struct WaterLevel {
    tasks: u128,
    weight: u128,
}

impl WaterLevel {
    /// The tasks of each range. Those between their bounds are rounded by largest remainders.
    fn shares(&self, ranges: &[CellRange], tasks: u64) -> Vec<u32> {
        let mut given: Vec<u32> = Vec::new();
        let mut remainders: Vec<(Reverse<u128>, usize, usize)> = Vec::new();
        for (place, range) in ranges.iter().enumerate() {
            let share = self.tasks * u128::from(range.weight);
            if share <= u128::from(range.least) * self.weight {
                given.push(range.least);
            } else if share >= u128::from(range.most) * self.weight {
                given.push(range.most);
            } else {
                given.push(u32::try_from(share / self.weight).unwrap_or(u32::MAX));
                remainders.push((Reverse(share % self.weight), range.at, place));
            }
        }
        remainders.sort_unstable();
        let sum: u64 = given.iter().map(|given| u64::from(*given)).sum();
        let extra = usize::try_from(tasks.saturating_sub(sum)).unwrap_or(usize::MAX);
        for (_, _, place) in remainders.into_iter().take(extra) {
            if let Some(given) = given.get_mut(place) {
                *given = given.saturating_add(1);
            }
        }
        given
    }
}
