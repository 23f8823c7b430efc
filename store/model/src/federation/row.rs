//! The rows of federated jobs, in the store of the federation's home.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::failover::KeptSide;
use super::job::FederatedJob;
use super::release::{ReleasePhase, ReleaseRefusal, ReleaseState};
use super::split::SplitMode;
use crate::id::{FederatedJobId, Name};

/// Versions of a federated job that are kept, the newest ones.
pub const FEDERATED_VERSIONS_MAX: u64 = 20;

/// The label of a cell's job that names the home of its federation.
pub const FEDERATION_LABEL: &str = "borough.federation";
/// The label of a cell's job that names the federated job that it is a part of, by its id.
pub const FEDERATED_JOB_LABEL: &str = "borough.federated-job";

/// How far a federated job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
pub enum FederatedState {
    /// Its tasks are divided among cells.
    #[n(0)]
    Active,
    /// Each of its cells is to stop it.
    #[n(1)]
    Stopping,
    /// No cell has it any more. The row stays until the name is used again, or the job is forgotten.
    #[n(2)]
    Stopped,
}

/// The row of a federated job: what its owner wants.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct FederatedJobRow {
    /// Of this job only: a later job of the name has another.
    #[n(0)]
    pub id: FederatedJobId,
    #[n(1)]
    pub spec: FederatedJob,
    /// Counts the changes of what the cells run: everything but the count and the `federation` part. From 1.
    #[n(2)]
    pub version: u64,
    #[n(3)]
    pub state: FederatedState,
    /// Counts the changes of this row.
    #[n(4)]
    pub revision: u64,
    /// Time of the federation's home, milliseconds since 1970.
    #[n(5)]
    pub submitted_ms: i64,
    /// Time of the federation's home, milliseconds since 1970.
    #[n(6)]
    pub changed_ms: i64,
    /// Who made the last change: `user/<name>`.
    #[n(7)]
    pub changed_by: String,
    /// What a person has last ordered of its release. The federation carries it out once.
    #[n(8)]
    pub order: Option<ReleaseOrder>,
    /// The last rebalance that a person has ordered. The federation carries it out once.
    #[n(9)]
    #[serde(default)]
    pub rebalance: Option<RebalanceOrder>,
}

/// An order to divide the tasks of a job again, although nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct RebalanceOrder {
    /// Counts the rebalances of the job, from 1.
    #[n(0)]
    pub number: u64,
    #[n(1)]
    pub which: RebalancedTasks,
}

/// Which tasks a rebalance may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum RebalancedTasks {
    /// All in cells that take new ones.
    #[n(0)]
    All,
    /// Those that do not run, in cells without room for them.
    #[n(1)]
    Stuck,
}

impl RebalancedTasks {
    /// How the tasks are divided.
    pub fn mode(self) -> SplitMode {
        match self {
            Self::All => SplitMode::Rebalance,
            Self::Stuck => SplitMode::RebalanceStuck,
        }
    }
}

/// An order about the release of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ReleaseOrder {
    /// Counts the orders of the job, from 1.
    #[n(0)]
    pub number: u64,
    #[n(1)]
    pub kind: ReleaseOrderKind,
}

/// What a person does with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseOrderKind {
    /// No further cell gets the version.
    #[n(0)]
    Pause,
    #[n(1)]
    Resume,
    /// The stage after this one may begin.
    #[n(2)]
    Approve {
        #[n(0)]
        stage: u32,
    },
    /// The cells go back to the last proven version.
    #[n(3)]
    Revert,
}

impl ReleaseOrderKind {
    /// Applies the order to a release.
    ///
    /// # Errors
    /// The release is at no point where that can be done.
    pub fn apply(self, release: &mut ReleaseState) -> Result<(), ReleaseRefusal> {
        match self {
            Self::Pause => release.pause(),
            Self::Resume => release.resume(),
            Self::Approve { stage } => release.approve(stage),
            Self::Revert => release.revert(),
        }
    }
}

impl FederatedJobRow {
    /// The row of a job that is new.
    pub fn first(id: FederatedJobId, spec: FederatedJob, at_ms: i64, by: String) -> Self {
        Self {
            id,
            spec,
            version: 1,
            state: FederatedState::Active,
            revision: 1,
            submitted_ms: at_ms,
            changed_ms: at_ms,
            changed_by: by,
            order: None,
            rebalance: None,
        }
    }

    /// The row after its owner has changed the job to `spec`. `None`: it is that already.
    pub fn changed_to(&self, spec: &FederatedJob, at_ms: i64, by: String) -> Option<Self> {
        if self.spec == *spec {
            return None;
        }
        let is_version = cell_differs(&self.spec, spec);
        Some(Self {
            id: self.id,
            spec: spec.clone(),
            version: self.version.saturating_add(u64::from(is_version)),
            state: self.state,
            revision: self.revision.saturating_add(1),
            submitted_ms: self.submitted_ms,
            changed_ms: at_ms,
            changed_by: by,
            order: self.order,
            rebalance: self.rebalance,
        })
    }

    /// The row after its owner has run `spec`. `None`: it is that already, or on its way there.
    ///
    /// Whoever runs a file wants its version in the cells. So one whose release has failed or was taken back comes
    /// again, as a new version.
    pub fn run_with(
        &self,
        spec: &FederatedJob,
        status: &FederatedStatus,
        at_ms: i64,
        by: String,
    ) -> Option<Self> {
        let is_lost = status.release.as_ref().is_some_and(|release| {
            let is_over = matches!(release.phase, ReleasePhase::Failed | ReleasePhase::Reverted);
            release.version == self.version && is_over
        });
        let changed = self.changed_to(spec, at_ms, by.clone());
        if !is_lost {
            return changed;
        }
        let same = || {
            let revision = self.revision.saturating_add(1);
            Self { revision, changed_ms: at_ms, changed_by: by, ..self.clone() }
        };
        let row = changed.unwrap_or_else(same);
        let version = row.version.max(self.version.saturating_add(1));
        Some(Self { version, ..row })
    }

    /// The row with a rebalance as its next order.
    #[must_use]
    pub fn rebalanced(self, which: RebalancedTasks) -> Self {
        let number = self.rebalance.map_or(0, |last| last.number).saturating_add(1);
        Self { rebalance: Some(RebalanceOrder { number, which }), ..self }
    }

    /// How its tasks are divided next, if rebalances up to `done` were carried out.
    pub fn split_mode(&self, done: u64) -> SplitMode {
        let due = self.rebalance.filter(|order| order.number > done);
        due.map_or(SplitMode::Again, |order| order.which.mode())
    }

    /// The user that owns it.
    pub fn user(&self) -> &Name {
        &self.spec.job.user
    }

    /// Its name, and that of its part in each cell.
    pub fn name(&self) -> &Name {
        &self.spec.job.name
    }
}

/// Whether cells would run something else: the count and the division are no part of a version.
fn cell_differs(before: &FederatedJob, after: &FederatedJob) -> bool {
    let of = |spec: &FederatedJob| {
        let mut job = spec.job.clone();
        job.count = 0;
        (job, spec.federation.overrides.clone())
    };
    of(before) != of(after)
}

/// One version of a federated job.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct FederatedVersion {
    #[n(0)]
    pub spec: FederatedJob,
    /// Time of the federation's home, milliseconds since 1970.
    #[n(1)]
    pub at_ms: i64,
    /// Who made it: `user/<name>`.
    #[n(2)]
    pub by: String,
}

/// How the tasks of a federated job were last divided, and why.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct FederatedStatus {
    /// The revision of the job that was divided; 0: none yet.
    #[n(0)]
    pub divided: u64,
    /// Of the members as they were then. Another one is a reason to divide again.
    #[n(1)]
    pub members_mark: u64,
    /// Time of the federation's home, milliseconds since 1970.
    #[n(2)]
    pub at_ms: i64,
    /// Tasks without a cell.
    #[n(3)]
    pub unplaced: u32,
    /// The rule of spread that the cells cannot meet, in words.
    #[n(4)]
    pub shortfall: Option<String>,
    /// Why each cell has what it has, and no more.
    #[n(5)]
    pub reasons: Vec<CellsReason>,
    /// How far its newest version is; absent: it was not looked at yet.
    #[n(6)]
    pub release: Option<ReleaseState>,
    /// What the release waits for, in words.
    #[n(7)]
    pub release_wait: Option<String>,
    /// The last order that was carried out; 0: none.
    #[n(8)]
    #[cbor(default)]
    pub ordered: u64,
    /// Which tasks stay, while cells are back that were failed over.
    #[n(9)]
    pub kept: Option<KeptSide>,
    /// What keeps the tasks of cells that do not answer from going to others.
    #[n(10)]
    #[cbor(default)]
    pub holds: Vec<CellsReason>,
    /// The last rebalance that was carried out; 0: none.
    #[n(11)]
    #[cbor(default)]
    pub rebalanced: u64,
}

/// Cells for which the same words hold.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct CellsReason {
    #[n(0)]
    pub words: String,
    #[n(1)]
    pub cells: Vec<Name>,
}
