//! Commits batches. While the store commits one, the worker plans the batch after it. The snapshot assumes the batch in
//! flight, so that the next one takes neither its tasks nor its capacity.
//!
//! Nothing of the batch ahead is committed before the answer. If anything of the batch in flight is lost, the batch
//! ahead is dropped and its tasks are planned again, so that none overtakes a task of the batch before. If all of it
//! is committed, the next read replaces what was assumed. The batch ahead is then committed at that read like the rest
//! of a batch after a conflict: whatever has changed since its plan is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::task::Poll;

use borough_scheduler_core::{BatchOutcome, CellTables, PendingQueue, Plan};
use borough_store::StoreResult;
use borough_store::cell::GateOpen;
use borough_store::placement::{PlacementBatch, placement_conflicts, placement_losers, placement_survivors};

use crate::batch::{BatchStamp, batch_of_plan};
use crate::commit::{CommitOutcome, batch_commit};
use crate::shard::ShardHeld;
use crate::worker::{QueuePlan, SURVIVOR_ATTEMPTS, Worker};

/// A batch of a shard, with what must still hold at its commit.
pub(crate) struct PlannedBatch {
    pub held: ShardHeld,
    pub plan: Plan,
    pub batch: PlacementBatch,
    /// How many tasks the plan placed by this batch.
    pub tasks: usize,
    /// True if more tasks wait than the plan had.
    pub more: bool,
    /// The revision of the rules between tasks that it was planned with.
    pub terms_revision: u64,
}

impl PlannedBatch {
    /// The batch of a plan over `tables`.
    pub(crate) fn new(
        held: &ShardHeld,
        plan: Plan,
        batch: PlacementBatch,
        queue: &PendingQueue,
        tables: &CellTables,
    ) -> Self {
        let tasks = batch.placements.len();
        let (more, terms_revision) = (queue.more, tables.terms_revision());
        Self { held: held.clone(), plan, batch, tasks, more, terms_revision }
    }
}

/// What a worker has planned ahead, and what its snapshot assumes. Both are void with the first read after the commit.
#[derive(Default)]
pub(crate) struct PlansAhead {
    /// The plan in flight, which the snapshot assumes to be committed.
    assumed: Option<Plan>,
    /// The batch after it.
    pub next: Option<PlannedBatch>,
}

impl Worker {
    /// Commits a batch and adapts the batch size to the outcome. If anything of it is lost, the batch that was planned
    /// behind it is dropped: its tasks must not overtake those that are planned again.
    pub(crate) async fn batch_round(
        &mut self,
        planned: PlannedBatch,
        next: &ShardHeld,
        gate: &GateOpen,
    ) -> StoreResult<()> {
        let (tasks, more_waiting, left) = (planned.tasks, planned.more, planned.batch.placements.len());
        let placed = if left == 0 { Ok(0) } else { self.commit(planned, next, gate).await };
        if !matches!(placed, Ok(placed) if placed == left) {
            self.ahead.next = None;
        }
        let placed = placed?;
        self.batch_size.committed(BatchOutcome { planned: tasks, lost: tasks - placed, more_waiting });
        Ok(())
    }

    /// Commits a batch, and its rest after each conflict, over fresh values. Returns how many tasks it placed.
    async fn commit(
        &mut self,
        planned: PlannedBatch,
        next: &ShardHeld,
        gate: &GateOpen,
    ) -> StoreResult<usize> {
        let PlannedBatch { plan, mut batch, terms_revision, .. } = planned;
        let (mut plan, mut gate) = (Some(plan), gate.clone());
        for _ in 0..SURVIVOR_ATTEMPTS {
            let started = self.clock.monotonic();
            let outcome = match plan.take() {
                Some(plan) => self.commit_and_plan(&gate, &batch, plan, next).await?,
                None => batch_commit(&self.db, &gate, &batch).await?,
            };
            self.metrics.committed(&batch, &outcome, self.clock.monotonic().saturating_sub(started));
            let ranges = match outcome {
                CommitOutcome::Committed => {
                    self.collisions = 0;
                    self.stats.committed(batch.placements.len());
                    return Ok(batch.placements.len());
                }
                CommitOutcome::NotCommitted => return Ok(0),
                CommitOutcome::Conflict(ranges) => ranges,
            };
            self.stats.conflicted();
            self.collisions = self.collisions.saturating_add(1);
            let conflicts = placement_conflicts(&self.config.space, &ranges, &batch);
            if conflicts.cell || conflicts.lease {
                return Ok(0);
            }
            let losers = placement_losers(&conflicts, &batch);
            // On a slow disk the tries take longer than a lease.
            self.tend().await?;
            let read = self.read().await?;
            // What is left was never held against a term that is new.
            if !self.shards.holds(&batch.lease, &read)
                || self.view.snapshot.tables().terms_revision() != terms_revision
            {
                return Ok(0);
            }
            // An earlier read says nothing about the gate now: the cell may drain or have moved since.
            let Ok(open) = read.gate.open() else { return Ok(0) };
            gate = open;
            let (id, at_ms) = (self.request_id(), self.clock.wall_ms());
            batch = placement_survivors(&batch, &losers, &self.view, id, at_ms);
            if batch.placements.is_empty() {
                return Ok(0);
            }
        }
        Ok(0)
    }

    /// Commits a batch. While the store does so, it plans the next batch, for the shard whose turn is `next`.
    pub(crate) async fn commit_and_plan(
        &mut self,
        gate: &GateOpen,
        batch: &PlacementBatch,
        plan: Plan,
        next: &ShardHeld,
    ) -> StoreResult<CommitOutcome> {
        let db = self.db.clone();
        let mut commit = pin!(batch_commit(&db, gate, batch));
        // The first poll hands the commit to the store.
        let outcome = match futures::poll!(commit.as_mut()) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                self.plan_ahead(batch, plan, next);
                commit.await
            }
        };
        if !matches!(outcome, Ok(CommitOutcome::Committed)) {
            self.assumed_forget();
        }
        outcome
    }

    /// Plans the batch after the one in flight. Only batches without rules, gangs and evictions are pipelined, and only
    /// while turns do not depend on shares. The others depend on more than the checks of a batch ahead compare.
    fn plan_ahead(&mut self, batch: &PlacementBatch, mut committing: Plan, next: &ShardHeld) {
        let by_share = self.view.snapshot.tables().turns_by_share();
        if by_share || !committing.is_independent() || !committing.unplaced.is_empty() {
            return;
        }
        let tasks = batch.tasks();
        committing.placements.retain(|placement| tasks.contains(&placement.task));
        self.view.snapshot.assume(&committing);
        self.ahead.assumed = Some(committing);
        let now_ms = self.clock.wall_ms();
        let QueuePlan { queue, plan, took } = self.queue_plan(&next.queue, now_ms);
        // A plan with refusals is made again on what is known: the reasons are remembered and shown.
        if !plan.is_independent() || !plan.unplaced.is_empty() {
            return;
        }
        let stamp = BatchStamp { id: self.request_id(), lease: next.key.clone(), at_ms: now_ms };
        let (batch, refused) = batch_of_plan(&plan, &self.view, stamp, &BTreeMap::new());
        if !refused.is_empty() || batch.placements.is_empty() {
            return;
        }
        self.planned(&plan, took);
        let tables = self.view.snapshot.tables();
        self.ahead.next = Some(PlannedBatch::new(next, plan, batch, &queue, tables));
    }

    /// Takes back what the snapshot still assumes. Called when the result of the commit is known: the journal up to the
    /// last read then has all that was committed.
    pub(crate) fn assumed_forget(&mut self) {
        if let Some(plan) = self.ahead.assumed.take() {
            self.view.snapshot.forget(&plan);
        }
    }

    /// A batch that was planned ahead, over what the last read shows. `None` if a rule between tasks is new, or if the
    /// turn is not that of its shard. Some of its placements may have been left out, or all.
    pub(crate) fn ahead_at(
        &self,
        ahead: Option<PlannedBatch>,
        turn: Option<&ShardHeld>,
    ) -> Option<PlannedBatch> {
        let ahead = ahead.filter(|ahead| turn == Some(&ahead.held))?;
        if self.view.snapshot.tables().terms_revision() != ahead.terms_revision {
            return None;
        }
        let (id, at_ms) = (self.request_id(), self.clock.wall_ms());
        let batch = placement_survivors(&ahead.batch, &BTreeSet::new(), &self.view, id, at_ms);
        Some(PlannedBatch { batch, ..ahead })
    }
}
