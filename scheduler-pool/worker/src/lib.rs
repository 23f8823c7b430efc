//! Doing: a scheduler worker tails the journal, calls the core, commits the plan. It makes no choices of its own.
//!
//! One round: take a read version R, apply every journal entry up to R (with the gate and the own lease as they are at
//! R), plan over what is then complete as of R, and commit at R with guards and blind writes. See
//! `borough_store::placement` for the rules that make the commit safe.

mod batch;
mod commit;
mod gather;
mod metrics;
mod read;
mod shard;
mod stats;
mod view;
mod worker;

pub use batch::{BatchStamp, batch_of_plan};
pub use metrics::WorkerMetrics;
pub use view::CellView;
pub use worker::{GANG_COMMIT_MAX, Worker, WorkerConfig};
