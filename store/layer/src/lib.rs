//! The keyspace: one folder per durable noun, each with its rows, its transactions' steps and its rules.
//!
//! Layer functions take `&Transaction` and the cell's [`CellSpace`]. Functions that change something also take the
//! transaction's [`ChangeSet`], which collects the journal's deltas. They open no transactions: the caller does, by
//! `Database::run` or `Database::commit_at`, so that several steps can be one commit. Only [`mirror`],
//! [`lease::LeaseWriter`] and listings in chunks ([`journal::cell_list_chunked`]) open their own, on behalf of the
//! roles. Ids and times are arguments, made outside the closure, so that every try is the same transaction.
//!
//! Nothing outside this crate builds a key.
//!
//! Begin at [`keys`] (every key), [`journal::ChangeSet`] (a change), [`mirror`] (how readers follow), [`placement`]
//! (the commit that reads nothing) and [`check`] (what must hold).
//!
//! Modules import downwards only. At the bottom are the stored rows, the kinds of keys, the errors and the keys, over
//! them the gate and the journal, then the nouns. A step that spans nouns belongs to the highest of them: a placement,
//! for example, or the holds of a gang's tasks. Checks, transfers and mirrors see everything.

pub mod access;
pub mod audit;
pub mod cell;
pub mod check;
pub mod daemon;
pub mod error;
pub mod federated;
pub mod federation;
pub mod gang;
mod gate;
pub mod job;
pub mod join;
pub mod journal;
mod key_kind;
pub mod keys;
pub mod lease;
pub mod member;
pub mod merged;
pub mod mirror;
pub mod name;
pub mod node;
pub mod placement;
pub mod quota;
pub mod request;
pub mod rollout;
mod row;
pub mod scratch;
pub mod task;
pub mod transfer;
pub mod workload;

#[cfg(test)]
mod testing;

pub use error::{RefusalRemedy, StoreError, StoreResult, error_chain};
pub use journal::{Change, ChangeSet};
pub use key_kind::KeyKind;
pub use keys::{CellSpace, Key, Prefix};
pub use row::Cursor;
