//! Rolls a new version of a federated job out over its cells, stage by stage.
//!
//! [`ReleaseState`] is all that a release remembers. It lies in a row, so a release goes on in whichever process has
//! that. [`release_step`] compares it with what is known of the cells. It says what to do next.

mod facts;
mod reason;
mod spec;
mod state;
mod step;

pub use facts::{CellProgress, CellReach, CellRelease, RELEASE_SKIP_MS};
pub use reason::{ReleaseReason, ReleaseVerdict, ReleaseWait};
pub(super) use spec::stage_cells_check;
pub use spec::{ReleaseSpec, ReleaseStage, STAGES_MAX};
pub use state::{FailedCell, ReleasePhase, ReleaseRefusal, ReleaseState};
pub use step::{ReleaseAction, ReleaseStep, VersionAssignment, release_step};
