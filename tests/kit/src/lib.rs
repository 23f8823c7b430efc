//! Small parts from which tests build a cell in their own process: time, seeds, a store in memory, a cell in it, and
//! roles as tasks. Each part works alone; a test takes those that it needs. Begin at [`OpenCell`].
//!
//! The unit tests of the crates below (`borough-kv`, `borough-model`, `borough-store`) cannot use it: they would have
//! two versions of the same types. `store/layer/src/testing.rs` is their own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cell;
mod metrics;
mod random;
mod role;
mod row;
mod store;
mod time;

pub use cell::OpenCell;
pub use metrics::metrics_text;
pub use random::{below, index, rng_of, seeds};
pub use role::{Role, begun};
pub use row::{change, job_spec, name, node_facts, placed_on};
pub use store::MemoryStore;
pub use time::{OffClock, VirtualClock, cell_time, in_simulated_time};
