//! The scheduler worker: it tails the journal, calls the core, and commits the plan. It makes no choices of its own.
//!
//! Begin at [`Worker::run`]. `commit` says what each answer of the store means, `gather` places large gangs,
//! `ahead` plans a batch while the one before is committed, and `batch` turns a plan into rows.
//!
//! One round takes a read version R and applies every journal entry up to R (with the gate and its own lease as of R).
//! It plans over the snapshot, which is then complete as of R, and commits at R with guards and blind writes. See
//! `borough_store::placement` for the rules that make the commit safe.

mod ahead;
mod batch;
mod commit;
mod config;
mod gather;
mod listed;
mod metrics;
mod pool;
mod read;
mod shard;
mod stats;
mod view;
mod worker;

pub use batch::{BatchStamp, batch_of_plan};
pub use borough_scheduler_core::SLICE_TASKS;
pub use config::WorkerConfig;
pub use listed::{SnapshotBuild, settings_of_meta, snapshot_of_mirror};
pub use metrics::WorkerMetrics;
pub use view::CellView;
pub use worker::{BATCH_TASKS_MAX, GANG_COMMIT_MAX, SURVIVOR_ATTEMPTS, Worker};
