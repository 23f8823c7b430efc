//! The pool of a scheduler's workers: among how many shards its jobs are divided. Leases with a smaller number than
//! that are shards. The holders of the others stand by.

use std::collections::BTreeMap;

use borough_kv::Transaction;

use super::step::{HeldLease, lease_head_move};
use super::{SchedulerPool, WorkerStatus, lease_check};
use crate::error::StoreResult;
use crate::keys::{self, CellSpace, LeaseStatusKey, Prefix, RangeOptions, SchedulerPoolKey};

/// The pool of a role; `None` before its first worker has set it.
pub async fn scheduler_pool(
    tx: &Transaction,
    space: &CellSpace,
    role: &str,
) -> StoreResult<Option<SchedulerPool>> {
    keys::read_snapshot(tx, space, &SchedulerPoolKey { role: role.to_owned() }).await
}

/// Changes the pool of a role, under one of its leases. Fails if the lease was taken over.
pub async fn scheduler_pool_set(
    tx: &Transaction,
    space: &CellSpace,
    held: &HeldLease,
    pool: SchedulerPool,
) -> StoreResult<()> {
    lease_check(tx, space, held).await?;
    lease_head_move(tx, space, &held.role)?;
    keys::write(tx, space, &SchedulerPoolKey { role: held.role.clone() }, &pool)
}

/// The last report of each lease's holder about itself, by the number of the lease. A report may be of an earlier
/// holder: compare it with the lease.
pub async fn worker_statuses(
    tx: &Transaction,
    space: &CellSpace,
    role: &str,
) -> StoreResult<BTreeMap<u32, WorkerStatus>> {
    let of_role = Prefix::<LeaseStatusKey>::of(&role.to_owned());
    let statuses = keys::range(tx, space, &of_role, RangeOptions::snapshot()).await?;
    Ok(statuses.into_iter().map(|(key, status)| (key.shard, status)).collect())
}
