//! The contexts of the cells behind this gateway, and the service that shows them.

mod admission;
mod admit;
mod ask;
mod audit;
mod context;
mod dry_run;
mod ended;
mod grants;
mod hub;
mod index;
mod journal;
mod keyed;
mod load;
mod loads;
mod lock;
mod ongoing;
mod oversell;
mod retention;
mod scheduler;
mod service;
mod settings;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod turns;
mod usages;

pub use admission::AdmissionUse;
pub(crate) use admit::{Asked, CallSeen, admit_stream, no_change, principal_of};
pub(crate) use ask::Ask;
pub use ask::{METHODS, MethodRule};
pub(crate) use audit::audit_flush;
pub use context::{
    Caller, CellConnection, CellContext, Cells, caller_of_mutation, caller_of_read, cursor_from_message,
    cursor_to_message,
};
pub(crate) use dry_run::{DryRunMark, DryRunOutcome};
pub use ended::EndedJobsUse;
pub(crate) use hub::{HubSubscription, WatcherHub};
pub(crate) use index::EventSubject;
pub use journal::JournalUse;
pub use keyed::{KeyedRequest, KeyedTogether, keyed_found, keyed_run, keyed_run_together};
pub(crate) use loads::loads_follow;
pub use lock::MirrorLockUse;
pub(crate) use ongoing::OngoingCall;
pub(crate) use oversell::{CellGrants, capacity_ready};
pub use service::CellServer;
pub(crate) use service::{scheduler_shards_read, scheduler_unserved};
pub(crate) use settings::{lost_after_ms, queue_check, settings_read};
pub use turns::QuotaTurns;
pub(crate) use turns::TopLine;
pub use usages::{JobUsages, KeptUsage};
