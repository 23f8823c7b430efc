//! Small parts from which tests build a cell in their own process: time, seeds, a store in memory, a cell in it, roles
//! as tasks, and programs of others. Each part works alone; a test takes those that it needs. Begin at [`OpenCell`].
//!
//! The unit tests of the crates below (`borough-kv`, `borough-model`, `borough-store`) cannot use it: they would have
//! two versions of the same types. `store/layer/src/testing.rs` is their own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]
#![expect(clippy::print_stderr, reason = "a failed test shows what a program has written")]

mod cell;
mod metrics;
mod program;
mod random;
mod role;
mod row;
mod store;
mod time;

pub use cell::OpenCell;
pub use metrics::metrics_text;
pub use program::{HeldProgram, program_find, python_with_grpc};
pub use random::{below, index, rng_of, seeds};
pub use role::{Role, begun};
pub use row::{change, job_spec, name, node_facts, placed_on};
pub use store::MemoryStore;
pub use time::{OffClock, VirtualClock, cell_time, in_simulated_time};
