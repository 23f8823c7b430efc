//! Gangs that are larger than one transaction.
//!
//! A gang that fits one batch is placed whole by [`crate::placement`]. If its members preempt other tasks, the batch
//! leaves it `waiting`, and [`gang_commit`] changes its key after the victims have exited. A larger one gathers:
//!
//! - [`gang_begin`] opens an epoch.
//! - [`gang_hold`](crate::task::gang_hold) takes members' capacity in as many transactions as needed.
//! - [`gang_commit`] changes the gang's one key, which turns every hold of the epoch into a placement.
//! - [`gang_expire`] and [`gang_give_up`] raise the epoch, which voids all holds at once.
//! - [`gang_holds_settle`](crate::task::gang_holds_settle) then settles the holds in small transactions.
//!
//! A hold charges capacity and starts nothing; the epoch in its row fences it.

mod step;
#[cfg(test)]
mod tests;

pub(crate) use step::gang_member_lost;
pub use step::{gang_begin, gang_commit, gang_expire, gang_get, gang_give_up};
