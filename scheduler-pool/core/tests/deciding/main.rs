//! Deciding, held against a slow and obvious scheduler over random histories, and by example.

#![expect(clippy::expect_used, reason = "a test says what it expected")]

mod cache;
mod draft;
mod explain;
mod formula;
mod gang;
mod history;
mod machine;
mod naive;
mod order;
mod place;
mod policy;
mod preempt;
mod queueing;
mod reclaim;
mod relocation;
mod rule;
mod shares;
mod sleep;
mod space;
mod told;
mod victims;
mod world;
