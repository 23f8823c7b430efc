//! What is known of the cells of a federated job, for a release.

use std::collections::BTreeMap;

use super::spec::ReleaseSpec;
use crate::id::Name;

/// A cell that was unreachable for so long is skipped: the other cells of its stage do not wait for it.
pub const RELEASE_SKIP_MS: u64 = 300_000;

/// What is known of one cell, for the release of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellRelease {
    pub name: Name,
    pub labels: BTreeMap<String, String>,
    /// Whether tasks of the job are promised to it.
    pub has_tasks: bool,
    pub reach: CellReach,
    /// The version that the federation has last recorded for the cell; absent: none.
    pub assigned: Option<u64>,
    /// How far the cell is with that version, by its last report. One that has not reported on it is rolling.
    pub progress: CellProgress,
}

/// Whether the cell answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellReach {
    Reachable,
    /// Nobody has reached it for so long, as far as the leader has watched.
    Unreachable {
        for_ms: u64,
    },
}

/// How far a cell is with a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellProgress {
    /// Its own rolling update has not ended.
    Rolling,
    /// All of its tasks run the version, and its own rolling update has found them healthy.
    Complete,
    /// Its own rolling update has failed, or has taken the version back.
    Failed { why: String },
}

impl CellRelease {
    pub(super) fn is_reachable(&self) -> bool {
        self.reach == CellReach::Reachable
    }

    /// For how long it has been unreachable, if that is too long to wait for it.
    pub(super) fn skipped_ms(&self) -> Option<u64> {
        self.unreachable_ms().filter(|for_ms| *for_ms >= RELEASE_SKIP_MS)
    }

    pub(super) fn unreachable_ms(&self) -> Option<u64> {
        match self.reach {
            CellReach::Reachable => None,
            CellReach::Unreachable { for_ms } => Some(for_ms),
        }
    }

    /// Whether it changes to this version now, as far as anybody may wait for that.
    pub(super) fn rolls(&self, version: u64) -> bool {
        let is_rolling = self.assigned == Some(version) && self.progress == CellProgress::Rolling;
        self.has_tasks && is_rolling && self.skipped_ms().is_none()
    }

    /// Whether its tasks run this version, and anybody can see that.
    pub(super) fn stands(&self, version: u64) -> bool {
        let is_complete = self.assigned == Some(version) && self.progress == CellProgress::Complete;
        self.has_tasks && is_complete && self.is_reachable()
    }

    /// Whether this version could be assigned to it.
    pub(super) fn lacks(&self, version: u64) -> bool {
        self.has_tasks && self.is_reachable() && self.assigned != Some(version)
    }
}

/// The cells of a job in the order of their names, each with its stage.
pub(super) struct StagedCells<'f> {
    pub(super) cells: Vec<StagedCell<'f>>,
}

#[derive(Clone, Copy)]
pub(super) struct StagedCell<'f> {
    pub(super) facts: &'f CellRelease,
    pub(super) stage: usize,
}

impl<'f> StagedCells<'f> {
    pub(super) fn of(spec: &ReleaseSpec, cells: &'f [CellRelease]) -> Self {
        let staged =
            |facts: &'f CellRelease| StagedCell { facts, stage: spec.stage_of(&facts.name, &facts.labels) };
        let mut cells: Vec<StagedCell<'f>> = cells.iter().map(staged).collect();
        cells.sort_by(|left, right| left.facts.name.cmp(&right.facts.name));
        Self { cells }
    }

    pub(super) fn of_stage(&self, stage: usize) -> impl DoubleEndedIterator<Item = &'f CellRelease> {
        self.cells.iter().filter(move |cell| cell.stage == stage).map(|cell| cell.facts)
    }

    /// Whether a later stage has tasks.
    pub(super) fn goes_on_after(&self, stage: usize) -> bool {
        self.cells.iter().any(|cell| cell.stage > stage && cell.facts.has_tasks)
    }
}
