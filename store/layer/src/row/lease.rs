//! Stored rows of a lease: two keys, so that a heartbeat voids no work of its own holder.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The holder of a lease. Changes only with the holder; protected transactions read it with a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct LeaseRow {
    /// Counts holders: the fencing token.
    #[n(0)]
    pub epoch: u64,
    /// Empty if the lease has no holder.
    #[n(1)]
    pub holder: String,
    /// The generation of the store in which it was given. An embedded directory that is opened again voids earlier
    /// leases.
    #[n(2)]
    pub generation: u64,
    /// Milliseconds without a heartbeat after which an observer may take it. A duration, never a point in time.
    #[n(3)]
    pub duration_ms: u64,
}

/// The holder's heartbeat. Never read by protected transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct LeaseBeat {
    #[n(0)]
    pub epoch: u64,
    /// Counts renewals.
    #[n(1)]
    pub beat: u64,
}

/// Among how many shards the jobs of a scheduler are divided. The holder of its first shard changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct SchedulerPool {
    /// Leases with a smaller number are shards. The holders of others stand by.
    #[n(0)]
    pub shards: u32,
}

/// A worker's report about itself, with its heartbeat. It is valid as long as the lease is.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// The epoch of the lease it was written under.
    #[n(0)]
    pub epoch: u64,
    #[n(1)]
    pub holder: String,
    /// Wall time, milliseconds since 1970.
    #[n(2)]
    pub at_ms: i64,
    /// Tasks of the shard that wait for a node and may be tried.
    #[n(3)]
    pub waiting: u64,
    /// Tasks of the shard that are unschedulable.
    #[n(4)]
    pub unschedulable: u64,
    /// Recently placed tasks per thousand seconds.
    #[n(5)]
    pub rate_per_ks: u64,
    /// Tasks placed since the worker began.
    #[n(6)]
    pub placed: u64,
    /// Batches committed since the worker began.
    #[n(7)]
    pub commits: u64,
    /// Batches that lost a guard since the worker began.
    #[n(8)]
    pub conflicts: u64,
    /// Thousandths of a node scored per placed task, since the worker began.
    #[n(9)]
    pub scored_per_mille: u64,
    /// Searches per thousand that continued where an earlier one had ended, since the worker began.
    #[n(10)]
    pub cached_per_mille: u32,
    /// The version of the store at which the worker knows the cell.
    #[n(11)]
    pub read_version: u64,
    /// Milliseconds since it read that version.
    #[n(12)]
    pub age_ms: u64,
    /// The first of its preferred nodes, in their order.
    #[n(13)]
    pub part_first: u32,
    /// The number of its preferred nodes.
    #[n(14)]
    pub part_nodes: u32,
    /// The most tasks that it decides at once, at present.
    #[n(15)]
    pub batch_tasks: u32,
    #[n(16)]
    pub shards: u32,
}
