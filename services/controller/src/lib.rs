//! The automatic work of a cell. The controller declares silent nodes lost and ends unwanted tasks. It starts jobs
//! whose dependencies have ended, empties drained nodes, gives up gangs without a worker, and collects garbage.
//!
//! It is level-triggered: the actions follow from the state alone ([`decide`]), whatever event woke the controller. It
//! wakes on the journal and on a timer and does the same either way. One controller leads a cell, by lease. Every
//! transaction checks the lease, so that a successor is never disturbed. Only garbage collection needs no lease: all
//! controllers of a cell do it together.

mod act;
mod audit;
mod config;
mod daemon;
pub mod decide;
mod dirty;
mod drain;
mod gang;
mod garbage;
mod lead;
mod liveness;
mod load;
mod observe;
mod rollout;
mod scan;
mod surge;

pub use config::ControllerConfig;
pub use garbage::GarbageMetrics;
pub use lead::Controller;
