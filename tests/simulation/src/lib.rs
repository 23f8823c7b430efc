//! Shared parts of simulations: the audit of a journal against the rules that must always hold, and the test whether a
//! cell is at rest.
//!
//! `tests/contention` runs four workers at once over a small cell. `tests/system` runs every role, with agents and
//! clients, over a simulated network. Neither needs the program: this package builds without it. Begin at
//! `audit::Auditor`, which checks each journal entry, and [`mutation`], which proves that a test sees a defect.

pub mod audit;
pub mod mutation;
pub mod rest;
pub mod seeds;
