//! Who may do what: every request of a user is decided here, before its service sees it.
//!
//! [`ask`] has the one table of methods: what each needs, and whom it concerns. A service reaches a cell only through
//! [`Cells::admit_read`] and [`Cells::admit_change`], which a request without a line in that table does not fit.
//! An operator's token may do everything, in every user's name. A user's credential may do what the cell's grants say.

mod admit;
mod ask;
mod mirror;
mod service;

pub(crate) use admit::{Asked, admit_message, context_complete, principal_of};
pub(crate) use ask::Ask;
pub use ask::{METHODS, MethodRule};
pub(crate) use mirror::{AccessMirror, access_follow};
pub use service::AccessServer;
