//! Keeping promises: a task that is held until its victims are gone is confirmed in the transaction that gives back
//! enough, so that no controller has to notice.

use std::collections::BTreeSet;

use borough_kv::Transaction;
use borough_model::node::holds_ready;
use borough_model::task::{Life, TaskEvent, TaskRow, TaskState, UnitState};
use borough_model::{NodeId, TaskId};

use super::TaskBook;
use crate::error::StoreResult;
use crate::keys::{self, CellSpace, NodeTaskKey, Prefix, RangeOptions, UnitKey};

impl TaskBook {
    /// Confirms what can be confirmed by now on every node whose commitment has changed, the longest held first.
    ///
    /// Who is on the node is read without a conflict: whoever comes or goes writes the commitment, which is one here.
    pub(super) async fn promises_keep(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        now_ms: i64,
    ) -> StoreResult<()> {
        let promising = self.nodes.iter().filter(|(_, node)| node.changed && !node.alloc.promised.is_zero());
        let promising: Vec<NodeId> = promising.map(|(&node, _)| node).collect();
        for node in promising {
            let prefix = Prefix::<NodeTaskKey>::of(&node);
            let there = keys::range(tx, space, &prefix, RangeOptions::snapshot()).await?;
            self.extend(tx, space, there.into_iter().map(|(key, ())| key.task())).await?;
            let held = self.held_on(tx, space, node).await?;
            let Some(entry) = self.nodes.get(&node) else { continue };
            for task in holds_ready(&entry.row.capacity, &entry.alloc, &held) {
                let incarnation = held.iter().find(|row| row.id == task).map(|row| row.incarnation);
                let Some(incarnation) = incarnation else { continue };
                let event = TaskEvent::HoldConfirmed { life: Life { node, incarnation } };
                // What cannot be confirmed stays held.
                self.apply(task, &event, now_ms)?.ok();
            }
        }
        Ok(())
    }

    /// The tasks that have promises on a node and, where they are of a unit, whose unit was committed.
    async fn held_on(&self, tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<Vec<TaskRow>> {
        let promised =
            |row: &&TaskRow| row.node == Some(node) && row.state == TaskState::Held && row.promised;
        let mut held: Vec<TaskRow> = self.rows().filter(promised).cloned().collect();
        let mut waiting: BTreeSet<TaskId> = BTreeSet::new();
        for row in &held {
            let Some(unit) = row.unit else { continue };
            let unit = keys::read(tx, space, &UnitKey { unit }).await?;
            if unit.is_none_or(|unit| unit.state != UnitState::Committed || unit.epoch != row.unit_epoch) {
                waiting.insert(row.id);
            }
        }
        held.retain(|row| !waiting.contains(&row.id));
        held.sort_by_key(|row| (row.changed_ms, row.id));
        Ok(held)
    }
}
