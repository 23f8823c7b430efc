//! Federated jobs: what their owner says of cells, and how their tasks are divided among them.
//!
//! [`FederationSpec`] is the `federation` part of a job file, and [`split`] divides the tasks. [`failover_decide`] says
//! when a silent cell is given up, and [`settle_step`] what stays when it is back. [`release_step`] says which cells
//! get a new version next. All here is pure: the caller asks the cells, and records and carries out what is decided.

mod check;
mod facts;
mod failover;
mod file;
mod job;
mod part;
mod patch;
mod question;
mod read;
mod release;
mod row;
mod spec;
mod split;

pub use check::{
    AWAY_FROM_MAX, CELL_SPREAD_MAX, CELL_WEIGHT_MAX, CELLS_NAMED_MAX, CONDITIONS_MAX, GROUPS_MAX,
};
pub use facts::{CellFacts, CellIntake, CellRoom, cell_facts, room_deducted};
pub use failover::{
    CellLook, CellLooked, CellSilence, FAILOVER_CELLS_MAX, FAILOVER_WINDOW_MS, FailoverHold, FailoverOutcome,
    FailoverVerdict, FederationWatch, KeptSide, LOOKS_FAILED_MIN, PromisedPart, SETTLE_MS_MAX, SettleCell,
    SettleOutcome, SettleStep, SettleWait, Settlement, WATCH_GAP_MS, WATCHED_MS_MIN, failover_decide,
    settle_step,
};
pub use file::{federated_field_help, federated_file_schema};
pub use job::{FEDERATION_FIELD, FederatedJob};
pub use part::{
    AdmittedJob, FederatedPart, FoundJob, PartProblem, PartRollout, PartSeen, PartStep, part_failed_over,
    part_release, part_step, parts_finished, parts_lowered, parts_promised, settlement_apply, settlement_of,
};
pub use question::{FEDERATED_QUESTIONS_MAX, FederatedAnswer, FederatedQuestion};
pub use release::{
    CellProgress, CellReach, CellRelease, FailedCell, RELEASE_SKIP_MS, ReleaseAction, ReleasePhase,
    ReleaseReason, ReleaseRefusal, ReleaseSpec, ReleaseStage, ReleaseState, ReleaseStep, ReleaseVerdict,
    ReleaseWait, STAGES_MAX, VersionAssignment, release_step,
};
pub use row::{
    CellsReason, FEDERATED_JOB_LABEL, FEDERATED_VERSIONS_MAX, FEDERATION_LABEL, FederatedJobRow,
    FederatedState, FederatedStatus, FederatedVersion, RebalanceOrder, RebalancedTasks, ReleaseOrder,
    ReleaseOrderKind,
};
pub use spec::{
    CellGroup, CellLimits, CellSpread, FailoverAfter, FederationSpec, ReturnPolicy, SPREAD_BY_CELL,
    SplitPolicy,
};
pub use split::{CellReason, CellVerdict, ShortfallCause, Split, SplitMode, SpreadShortfall, split};
