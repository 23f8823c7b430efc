//! Keeps promises. A task that is held until its victims exit is confirmed in the transaction that releases enough
//! capacity, so that no controller has to notice. A member of a gang takes its share then, and starts with the others.
//! The controller releases promises that can no longer be kept.

use std::collections::BTreeSet;

use borough_kv::Transaction;
use borough_model::task::{Attempt, GangState, TaskEvent, TaskRow, TaskState, holds_ready};
use borough_model::{Incarnation, NodeId, TaskId};

use super::TaskBook;
use crate::error::StoreResult;
use crate::gang::gang_member_lost;
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, GangKey, NodeTaskKey, Prefix, RangeOptions};

/// Releases the promises on a node for which attempts have waited in vain: their tasks need a node again. A task whose
/// promise can be kept by now is confirmed instead. With a member of a gang, its whole gang is given up. Leaves a task
/// alone that has another attempt by now, or no longer waits. Returns how many were released.
///
/// Rows are read with conflicts, so a promise is kept or released, never both.
pub async fn task_promises_expire(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    attempts: &[(TaskId, Incarnation)],
) -> StoreResult<usize> {
    let (space, now_ms) = (changes.space().clone(), changes.at_ms());
    let mut book = TaskBook::read(tx, &space, attempts.iter().map(|&(task, _)| task)).await?;
    book.extend_nodes(tx, &space, [node]).await?;
    book.node_promises_keep(tx, &space, node, now_ms).await?;
    let mut expired = 0_usize;
    for &(task, incarnation) in attempts {
        let waits = |row: &&TaskRow| {
            let here = row.node == Some(node) && row.incarnation == incarnation;
            here && row.state == TaskState::Held && row.promised
        };
        if book.task(task).filter(waits).is_none() {
            continue;
        }
        let event = TaskEvent::HoldExpired { attempt: Attempt { node, incarnation } };
        let applied = book.apply(task, &event, now_ms)?;
        expired = expired.saturating_add(usize::from(applied.unwrap_or(false)));
    }
    book.write(tx, changes).await?;
    Ok(expired)
}

impl TaskBook {
    /// Confirms what can be confirmed on every node whose commitment has changed, the longest held first.
    ///
    /// The tasks on the node are read without a conflict: each arrival or exit writes the commitment, which is a
    /// conflict here.
    pub(super) async fn promises_keep(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        now_ms: i64,
    ) -> StoreResult<()> {
        let promising = self.nodes.iter().filter(|(_, node)| node.changed && !node.alloc.promised.is_zero());
        let promising: Vec<NodeId> = promising.map(|(&node, _)| node).collect();
        for node in promising {
            self.node_promises_keep(tx, space, node, now_ms).await?;
        }
        Ok(())
    }

    /// The same on one node, whether its commitment has changed or not.
    async fn node_promises_keep(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        node: NodeId,
        now_ms: i64,
    ) -> StoreResult<()> {
        let prefix = Prefix::<NodeTaskKey>::of(&node);
        let there = keys::range(tx, space, &prefix, RangeOptions::snapshot()).await?;
        self.extend(tx, space, there.into_iter().map(|(key, ())| key.task())).await?;
        let (there, together) = self.charged_to(tx, space, node).await?;
        let Some(entry) = self.nodes.get(&node) else { return Ok(()) };
        for task in holds_ready(&entry.row.capacity, &entry.alloc, &there) {
            let incarnation = there.iter().find(|row| row.id == task).map(|row| row.incarnation);
            let Some(incarnation) = incarnation else { continue };
            let attempt = Attempt { node, incarnation };
            let event = if together.contains(&task) {
                TaskEvent::HoldFulfilled { attempt }
            } else {
                TaskEvent::HoldConfirmed { attempt }
            };
            // A promise that cannot be kept yet stays held.
            self.apply(task, &event, now_ms)?.ok();
        }
        Ok(())
    }

    /// The tasks that are charged to a node, the longest in their state first. Skips those with promises in a gang
    /// whose holds are void, and those that start together with the rest of their gang.
    async fn charged_to(
        &self,
        tx: &Transaction,
        space: &CellSpace,
        node: NodeId,
    ) -> StoreResult<(Vec<TaskRow>, BTreeSet<TaskId>)> {
        let there = self.rows().filter(|row| row.charged_node() == Some(node));
        let mut there: Vec<TaskRow> = there.cloned().collect();
        let (mut void, mut together) = (BTreeSet::new(), BTreeSet::new());
        for row in there.iter().filter(|row| row.state == TaskState::Held && row.promised) {
            let Some(gang) = row.gang else { continue };
            let gang = keys::read(tx, space, &GangKey { gang }).await?;
            match gang.filter(|gang| gang.epoch == row.gang_epoch).map(|gang| gang.state) {
                Some(GangState::Committed) => {}
                Some(GangState::Gathering | GangState::Waiting) => {
                    together.insert(row.id);
                }
                None | Some(GangState::Released) => drop(void.insert(row.id)),
            }
        }
        there.retain(|row| !void.contains(&row.id));
        there.sort_by_key(|row| (row.changed_ms, row.id));
        Ok((there, together))
    }

    /// Gives up every gang that waits for victims and loses a member by this transaction: the other members release
    /// their holds. The worker notices the loss of a gang that still gathers when it tries to commit it.
    pub(super) async fn gangs_give_up(&self, tx: &Transaction, changes: &mut ChangeSet) -> StoreResult<()> {
        let lost = self.tasks.values().filter_map(|entry| {
            let before = entry.before.as_ref().filter(|row| row.state == TaskState::Held)?;
            let left = matches!(entry.row.state, TaskState::Pending | TaskState::Dead);
            before.gang.filter(|_| left).map(|gang| (gang, before.gang_epoch))
        });
        for (gang, epoch) in lost.collect::<BTreeSet<_>>() {
            gang_member_lost(tx, changes, gang, epoch).await?;
        }
        Ok(())
    }
}
