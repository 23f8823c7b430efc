//! The configuration of a worker.

use borough_model::Name;
use borough_scheduler_core::ShardDivision;
use borough_store::CellSpace;
use borough_store::journal::JournalShare;

/// What a worker serves: its cell, its place among the workers, and the bounds of its batches.
#[derive(Clone)]
pub struct WorkerConfig {
    /// The cell that it fills.
    pub space: CellSpace,
    /// The fewest shards that the jobs of a scheduler are divided into. More follow while more workers live than that
    /// and much waits.
    pub shards: u32,
    /// The shard that it prefers. Another one is as good.
    pub place: u32,
    /// The schedulers whose jobs it places.
    pub schedulers: Vec<Name>,
    /// Its name in leases, unique to this process and worker.
    pub holder: String,
    /// Milliseconds without a heartbeat after which another worker may take a shard.
    pub lease_ms: u64,
    /// The generation of the store: leases of an older one are void.
    pub generation: u64,
    /// The most tasks in a batch. Usually [`crate::BATCH_TASKS_MAX`].
    pub batch_tasks_max: usize,
    /// The tasks of a slice: a job with more is divided among shards. Usually [`crate::SLICE_TASKS`].
    pub slice_tasks: u32,
    /// The most members of a gang in one commit; larger gangs gather by holds. Usually [`crate::GANG_COMMIT_MAX`].
    pub gang_commit_max: usize,
    /// Decoded journal entries that workers of this process and cell share.
    pub share: JournalShare,
}

impl std::fmt::Debug for WorkerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WorkerConfig({} {}/{})", self.space, self.place, self.shards)
    }
}

impl WorkerConfig {
    /// How jobs are divided among shards.
    pub(crate) fn division(&self) -> ShardDivision {
        ShardDivision { shards: self.shards, slice_tasks: self.slice_tasks }
    }
}
