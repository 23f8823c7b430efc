//! Tests of the core: plans over random histories against a slow reference scheduler, and examples.

#![expect(clippy::expect_used, reason = "a test says what it expected")]

mod cache;
mod canary;
mod division;
mod explain;
mod explain_order;
mod formula;
mod gang;
mod generators;
mod history;
mod in_alloc;
mod machine;
mod narrow;
mod order;
mod pinned;
mod place;
mod policy;
mod preempt;
mod properties;
mod queueing;
mod reclaim;
mod reference;
mod relocation;
mod rule;
mod score_formula;
mod shares;
mod space;
mod stored;
mod unschedulable;
mod victims;
