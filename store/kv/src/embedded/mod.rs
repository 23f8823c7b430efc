//! The embedded engine: FoundationDB's contract in one process.
//!
//! ```text
//! transactions ──(read version, read and write ranges, mutations)──▶ sequencer
//!      ▲                                                              │ checks, assigns versions and stamps,
//!      │ reads at a version                                           │ appends one record, flushes once
//! memory image ◀──────────── applies, then publishes the version ─────┘ then answers and fires watches
//! ```
//!
//! The client side (`transaction/`) folds writes, resolves selectors and records conflict ranges exactly as
//! FoundationDB's own client does. `memory` keeps keys with their versions of the last five seconds, over those that
//! only the checkpoint has. Only `sequencer` orders commits; `resolver` is its conflict check and `versions` its clock.
//! `durable/` is the commit log with its checkpoint.

mod atomic;
pub mod durable;
mod engine;
mod memory;
mod mutation;
mod points;
mod queue;
mod ranges;
mod resolver;
mod sequencer;
mod stats;
mod transaction;
mod versions;
mod watch;

pub use durable::{LogLoss, OpenError, OpenOptions};
pub use engine::EmbeddedEngine;
pub use stats::EngineStats;
