//! The queueing policies: which of several tasks of one priority is placed first. For shares, the tree in which they
//! are counted.

mod claim;
mod policy;
mod share;
mod usage;

pub(crate) use claim::{Claim, Guaranteed, SharedVictim};
pub(crate) use policy::Turn;
pub use policy::{Queueing, QueueingError, QueueingPolicy};
pub(crate) use share::Shares;
pub(crate) use usage::{CellTotals, Usage};
