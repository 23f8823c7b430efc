//! The contract of both engines: one trait for an engine, one for its transactions, and their vocabulary.
//!
//! It is FoundationDB's at API version 730: strict serializability by optimistic concurrency, with its error codes,
//! limits and option names. An engine refuses by name what it does not support ([`ErrorCode::InvalidOption`] or
//! [`ErrorCode::NotSupported`]), and ignores nothing silently.

mod atomic;
pub mod check;
mod engine;
mod error;
pub mod limits;
mod option;
mod range;
mod stamp;

pub use atomic::AtomicOp;
pub use engine::{
    Committed, ConflictKind, Engine, EngineInfo, EngineState, EngineTransaction, Isolation, Watch,
};
pub use error::{ErrorCode, KvError, KvResult};
pub use option::TransactionOption;
pub use range::{KeySelector, RangeBatch, RangeRequest, StreamingMode};
pub use stamp::{Version, Versionstamp};
