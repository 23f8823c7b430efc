//! Experiments with scoring policies: the production core places the same work under each scoring policy, on recorded
//! traces of other clusters. No tasks run and no store is used, except in `replay`, which covers the whole scheduler.

mod alibaba;
mod arrival;
pub(crate) mod balance;
mod cell;
pub(crate) mod compaction;
mod openb;
pub(crate) mod packing;
mod policy;
pub(crate) mod replay;
mod resample;
mod seeds;
mod table;
mod trace;
