//! The commit that reads nothing: it turns a scheduler worker's decisions into state.
//!
//! A worker takes one read version `R` per batch, applies the journal up to `R`, and plans over a snapshot that is
//! complete as of `R`. Its decisions are a [`PlacementBatch`]. [`placement_commit`] turns it into a transaction that
//! reads nothing: guards, blind writes, one journal entry. The store's conflict check then serves as the shared-state
//! check of optimistic scheduling. The commit succeeds exactly if nothing that could make it wrong was written after
//! `R`.
//!
//! # Guards
//!
//! | guard | who writes it |
//! |---|---|
//! | `cell_gate` | closing, moving or importing the cell |
//! | the worker's own `lease` | its successor |
//! | `job_gate` of every job placed or evicted | stop, end, shrink, change of priority or of spec (not growth or counters) |
//! | `node_alloc` of every node touched | every change of commitment, and every cordon, drain, taint or change of the node's row |
//! | `task` of every task placed or evicted, and of one resident task for each rule that wants a placement near others | every transition of it |
//! | `constraint` of every term over several nodes that applies | every placement that matches the term; a task that ends only frees resources, or would have ended after the placement too |
//! | `constraint` of all terms | the admission of a job that keeps others away: a worker that does not know the job yet plans again |
//!
//! Every change that can make a placement wrong writes one of these keys. A new rule for placements therefore needs a
//! new guard, or its changes must write one of these keys.
//!
//! # Rules
//!
//! - [`placement_commit`] runs inside `Database::commit_at(R)`, never inside the retry loop: replayed at another
//!   version, its blind writes overwrite the work of others.
//! - 1020 and 1007 go back to the planner. [`placement_conflicts`] returns a lower bound of the overwritten guards, and
//!   [`placement_losers`] the placements that fail with them. [`placement_survivors`] returns the rest over values of a
//!   fresh tail and under a new id; commit it at the version of that tail. A placement keeps a node that others
//!   committed to meanwhile if it still fits there by the fresh values. Never wait for a journal entry that explains a
//!   reported key: it may not exist.
//! - After 1021 (and 1039), tail to a fresh version and look for the batch's id: [`placement_find`]. The commit is no
//!   longer in flight, so a batch that is not found was not committed.
//! - After 1031 it may still be in flight: look as after 1021, once the read version has passed `R` by the five seconds
//!   a transaction can live ([`TRANSACTION_LIFE_VERSIONS`]).
//! - Batches in flight from one worker have disjoint guards (except for the cell's gate and the lease), or they fail
//!   each other.
//! - The worker checks its lease at `R`: the guard says that it has not changed since, not what it was. The gate needs
//!   no such check: [`placement_commit`] takes the proof that it was open at `R` ([`GateOpen`](crate::cell::GateOpen)).

mod batch;
mod commit;
mod conflict;
mod find;
mod survive;
#[cfg(test)]
pub(crate) mod tests;

pub use batch::{Eviction, PlacementBatch, PlacementChange, PlacementNode};
pub use commit::placement_commit;
pub use conflict::{PlacementConflicts, placement_conflicts, placement_losers};
pub use find::{TRANSACTION_LIFE_VERSIONS, placement_find};
pub use survive::{SurvivorView, placement_survivors};
