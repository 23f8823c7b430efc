//! What a gateway learns of a call, and the calls that wait to be recorded in the audit of a cell.

mod code;
mod queue;
mod trace;

pub(crate) use code::code_text;
pub(crate) use queue::{AuditBatch, AuditQueue};
pub(crate) use trace::{CallAbout, CallKind, CallTrace};
