//! The scheduler's decisions: which task runs on which node. Pure functions over a snapshot of a cell.
//!
//! A worker applies the journal to a [`Snapshot`], asks it for pending tasks ([`Snapshot::pending_in`]), calls
//! [`plan`], and commits the plan. A gateway asks the same code what a job would get ([`dry_run`]) and why a task waits
//! ([`explain`]). Nothing here reads a clock, a random source or the network: the same snapshot, time and seed give the
//! same plan.
//!
//! The modules form layers, the lowest first. Each module imports only modules above it in this table. A test enforces
//! that.
//!
//! | layer | modules |
//! |---|---|
//! | counts, identities, policies | `count`, `queueing`, `seed`, `profile`, `settings`, `batch_size` |
//! | the nodes, jobs and tasks of a cell, and events of their changes | `tables` |
//! | the capacity that a plan has taken so far, the order of nodes | `overlay`, `node_order` |
//! | filters and scores of nodes | `filter`, `census`, `scoring` |
//! | victims | `preempt` |
//! | placements, and causes where none is possible, as data | `plan` |
//! | pending and unschedulable tasks, and the events that requeue them | `backlog`, `snapshot` |
//! | answers for people | `explain`, `dry_run`, `relocation` |

mod backlog;
mod batch_size;
mod census;
mod count;
mod dry_run;
mod explain;
mod filter;
mod node_order;
mod overlay;
mod plan;
mod preempt;
mod profile;
mod queueing;
mod relocation;
mod scoring;
mod seed;
mod settings;
mod snapshot;
mod tables;

pub use backlog::{OpenQueue, PendingReason, SLICE_TASKS, ShardDivision};
pub use batch_size::{BatchOutcome, BatchSize};
pub use dry_run::{DryRun, DryRunTask, ReplacedAttempts, dry_run};
pub use explain::{
    Ahead, AllocLeft, EvictionReport, Explanation, FilterLoss, FilterStep, NearestFit, VictimReport,
    WaitReason, explain, explain_job, explain_unplaced,
};
pub use node_order::StartOffset;
pub use plan::{
    NodeChange, PendingClass, PendingGang, PendingQueue, PendingTask, Plan, PlanCache, PlanCounters,
    PlannedPlacement, TermToken, Unplaced, plan, plan_from,
};
pub use preempt::{PreemptionCost, Victim};
pub use profile::{ProfileError, ScoringProfile};
pub use queueing::{Queueing, QueueingError, QueueingPolicy};
pub use relocation::{Relocation, explain_elsewhere};
pub use seed::{PLAN_SEED, shard_of};
pub use settings::{CellSettings, Overcommit, StoredSettings};
pub use snapshot::Snapshot;
pub use tables::{CellTables, DeltaApplied, GangPart, PlanSpec, SnapshotNode, SnapshotTask};
