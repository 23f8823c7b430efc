//! Gangs larger than a commit: their members take holds in several transactions, and one small one makes all of them
//! placements. A worker gathers one gang at a time and lets go of it at once where anything is in its way, so that nobody
//! waits for half of a gang. What a worker leaves half-way when it dies is void: its successor raises the unit's epoch.

use std::future::Future;
use std::sync::Arc;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency, Retryable as _, Transaction};
use borough_model::task::{TaskEvent, UnitRow};
use borough_model::{JobId, UnitId};
use borough_scheduler_core::Placement;
use borough_store::journal::{Change, ChangeSet};
use borough_store::keys::{self, ConstraintKey};
use borough_store::lease::{HeldLease, lease_check};
use borough_store::request::request_id_random;
use borough_store::task::ConstraintToken;
use borough_store::unit::{UnitHold, unit_begin, unit_commit, unit_give_up, unit_hold, unit_holds_settle};
use borough_store::{CellSpace, StoreError, StoreResult, error_chain};

use crate::shard::ShardHeld;
use crate::view::UnitStep;
use crate::worker::Worker;

/// Most holds in one transaction.
const HOLDS_MAX: usize = 512;
/// Rows looked at in one transaction when holds are carried out.
const SETTLE_MAX: usize = 512;
/// Milliseconds within which a gang has to come together.
const GATHER_MS: i64 = 60_000;

/// The transactions of a gang that gathers, under the lease of its shard.
struct Steps {
    db: Database,
    space: CellSpace,
    lease: HeldLease,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

/// A unit that has begun to gather.
struct Begun {
    row: UnitRow,
    /// The token of all rules between tasks then.
    token: Option<ConstraintToken>,
}

/// Whether an error says that something has changed, and not that the store failed.
fn is_refusal(error: &StoreError) -> bool {
    error.kv_error().is_none()
}

impl Worker {
    /// Places a gang by holds. Answers how many tasks it placed: all or none.
    pub(crate) async fn gather(&mut self, held: &ShardHeld, gang: &[Placement]) -> StoreResult<usize> {
        let terms_known = self.view.snapshot.terms_revision();
        let (Some(first), Some(steps)) = (gang.first(), self.steps(held)) else { return Ok(0) };
        let unit = UnitId(self.rng.next_u64().max(1));
        let members = u32::try_from(gang.len()).unwrap_or(u32::MAX);
        let begun = match steps.begin(unit, first.task.job, members).await {
            Ok(begun) => begun,
            Err(error) if is_refusal(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        let epoch = begun.row.epoch;
        let outcome = self.gather_on(held, &steps, gang, &begun, terms_known).await;
        match &outcome {
            Ok(true) => {
                steps.settle(unit).await?;
                self.gathered(gang.len());
                return Ok(gang.len());
            }
            Ok(false) => {}
            Err(error) if is_refusal(error) => {
                tracing::info!(%unit, error = %error_chain(error), "a gang did not come together");
            }
            Err(_) => return outcome.map(|_| 0),
        }
        steps.let_go(unit, epoch).await?;
        self.gathered(0);
        Ok(0)
    }

    /// Takes the holds and commits the unit. `false` where what was planned may no longer hold.
    async fn gather_on(
        &mut self,
        held: &ShardHeld,
        steps: &Steps,
        gang: &[Placement],
        begun: &Begun,
        terms_known: u64,
    ) -> StoreResult<bool> {
        let read = self.read().await?;
        read.gate.open()?;
        // Members were never held against a rule that is new.
        if !self.shards.holds(&held.key, &read) || self.view.snapshot.terms_revision() != terms_known {
            return Ok(false);
        }
        let most = HOLDS_MAX.min(self.config.gang_commit_max.max(1));
        for members in gang.chunks(most) {
            let hold = |member: &Placement| {
                let unit = Some((begun.row.id, begun.row.epoch));
                let TaskEvent::Place(placement) = member.event(unit) else { return None };
                let node_revision = self.view.placement_node(member.node)?.revision;
                Some(UnitHold { task: member.task, placement, node_revision: Some(node_revision) })
            };
            let holds: Vec<UnitHold> = members.iter().filter_map(hold).collect();
            steps.hold(&begun.row, &holds).await?;
            self.tend().await?;
        }
        steps.commit(begun).await?;
        Ok(true)
    }

    /// Lets go of what workers before left half-way and of what lost a member, starts gangs whose victims are gone, and carries
    /// out what holds are worth. Answers whether there was anything to do.
    pub(crate) async fn units_step(&mut self, held: &ShardHeld) -> StoreResult<bool> {
        let todo = self.view.unit_steps(&held.queue);
        let Some(steps) = self.steps(held).filter(|_| !todo.is_empty()) else { return Ok(false) };
        for (unit, step) in todo {
            let done = match step {
                UnitStep::LetGo(epoch) => steps.let_go(unit, epoch).await,
                UnitStep::Commit(epoch) => steps.start(unit, epoch).await,
                UnitStep::Settle => steps.settle(unit).await,
            };
            match done {
                Err(StoreError::NotFound { .. }) => self.view.unit_forget(unit),
                done => done?,
            }
        }
        Ok(true)
    }

    fn steps(&self, held: &ShardHeld) -> Option<Steps> {
        Some(Steps {
            db: self.db.clone(),
            space: self.config.space.clone(),
            lease: self.shards.lease(&held.key)?.clone(),
            clock: Arc::clone(&self.clock),
            rng: Arc::clone(&self.rng),
        })
    }
}

impl Steps {
    async fn begin(&self, unit: UnitId, job: JobId, members: u32) -> StoreResult<Begun> {
        let expires_ms = self.clock.wall_ms().saturating_add(GATHER_MS);
        self.change("unit_begin", |tx, mut changes| async move {
            let row = unit_begin(&tx, &mut changes.open()?, (unit, job), members, expires_ms).await?;
            let token = keys::read_snapshot(&tx, &self.space, &ConstraintKey::of_all()).await?;
            Ok((Begun { row, token }, changes))
        })
        .await
    }

    async fn hold(&self, unit: &UnitRow, holds: &[UnitHold]) -> StoreResult<()> {
        self.change("unit_hold", |tx, mut changes| async move {
            unit_hold(&tx, &mut changes.open()?, (unit.id, unit.epoch), holds).await?;
            Ok(((), changes))
        })
        .await
    }

    /// The one transaction that decides.
    async fn commit(&self, begun: &Begun) -> StoreResult<()> {
        self.change("unit_commit", |tx, mut changes| async move {
            let token = keys::read(&tx, &self.space, &ConstraintKey::of_all()).await?;
            if token != begun.token {
                return Err(StoreError::refused("a rule between tasks is new in the cell"));
            }
            unit_commit(&tx, &mut changes.open()?, begun.row.id, begun.row.epoch).await?;
            Ok(((), changes))
        })
        .await
    }

    /// The victims of a unit are gone: all its members start.
    async fn start(&self, unit: UnitId, epoch: u64) -> StoreResult<()> {
        let started = self.change("unit_commit", |tx, mut changes| async move {
            unit_commit(&tx, &mut changes.open()?, unit, epoch).await?;
            Ok(((), changes))
        });
        match started.await {
            // It has lost a member since: the next read says so.
            Err(StoreError::Unit(_)) => Ok(()),
            started => {
                started?;
                self.settle(unit).await
            }
        }
    }

    /// Voids the holds of an epoch and gives them back.
    async fn let_go(&self, unit: UnitId, epoch: u64) -> StoreResult<()> {
        let given_up = self.change("unit_give_up", |tx, mut changes| async move {
            unit_give_up(&tx, &mut changes, unit, epoch).await?;
            Ok(((), changes))
        });
        match given_up.await {
            // Another has done so: what is left is to give the holds back.
            Err(StoreError::Unit(_)) => {}
            given_up => given_up?,
        }
        self.settle(unit).await
    }

    async fn settle(&self, unit: UnitId) -> StoreResult<()> {
        let mut after = None;
        loop {
            let settled = self.change("unit_settle", |tx, mut changes| async move {
                let sweep = unit_holds_settle(&tx, &mut changes, unit, after, SETTLE_MAX).await?;
                Ok((sweep, changes))
            });
            after = settled.await?.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// One transaction under the lease. The steps check the state they change, so running them again does no harm. Those
    /// that place ask it for the open gate; what is held is given back in a cell that drains too.
    async fn change<T, F, Fut>(&self, action: &'static str, closure: F) -> StoreResult<T>
    where
        F: Fn(Transaction, ChangeSet) -> Fut,
        Fut: Future<Output = StoreResult<(T, ChangeSet)>>,
    {
        let request = request_id_random(&*self.rng);
        let actor = format!("{}/{}", self.lease.role, self.lease.shard);
        let change = Change { request, actor, action, at_ms: self.clock.wall_ms() };
        let (change, space, lease, closure) = (&change, &self.space, &self.lease, &closure);
        self.db
            .run(action, Idempotency::Natural, |tx, _| async move {
                lease_check(&tx, space, lease).await?;
                let changes = ChangeSet::begin(&tx, space, change).await?;
                let (value, changes) = closure(tx.clone(), changes).await?;
                changes.append(&tx)?;
                Ok::<_, StoreError>(value)
            })
            .await
    }
}
