//! Gangs larger than a commit. Their members take holds in several transactions, and one small transaction turns all of
//! them into placements. A worker gathers one gang at a time and gives it up at the first obstacle, so that nobody
//! waits for half of a gang. If a worker dies during this, its successor raises the gang's epoch, which voids the
//! holds.

use std::sync::Arc;

use borough_kv::{Retryable as _, Transaction};
use borough_model::task::{GangRow, TaskEvent};
use borough_model::{GangId, JobId};
use borough_scheduler_core::PlannedPlacement;
use borough_store::gang::{gang_begin, gang_commit, gang_give_up};
use borough_store::journal::ChangeSet;
use borough_store::keys::{self, ConstraintKey};
use borough_store::lease::LeaseWriter;
use borough_store::task::{ConstraintToken, GangHold, gang_hold, gang_holds_settle};
use borough_store::{StoreError, StoreResult, error_chain};

use crate::shard::ShardHeld;
use crate::view::GangStep;
use crate::worker::Worker;

/// Most holds in one transaction.
const HOLDS_MAX: usize = 512;
/// Rows visited in one transaction when holds are settled.
const SETTLE_MAX: usize = 512;
/// The time limit for gathering a gang, in milliseconds.
const GATHER_MS: i64 = 60_000;

/// The transactions of a gang that gathers, under the lease of its shard. Steps that place tasks need the open gate;
/// holds are released even in a draining cell.
struct Steps {
    writer: LeaseWriter,
}

/// A gang that has begun to gather.
struct Begun {
    row: GangRow,
    /// The token of all rules between tasks at that time.
    token: Option<ConstraintToken>,
}

/// Returns true if an error means that something has changed, and not that the store failed.
fn is_refusal(error: &StoreError) -> bool {
    error.kv_error().is_none()
}

impl Worker {
    /// Places a gang by holds. Returns how many tasks it placed: all or none.
    pub(crate) async fn gather(
        &mut self,
        held: &ShardHeld,
        placements: &[PlannedPlacement],
    ) -> StoreResult<usize> {
        let terms_known = self.view.snapshot.tables().terms_revision();
        let (Some(first), Some(steps)) = (placements.first(), self.steps(held)) else { return Ok(0) };
        let gang = GangId(self.rng.next_u64().max(1));
        let members = u32::try_from(placements.len()).unwrap_or(u32::MAX);
        let begun = match steps.begin(gang, first.task.job, members).await {
            Ok(begun) => begun,
            Err(error) if is_refusal(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        let epoch = begun.row.epoch;
        let outcome = self.gather_on(held, &steps, placements, &begun, terms_known).await;
        match &outcome {
            Ok(true) => {
                steps.settle(gang).await?;
                self.gathered(placements.len());
                return Ok(placements.len());
            }
            Ok(false) => {}
            Err(error) if is_refusal(error) => {
                tracing::info!(%gang, error = %error_chain(error), "a gang did not gather");
            }
            Err(_) => return outcome.map(|_| 0),
        }
        steps.give_up(gang, epoch).await?;
        self.gathered(0);
        Ok(0)
    }

    /// Takes the holds and commits the gang. Returns `false` if the plan may no longer be valid.
    async fn gather_on(
        &mut self,
        held: &ShardHeld,
        steps: &Steps,
        placements: &[PlannedPlacement],
        begun: &Begun,
        terms_known: u64,
    ) -> StoreResult<bool> {
        let read = self.read().await?;
        read.gate.open()?;
        // Members were never held against a rule that is new.
        if !self.shards.holds(&held.key, &read) || self.view.snapshot.tables().terms_revision() != terms_known
        {
            return Ok(false);
        }
        let most = HOLDS_MAX.min(self.config.gang_commit_max.max(1));
        for members in placements.chunks(most) {
            let hold = |member: &PlannedPlacement| {
                let gang = Some((begun.row.id, begun.row.epoch));
                let TaskEvent::Place(placement) = member.event(gang) else { return None };
                let node_revision = self.view.placement_node(member.node)?.revision;
                Some(GangHold { task: member.task, placement, node_revision: Some(node_revision) })
            };
            let holds: Vec<GangHold> = members.iter().filter_map(hold).collect();
            steps.hold(&begun.row, &holds).await?;
            self.tend().await?;
        }
        steps.commit(begun).await?;
        Ok(true)
    }

    /// Gives up gangs that earlier workers left unfinished or that have lost a member, starts gangs whose victims have
    /// exited, and settles holds. Returns true if anything had to be done.
    pub(crate) async fn gangs_step(&mut self, held: &ShardHeld) -> StoreResult<bool> {
        let todo = self.view.gang_steps(&held.queue);
        let Some(steps) = self.steps(held).filter(|_| !todo.is_empty()) else { return Ok(false) };
        for (gang, step) in todo {
            let done = match step {
                GangStep::GiveUp(epoch) => steps.give_up(gang, epoch).await,
                GangStep::Commit(epoch) => steps.start(gang, epoch).await,
                GangStep::Settle => steps.settle(gang).await,
            };
            match done {
                Err(StoreError::NotFound { .. }) => self.view.gang_forget(gang),
                done => done?,
            }
        }
        Ok(true)
    }

    fn steps(&self, held: &ShardHeld) -> Option<Steps> {
        let lease = self.shards.lease(&held.key)?.clone();
        let writer = LeaseWriter {
            db: self.db.clone(),
            space: self.config.space.clone(),
            actor: format!("{}/{}", lease.role, lease.shard),
            lease,
            clock: Arc::clone(&self.clock),
            rng: Arc::clone(&self.rng),
        };
        Some(Steps { writer })
    }
}

impl Steps {
    async fn begin(&self, gang: GangId, job: JobId, members: u32) -> StoreResult<Begun> {
        let (space, now_ms) = (&self.writer.space, self.writer.clock.wall_ms());
        let begin = |tx: Transaction, mut changes: ChangeSet| async move {
            let expires_ms = now_ms.saturating_add(GATHER_MS);
            let row = gang_begin(&tx, &mut changes.open()?, gang, job, members, expires_ms).await?;
            let token = keys::read_snapshot(&tx, space, &ConstraintKey::of_all()).await?;
            Ok((Begun { row, token }, changes))
        };
        self.writer.change("gang_begin", begin).await
    }

    async fn hold(&self, gang: &GangRow, holds: &[GangHold]) -> StoreResult<()> {
        let hold = |tx: Transaction, mut changes: ChangeSet| async move {
            gang_hold(&tx, &mut changes.open()?, gang.id, gang.epoch, holds).await?;
            Ok(((), changes))
        };
        self.writer.change("gang_hold", hold).await
    }

    /// The one transaction that decides.
    async fn commit(&self, begun: &Begun) -> StoreResult<()> {
        let commit = |tx: Transaction, mut changes: ChangeSet| async move {
            let token = keys::read(&tx, &self.writer.space, &ConstraintKey::of_all()).await?;
            if token != begun.token {
                return Err(StoreError::refused("a rule between tasks is new in the cell"));
            }
            gang_commit(&tx, &mut changes.open()?, begun.row.id, begun.row.epoch).await?;
            Ok(((), changes))
        };
        self.writer.change("gang_commit", commit).await
    }

    /// The victims of a gang have exited: all its members start.
    async fn start(&self, gang: GangId, epoch: u64) -> StoreResult<()> {
        let commit = |tx: Transaction, mut changes: ChangeSet| async move {
            gang_commit(&tx, &mut changes.open()?, gang, epoch).await?;
            Ok(((), changes))
        };
        match self.writer.change("gang_commit", commit).await {
            // It has lost a member since: the next read shows it.
            Err(StoreError::Gang(_)) => Ok(()),
            started => {
                started?;
                self.settle(gang).await
            }
        }
    }

    /// Voids the holds of an epoch and releases them.
    async fn give_up(&self, gang: GangId, epoch: u64) -> StoreResult<()> {
        let give_up = |tx: Transaction, mut changes: ChangeSet| async move {
            gang_give_up(&tx, &mut changes, gang, epoch).await?;
            Ok(((), changes))
        };
        match self.writer.change("gang_give_up", give_up).await {
            // Another worker has done so: the holds must still be released.
            Err(StoreError::Gang(_)) => {}
            given_up => given_up?,
        }
        self.settle(gang).await
    }

    async fn settle(&self, gang: GangId) -> StoreResult<()> {
        let settle = |tx: Transaction, mut changes: ChangeSet, after| async move {
            Ok((gang_holds_settle(&tx, &mut changes, gang, after, SETTLE_MAX).await?, changes))
        };
        self.writer.sweep("gang_settle", settle).await
    }
}
