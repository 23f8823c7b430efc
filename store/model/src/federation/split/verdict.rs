//! What each cell gets of a job and why, in data and in words.

use std::collections::BTreeMap;
use std::fmt;

use super::Split;
use super::portion::Portion;
use crate::federation::spec::{FederationSpec, SPREAD_BY_CELL, SplitPolicy};
use crate::id::Name;
use crate::merged::LabelCondition;
use crate::node::{Taint, TaintEffect};

/// What is said of a cell that has the name itself.
const NAME_TAKEN: &str = "it has a job of this name of its own, which the federation leaves alone; once that job is \
    stopped there, it takes tasks";

/// What one cell gets, and what decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellVerdict {
    pub cell: Name,
    /// The place of its group in the spec, from 0; absent: it is no cell of the job.
    pub group: Option<usize>,
    /// The tasks that were promised to it.
    pub had: u32,
    pub gets: u32,
    pub reason: CellReason,
}

/// Why a cell gets so many tasks and no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellReason {
    /// The job names other cells. Its tasks leave.
    NotNamed,
    /// Its labels do not meet a condition of the job. Its tasks leave.
    ConditionNotMet { condition: LabelCondition, value: Option<String> },
    /// No group of the job has it. Its tasks leave.
    NoGroup,
    /// It is being drained. Its tasks go to other cells, as far as those have room.
    Leaving,
    /// It has a taint that the job does not tolerate. With `no_execute` its tasks go to other cells, as far as those
    /// have room.
    Tainted { taint: Taint },
    /// Its tasks are promised to other cells, because it was silent for too long.
    FailedOver,
    /// It takes no new tasks.
    Cordoned,
    /// It has a job of the name that is no part of this one.
    NameTaken,
    /// The federation has not heard of it.
    Silent { since_ms: i64 },
    /// It has tasks of a job that this one keeps away from.
    AwayFrom { job: Name },
    /// It lacks a label over which the job is spread.
    SpreadLabelMissing { key: String },
    /// The tasks are in as many other domains as they may be.
    SpreadFull { by: String, value: String, max: u32 },
    /// The job cannot be spread as it asks, so nothing new is placed.
    SpreadUnmet { shortfall: SpreadShortfall },
    /// Nobody could ask the cell how many more tasks it has room for.
    RoomUnknown,
    /// Its scheduler would place no more than `room` beside what it had.
    RoomTaken { room: u32 },
    /// It has the most tasks that the job allows it.
    AtMax { max: u32 },
    /// It could have `most` tasks, which are fewer than the least that the job allows it.
    BelowMin { min: u32, most: u32 },
    /// So few tasks are left that it would have fewer than its least.
    TooFewLeft { min: u32, left: u32 },
    /// Some of its tasks did not run and had no room, so other cells have them.
    Stuck { moved: u32 },
    /// Other cells have all tasks.
    NotNeeded,
    /// All tasks have cells, and this is its part.
    Share,
}

/// A rule of spread that a split cannot meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadShortfall {
    pub by: String,
    /// The least number of domains by the rule.
    pub min: u32,
    /// How many can have tasks.
    pub reached: u32,
    pub cause: ShortfallCause,
}

/// What a rule of spread lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortfallCause {
    /// Cells in other domains with room.
    Cells,
    /// Tasks: the least numbers of the cells are more than the count together.
    Tasks,
}

/// The split that the portions make, in the order of their names.
pub(super) fn split_of(
    spec: &FederationSpec,
    count: u32,
    portions: &[Portion<'_>],
    shortfall: Option<SpreadShortfall>,
) -> Split {
    let unplaced = unplaced(spec, count, portions);
    let verdict = |portion: &Portion<'_>| CellVerdict {
        cell: portion.facts.name.clone(),
        group: portion.group,
        had: portion.facts.has,
        gets: portion.given,
        reason: reason(portion, count, unplaced, shortfall.as_ref()),
    };
    let cells: Vec<CellVerdict> = portions.iter().map(verdict).collect();
    let counts: BTreeMap<Name, u32> = portions
        .iter()
        .filter(|portion| portion.given > 0)
        .map(|portion| (portion.facts.name.clone(), portion.given))
        .collect();
    Split { counts, unplaced, shortfall, cells }
}

fn unplaced(spec: &FederationSpec, count: u32, portions: &[Portion<'_>]) -> u32 {
    if spec.split == SplitPolicy::Duplicate {
        let lacks = |portion: &Portion<'_>| count.min(portion.max).saturating_sub(portion.given);
        let open = portions.iter().filter(|portion| portion.reason.is_none());
        return open.map(lacks).fold(0, u32::saturating_add);
    }
    portions.iter().fold(count, |left, portion| left.saturating_sub(portion.given))
}

fn reason(
    portion: &Portion<'_>,
    count: u32,
    unplaced: u32,
    shortfall: Option<&SpreadShortfall>,
) -> CellReason {
    if let Some(reason) = &portion.reason {
        return reason.clone();
    }
    if let Some(shortfall) = shortfall {
        return CellReason::SpreadUnmet { shortfall: shortfall.clone() };
    }
    let moved = portion.facts.has.saturating_sub(portion.given).min(portion.stuck);
    if moved > 0 {
        return CellReason::Stuck { moved };
    }
    let room = portion.facts.room.unwrap_or(0);
    let most = portion.facts.has.saturating_add(room).min(portion.max);
    let all = portion.given >= count;
    if portion.given == 0 && most > 0 && most < portion.min {
        return CellReason::BelowMin { min: portion.min, most };
    }
    if portion.given >= portion.max && !all {
        return CellReason::AtMax { max: portion.max };
    }
    if portion.given >= most && !all {
        return CellReason::RoomTaken { room };
    }
    match (portion.given, unplaced) {
        (0, 0) => CellReason::NotNeeded,
        (_, 0) => CellReason::Share,
        (_, left) => CellReason::TooFewLeft { min: portion.min, left },
    }
}

/// `3 tasks`.
fn tasks(number: u32) -> String {
    if number == 1 { "1 task".to_owned() } else { format!("{number} tasks") }
}

/// `region "eu"`, or `cell "a"`.
fn domains(by: &str) -> String {
    if by == SPREAD_BY_CELL { "cells".to_owned() } else { format!("values of the label {by}") }
}

/// What a taint with this effect does beside keeping new tasks away.
const NO_EXECUTE: &str = ", so its tasks go to other cells as far as those have room";

/// A finding, and then what would change it.
impl fmt::Display for CellReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNamed => {
                f.write_str("the job names other cells; it would be one of them if `cells` named it")
            }
            Self::ConditionNotMet { condition, value } => {
                let has = value.as_ref().map_or_else(|| "not set".to_owned(), |value| format!("{value:?}"));
                write!(f, "its label {} is {has}, and the job asks for {condition}; ", condition.key)?;
                f.write_str("another label of the cell or another condition of the job would let it in")
            }
            Self::NoGroup => f.write_str("no group of the job has it; a group with its name or labels would let it in"),
            Self::Leaving => f.write_str("it is being drained, so its tasks go to other cells as far as those have room"),
            Self::Tainted { taint } => {
                let leave = if taint.effect == TaintEffect::NoExecute { NO_EXECUTE } else { "" };
                write!(f, "its taint {taint} is not tolerated{leave}; ")?;
                f.write_str("a toleration in the job would let tasks in")
            }
            Self::FailedOver => f.write_str(
                "it was silent for too long, so its tasks go to other cells; it can have tasks again when it is back and \
                 what it still runs is settled",
            ),
            Self::Cordoned => f.write_str("it is cordoned; without the cordon it would take new tasks"),
            Self::NameTaken => f.write_str(NAME_TAKEN),
            Self::Silent { .. } => f.write_str(
                "the federation does not hear of it, so it keeps what it has; it takes new tasks when it is heard of again",
            ),
            Self::AwayFrom { job } => {
                write!(f, "it has tasks of {job}, from which the job keeps away; it would take tasks without those")
            }
            Self::SpreadLabelMissing { key } => {
                write!(f, "it has no label {key}, over which the job is spread; with the label it would take tasks")
            }
            Self::SpreadFull { by, value, max } => {
                let of = if by == SPREAD_BY_CELL { String::new() } else { format!("{by} {value:?} is another one: ") };
                write!(f, "{of}tasks are in {max} {} at most; a larger `max` would let it in", domains(by))
            }
            Self::SpreadUnmet { shortfall } => write!(f, "nothing new is placed, because {shortfall}"),
            Self::RoomUnknown => {
                f.write_str("it did not say how much room it has when the tasks were last divided; it takes new tasks when it does")
            }
            Self::RoomTaken { room: 0 } => {
                f.write_str("its scheduler has no room for another task; free resources in it would let more in")
            }
            Self::RoomTaken { room } => write!(
                f,
                "its scheduler has room for {} more, which it gets; free resources in it would let more in",
                tasks(*room)
            ),
            Self::AtMax { max } => {
                write!(f, "the job allows it {} at most; a larger `cell_max` or limit would let more in", tasks(*max))
            }
            Self::BelowMin { min, most } => write!(
                f,
                "it could have {}, and the job asks for {min} or none; more room or a smaller `cell_min` would let it in",
                tasks(*most)
            ),
            Self::TooFewLeft { min, left } => write!(
                f,
                "{} left, and the job asks for {min} in a cell or none; a larger count or a smaller `cell_min` would let \
                 it in",
                if *left == 1 { "1 task is".to_owned() } else { format!("{left} tasks are") },
            ),
            Self::Stuck { moved } => {
                write!(f, "{} did not run and had no room in it, so other cells have them", tasks(*moved))
            }
            Self::NotNeeded => f.write_str("no task is left for it; it would get some of a larger count"),
            Self::Share => f.write_str("this is its part, and no task is without a cell"),
        }
    }
}

impl fmt::Display for SpreadShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, min, reached, cause } = self;
        let of = domains(by);
        match cause {
            ShortfallCause::Cells => write!(
                f,
                "tasks must be in {min} {of}, and cells of {reached} can have some; room in another one or a smaller \
                 `min` would let tasks in"
            ),
            ShortfallCause::Tasks => write!(
                f,
                "tasks must be in {min} {of}, for which there are too few tasks; a larger count, a smaller `cell_min` or \
                 a smaller `min` would let tasks in"
            ),
        }
    }
}

/// `a: 3 tasks, 2 before: …`.
impl fmt::Display for CellVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cell, tasks(self.gets))?;
        if self.had != self.gets {
            write!(f, ", {} before", self.had)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// One line for all cells.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let placed = self.counts.values().fold(0, |sum: u64, count| sum.saturating_add(u64::from(*count)));
        let cells = self.counts.len();
        let of_cells = if cells == 1 { "cell" } else { "cells" };
        write!(f, "{placed} placed in {cells} {of_cells}, {} unplaced", self.unplaced)?;
        match &self.shortfall {
            Some(shortfall) => write!(f, ": {shortfall}"),
            None => Ok(()),
        }
    }
}
