//! What a release waits for, and what each cell has of it, in data and in words.

use std::fmt;

use super::facts::{CellProgress, RELEASE_SKIP_MS, StagedCell, StagedCells};
use super::spec::ReleaseSpec;
use super::state::{ReleasePhase, ReleaseState};
use super::step::ReleaseAction;
use crate::id::Name;
use crate::job::file::duration_text;

/// What a release waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseWait {
    /// A person has stopped it.
    Paused,
    /// The version has failed in too many cells.
    Stopped { failures: u32, most: u32 },
    /// These cells are changing.
    Cells { first: Name, others: u32 },
    /// This cell cannot be reached. It is skipped if that goes on.
    Unreachable { cell: Name, for_ms: u64 },
    /// No cell of the stage has shown that the version works.
    NoProof { stage: u32, has_tasks: bool },
    /// The cells of the stage stand, and not for long enough.
    Proving { stage: u32, since_ms: i64 },
    /// A person has to let the next stage begin.
    Approval { stage: u32 },
    /// Nothing: the release is over.
    Over,
}

/// What one cell has of a release, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseVerdict {
    pub cell: Name,
    /// The place of its stage.
    pub stage: u32,
    /// The version that it is assigned, with this step.
    pub assigned: Option<u64>,
    pub reason: ReleaseReason,
}

/// Why a cell has the version that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// No task of the job is promised to it.
    NoTasks,
    /// Its tasks run the version that it is to have.
    Stands,
    /// It is changing to that version.
    Changes,
    /// Its own rolling update has failed.
    Failed { why: String },
    /// It cannot be reached, and its stage waits for it.
    Unreachable { for_ms: u64 },
    /// It has been unreachable for so long that nobody waits for it.
    Skipped { for_ms: u64 },
    /// Other cells of its stage are changing.
    AtOnce { most: u32 },
    /// An earlier stage is under way.
    LaterStage { under_way: u32 },
    /// A person has stopped the release.
    Paused,
    /// The release has failed.
    Stopped,
    /// Later stages go back first.
    RevertsLater,
}

pub(super) fn verdicts(
    spec: &ReleaseSpec,
    state: &ReleaseState,
    staged: &StagedCells<'_>,
    action: &ReleaseAction,
) -> Vec<ReleaseVerdict> {
    let verdict = |cell: &StagedCell<'_>| {
        let assignments =
            if let ReleaseAction::Assign(assignments) = action { assignments.as_slice() } else { &[] };
        let now = assignments
            .iter()
            .find(|assignment| assignment.cell == cell.facts.name)
            .map(|assignment| assignment.version);
        let reason = if now.is_some() { ReleaseReason::Changes } else { reason(spec, state, cell) };
        ReleaseVerdict {
            cell: cell.facts.name.clone(),
            stage: u32::try_from(cell.stage).unwrap_or(u32::MAX),
            assigned: now.or(cell.facts.assigned),
            reason,
        }
    };
    staged.cells.iter().map(verdict).collect()
}

/// Why a cell that gets nothing in this step has what it has.
fn reason(spec: &ReleaseSpec, state: &ReleaseState, cell: &StagedCell<'_>) -> ReleaseReason {
    let (facts, stage) = (cell.facts, state.stage_place());
    if !facts.has_tasks {
        return ReleaseReason::NoTasks;
    }
    if let Some(for_ms) = facts.unreachable_ms() {
        let is_brief = for_ms < RELEASE_SKIP_MS;
        return if is_brief {
            ReleaseReason::Unreachable { for_ms }
        } else {
            ReleaseReason::Skipped { for_ms }
        };
    }
    let is_new = facts.assigned == Some(state.version);
    let target = match state.phase {
        ReleasePhase::Rolling if cell.stage <= stage => state.version,
        ReleasePhase::Rolling | ReleasePhase::Failed if is_new => state.version,
        _ => state.from,
    };
    let goes_back = !matches!(state.phase, ReleasePhase::Rolling | ReleasePhase::Failed);
    if facts.assigned == Some(target) {
        match &facts.progress {
            CellProgress::Failed { why } => return ReleaseReason::Failed { why: why.clone() },
            CellProgress::Rolling => return ReleaseReason::Changes,
            CellProgress::Complete if target == state.version || goes_back => return ReleaseReason::Stands,
            // It has the version from which its stage is to come.
            CellProgress::Complete => {}
        }
    }
    match state.phase {
        ReleasePhase::Rolling if state.paused => ReleaseReason::Paused,
        ReleasePhase::Rolling if cell.stage > stage => ReleaseReason::LaterStage { under_way: state.stage },
        ReleasePhase::Failed => ReleaseReason::Stopped,
        ReleasePhase::Reverting if cell.stage < stage => ReleaseReason::RevertsLater,
        _ => ReleaseReason::AtOnce { most: spec.at_once(cell.stage) },
    }
}

/// The time in whole seconds.
fn seconds(ms: u64) -> String {
    duration_text(ms / 1_000 * 1_000)
}

/// A finding, and then what would change it.
impl fmt::Display for ReleaseWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("a person has paused it; it goes on when it is resumed"),
            Self::Stopped { failures, most } => write!(
                f,
                "the version has failed in {}, and the job bears {most}; a newer version or `federation job undo` would end that",
                if *failures == 1 { "1 cell".to_owned() } else { format!("{failures} cells") },
            ),
            Self::Cells { first, others: 0 } => {
                write!(f, "{first} is changing; it goes on when that has ended")
            }
            Self::Cells { first, others } => {
                write!(f, "{first} and {others} more cells are changing; it goes on when they have ended")
            }
            Self::Unreachable { cell, for_ms } => write!(
                f,
                "{cell} has been unreachable for {}; it goes on when the cell is back, or without it after {}",
                seconds(*for_ms),
                seconds(RELEASE_SKIP_MS)
            ),
            Self::NoProof { stage, has_tasks } => {
                let lacks =
                    if *has_tasks { "can be reached and has the version" } else { "has tasks of the job" };
                write!(
                    f,
                    "no cell of stage {stage} {lacks}, so nothing shows that the version works; it goes on when one has \
                     proved it, or when a person approves the stage"
                )
            }
            Self::Proving { stage, .. } => {
                write!(
                    f,
                    "the cells of stage {stage} have the version and prove it; it goes on when they have stood"
                )
            }
            Self::Approval { stage } => {
                write!(f, "stage {stage} has proved the version; it goes on when a person approves the stage")
            }
            Self::Over => {
                f.write_str("every cell that can be reached has its version; a newer one would begin again")
            }
        }
    }
}

/// A finding, and then what would change it.
impl fmt::Display for ReleaseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTasks => f.write_str("it has no tasks of the job; with some it would get a version"),
            Self::Stands => f.write_str("its tasks run the version"),
            Self::Changes => f.write_str("its own rolling update brings the version"),
            Self::Failed { why } => {
                write!(
                    f,
                    "its own rolling update has failed: {why}; a newer version or `federation job undo` would replace it"
                )
            }
            Self::Unreachable { for_ms } => write!(
                f,
                "it has been unreachable for {}; it gets its version when it is back, and its stage goes on without it \
                 after {}",
                seconds(*for_ms),
                seconds(RELEASE_SKIP_MS)
            ),
            Self::Skipped { for_ms } => write!(
                f,
                "it has been unreachable for {}, so it is skipped; it gets the version that is current when it is back",
                seconds(*for_ms)
            ),
            Self::AtOnce { most } => write!(
                f,
                "{most} other cells of its stage are changing, the most at once; it is its turn when one has ended"
            ),
            Self::LaterStage { under_way } => {
                write!(f, "stage {under_way} is under way; it gets the version when its own stage begins")
            }
            Self::Paused => {
                f.write_str("a person has paused the release; it gets the version when that ends")
            }
            Self::Stopped => f.write_str("the version has failed in too many cells, so it keeps what it has"),
            Self::RevertsLater => f.write_str("cells of later stages go back first"),
        }
    }
}

/// `a: version 4: …`.
impl fmt::Display for ReleaseVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.cell)?;
        match self.assigned {
            Some(version) => write!(f, "version {version}: {}", self.reason),
            None => write!(f, "no version: {}", self.reason),
        }
    }
}
