//! Stored values that only this crate writes. Rows of the domain (nodes, jobs, tasks, gangs) are in `borough-model`.
//!
//! Each noun's module presents its own rows to other crates.

mod access;
mod audit;
mod cell;
mod constraint;
mod cursor;
mod federation;
mod import;
mod job;
mod join;
mod journal;
mod lease;
mod name;
mod quota;
mod request;
mod settings_change;
mod workload;

pub use access::{AccessGrantChange, AccessGrantRow, GRANT_CHANGES_MAX};
pub use audit::{AuditChunk, AuditHead};
pub use cell::{
    AUDIT_RETENTION_MS, CellGate, CellMeta, CellState, CellTime, DNS_TTL_MS, ENDED_JOBS_MAX,
    JOURNAL_BYTES_MAX, LoadJournal, VIEW_DELAY_MS,
};
pub use constraint::ConstraintToken;
pub use cursor::{Cursor, CursorParseError};
pub use federation::{FederationCell, StoreGeneration};
pub use import::ImportRow;
pub(crate) use job::JobGate;
pub use join::{JoinToken, JoinTokenUse, NodeIdentity, NodeJoin, SecretDigest};
pub use journal::{JournalFloor, JournalPart, PART_BYTES_MAX};
pub use lease::{LeaseBeat, LeaseRow, SchedulerPool, WorkerStatus};
pub use name::EndpointRow;
pub use quota::{QUOTA_CHANGES_MAX, QuotaChange, QuotaRow, QuotaUsed};
pub use request::{RequestExpiry, RequestRow};
pub use workload::{WorkloadKey, WorkloadSigner};
