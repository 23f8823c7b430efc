//! Which parts of jobs fail over now.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;

use super::hold::FailoverHold;
use super::watch::{CellLook, FederationWatch, WATCH_GAP_MS};
use crate::federation::spec::FailoverAfter;
use crate::id::Name;

/// A leader decides nothing before it has watched for so long without a gap.
pub const WATCHED_MS_MIN: u64 = 60_000;
/// Successive looks of one leader that brought no answer, before a cell fails over.
pub const LOOKS_FAILED_MIN: u32 = 3;
/// The jobs of so many cells begin to fail over in any [`FAILOVER_WINDOW_MS`].
pub const FAILOVER_CELLS_MAX: usize = 2;
/// The window of [`FAILOVER_CELLS_MAX`].
pub const FAILOVER_WINDOW_MS: u64 = 60_000;

// A new leader does not know which failovers an earlier one began. When it may begin one, they are older than the
// window.
const _: () = assert!(WATCHED_MS_MIN >= FAILOVER_WINDOW_MS, "a new leader could begin too many failovers");

/// The tasks of a job that are promised to one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromisedPart {
    pub user: Name,
    pub job: Name,
    pub cell: Name,
    /// How many tasks are promised.
    pub count: u32,
    pub failover_after: FailoverAfter,
    /// Whether its tasks are promised to other cells already. It ends when the cell answers again: a silence after
    /// that needs the whole tolerance.
    pub failed_over: bool,
}

/// What is decided of one part, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverVerdict {
    pub user: Name,
    pub job: Name,
    pub cell: Name,
    pub outcome: FailoverOutcome,
}

/// Whether a part fails over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailoverOutcome {
    /// Now.
    Begins,
    Holds(FailoverHold),
}

impl fmt::Display for FailoverOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begins => f.write_str("the cell was silent for too long, so its tasks go to other cells"),
            Self::Holds(hold) => hold.fmt(f),
        }
    }
}

/// What a part is ready for, without the limit of the rate.
enum PartStatus {
    /// Its cell answers.
    Answers,
    Held(FailoverHold),
    /// It may fail over.
    Ripe,
}

/// Decides at `now_ms`, by the monotonic clock of `watch`, which parts fail over. A part of a cell that answers has no
/// verdict.
pub fn failover_decide(watch: &FederationWatch, parts: &[PromisedPart], now_ms: u64) -> Vec<FailoverVerdict> {
    let statuses: Vec<PartStatus> = parts.iter().map(|part| status(watch, part, now_ms)).collect();
    let ripe = |(part, status): (&PromisedPart, &PartStatus)| {
        matches!(status, PartStatus::Ripe).then(|| part.cell.clone())
    };
    let ripe: BTreeSet<Name> = parts.iter().zip(&statuses).filter_map(ripe).collect();
    let chosen = cells_chosen(watch, ripe, now_ms);
    let verdict = |(part, status): (&PromisedPart, PartStatus)| {
        let outcome = match status {
            PartStatus::Answers => return None,
            PartStatus::Held(hold) => FailoverOutcome::Holds(hold),
            PartStatus::Ripe if chosen.contains(&part.cell) => FailoverOutcome::Begins,
            PartStatus::Ripe => {
                FailoverOutcome::Holds(FailoverHold::RateLimited { cells: FAILOVER_CELLS_MAX })
            }
        };
        let PromisedPart { user, job, cell, .. } = part;
        Some(FailoverVerdict { user: user.clone(), job: job.clone(), cell: cell.clone(), outcome })
    };
    parts.iter().zip(statuses).filter_map(verdict).collect()
}

/// Which of the cells that could fail over do so. Those that began within the window go on, then come those that were
/// silent for longest.
fn cells_chosen(watch: &FederationWatch, ripe: BTreeSet<Name>, now_ms: u64) -> BTreeSet<Name> {
    let begun: BTreeSet<&Name> = watch.begun_within(FAILOVER_WINDOW_MS, now_ms).collect();
    let left = FAILOVER_CELLS_MAX.saturating_sub(begun.len());
    let (again, new): (Vec<Name>, Vec<Name>) = ripe.into_iter().partition(|cell| begun.contains(cell));
    let silence = |cell: &Name| watch.cell(cell).map_or(0, |cell| cell.observed_ms);
    let mut new: Vec<(Reverse<u64>, Name)> =
        new.into_iter().map(|cell| (Reverse(silence(&cell)), cell)).collect();
    new.sort();
    again.into_iter().chain(new.into_iter().map(|(_, cell)| cell).take(left)).collect()
}

fn status(watch: &FederationWatch, part: &PromisedPart, now_ms: u64) -> PartStatus {
    let Some(cell) = watch.cell(&part.cell) else { return PartStatus::Held(FailoverHold::NotLooked) };
    if cell.look == CellLook::Answered {
        return PartStatus::Answers;
    }
    let (answering, all) = watch.visible();
    let (watched_ms, idle_ms) = (watch.unbroken_ms(), watch.idle_ms(now_ms).unwrap_or(u64::MAX));
    PartStatus::Held(match part.failover_after {
        _ if part.failed_over => FailoverHold::Begun,
        _ if part.count == 0 => FailoverHold::NoTasks,
        _ if cell.look == CellLook::Refused => FailoverHold::Refuses,
        FailoverAfter::Never => FailoverHold::Never,
        FailoverAfter::Ms(_) if !watch.sees_majority() => FailoverHold::CutOff { answering, all },
        FailoverAfter::Ms(_) if idle_ms > WATCH_GAP_MS => FailoverHold::NoLook { idle_ms },
        FailoverAfter::Ms(_) if watched_ms < WATCHED_MS_MIN => FailoverHold::WatchNew { watched_ms },
        FailoverAfter::Ms(_) if cell.looks_failed < LOOKS_FAILED_MIN => {
            FailoverHold::FewLooks { looks: cell.looks_failed }
        }
        FailoverAfter::Ms(tolerance_ms) if cell.observed_ms < tolerance_ms => {
            FailoverHold::Tolerated { observed_ms: cell.observed_ms, tolerance_ms }
        }
        FailoverAfter::Ms(_) => return PartStatus::Ripe,
    })
}
