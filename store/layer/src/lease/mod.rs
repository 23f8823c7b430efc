//! Leases: who does a piece of work now, fenced by an epoch that protected transactions read.
//!
//! A lease has two keys. `lease` names the holder and counts holders. Protected transactions read it with a conflict,
//! so a takeover fails all of the old holder's work in flight. `lease_beat` changes with each renewal. Protected
//! transactions never read it, or each renewal would fail the holder's own work.
//!
//! No deadline is stored. Observers time an unchanged heartbeat by their own monotonic clock ([`LeaseObserver`]). The
//! takeover reads the heartbeat with a conflict, so a renewal that commits first voids it. Correctness rests on the
//! conflicts alone; clocks only decide when to try.

mod decide;
mod pool;
mod scheduler;
mod seat;
mod silence;
mod step;
#[cfg(test)]
mod tests;
mod writer;

pub use decide::{LeaseClaim, LeaseDecision, LeaseState, lease_claim_decide};
pub use pool::{scheduler_pool, scheduler_pool_set, worker_statuses};
pub use scheduler::{
    SCHEDULER_DEFAULT, SchedulerShard, scheduler_leases, scheduler_of_role, scheduler_role, scheduler_shards,
    worker_status_write,
};
pub use seat::LeaseSeat;
pub use silence::{LeaseObserver, Silence};
pub use step::{
    HeldLease, LeaseAcquired, lease_acquire, lease_check, lease_head, lease_head_watch, lease_read,
    lease_release, lease_renew,
};
pub use writer::LeaseWriter;

pub use crate::row::{LeaseBeat, LeaseRow, SchedulerPool, WorkerStatus};
