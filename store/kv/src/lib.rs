//! The transactional key-value contract (FoundationDB semantics), the retry runner, the embedded engine and the
//! fault-injecting wrapper. `borough-conformance` proves an engine. The crate is useful on its own.
//!
//! Begin at [`Database::run`], which tries again, and `Database::commit_at`, which never does. [`contract`] is what an
//! engine must keep, and [`embedded`] is one engine.
//!
//! Code above this crate cannot distinguish the engines. It uses [`Database`], which runs closures over
//! [`Transaction`], and never sees an engine. `clippy.toml` bans raw transactions.

pub mod contract;
pub mod database;
pub mod embedded;
pub mod env;
pub mod exercise;
pub mod fault;
mod metrics;
mod runner;
pub mod secret;

pub use contract::{
    AtomicOp, Committed, ConflictKind, Engine, EngineState, EngineTransaction, ErrorCode, Isolation,
    KeySelector, KvError, KvResult, RangeBatch, RangeRequest, StreamingMode, TransactionOption, Version,
    Versionstamp, Watch,
};
pub use database::{Database, Idempotency, Retryable, Transaction, TransactionTry};
pub use embedded::EmbeddedEngine;
pub use fault::{FaultEngine, FaultPlan};
