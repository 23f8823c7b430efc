//! Garbage collection: removes journal entries, answers of requests and ended jobs past their retention.
//!
//! The leader trims the journal, whose floor is one key. Every controller of the cell, also one that stands by, removes
//! jobs and answers ([`GarbageCollector`]). Each removal checks in its own transaction that its subject may go, so it
//! needs no lease.

mod awaited;
mod collector;
mod decide;
mod journal;
mod metrics;

pub(crate) use collector::GarbageCollector;
pub(crate) use journal::journal_keep;
pub use metrics::GarbageMetrics;
