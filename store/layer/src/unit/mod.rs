//! Units: gangs larger than one transaction.
//!
//! A gang that fits one batch is placed whole by [`crate::placement`]. A larger one gathers: [`unit_begin`] opens an
//! epoch, [`unit_hold`] takes members' capacity in as many transactions as it needs, and [`unit_commit`] flips the unit's
//! one key, by which every hold of the epoch is a placement. Where members take the places of others, [`unit_wait`] closes the
//! unit until those have gone, and the flip comes then. A hold charges capacity and starts nothing; it is fenced by
//! the epoch in its row. [`unit_expire`] and [`unit_give_up`] raise the epoch, which voids all holds at once.
//! [`unit_holds_settle`] then carries out what the holds are worth, in small transactions.

mod hold;
mod step;
#[cfg(test)]
mod tests;

pub use hold::{UnitHold, unit_hold, unit_holds_settle};
pub(crate) use step::unit_member_lost;
pub use step::{unit_begin, unit_commit, unit_expire, unit_get, unit_give_up, unit_wait};
