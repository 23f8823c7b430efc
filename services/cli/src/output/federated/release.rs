//! How far the newest version of a federated job is.

use borough_proto::v1;
use serde::Serialize;

use super::super::Foreign;
use super::super::text::word;
use super::CellsReasonView;

/// The version that the cells are to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VersionGoal {
    pub(super) version: u64,
    pub(super) comes: VersionComes,
}

/// Whether cells that have another version get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionComes {
    InTurn,
    /// The release has failed: each cell keeps what it has.
    NoMore,
}

/// How far its newest version is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FederatedReleaseView {
    pub(super) version: u64,
    pub(super) from: u64,
    /// `rolling`, `failed`, `reverting`, `reverted` or `done`.
    pub(super) phase: String,
    /// From 0.
    pub(super) stage: u32,
    paused: bool,
    failed: Vec<CellsReasonView>,
    /// What it waits for; empty: nothing.
    pub(super) waits: Foreign,
}

impl From<v1::FederatedRelease> for FederatedReleaseView {
    fn from(release: v1::FederatedRelease) -> Self {
        let phase = word(release.phase().as_str_name(), "RELEASE_PHASE_");
        Self {
            version: release.version,
            from: release.from,
            phase,
            stage: release.stage,
            paused: release.paused,
            failed: release.failed.into_iter().map(CellsReasonView::from).collect(),
            waits: release.waits.into(),
        }
    }
}

impl FederatedReleaseView {
    /// The version that the cells get, or go back to.
    pub(super) fn goal(&self) -> VersionGoal {
        match self.phase.as_str() {
            "failed" => VersionGoal { version: self.version, comes: VersionComes::NoMore },
            "reverting" | "reverted" => VersionGoal { version: self.from, comes: VersionComes::InTurn },
            _ => VersionGoal { version: self.version, comes: VersionComes::InTurn },
        }
    }

    /// The cells in which the version has failed.
    fn failed_cells(&self) -> impl Iterator<Item = &Foreign> {
        self.failed.iter().flat_map(|reason| &reason.cells)
    }

    /// The commands that show why the version has failed in a cell; `None`: it has failed in none.
    pub(super) fn cause_hint(&self, job: &str) -> Option<String> {
        let cell = self.failed_cells().next()?;
        Some(format!("borough --cell {cell} job status {job}; borough --cell {cell} why {job}"))
    }

    /// Whether the order to take it back is accepted.
    pub(super) fn can_undo(&self) -> bool {
        matches!(self.phase.as_str(), "rolling" | "failed")
    }

    /// What it does or has come to, in a list; a dash: its version is in force.
    pub(super) fn under_way(&self) -> &str {
        match self.phase.as_str() {
            "done" => "-",
            _ if self.paused => "paused",
            phase => phase,
        }
    }

    /// What it makes of a version; empty: nothing.
    pub(super) fn version_state(&self, version: u64) -> &'static str {
        let is_new = version == self.version;
        match self.phase.as_str() {
            "done" if is_new => "in force",
            "rolling" if is_new => "rolling",
            "failed" if is_new => "failed",
            "reverting" if is_new => "going back",
            "reverted" if is_new => "taken back",
            "reverted" if version == self.from => "in force",
            "rolling" | "failed" | "reverting" if version == self.from => "proven",
            _ => "",
        }
    }

    /// Whether it has failed, or was taken back.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.phase.as_str(), "failed" | "reverted")
    }

    /// How far it is, if it is under way or has failed.
    pub(super) fn text(&self) -> Option<String> {
        let Self { version, from, phase, stage, paused, failed, waits } = self;
        if phase == "done" {
            return None;
        }
        // What it waits for says that as well.
        let paused = if *paused && waits.is_empty() { ", paused" } else { "" };
        let stage = format!("stage {stage}");
        // What it waits for may name the stage by itself.
        let at = if waits.to_string().contains(&stage) { String::new() } else { format!(", {stage}") };
        let mut text = format!("release of version {version} (from {from}): {phase}{at}{paused}");
        if !waits.is_empty() {
            text = format!("{text}: {waits}");
        }
        for reason in failed {
            let cells: Vec<String> = reason.cells.iter().map(ToString::to_string).collect();
            text = format!("{text}\n  failed in {}: {}", cells.join(", "), reason.words);
        }
        Some(text)
    }
}
