//! Steps of transactions on a lease.

use borough_kv::{Transaction, Watch};

use super::decide::{LeaseClaim, LeaseDecision, LeaseState, lease_claim_decide};
use super::{LeaseBeat, LeaseRow};
use crate::error::{StoreError, StoreResult};
use crate::keys::{self, CellSpace, LeaseBeatKey, LeaseHeadKey, LeaseKey};

/// A lease that its holder believes to hold. Only a transaction that guards on it proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    pub role: String,
    pub shard: u32,
    pub holder: String,
    /// The fencing token: every effect outside the store carries it.
    pub epoch: u64,
}

impl HeldLease {
    fn key(&self) -> LeaseKey {
        LeaseKey { role: self.role.clone(), shard: self.shard }
    }

    fn beat_key(&self) -> LeaseBeatKey {
        LeaseBeatKey { role: self.role.clone(), shard: self.shard }
    }
}

/// The result of a try to acquire a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAcquired {
    /// The claimant holds it, now or already.
    Held(HeldLease),
    /// Another one holds it: keep observing this state.
    Taken(LeaseState),
}

/// Both rows of a lease, without conflicts: for observers.
pub async fn lease_read(
    tx: &Transaction,
    space: &CellSpace,
    role: &str,
    shard: u32,
) -> StoreResult<LeaseState> {
    let row = keys::read_snapshot(tx, space, &LeaseKey { role: role.to_owned(), shard }).await?;
    let beat = keys::read_snapshot(tx, space, &LeaseBeatKey { role: role.to_owned(), shard }).await?;
    Ok(LeaseState { row: row.unwrap_or_default(), beat: beat.unwrap_or_default() })
}

/// Takes the lease if it is free. Both rows are read with conflicts: one of two claimants wins, and a renewal that
/// commits first voids a takeover. Repeating a successful acquisition returns the same lease.
pub async fn lease_acquire(
    tx: &Transaction,
    space: &CellSpace,
    claim: &LeaseClaim,
) -> StoreResult<LeaseAcquired> {
    let mut held =
        HeldLease { role: claim.role.clone(), shard: claim.shard, holder: claim.holder.clone(), epoch: 0 };
    let row = keys::read(tx, space, &held.key()).await?.unwrap_or_default();
    let beat = keys::read(tx, space, &held.beat_key()).await?.unwrap_or_default();
    let stored = LeaseState { row, beat };
    match lease_claim_decide(&stored, claim) {
        LeaseDecision::Held => return Ok(LeaseAcquired::Taken(stored)),
        LeaseDecision::Mine => held.epoch = stored.row.epoch,
        LeaseDecision::Take(row) => {
            held.epoch = row.epoch;
            keys::write(tx, space, &held.key(), &row)?;
            keys::write(tx, space, &held.beat_key(), &LeaseBeat { epoch: row.epoch, beat: 0 })?;
            lease_head_move(tx, space, &held.role)?;
        }
    }
    Ok(LeaseAcquired::Held(held))
}

/// Renews the lease: `beat` counts the holder's renewals and differs from the last one. Fails if the lease was taken
/// over.
pub async fn lease_renew(
    tx: &Transaction,
    space: &CellSpace,
    held: &HeldLease,
    beat: u64,
) -> StoreResult<()> {
    lease_check(tx, space, held).await?;
    keys::write(tx, space, &held.beat_key(), &LeaseBeat { epoch: held.epoch, beat })
}

/// Gives up the lease, so that the next claimant need not wait. Leaves a lease alone that was taken over.
pub async fn lease_release(tx: &Transaction, space: &CellSpace, held: &HeldLease) -> StoreResult<()> {
    let row = keys::read(tx, space, &held.key()).await?.unwrap_or_default();
    if row.epoch != held.epoch || row.holder != held.holder {
        return Ok(());
    }
    lease_head_move(tx, space, &held.role)?;
    keys::write(tx, space, &held.key(), &LeaseRow { holder: String::new(), ..row })
}

/// How often holders of the role's leases have changed. An observer lists the leases again only after a change.
pub async fn lease_head(tx: &Transaction, space: &CellSpace, role: &str) -> StoreResult<i64> {
    let key = LeaseHeadKey { role: role.to_owned() };
    Ok(keys::read_snapshot(tx, space, &key).await?.unwrap_or_default().0)
}

/// A watch that ends when the holder of one of the role's leases may have changed. It is inert until the transaction
/// is committed.
pub async fn lease_head_watch(tx: &Transaction, space: &CellSpace, role: &str) -> StoreResult<Watch> {
    keys::watch(tx, space, &LeaseHeadKey { role: role.to_owned() }).await
}

/// An addition conflicts with no other, so claims of different leases do not fail each other.
pub(super) fn lease_head_move(tx: &Transaction, space: &CellSpace, role: &str) -> StoreResult<()> {
    keys::count_add(tx, space, &LeaseHeadKey { role: role.to_owned() }, 1)
}

/// For a protected transaction that reads: checks that the lease is still held, and fails the commit if that changes.
pub async fn lease_check(tx: &Transaction, space: &CellSpace, held: &HeldLease) -> StoreResult<()> {
    let row = keys::read(tx, space, &held.key()).await?.unwrap_or_default();
    if row.epoch == held.epoch && row.holder == held.holder {
        return Ok(());
    }
    Err(StoreError::LeaseLost {
        role: held.role.clone(),
        shard: held.shard,
        holder: row.holder,
        epoch: row.epoch,
    })
}
