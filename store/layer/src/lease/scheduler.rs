//! The leases of scheduler workers: one role per scheduler of a cell, and with each lease its holder's report about
//! itself.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::Name;

use super::step::HeldLease;
use super::{LeaseBeat, LeaseRow, LeaseState, WorkerStatus, lease_check};
use crate::error::StoreResult;
use crate::keys::{
    self, CellSpace, LeaseBeatKey, LeaseKey, LeaseStatusKey, Prefix, RangeOptions, SchedulerPoolKey,
};

/// The scheduler of jobs that name none.
pub const SCHEDULER_DEFAULT: &str = "default";

const ROLE: &str = "scheduler";

/// The role of a scheduler's leases.
pub fn scheduler_role(scheduler: &Name) -> String {
    match scheduler.as_str() {
        SCHEDULER_DEFAULT => ROLE.to_owned(),
        other => format!("{ROLE}/{other}"),
    }
}

/// The scheduler whose leases have that role; `None` if the role is for something else.
pub fn scheduler_of_role(role: &str) -> Option<&str> {
    match role.strip_prefix(ROLE)? {
        "" => Some(SCHEDULER_DEFAULT),
        rest => rest.strip_prefix('/'),
    }
}

/// Writes a worker's report about itself. Fails if the lease was taken over.
pub async fn worker_status_write(
    tx: &Transaction,
    space: &CellSpace,
    held: &HeldLease,
    status: &WorkerStatus,
) -> StoreResult<()> {
    lease_check(tx, space, held).await?;
    let status = WorkerStatus { epoch: held.epoch, holder: held.holder.clone(), ..status.clone() };
    keys::write(tx, space, &LeaseStatusKey { role: held.role.clone(), shard: held.shard }, &status)
}

/// The leases of all shards of all schedulers, without conflicts.
pub async fn scheduler_leases(
    tx: &Transaction,
    space: &CellSpace,
) -> StoreResult<BTreeMap<LeaseKey, LeaseState>> {
    let all = RangeOptions::snapshot();
    let leases = keys::range::<LeaseKey>(tx, space, &Prefix::all(), all).await?;
    let beats = keys::range::<LeaseBeatKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    let beats: BTreeMap<(String, u32), LeaseBeat> =
        beats.into_iter().map(|(key, beat)| ((key.role, key.shard), beat)).collect();
    let state = |(key, row): (LeaseKey, LeaseRow)| {
        let beat = beats.get(&(key.role.clone(), key.shard)).copied().unwrap_or_default();
        (key, LeaseState { row, beat })
    };
    let of_schedulers = leases.into_iter().filter(|(key, _)| scheduler_of_role(&key.role).is_some());
    Ok(of_schedulers.map(state).collect())
}

/// A shard of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerShard {
    pub scheduler: String,
    pub shard: u32,
    pub lease: LeaseRow,
    /// The holder's report about itself; `None` before the first one.
    pub status: Option<WorkerStatus>,
    /// How many versions of the store have passed since the version at which the holder knows the cell.
    pub age_versions: u64,
    /// When any holder last reported about it.
    pub status_last_ms: Option<i64>,
    /// True if it is no shard at present: its holder stands by until the jobs are divided further or a shard is free.
    pub standby: bool,
}

/// Every shard of every scheduler, and the workers that stand by, without conflicts.
pub async fn scheduler_shards(tx: &Transaction, space: &CellSpace) -> StoreResult<Vec<SchedulerShard>> {
    let leases = keys::range::<LeaseKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    let now = u64::try_from(tx.read_version().await?).unwrap_or_default();
    let pools = keys::range::<SchedulerPoolKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    let pools: BTreeMap<String, u32> = pools.into_iter().map(|(key, pool)| (key.role, pool.shards)).collect();
    let mut shards = Vec::new();
    for (key, lease) in leases {
        let Some(scheduler) = scheduler_of_role(&key.role).map(str::to_owned) else { continue };
        let standby = pools.get(&key.role).is_some_and(|&shards| key.shard >= shards);
        if standby && lease.holder.is_empty() {
            continue;
        }
        let last_status = LeaseStatusKey { role: key.role, shard: key.shard };
        let last_status = keys::read_snapshot(tx, space, &last_status).await?;
        let status_last_ms = last_status.as_ref().map(|status| status.at_ms);
        let status =
            last_status.filter(|status| status.epoch == lease.epoch && status.holder == lease.holder);
        let known = status.as_ref().map_or(now, |status| status.read_version);
        let age_versions = now.saturating_sub(known);
        shards.push(SchedulerShard {
            scheduler,
            shard: key.shard,
            lease,
            status,
            age_versions,
            status_last_ms,
            standby,
        });
    }
    Ok(shards)
}
