//! The one lead of a role in a cell: who claims it, keeps it and gives it back.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::Clock;
use borough_kv::{Database, Idempotency, TransactionOption};

use super::{
    HeldLease, LeaseAcquired, LeaseClaim, LeaseObserver, lease_acquire, lease_read, lease_release,
    lease_renew,
};
use crate::error::StoreResult;
use crate::keys::CellSpace;

/// The lease that the leader of a role holds in a cell, as one process claims it. It opens its own transactions.
#[derive(Clone)]
pub struct LeaseSeat {
    pub db: Database,
    pub space: CellSpace,
    /// Such as `controller`.
    pub role: &'static str,
    /// The name of the claimant, unique to its process.
    pub holder: String,
    /// Milliseconds without a heartbeat after which another one may lead.
    pub lease_ms: u64,
    /// The generation of the store: leases of an older one are void.
    pub generation: u64,
    pub clock: Arc<dyn Clock>,
}

impl LeaseSeat {
    /// Takes the lease if it is free, or if its holder has been silent for too long by the own clock of this process.
    /// `None`: another one leads.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn claim(&self, observer: &mut LeaseObserver) -> StoreResult<Option<HeldLease>> {
        let (space, role) = (&self.space, self.role);
        let state = self.db.run("lease_read", Idempotency::ReadOnly, |tx, _| async move {
            lease_read(&tx, space, role, 0).await
        });
        let state = state.await?;
        let claim = &LeaseClaim {
            role: role.to_owned(),
            shard: 0,
            holder: self.holder.clone(),
            duration_ms: self.lease_ms,
            generation: self.generation,
            expired: observer.observe(self.clock.monotonic(), state),
        };
        let acquired = self.db.run("lease_acquire", Idempotency::Natural, |tx, _| async move {
            lease_acquire(&tx, space, claim).await
        });
        Ok(match acquired.await? {
            LeaseAcquired::Held(held) => Some(held),
            LeaseAcquired::Taken(_) => None,
        })
    }

    /// How long a holder waits between two renewals.
    pub fn renewal(&self) -> Duration {
        Duration::from_millis(self.lease_ms / 3)
    }

    /// Renews the lease. `beat` counts the renewals.
    ///
    /// # Errors
    /// The lease was taken over, or the store fails.
    pub async fn renew(&self, held: &HeldLease, beat: u64) -> StoreResult<()> {
        let space = &self.space;
        let renewed = self.db.run("lease_renew", Idempotency::Natural, |tx, _| async move {
            // A new opening of the store voids every lease, so nothing is lost with a heartbeat.
            tx.set_option(TransactionOption::FlushLater)?;
            lease_renew(&tx, space, held, beat).await
        });
        renewed.await
    }

    /// Gives the lease back if this process holds it, so that the next leader need not wait.
    ///
    /// # Errors
    /// Those of the store: the lease then expires.
    pub async fn release(&self) -> StoreResult<()> {
        let (space, holder, role) = (&self.space, &self.holder, self.role);
        let released = self.db.run("lease_release", Idempotency::Natural, |tx, _| async move {
            let state = lease_read(&tx, space, role, 0).await?;
            if state.row.holder != *holder {
                return Ok(());
            }
            let held =
                HeldLease { role: role.to_owned(), shard: 0, holder: holder.clone(), epoch: state.row.epoch };
            lease_release(&tx, space, &held).await
        });
        released.await
    }
}
