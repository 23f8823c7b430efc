//! What a release does next.

use super::facts::{CellProgress, CellRelease, RELEASE_SKIP_MS, StagedCells};
use super::reason::{ReleaseVerdict, ReleaseWait, verdicts};
use super::spec::ReleaseSpec;
use super::state::{ReleasePhase, ReleaseState};
use crate::id::Name;

/// What a release does next. The caller records the state, and the assignments, in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseStep {
    pub state: ReleaseState,
    pub action: ReleaseAction,
    /// What each cell has of the release and why, by name.
    pub cells: Vec<ReleaseVerdict>,
}

/// The one thing that a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseAction {
    /// These cells get a version. The next step may follow at once.
    Assign(Vec<VersionAssignment>),
    /// The next stage begins. The next step follows at once, as after all below except a wait.
    NextStage,
    /// The version has failed in too many cells, so no further cell gets it.
    Fail,
    /// The version has failed in too many cells, so they go back.
    Revert,
    /// All cells that had the version have gone back, as far as they can be reached.
    Reverted,
    /// All cells have the version, as far as they can be reached. It is the last proven one now.
    Done,
    /// Nothing before a cell or a person does something, or before this time of the federation's home.
    Wait { reason: ReleaseWait, due_ms: Option<i64> },
}

/// A cell that gets a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionAssignment {
    pub cell: Name,
    pub version: u64,
}

/// Decides what the release does next at this time of the federation's home. Each cell of the job stands in `cells`
/// once; their order does not matter. `spec` is that of the version in `state`.
pub fn release_step(
    spec: &ReleaseSpec,
    state: &ReleaseState,
    cells: &[CellRelease],
    now_ms: i64,
) -> ReleaseStep {
    let staged = StagedCells::of(spec, cells);
    let mut next = state.clone();
    if matches!(next.phase, ReleasePhase::Rolling | ReleasePhase::Failed) {
        failures_note(&mut next, cells);
    }
    let mut release = Release { spec, staged: &staged, state: &mut next, now_ms };
    let action = match state.phase {
        ReleasePhase::Rolling => release.rolling(),
        ReleasePhase::Failed => release.failed(),
        ReleasePhase::Reverting => release.reverting(),
        ReleasePhase::Reverted | ReleasePhase::Done => release.over(),
    };
    let cells = verdicts(spec, &next, &staged, &action);
    ReleaseStep { state: next, action, cells }
}

/// A failure stays until the cell has the version.
fn failures_note(state: &mut ReleaseState, cells: &[CellRelease]) {
    let version = state.version;
    for cell in cells.iter().filter(|cell| cell.assigned == Some(version)) {
        match &cell.progress {
            CellProgress::Failed { why } => state.failure_note(&cell.name, why),
            CellProgress::Complete if cell.is_reachable() => state.failure_forget(&cell.name),
            CellProgress::Complete | CellProgress::Rolling => {}
        }
    }
}

/// A step that is being decided.
struct Release<'r> {
    spec: &'r ReleaseSpec,
    staged: &'r StagedCells<'r>,
    state: &'r mut ReleaseState,
    now_ms: i64,
}

impl Release<'_> {
    fn rolling(&mut self) -> ReleaseAction {
        let (failures, most) = (self.failures(), self.spec.failures_max);
        if failures > most && self.spec.revert {
            self.state.revert_begin();
            return ReleaseAction::Revert;
        }
        if failures > most {
            self.state.phase = ReleasePhase::Failed;
            self.state.paused = false;
            self.state.stands_since_ms = None;
            return ReleaseAction::Fail;
        }
        if self.state.paused {
            return wait(ReleaseWait::Paused);
        }
        let stage = self.state.stage_place();
        let (version, proven) = (self.state.version, self.state.from);
        let mut assigned = self.assign(version, |place| place <= stage, |cell| cell.lacks(version));
        assigned.extend(self.assign(proven, |place| place > stage, |cell| lags(cell, proven)));
        if assigned.is_empty() { self.stage_wait() } else { self.assigned(assigned) }
    }

    fn assigned(&mut self, assigned: Vec<VersionAssignment>) -> ReleaseAction {
        let of_stage: Vec<&Name> =
            self.staged.of_stage(self.state.stage_place()).map(|cell| &cell.name).collect();
        if assigned.iter().any(|assignment| of_stage.contains(&&assignment.cell)) {
            self.state.stands_since_ms = None;
        }
        ReleaseAction::Assign(assigned)
    }

    /// The cells of each of these stages that get a version now: as many as the stage allows at once.
    fn assign(
        &self,
        version: u64,
        stages: impl Fn(usize) -> bool,
        wants: impl Fn(&CellRelease) -> bool,
    ) -> Vec<VersionAssignment> {
        let places = (0..=self.spec.stages.len()).filter(|place| stages(*place));
        places.flat_map(|place| self.assign_stage(place, version, &wants)).collect()
    }

    fn assign_stage(
        &self,
        stage: usize,
        version: u64,
        wants: impl Fn(&CellRelease) -> bool,
    ) -> Vec<VersionAssignment> {
        // One that is passed over, or has no tasks any more, does not hold up those that answer.
        let is_skipped = |cell: &CellRelease| cell.unreachable_ms().is_some_and(|ms| ms >= RELEASE_SKIP_MS);
        let rolls = |cell: &&CellRelease| cell.has_tasks && cell.rolls(version) && !is_skipped(cell);
        let rolling = self.staged.of_stage(stage).filter(rolls).count();
        let most = usize::try_from(self.spec.at_once(stage)).unwrap_or(usize::MAX);
        // One that is changing already makes no further cell change.
        let (first, then): (Vec<_>, Vec<_>) = self
            .staged
            .of_stage(stage)
            .filter(|cell| wants(cell))
            .partition(|cell| cell.assigned.is_some() && cell.progress == CellProgress::Rolling);
        let assign = |cell: &CellRelease| VersionAssignment { cell: cell.name.clone(), version };
        first.into_iter().chain(then).take(most.saturating_sub(rolling)).map(assign).collect()
    }

    /// What follows when every cell that may change now does.
    fn stage_wait(&mut self) -> ReleaseAction {
        let (stage, version) = (self.state.stage_place(), self.state.version);
        let rolling = |cell: &&CellRelease| cell.is_reachable() && cell.rolls(version);
        if let Some(wait) = cells_wait(self.staged.of_stage(stage).filter(rolling)) {
            self.state.stands_since_ms = None;
            return wait;
        }
        if let Some(wait) = self.away_wait(self.staged.of_stage(stage)) {
            return wait;
        }
        let goes_on = self.staged.goes_on_after(stage);
        let stands = |cell: &CellRelease| cell.stands(version);
        if !self.staged.of_stage(stage).any(stands) {
            self.state.stands_since_ms = None;
            let has_tasks = self.staged.of_stage(stage).any(|cell| cell.has_tasks);
            let is_proven = self.staged.cells.iter().any(|cell| stands(cell.facts));
            let asks = goes_on || (has_tasks && !is_proven);
            if asks && !self.state.unproven_is_approved() {
                return wait(ReleaseWait::NoProof { stage: self.state.stage, has_tasks });
            }
            return self.stage_end();
        }
        self.state.unproven = false;
        let of_stage = self.spec.stage(stage);
        let since_ms = *self.state.stands_since_ms.get_or_insert(self.now_ms);
        let due_ms = since_ms.saturating_add_unsigned(of_stage.map_or(0, |stage| stage.prove_ms));
        if self.now_ms < due_ms {
            let reason = ReleaseWait::Proving { stage: self.state.stage, since_ms };
            return ReleaseAction::Wait { reason, due_ms: Some(due_ms) };
        }
        if goes_on && of_stage.is_some_and(|stage| stage.approve) && !self.state.is_approved() {
            return wait(ReleaseWait::Approval { stage: self.state.stage });
        }
        self.stage_end()
    }

    /// The wait for the one of these cells that has been away for longest, and is not passed over yet.
    fn away_wait<'c>(&self, cells: impl Iterator<Item = &'c CellRelease>) -> Option<ReleaseAction> {
        let missed = |cell: &CellRelease| {
            let for_ms = cell.unreachable_ms().filter(|for_ms| *for_ms < RELEASE_SKIP_MS)?;
            cell.has_tasks.then_some((for_ms, cell.name.clone()))
        };
        let (for_ms, cell) = cells.filter_map(missed).max()?;
        let left = i64::try_from(RELEASE_SKIP_MS.saturating_sub(for_ms)).unwrap_or(i64::MAX);
        let due_ms = Some(self.now_ms.saturating_add(left));
        Some(ReleaseAction::Wait { reason: ReleaseWait::Unreachable { cell, for_ms }, due_ms })
    }

    fn stage_end(&mut self) -> ReleaseAction {
        let (stage, version) = (self.state.stage_place(), self.state.version);
        if self.staged.goes_on_after(stage) {
            self.state.stage_next();
            return ReleaseAction::NextStage;
        }
        // Cells of earlier stages that were away and have come back.
        let rolling = |cell: &&CellRelease| cell.is_reachable() && cell.rolls(version);
        let late = self.staged.cells.iter().map(|cell| cell.facts).filter(rolling);
        if let Some(wait) = cells_wait(late) {
            return wait;
        }
        // One that has come back may wait for its turn behind one that went away while it changed.
        let cells = || self.staged.cells.iter().map(|cell| cell.facts);
        if cells().any(|cell| cell.lacks(version))
            && let Some(wait) = self.away_wait(cells().filter(|cell| cell.rolls(version)))
        {
            return wait;
        }
        self.state.phase = ReleasePhase::Done;
        self.state.from = version;
        self.state.stands_since_ms = None;
        ReleaseAction::Done
    }

    /// No further cell gets the version. One that has missed the last proven one gets that.
    fn failed(&self) -> ReleaseAction {
        let proven = self.state.from;
        let assigned = self.assign(proven, |_| true, |cell| lags(cell, proven));
        if assigned.is_empty() {
            let (failures, most) = (self.failures(), self.spec.failures_max);
            return wait(ReleaseWait::Stopped { failures, most });
        }
        ReleaseAction::Assign(assigned)
    }

    /// The last stage with cells that have another version goes back first.
    fn reverting(&mut self) -> ReleaseAction {
        let proven = self.state.from;
        let lacking = self.staged.cells.iter().filter(|cell| cell.facts.lacks(proven));
        if let Some(stage) = lacking.map(|cell| cell.stage).max() {
            let assigned = self.assign_stage(stage, proven, |cell| cell.lacks(proven));
            if !assigned.is_empty() {
                return ReleaseAction::Assign(assigned);
            }
            let rolling = self.staged.of_stage(stage).filter(|cell| cell.rolls(proven));
            return cells_wait(rolling).unwrap_or_else(|| wait(ReleaseWait::Over));
        }
        let reached = self.state.stage_place();
        let rolling = |cell: &&CellRelease| cell.is_reachable() && cell.rolls(proven);
        let cells = self.staged.cells.iter().filter(|cell| cell.stage <= reached);
        if let Some(wait) = cells_wait(cells.map(|cell| cell.facts).filter(rolling)) {
            return wait;
        }
        self.state.phase = ReleasePhase::Reverted;
        ReleaseAction::Reverted
    }

    /// Cells that come back get the version that is proven now.
    fn over(&self) -> ReleaseAction {
        let proven = self.state.from;
        let assigned = self.assign(proven, |_| true, |cell| cell.lacks(proven));
        if assigned.is_empty() { wait(ReleaseWait::Over) } else { ReleaseAction::Assign(assigned) }
    }

    fn failures(&self) -> u32 {
        u32::try_from(self.state.failed.len()).unwrap_or(u32::MAX)
    }
}

/// Whether a cell has missed the last proven version.
fn lags(cell: &CellRelease, proven: u64) -> bool {
    cell.lacks(proven) && cell.assigned.is_none_or(|assigned| assigned < proven)
}

fn wait(reason: ReleaseWait) -> ReleaseAction {
    ReleaseAction::Wait { reason, due_ms: None }
}

/// The wait for these cells, if they are any.
fn cells_wait<'c>(mut cells: impl Iterator<Item = &'c CellRelease>) -> Option<ReleaseAction> {
    let first = cells.next()?.name.clone();
    let others = u32::try_from(cells.count()).unwrap_or(u32::MAX);
    Some(wait(ReleaseWait::Cells { first, others }))
}
