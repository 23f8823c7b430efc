//! Pure domain types of Borough: names, resources, specs, rows and the state machine of a task.
//!
//! No IO, no async, no clock, no randomness: time and seeds are arguments. Every stored type derives its encoding here
//! (tag-numbered CBOR); `docs/decisions/` has the rules by which a stored type may change.
//!
//! `job::job_transition` and `task::task_transition` are the state machines. [`JobSpec`], [`TaskRow`], [`NodeRow`] and
//! [`NodeAlloc`] are the rows to know first. The journal records [`Delta`]s.
//!
//! `access` decides who may do what, and `audit` says what was done and refused.
//!
//! `federation` divides the tasks of a federated job among cells.
//!
//! Modules import downwards only: `federation` and `journal` over `audit` and `merged` over `task` over `job` over
//! `queue` and `node` over `resource`, `id` and the errors of fields.

pub mod access;
pub mod audit;
pub mod daemon;
pub mod disruption;
pub mod federation;
mod field_error;
pub mod id;
pub mod job;
pub mod journal;
pub mod member;
pub mod merged;
pub mod node;
pub mod queue;
pub mod quota;
pub mod resize;
pub mod resource;
pub mod rollout;
pub mod task;
mod unread;

pub use field_error::FieldError;
pub use id::{
    FederatedJobId, GangId, Incarnation, JobId, MemberId, MergedServiceId, Name, NodeId, RequestId, TaskId,
};
pub use job::{JobRow, JobSpec};
pub use journal::{Delta, JournalEntry};
pub use node::{NodeAlloc, NodeRow};
pub use resource::Resources;
pub use task::{TaskRow, TaskState};
