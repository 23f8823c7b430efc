//! A whole system in one process, in simulated time. Gateways, workers, controllers, agents and clients are the
//! production code; network, machines and store are simulated. The seed decides everything; the same seed is the same
//! run, byte for byte.
//!
//! One seed alone: `BOROUGH_SEED=<seed> cargo test -p borough-simulation --test system`; more of them from there with
//! `BOROUGH_SEEDS=<count>`, the trace of a run with `BOROUGH_TRACE=1`, only some kinds of faults with
//! `BOROUGH_INJECT=<name>,…`. Each run is a process of its own, so that no state of another run is left in it.
//! `docs/simulation.md` says what is simulated and what is not.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod check;
mod clock;
mod inject;
mod jobs;
mod machine;
mod network;
mod operator;
mod parent;
mod plan;
mod processes;
mod role;
mod run;
mod trace;
mod wire;
mod world;
