//! A mirror: one cell's state in memory, kept by one tail of its journal, and shared by everything in the process.
//!
//! A process keeps one mirror per cell, with one watch that is always paired with a jittered timer. Readers, watch
//! streams and reconcilers are served from memory. A mirror that loses the store keeps its last state, and reports how
//! old it is.

mod away;
mod ended;
mod facts;
mod federated;
mod follow;
mod handle;
mod holds;
mod member;
mod merged;
mod ring;
mod rows;
mod silent;
mod specs;
mod state;
#[cfg(test)]
mod tests;
mod wait;

pub use ended::EndedJobs;
pub use facts::{EndpointFacts, FactsForgotten, RefreshedEndpoint};
pub use follow::{MirrorFollower, MirrorOptions};
pub use handle::{MirrorEvent, MirrorHandle, MirrorSubscription, Resume};
pub use holds::{LockHolds, MirrorLockHolds};
pub use rows::{MirrorRow, RowsPart, RowsPosition};
pub use specs::StoredSpec;
pub use state::{MirrorState, StoredEndpoint};
