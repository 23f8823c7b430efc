//! Deciding: snapshot, filters, scores, plans, explanations. Pure.
//!
//! A worker applies the journal to a [`Snapshot`], asks [`pending`] what wants a node, lets [`plan`] choose, and
//! commits what came out. A gateway asks the same code what it would do ([`dry_run`]) and why it does not
//! ([`explain`]). Nothing here reads a clock, a random source or the network: the same snapshot, time and seed give the
//! same plan.

mod batch_size;
mod dry_run;
mod explain;
mod filter;
mod pending;
mod plan;
mod preempt;
mod queueing;
mod relocation;
mod scoring;
mod seed;
mod settings;
mod snapshot;

pub use batch_size::BatchSize;
pub use dry_run::{DryRun, DryRunTask, dry_run};
pub use explain::{
    Ahead, EvictionReport, Explanation, FilterLoss, FilterStep, NearestFit, PENDING_REASONS, PENDING_TURN,
    VictimReport, WaitReason, explain, explain_job,
};
pub use pending::{PendingClass, PendingGang, PendingQueue, PendingTask, pending, pending_in};
pub use plan::{
    NodeChange, Plan, PlanCache, PlanCounters, PlannedPlacement, StartOffset, TermToken, Unplaced, plan,
    plan_from,
};
pub use preempt::{PreemptionCost, Victim};
pub use queueing::{Queueing, QueueingError, QueueingPolicy};
pub use relocation::{Relocation, explain_elsewhere};
pub use scoring::{ProfileError, ScoringProfile};
pub use seed::{PLAN_SEED, shard_of};
pub use settings::{CellSettings, Overcommit};
pub use snapshot::GangPart;
pub use snapshot::{DeltaApplied, OpenQueue, Snapshot, SnapshotNode, SnapshotTask};
