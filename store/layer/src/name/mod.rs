//! Names: the endpoint of each task, and a stamp per job that changes with any of them.
//!
//! The endpoint key is authoritative; gRPC and HTTP watches are views of it. Its rules:
//!
//! - An endpoint is written, demoted and cleared only in the transaction that changes the task's row accordingly, from
//!   that row: its node, incarnation, ports and health. A publication is therefore never of an attempt that is over. A
//!   reader that has seen a withdrawal never sees that incarnation published again.
//! - The endpoints of a name are those of the job that has it. A submission withdraws those that tasks of the ended job
//!   before have left. Only the job that has the name publishes, and only its own task changes an endpoint.
//! - An endpoint carries the revision of the row that it follows from: an older one never overwrites a newer one in a
//!   view.
//! - `name_rev` gets the commit's stamp with every change of any endpoint of the job: one key to watch, and a revision
//!   for clients. It is a blind write, so the tasks of a job do not conflict over it.

mod endpoint;

pub(crate) use endpoint::name_is_vacant;
pub use endpoint::{
    EndpointChange, EndpointNode, endpoint_apply, endpoint_refresh, endpoint_withdraw_blind,
    endpoints_left_withdraw, name_revision_stamp,
};

pub use crate::row::EndpointRow;
