//! Deciding: snapshot, filters, scores, plans, explanations. Pure.
//!
//! A worker applies the journal to a [`Snapshot`], asks [`pending`] what wants a node, lets [`plan`] choose, and commits
//! what came out. A gateway asks the same code what it would do ([`dry_run`]) and why it does not ([`explain`]). Nothing
//! here reads a clock, a random source or the network: the same snapshot, time and seed give the same plan.

mod dry_run;
mod explain;
mod filter;
mod pace;
mod pending;
mod plan;
mod preempt;
mod queueing;
mod relocation;
mod scoring;
mod seed;
mod settings;
mod snapshot;

pub use dry_run::{DryRun, DryRunTask, dry_run};
pub use explain::{
    Ahead, EvictionsTold, Explanation, Filter, FilterLoss, NearestFit, PENDING_REASONS, PENDING_TURN,
    VictimTold, Wait, explain, explain_job,
};
pub use pace::Pace;
pub use pending::{PendingClass, PendingGang, PendingQueue, PendingTask, pending, pending_in};
pub use plan::{
    NodeChange, Placement, Plan, PlanCache, PlanCounters, TermToken, Unplaced, Vantage, plan, plan_from,
};
pub use preempt::{PreemptionCost, Victim};
pub use queueing::{Queueing, QueueingError, QueueingPolicy};
pub use relocation::{Relocation, explain_elsewhere};
pub use scoring::{ProfileError, ScoringProfile};
pub use seed::{PLAN_SEED, shard_of};
pub use settings::{CellSettings, Overcommit};
pub use snapshot::GangPart;
pub use snapshot::{Applied, NodeView, Queue, Snapshot, TaskView};
