//! What a release remembers, and what people do with it.

use std::collections::BTreeSet;
use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::Name;

/// Characters of the reason of a failed cell that a release remembers.
const WHY_CHARACTERS_MAX: usize = 200;

/// The release of a federated job: the one under way, or the last one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ReleaseState {
    /// The version that it brings: the revision of the federated job.
    #[n(0)]
    pub version: u64,
    /// The last version that all stages have proved. It is the version after that.
    #[n(1)]
    pub from: u64,
    #[n(2)]
    pub phase: ReleasePhase,
    /// The place of the stage that is under way.
    #[n(3)]
    pub stage: u32,
    /// Since when the cells of that stage stand: time of the federation's home, milliseconds since 1970.
    #[n(4)]
    pub stands_since_ms: Option<i64>,
    /// The stages after which a person lets the next one begin.
    #[n(5)]
    pub approved: BTreeSet<u32>,
    /// Whether a person has stopped it. No cell is assigned a version.
    #[n(6)]
    pub paused: bool,
    /// The cells in which the version has failed, in the order in which that was seen.
    #[n(7)]
    pub failed: Vec<FailedCell>,
    /// Whether it has been seen that no cell of the stage can prove the version. Only an approval after that counts as
    /// one to go on without a proof.
    #[n(8)]
    pub unproven: bool,
}

/// What a release does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ReleasePhase {
    /// It brings the version, stage by stage.
    #[n(0)]
    Rolling,
    /// The version has failed in too many cells. No further cell gets it.
    #[n(1)]
    Failed,
    /// The cells that have the version go back to the last proven one.
    #[n(2)]
    Reverting,
    /// They have gone back.
    #[n(3)]
    Reverted,
    /// The version is proven.
    #[n(4)]
    Done,
}

impl ReleasePhase {
    /// Each with its name.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("rolling", Self::Rolling),
        ("failed", Self::Failed),
        ("reverting", Self::Reverting),
        ("reverted", Self::Reverted),
        ("done", Self::Done),
    ];
}

impl fmt::Display for ReleasePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.into_iter().find(|(_, phase)| phase == self).map_or("", |(name, _)| name))
    }
}

/// A cell in which a version has failed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct FailedCell {
    #[n(0)]
    pub cell: Name,
    /// For people, by the cell.
    #[n(1)]
    pub why: String,
}

/// Why a person cannot do this with a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseRefusal {
    #[error("version {version}; accepted: one after {latest}, which a release has brought already")]
    NotNewer { version: u64, latest: u64 },
    #[error("the release of version {version} is {phase}; accepted: one that is rolling")]
    NotRolling { version: u64, phase: ReleasePhase },
    #[error("stage {stage}; accepted: stage {current}, which is under way")]
    OtherStage { stage: u32, current: u32 },
    #[error(
        "the release of version {version} is {phase}; accepted: one that is rolling or failed. An earlier version comes back with its job file"
    )]
    NothingToRevert { version: u64, phase: ReleasePhase },
}

impl ReleaseState {
    /// The first version of a job. Its cells have it from the beginning, so there is nothing to bring.
    pub fn first(version: u64) -> Self {
        Self { from: version, phase: ReleasePhase::Done, ..Self::rolling(version, version) }
    }

    fn rolling(version: u64, from: u64) -> Self {
        Self {
            version,
            from,
            phase: ReleasePhase::Rolling,
            stage: 0,
            stands_since_ms: None,
            approved: BTreeSet::new(),
            paused: false,
            failed: Vec::new(),
            unproven: false,
        }
    }

    /// The version that a cell gets with its first tasks of the job: the last proven one. The release brings a newer
    /// one in its turn.
    pub fn proven(&self) -> u64 {
        self.from
    }

    /// The release of a newer version in place of this one. It begins with the first stage again, and goes back to the
    /// last proven version if it fails.
    ///
    /// # Errors
    /// The version is not newer.
    pub fn superseded_by(&self, version: u64) -> Result<Self, ReleaseRefusal> {
        if version <= self.version {
            return Err(ReleaseRefusal::NotNewer { version, latest: self.version });
        }
        Ok(Self::rolling(version, self.from))
    }

    /// Stops the release until [`ReleaseState::resume`]. What cells do with the version that they have goes on.
    ///
    /// # Errors
    /// It is not rolling.
    pub fn pause(&mut self) -> Result<(), ReleaseRefusal> {
        self.rolling_check()?;
        self.paused = true;
        Ok(())
    }

    /// Goes on after [`ReleaseState::pause`]. One that was not paused goes on as well.
    ///
    /// # Errors
    /// It is not rolling.
    pub fn resume(&mut self) -> Result<(), ReleaseRefusal> {
        self.rolling_check()?;
        self.paused = false;
        Ok(())
    }

    /// Lets the next stage begin once the one under way has proved itself, or if it has no cell that could.
    ///
    /// # Errors
    /// It is not rolling, or another stage is under way.
    pub fn approve(&mut self, stage: u32) -> Result<(), ReleaseRefusal> {
        self.rolling_check()?;
        if stage != self.stage {
            return Err(ReleaseRefusal::OtherStage { stage, current: self.stage });
        }
        self.approved.insert(stage);
        Ok(())
    }

    /// Has the cells go back to the last proven version.
    ///
    /// # Errors
    /// It is neither rolling nor failed.
    pub fn revert(&mut self) -> Result<(), ReleaseRefusal> {
        match self.phase {
            ReleasePhase::Rolling | ReleasePhase::Failed => {
                self.revert_begin();
                Ok(())
            }
            phase => Err(ReleaseRefusal::NothingToRevert { version: self.version, phase }),
        }
    }

    fn rolling_check(&self) -> Result<(), ReleaseRefusal> {
        match self.phase {
            ReleasePhase::Rolling => Ok(()),
            phase => Err(ReleaseRefusal::NotRolling { version: self.version, phase }),
        }
    }

    pub(super) fn revert_begin(&mut self) {
        self.phase = ReleasePhase::Reverting;
        self.paused = false;
        self.stands_since_ms = None;
    }

    /// The place of the stage that is under way.
    pub(super) fn stage_place(&self) -> usize {
        usize::try_from(self.stage).unwrap_or(usize::MAX)
    }

    pub(super) fn is_approved(&self) -> bool {
        self.approved.contains(&self.stage)
    }

    pub(super) fn stage_next(&mut self) {
        self.stage = self.stage.saturating_add(1);
        self.stands_since_ms = None;
        self.unproven = false;
    }

    /// Whether a person lets the next stage begin although no cell can prove the version. An approval from a time when
    /// some could does not count.
    pub(super) fn unproven_is_approved(&mut self) -> bool {
        if !self.unproven {
            self.approved.remove(&self.stage);
            self.unproven = true;
        }
        self.is_approved()
    }

    /// Remembers that the version has failed in a cell.
    pub(super) fn failure_note(&mut self, cell: &Name, why: &str) {
        let why: String = why.chars().take(WHY_CHARACTERS_MAX).collect();
        match self.failed.iter_mut().find(|failed| failed.cell == *cell) {
            Some(failed) => failed.why = why,
            None => self.failed.push(FailedCell { cell: cell.clone(), why }),
        }
    }

    /// The version has reached the cell after all.
    pub(super) fn failure_forget(&mut self, cell: &Name) {
        self.failed.retain(|failed| failed.cell != *cell);
    }
}
