//! The commit that reads nothing: how a scheduler worker's decisions become state.
//!
//! A worker takes one read version `R` per batch, applies the journal up to `R`, and plans over a snapshot that is
//! complete as of `R`. What it decided is a [`PlacementBatch`]; [`placement_commit`] turns it into a transaction that
//! reads nothing: guards, blind writes, one journal entry. The store's conflict check is then the shared-state check
//! of optimistic scheduling: the commit stands exactly where nothing that could make it wrong was written after `R`.
//!
//! # Guards
//!
//! | guard | who writes it |
//! |---|---|
//! | `cell_gate` | closing, moving or restoring the cell |
//! | the worker's own `lease` | its successor |
//! | `job_gate` of every job placed | stop, end, shrink, change of spec (not growth, priority or counters) |
//! | `node_alloc` of every node touched | every change of commitment, and every cordon, drain, taint or change of the node's row |
//! | `task` of every task placed or evicted, and of one standing task for each rule that wants a placement near others | every transition of it |
//! | `constraint` of every term over several nodes that applies | every placement that matches the term; what ends only makes room, or would have ended after the placement too |
//! | `constraint` of all terms | the admission of a job that keeps others away: whoever does not know of it yet plans again |
//!
//! Whatever can make a placement wrong writes one of these. Whoever adds a rule that placements keep adds a guard, or
//! makes its changes write one of these keys.
//!
//! # Rules
//!
//! - [`placement_commit`] runs inside `Database::commit_at(R)`, never inside the retry loop: replayed at another
//!   version, its blind writes overwrite the work of others.
//! - 1020 and 1007 go back to the planner. [`placement_conflicts`] names what was overtaken, a lower bound;
//!   [`placement_losers`] the placements that fall with it; [`placement_survivors`] what is left, over values of a
//!   fresh tail and under a new id, to be committed at the version of that tail. A placement keeps a node that others
//!   committed to meanwhile where it still fits there by the fresh values. Never wait for a journal entry that
//!   explains a reported key: there may be none.
//! - After 1021 (and 1039), tail to a fresh version and look for the batch's id: [`placement_find`]. The commit is no
//!   longer in flight, so what is not found did not happen.
//! - After 1031 it may still be in flight: look as after 1021, once the read version has passed `R` by the five seconds
//!   a transaction can live ([`TRANSACTION_LIFE_VERSIONS`]).
//! - Batches in flight from one worker have disjoint guards (but for the cell's gate and the lease), or they fail each
//!   other.
//! - The worker checks its lease at `R`: the guard says that it has not changed since, not what it was. The gate needs
//!   no such care: [`placement_commit`] takes the proof that it was open at `R` ([`GateOpen`](crate::cell::GateOpen)).

mod batch;
mod commit;
mod conflict;
mod find;
mod survive;
#[cfg(test)]
pub(crate) mod tests;

pub use batch::{Eviction, PlacementBatch, PlacementChange, PlacementError, PlacementNode};
pub use commit::placement_commit;
pub use conflict::{PlacementConflicts, placement_conflicts, placement_losers};
pub use find::{TRANSACTION_LIFE_VERSIONS, placement_find};
pub use survive::{SurvivorView, placement_survivors};
