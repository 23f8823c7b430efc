//! Which tasks stay when a cell is back after its tasks were promised to others.
//!
//! More tasks are promised then than the owner wants: once to the cells that are back, and once to the others. A step
//! says what counts each cell must have now. No step raises a count, so no task is promised again. One side stays, and
//! the other loses tasks as those that stay run. What runs is thus never less than what ran, up to the wanted count.

use std::collections::BTreeMap;
use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::federation::spec::ReturnPolicy;
use crate::id::Name;
use crate::job::file::duration_text;

/// After so long the side that stays gives up tasks that do not run, so that the other side keeps some in their place.
pub const SETTLE_MS_MAX: u64 = 900_000;

/// What is known of a job with cells that are back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub policy: ReturnPolicy,
    /// How many tasks its owner wants in all of these cells together. Tasks in cells that are failed over and still
    /// silent are part of it.
    pub count: u32,
    /// The cells that are back.
    pub returned: Vec<SettleCell>,
    /// All other cells with tasks of the job, without those that are failed over.
    pub others: Vec<SettleCell>,
    /// The side that an earlier step has chosen.
    pub kept: Option<KeptSide>,
    /// For how long all cells that are back have answered again. The monotonic clock of one leader is best: another
    /// value may only end the wait for tasks earlier or later.
    pub back_ms: u64,
}

/// One cell of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleCell {
    pub cell: Name,
    /// Whether the last look brought a report.
    pub is_current: bool,
    /// How many tasks are promised to it.
    pub promised: u32,
    /// How many of these it had before the failover. They are no part of the settlement. 0 for a cell that is back.
    pub own: u32,
    /// How many run, by its last report.
    pub running: u32,
    /// How many of these are healthy.
    pub healthy: u32,
    /// For how long the tasks beyond `own` have run: the median, by the clock of the cell itself. The clocks of two
    /// cells may differ by hours.
    pub runs_for_ms: u64,
}

/// Which tasks stay.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum KeptSide {
    /// Those of the cells that are back.
    #[n(0)]
    Returned,
    /// Those of the other cells.
    #[n(1)]
    Others,
}

/// What a settlement does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleStep {
    /// What each cell must have now. No count is larger than what is promised.
    pub counts: BTreeMap<Name, u32>,
    /// To be recorded with the counts: later steps go on with it.
    pub kept: KeptSide,
    pub outcome: SettleOutcome,
}

/// Whether anything is left to do after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// With these counts each task is promised once. The cells that are back are as any other now.
    Settled,
    Waits(SettleWait),
}

/// What a settlement waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleWait {
    /// So many tasks of the side that stays do not run yet.
    NotRunning { kept: KeptSide, tasks: u32 },
    /// So many tasks of the side that stays are not healthy yet.
    NotHealthy { kept: KeptSide, tasks: u32 },
    /// Nothing is known of the tasks of this cell.
    Silent { cell: Name },
}

/// The tasks of one cell that a settlement is about: those beyond its own.
struct SettleTasks<'f> {
    facts: &'f SettleCell,
    extra: u32,
    /// How many of these do not run, or are not healthy if that is asked. Nobody knows whether those of a silent cell
    /// run.
    open: u32,
    given: u32,
}

impl<'f> SettleTasks<'f> {
    fn of(facts: &'f SettleCell, policy: ReturnPolicy) -> Self {
        let extra = facts.promised.saturating_sub(facts.own);
        let running = facts.running.min(facts.promised);
        let good = if policy == ReturnPolicy::Both { facts.healthy.min(running) } else { running };
        // Which of its tasks do not run is not known here: it counts as if they were those of the settlement.
        let open = extra.min(facts.promised.saturating_sub(good));
        let open = if facts.is_current { open } else { extra };
        Self { facts, extra, open, given: facts.promised }
    }

    /// How many of the settlement's tasks it still has.
    fn left(&self) -> u32 {
        self.given.saturating_sub(self.facts.promised.saturating_sub(self.extra))
    }
}

/// What the counts of each cell must be now. For `split: duplicate` nothing replaces the tasks of a cell, and the
/// caller has nothing to settle.
pub fn settle_step(facts: &Settlement) -> SettleStep {
    let kept = kept_side(facts);
    let tasks = |cells: &'_ [SettleCell]| -> u32 {
        cells.iter().map(|cell| cell.own.min(cell.promised)).fold(0, u32::saturating_add)
    };
    let need = facts.count.saturating_sub(tasks(&facts.returned)).saturating_sub(tasks(&facts.others));
    let side = |side: KeptSide| {
        let cells = if side == KeptSide::Returned { &facts.returned } else { &facts.others };
        let mut cells: Vec<SettleTasks<'_>> =
            cells.iter().map(|cell| SettleTasks::of(cell, facts.policy)).collect();
        cells.sort_by(|left, right| left.facts.cell.cmp(&right.facts.cell));
        cells
    };
    let (mut stays, mut leaves) = (side(kept), side(kept.other()));
    let silent = facts.returned.iter().find(|cell| !cell.is_current);
    let wait = match silent {
        Some(cell) => Some(SettleWait::Silent { cell: cell.cell.clone() }),
        None => counts_lower(facts, need, &mut stays, &mut leaves).map(|open| match open {
            OpenTasks::Silent(cell) => SettleWait::Silent { cell },
            OpenTasks::Known(tasks) if facts.policy == ReturnPolicy::Both => {
                SettleWait::NotHealthy { kept, tasks }
            }
            OpenTasks::Known(tasks) => SettleWait::NotRunning { kept, tasks },
        }),
    };
    let counts = stays.iter().chain(&leaves).map(|cell| (cell.facts.cell.clone(), cell.given)).collect();
    let outcome = wait.map_or(SettleOutcome::Settled, SettleOutcome::Waits);
    SettleStep { counts, kept, outcome }
}

impl KeptSide {
    fn other(self) -> Self {
        match self {
            Self::Returned => Self::Others,
            Self::Others => Self::Returned,
        }
    }
}

/// What a settlement cannot judge yet.
enum OpenTasks {
    Silent(Name),
    Known(u32),
}

/// Lowers counts as far as may be done now, and returns what is waited for.
fn counts_lower(
    facts: &Settlement,
    need: u32,
    stays: &mut [SettleTasks<'_>],
    leaves: &mut [SettleTasks<'_>],
) -> Option<OpenTasks> {
    let (kept, other) = (extra_sum(stays), extra_sum(leaves));
    let excess = kept.saturating_add(other).saturating_sub(need);
    let open = open_sum(stays).min(excess);
    if facts.back_ms >= SETTLE_MS_MAX {
        // The others have so many tasks that run, or are healthy, in place of those.
        let replaced = other.saturating_sub(open_sum(leaves));
        let most = replaced.saturating_add(kept.saturating_sub(need));
        let given_up = lower(stays, open.min(most), LowerExtent::Open);
        let rest = excess.saturating_sub(given_up);
        let left = rest.saturating_sub(lower(leaves, rest, LowerExtent::All));
        return silent_left(leaves, left);
    }
    let may = if facts.policy == ReturnPolicy::Both && open > 0 { 0 } else { excess.saturating_sub(open) };
    let left = excess.saturating_sub(lower(leaves, may, LowerExtent::All));
    let has_more = leaves.iter().any(|cell| cell.left() > 0);
    let silent = stays.iter().find(|cell| !cell.facts.is_current && cell.extra > 0);
    match silent {
        Some(cell) if open > 0 && has_more => Some(OpenTasks::Silent(cell.facts.cell.clone())),
        None if open > 0 && has_more => Some(OpenTasks::Known(open)),
        _ => silent_left(leaves, left),
    }
}

fn extra_sum(cells: &[SettleTasks<'_>]) -> u32 {
    cells.iter().map(|cell| cell.extra).fold(0, u32::saturating_add)
}

fn open_sum(cells: &[SettleTasks<'_>]) -> u32 {
    cells.iter().map(|cell| cell.open).fold(0, u32::saturating_add)
}

/// The cell that is to have fewer tasks and cannot be asked.
fn silent_left(leaves: &[SettleTasks<'_>], left: u32) -> Option<OpenTasks> {
    let silent = leaves.iter().find(|cell| left > 0 && !cell.facts.is_current && cell.left() > 0);
    silent.map(|cell| OpenTasks::Silent(cell.facts.cell.clone()))
}

/// Which tasks of a cell a step may take away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LowerExtent {
    Open,
    /// The open ones of all cells first.
    All,
}

/// Takes up to `tasks` away from the cells that answer. Returns how many it took.
fn lower(cells: &mut [SettleTasks<'_>], tasks: u32, extent: LowerExtent) -> u32 {
    let mut left = tasks;
    let mut answering: Vec<_> = cells.iter_mut().filter(|cell| cell.facts.is_current).collect();
    for cell in &mut answering {
        let taken = cell.open.min(left);
        cell.given = cell.given.saturating_sub(taken);
        left = left.saturating_sub(taken);
    }
    for cell in answering.iter_mut().filter(|_| extent == LowerExtent::All) {
        let taken = cell.left().min(left);
        cell.given = cell.given.saturating_sub(taken);
        left = left.saturating_sub(taken);
    }
    tasks.saturating_sub(left)
}

/// The side that stays: as an earlier step chose, or by the policy.
fn kept_side(facts: &Settlement) -> KeptSide {
    if let Some(kept) = facts.kept {
        return kept;
    }
    match facts.policy {
        ReturnPolicy::New | ReturnPolicy::Both => KeptSide::Others,
        ReturnPolicy::Old => KeptSide::Returned,
        ReturnPolicy::Older => {
            let (returned, others) = (age_ms(&facts.returned), age_ms(&facts.others));
            if returned.is_some() && returned >= others { KeptSide::Returned } else { KeptSide::Others }
        }
    }
}

/// For how long the tasks of a side have run, each cell by the number of its tasks that run. `None`: none runs.
fn age_ms(cells: &[SettleCell]) -> Option<u128> {
    let of_cell = |cell: &SettleCell| {
        let extra = cell.running.min(cell.promised).saturating_sub(cell.own);
        let extra = if cell.is_current { u128::from(extra) } else { 0 };
        (extra, extra.saturating_mul(u128::from(cell.runs_for_ms)))
    };
    let (running, sum) = cells.iter().map(of_cell).fold((0_u128, 0_u128), |(running, sum), (more, age)| {
        (running.saturating_add(more), sum.saturating_add(age))
    });
    sum.checked_div(running)
}

/// A finding, and then what would change it.
impl fmt::Display for SettleWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stay = |kept: &KeptSide| match kept {
            KeptSide::Returned => "in the cell that is back",
            KeptSide::Others => "in the other cells",
        };
        let end = duration_text(SETTLE_MS_MAX);
        match self {
            Self::NotRunning { kept, tasks } => write!(
                f,
                "{tasks} tasks {} are to stay and do not run yet; others run in their place until they do, and for good \
                 after {end}",
                stay(kept)
            ),
            Self::NotHealthy { kept, tasks } => write!(
                f,
                "{tasks} tasks {} are to stay and are not healthy yet; others run beside them until they are, and in \
                 their place after {end}",
                stay(kept)
            ),
            Self::Silent { cell } => write!(
                f,
                "{cell} is silent, so nobody knows what it runs; it goes on when the cell answers again or fails over"
            ),
        }
    }
}
