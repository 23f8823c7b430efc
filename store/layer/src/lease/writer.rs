//! The transactions of a lease's holder. Each one checks the lease first, so a successor is never disturbed.
//!
//! This opens transactions, as the mirror does, so that the roles with a lease say it once.

use std::sync::Arc;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency, Transaction};
use borough_model::TaskId;

use super::step::{HeldLease, lease_check};
use crate::error::StoreResult;
use crate::journal::{Change, ChangeSet};
use crate::keys::CellSpace;
use crate::request::request_id_random;
use crate::task::TaskSweep;

/// Writes to a cell under a lease. Steps must check the state that they change: after an unknown result the writer runs
/// them again.
#[derive(Clone)]
pub struct LeaseWriter {
    pub db: Database,
    pub space: CellSpace,
    pub lease: HeldLease,
    /// The author in the journal, such as `controller`.
    pub actor: String,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
}

impl LeaseWriter {
    /// One transaction without a journal entry.
    ///
    /// # Errors
    /// The lease is lost, or the step or the store fails.
    pub async fn run<T, Fut>(&self, name: &'static str, step: impl Fn(Transaction) -> Fut) -> StoreResult<T>
    where
        Fut: Future<Output = StoreResult<T>>,
    {
        let step = &step;
        let run = self.db.run(name, Idempotency::Natural, |tx, _| async move {
            lease_check(&tx, &self.space, &self.lease).await?;
            step(tx).await
        });
        run.await
    }

    /// One transaction, with one journal entry if it changes anything. `action` names both.
    ///
    /// # Errors
    /// As of [`LeaseWriter::run`], or the cell has moved.
    pub async fn change<T, Fut>(
        &self,
        action: &'static str,
        step: impl Fn(Transaction, ChangeSet) -> Fut,
    ) -> StoreResult<T>
    where
        Fut: Future<Output = StoreResult<(T, ChangeSet)>>,
    {
        let (request, at_ms) = (request_id_random(&*self.rng), self.clock.wall_ms());
        let change = &Change { request, actor: self.actor.clone(), action, at_ms };
        let step = &step;
        let changed = self.run(action, |tx| async move {
            let changes = ChangeSet::begin(&tx, &self.space, change).await?;
            let (value, changes) = step(tx.clone(), changes).await?;
            changes.append(&tx)?;
            Ok(value)
        });
        changed.await
    }

    /// Visits rows in as many transactions as needed. `step` gets the task after which its part begins, and returns
    /// where the next part begins.
    ///
    /// # Errors
    /// As of [`LeaseWriter::change`]. Earlier parts are then durable.
    pub async fn sweep<Fut>(
        &self,
        action: &'static str,
        step: impl Fn(Transaction, ChangeSet, Option<TaskId>) -> Fut,
    ) -> StoreResult<()>
    where
        Fut: Future<Output = StoreResult<(TaskSweep, ChangeSet)>>,
    {
        let mut after = None;
        loop {
            after = self.change(action, |tx, changes| step(tx, changes, after)).await?.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}
