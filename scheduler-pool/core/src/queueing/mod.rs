//! Whose turn it is among those of one priority: a policy, and for shares the tree in which they are counted.

mod claim;
mod policy;
mod share;
mod usage;

pub(crate) use claim::{Claim, Given, Guaranteed};
pub(crate) use policy::Turn;
pub use policy::{Queueing, QueueingError, QueueingPolicy};
pub(crate) use share::Shares;
pub(crate) use usage::{CellTotals, Usage};
