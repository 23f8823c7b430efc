//! Divides the tasks of a federated job among cells, and says why.
//!
//! [`split`] goes through these steps:
//!
//! 1. `standing`: which cells may get tasks, and which keep those that they have.
//! 2. `domain`: which values of labels the tasks are spread over.
//! 3. `portion`: group by group, as many tasks as the cells take. What must leave a cell stays while no other has room.
//! 4. `verdict`: what each cell gets, and what limits it.
//!
//! Each step sorts the cells once: the cost is O(n log n) for n cells. A rule of spread costs O(n) more for each value
//! that it still needs.

mod domain;
mod portion;
mod standing;
mod verdict;

use std::collections::BTreeMap;

use super::facts::CellFacts;
use super::spec::{FederationSpec, SplitPolicy};
use crate::id::Name;
use domain::{spread_limit, spread_reach};
use portion::{Portion, place};
use standing::{SpecIndex, standing};
pub use verdict::{CellReason, CellVerdict, ShortfallCause, SpreadShortfall};

/// How much of an earlier split stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SplitMode {
    /// For the first split, another count, other rules and other cells. Each cell keeps what it has, as far as it is
    /// allowed and wanted. Only a job with `avoid_disruption: false` is divided as in [`SplitMode::Rebalance`].
    Again,
    /// All tasks are divided as if none was placed. Only a cell that takes no new tasks keeps those that it has. Tasks
    /// that do not run and have no room in their cell go where there is room.
    Rebalance,
    /// As [`SplitMode::Again`], and tasks that do not run and have no room in their cell go where there is room.
    RebalanceStuck,
}

/// The tasks of a job by cell, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The cells with tasks. For `split: duplicate` each has up to the whole count.
    pub counts: BTreeMap<Name, u32>,
    /// How many tasks have no cell. For `split: duplicate` the sum over the cells that may have the job.
    pub unplaced: u32,
    /// A rule of spread that the cells cannot meet. Nothing new is placed then.
    pub shortfall: Option<SpreadShortfall>,
    /// What each cell gets and why, by name.
    pub cells: Vec<CellVerdict>,
}

/// Divides `count` tasks among `cells`. Each cell stands there once; their order does not matter.
///
/// The parts are in proportion by the method of largest remainders, which is Hamilton's for seats of a parliament. Each
/// cell gets its share rounded down. The tasks that are left go to the largest remainders, ties by name. A cell with a
/// nearer bound gets its bound, and the others divide the rest (water filling).
pub fn split(spec: &FederationSpec, count: u32, cells: &[CellFacts], mode: SplitMode) -> Split {
    let mut sorted: Vec<&CellFacts> = cells.iter().collect();
    sorted.sort_by(|left, right| left.name.cmp(&right.name));
    let index = SpecIndex::of(spec);
    let mut portions: Vec<Portion<'_>> =
        sorted.iter().enumerate().map(|(at, facts)| standing(spec, &index, mode, at, facts)).collect();
    // A cell without a group is none of the job's. It may keep tasks, and is the first to lose them.
    let group = |portion: &Portion<'_>| portion.group.unwrap_or(usize::MAX);
    portions.sort_by_key(|portion| (group(portion), portion.preference, portion.at));
    let mut shortfall = None;
    if spec.split == SplitPolicy::Duplicate {
        shortfall = duplicate(spec, &mut portions, count);
    } else if wanted(&portions) > u64::from(count) {
        lower(spec, &mut portions, count);
    } else {
        shortfall = raise(spec, &mut portions, count);
        if shortfall.is_some() && wanted(&portions) > u64::from(count) {
            lower(spec, &mut portions, count);
        }
        return_stuck(spec, &mut portions, count);
    }
    portions.sort_by_key(|portion| portion.at);
    verdict::split_of(spec, count, &portions, shortfall)
}

/// The tasks that cells have for certain.
fn wanted(portions: &[Portion<'_>]) -> u64 {
    portions.iter().map(|portion| u64::from(portion.floor)).sum()
}

/// What has been given becomes certain.
fn settle(portions: &mut [Portion<'_>]) {
    for portion in portions {
        portion.floor = portion.given;
    }
}

/// Nothing new: each cell has what it keeps. For a rebalance that is all that it has.
fn keep(portions: &mut [Portion<'_>]) {
    for portion in portions {
        portion.floor = portion.kept;
        portion.given = portion.kept;
        portion.ceiling = portion.kept;
    }
}

/// Gives each cell what is certain, and places the other tasks.
fn raise(spec: &FederationSpec, portions: &mut [Portion<'_>], count: u32) -> Option<SpreadShortfall> {
    if count > 0 {
        spread_limit(spec, portions, u64::from(count));
        if let Err(shortfall) = spread_reach(spec, portions, count) {
            keep(portions);
            return Some(shortfall);
        }
    }
    place(spec.split, portions, count);
    None
}

/// Takes tasks away until `count` are left. Tasks that run stay before those that do not, and those of earlier groups
/// before those of later ones. Nobody knows whether the tasks of a silent cell run.
fn lower(spec: &FederationSpec, portions: &mut [Portion<'_>], count: u32) {
    let full: Vec<Portion<'_>> = portions.to_vec();
    for portion in portions.iter_mut() {
        portion.ceiling = portion.floor;
        portion.min = portion.min.min(portion.ceiling).max(1);
        portion.floor = 0;
        portion.given = 0;
    }
    // A count below the rule of spread, or cells that do not meet it any more: the count is what the owner wants.
    if spread_reach(spec, portions, count).is_err() {
        for portion in portions.iter_mut() {
            portion.floor = 0;
        }
    }
    let bounds: Vec<u32> = portions.iter().map(|portion| portion.ceiling).collect();
    for portion in portions.iter_mut() {
        portion.ceiling = portion.ceiling.min(portion.running()).max(portion.floor);
    }
    place(spec.split, portions, count);
    settle(portions);
    for (portion, bound) in portions.iter_mut().zip(bounds) {
        portion.ceiling = bound;
    }
    place(spec.split, portions, count);
    settle(portions);
    // Where a cell has lost all of its tasks because of its least number, others may take what is left.
    for (portion, full) in portions.iter_mut().zip(full) {
        portion.min = full.min;
        portion.ceiling = if portion.given > 0 { full.ceiling.max(portion.given) } else { 0 };
    }
    place(spec.split, portions, count);
    settle(portions);
}

/// Leaves tasks where they are, if no other cell has room for them: first those that run.
fn return_stuck(spec: &FederationSpec, portions: &mut [Portion<'_>], count: u32) {
    if portions.iter().all(|portion| portion.stuck == 0) {
        return;
    }
    let running = |portion: &Portion<'_>| portion.kept.min(portion.running());
    let all = |portion: &Portion<'_>| portion.kept;
    let bounds: [fn(&Portion<'_>) -> u32; 2] = [running, all];
    for bound in bounds {
        settle(portions);
        for portion in portions.iter_mut() {
            let most = if portion.stuck > 0 { bound(portion) } else { 0 };
            portion.ceiling = most.max(portion.given);
        }
        place(spec.split, portions, count);
    }
}

/// Gives each cell the whole count, or as many as it takes.
fn duplicate(spec: &FederationSpec, portions: &mut [Portion<'_>], count: u32) -> Option<SpreadShortfall> {
    for portion in portions.iter_mut() {
        portion.floor = portion.floor.min(count);
        portion.kept = portion.kept.min(count);
        portion.ceiling = portion.ceiling.min(count);
    }
    if count > 0 {
        spread_limit(spec, portions, 0);
        let floors: Vec<u32> = portions.iter().map(|portion| portion.floor).collect();
        // The cells do not share the count, so the least numbers of several may exceed it together.
        let reached = spread_reach(spec, portions, u32::MAX);
        for (portion, floor) in portions.iter_mut().zip(floors) {
            portion.floor = floor;
        }
        if let Err(shortfall) = reached {
            keep(portions);
            return Some(shortfall);
        }
    }
    for portion in portions.iter_mut() {
        // One that cannot reach its least number gets nothing new.
        portion.given = if portion.ceiling >= portion.min { portion.ceiling } else { portion.floor };
    }
    None
}
