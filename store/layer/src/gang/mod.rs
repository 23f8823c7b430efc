//! Gangs: gangs larger than one transaction.
//!
//! A gang that fits one batch is placed whole by [`crate::placement`]. A larger one gathers: [`gang_begin`] opens an
//! epoch, [`gang_hold`] takes members' capacity in as many transactions as it needs, and [`gang_commit`] flips the
//! gang's one key, by which every hold of the epoch is a placement. Where members take the places of others,
//! [`gang_wait`] closes the gang until those have gone, and the flip comes then. A hold charges capacity and starts
//! nothing; it is fenced by the epoch in its row. [`gang_expire`] and [`gang_give_up`] raise the epoch, which voids all
//! holds at once. [`gang_holds_settle`] then carries out what the holds are worth, in small transactions.

mod hold;
mod step;
#[cfg(test)]
mod tests;

pub use hold::{GangHold, gang_hold, gang_holds_settle};
pub(crate) use step::gang_member_lost;
pub use step::{gang_begin, gang_commit, gang_expire, gang_get, gang_give_up, gang_wait};
