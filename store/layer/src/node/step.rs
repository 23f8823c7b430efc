//! Steps of transactions on a node.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::Transaction;
use borough_model::journal::ValueChange;
use borough_model::node::{
    NodeAlloc, NodeEvent, NodeRow, NodeSeen, NodeState, NodeTransition, Pressure, Taint, TaintMatch,
    labels_changed, node_alloc_touch, node_labels_check, node_taints_check, node_transition, taints_changed,
};
use borough_model::task::{TaskRow, TaskState};
use borough_model::{Delta, Incarnation, Name, NodeId, TaskId};
use futures::future::try_join_all;

use super::NodeWriter;
use super::live::{node_live_clear, node_live_guarded};
use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::join::node_join_clear;
use crate::journal::ChangeSet;
use crate::keys::{
    self, CellSpace, NodeAllocKey, NodeKey, NodeLoadKey, NodeNameKey, NodeReservedKey, NodeSessionKey,
    NodeTaskKey, Prefix, RangeOptions, TaskKey,
};

/// The row of `node`, with a read conflict.
pub async fn node_read(tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<NodeRow> {
    let row = keys::read(tx, space, &NodeKey { node }).await?;
    row.ok_or_else(|| StoreError::not_found(format!("node {node}")))
}

/// The commitment of `node`, with a read conflict; empty if it has no key yet.
pub async fn node_alloc_read(tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<NodeAlloc> {
    Ok(keys::read(tx, space, &NodeAllocKey { node }).await?.unwrap_or_default())
}

/// The row of the node called `name`, with read conflicts.
pub async fn node_by_name(tx: &Transaction, space: &CellSpace, name: &Name) -> StoreResult<NodeRow> {
    let id = keys::read(tx, space, &NodeNameKey { name: name.clone() }).await?;
    let id = id.ok_or_else(|| StoreError::not_found(format!("node {name}")))?;
    node_read(tx, space, id).await
}

/// Every node, by id. For cells small enough for one transaction; larger ones use a mirror.
pub async fn node_list(tx: &Transaction, space: &CellSpace) -> StoreResult<Vec<NodeRow>> {
    let rows = keys::range::<NodeKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Tasks charged to `node`, with read conflicts.
pub async fn node_tasks(tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<Vec<TaskId>> {
    let prefix = Prefix::<NodeTaskKey>::of(&node);
    let rows = keys::range(tx, space, &prefix, RangeOptions::default()).await?;
    Ok(rows.into_iter().map(|(key, ())| key.task()).collect())
}

/// Applies an event to a node's row and raises its token. Writes nothing if the row does not change.
pub async fn node_event(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    event: &NodeEvent,
) -> StoreResult<NodeTransition> {
    let before = node_read(tx, changes.space(), node).await?;
    let transition = node_transition(&before, event, changes.at_ms());
    if transition.changed {
        node_write(tx, changes, &transition.row).await?;
    }
    Ok(transition)
}

/// Lets the node take no new tasks; running ones stay.
pub async fn node_cordon(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    Ok(node_event(tx, changes, node, &NodeEvent::Cordon).await?.row)
}

/// Lets the node take tasks again: ends a cordon and a drain.
pub async fn node_uncordon(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    Ok(node_event(tx, changes, node, &NodeEvent::Uncordon).await?.row)
}

/// Drains the node: it takes no new tasks, and the cell's controller moves the running ones.
pub async fn node_drain(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    Ok(node_event(tx, changes, node, &NodeEvent::Drain).await?.row)
}

/// Sets the taints of `add` and removes those that match `remove`. The cell's controller moves running tasks that do
/// not tolerate a new `NoExecute`.
pub async fn node_taints_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    add: &[Taint],
    remove: &[TaintMatch],
) -> StoreResult<NodeRow> {
    let before = node_read(tx, changes.space(), node).await?;
    let all = taints_changed(&before.taints, add, remove);
    node_taints_check(&all).map_err(|errors| StoreError::InvalidSpec { errors })?;
    Ok(node_event(tx, changes, node, &NodeEvent::TaintsSet(all)).await?.row)
}

/// Sets the labels of `set` and removes those of `remove`; a missing one is no error. Constraints of jobs read them. A
/// registration leaves them alone.
pub async fn node_labels_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    set: &BTreeMap<String, String>,
    remove: &BTreeSet<String>,
) -> StoreResult<NodeRow> {
    let before = node_read(tx, changes.space(), node).await?;
    let labels = labels_changed(&before.labels, set, remove);
    node_labels_check(&labels).map_err(|errors| StoreError::InvalidSpec { errors })?;
    changes.values_push(ValueChange::of_labels(&before.labels, &labels));
    Ok(node_event(tx, changes, node, &NodeEvent::LabelsSet(labels)).await?.row)
}

/// Sets the resources that the node is short of, by its agent's report. Writes nothing if they are the same.
pub async fn node_pressure_set(
    writer: &NodeWriter<'_>,
    changes: &mut ChangeSet,
    short_of: &BTreeSet<Pressure>,
) -> StoreResult<NodeRow> {
    Ok(node_event(writer.tx(), changes, writer.node(), &NodeEvent::PressureSet(short_of.clone())).await?.row)
}

/// Records that the agent of the node does not answer, since `silent_ms` milliseconds: the scheduler places nothing
/// there until [`node_silence_end`]. Writes nothing if that is known.
pub async fn node_silence_begin(
    writer: &NodeWriter<'_>,
    changes: &mut ChangeSet,
    silent_ms: u64,
) -> StoreResult<NodeRow> {
    Ok(node_event(writer.tx(), changes, writer.node(), &NodeEvent::SilenceBegan { silent_ms }).await?.row)
}

/// Records that the agent has answered. Writes nothing if no silence is known.
pub async fn node_silence_end(writer: &NodeWriter<'_>, changes: &mut ChangeSet) -> StoreResult<NodeRow> {
    Ok(node_event(writer.tx(), changes, writer.node(), &NodeEvent::SilenceEnded).await?.row)
}

/// Sets the installed packages, by the agent's report. Writes nothing if they are the same.
pub async fn node_packages_set(
    writer: &NodeWriter<'_>,
    changes: &mut ChangeSet,
    packages: &BTreeSet<String>,
) -> StoreResult<NodeRow> {
    Ok(node_event(writer.tx(), changes, writer.node(), &NodeEvent::PackagesSet(packages.clone())).await?.row)
}

/// Records that the agent's full report was applied: a recovering node without old attempts takes tasks again.
/// `present` are the attempts that the agent has and has not released. A node that is not recovering stays as it is.
///
/// Old attempts are counted here, from rows that are read with conflicts: lost tasks that still name the node, and
/// present attempts that are over in the store. A transaction that adds to them fails this one.
pub async fn node_reported(
    writer: &NodeWriter<'_>,
    changes: &mut ChangeSet,
    present: &[(TaskId, Incarnation)],
) -> StoreResult<NodeRow> {
    let (tx, node, space) = (writer.tx(), writer.node(), changes.space().clone());
    let row = node_read(tx, &space, node).await?;
    if row.state != NodeState::Recovering {
        return Ok(row);
    }
    let charged = node_tasks(tx, &space, node).await?;
    let tasks: BTreeSet<TaskId> = charged.into_iter().chain(present.iter().map(|&(task, _)| task)).collect();
    let read = |task: TaskId| {
        let space = &space;
        async move { keys::read(tx, space, &TaskKey::of(task)).await }
    };
    let rows = try_join_all(tasks.into_iter().map(read)).await?;
    let rows: BTreeMap<TaskId, TaskRow> = rows.into_iter().flatten().map(|row| (row.id, row)).collect();
    let lost = rows.values().filter(|row| row.state == TaskState::Lost && row.node == Some(node)).count();
    let stale = present
        .iter()
        .filter(|(task, incarnation)| rows.get(task).is_some_and(|row| row.is_over(node, *incarnation)));
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let event = NodeEvent::Reported { lost_tasks: count(lost), stale_attempts: count(stale.count()) };
    Ok(node_event(tx, changes, node, &event).await?.row)
}

/// Checks that a node with so many tasks may be removed: with none, and if it is given none. The tasks of a lost node
/// are those that have not been given up yet.
pub fn node_removable(row: &NodeRow, tasks: usize) -> StoreResult<()> {
    let name = &row.name;
    let lost = row.state == NodeState::Lost;
    if row.schedulable && !lost {
        let reason =
            format!("node {name} takes tasks: borough node drain {name}, end its agent, then remove it");
        return Err(StoreError::refused(reason));
    }
    if tasks == 0 {
        return Ok(());
    }
    Err(if lost {
        let reason = format!(
            "node {name} is lost, and its tasks have not been given up yet; wait until it has none: borough node status \
             {name}"
        );
        StoreError::refused_with(RefusalRemedy::Wait, reason)
    } else {
        StoreError::refused(format!(
            "node {name} still has tasks; to move them: borough node drain {name}; to see them: borough node status {name}"
        ))
    })
}

/// Removes a node for good: a later node of its name is another one. Fails while it could be given tasks or has some.
///
/// `seen` is the node's liveness as the operator's gateway has seen it without a sign of life for its whole waiting
/// time. The removal fails if it has changed since. A former agent that comes back registers a new node, and its
/// attempts are over in the store, so the gateway orders it to stop them.
pub async fn node_remove(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    seen: Option<&NodeSeen>,
) -> StoreResult<NodeRow> {
    let space = changes.space().clone();
    let row = node_read(tx, &space, node).await?;
    let options = RangeOptions { limit: 1, ..RangeOptions::default() };
    let charged = keys::range::<NodeTaskKey>(tx, &space, &Prefix::of(&node), options).await?;
    node_removable(&row, charged.len())?;
    if node_live_guarded(tx, &space, node).await?.as_ref() != seen {
        let reason = format!("the agent of node {} still reports: end it, then remove the node", row.name);
        return Err(StoreError::refused(reason));
    }
    // A placement planned before the removal fails: the token is gone.
    keys::clear(tx, &space, &NodeAllocKey { node })?;
    keys::clear(tx, &space, &NodeKey { node })?;
    node_live_clear(tx, &space, node).await?;
    keys::clear(tx, &space, &NodeSessionKey { node })?;
    keys::clear(tx, &space, &NodeReservedKey { node })?;
    keys::clear(tx, &space, &NodeLoadKey { node })?;
    keys::clear(tx, &space, &NodeNameKey { name: row.name.clone() })?;
    node_join_clear(tx, &space, &row.name).await?;
    changes.push(Delta::NodeRemoved { node, name: Some(row.name.clone()) });
    Ok(row)
}

/// Writes the commitment of a node; the caller has counted its epoch.
pub fn node_alloc_write(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    alloc: &NodeAlloc,
) -> StoreResult<()> {
    keys::write(tx, changes.space(), &NodeAllocKey { node }, alloc)?;
    changes.push(Delta::NodeAlloc { node, alloc: alloc.clone() });
    Ok(())
}

/// Writes a row and raises the node's token.
pub(super) async fn node_write(tx: &Transaction, changes: &mut ChangeSet, row: &NodeRow) -> StoreResult<()> {
    let alloc = node_alloc_touch(&node_alloc_read(tx, changes.space(), row.id).await?);
    keys::write(tx, changes.space(), &NodeKey { node: row.id }, row)?;
    changes.push(Delta::Node { row: row.clone() });
    node_alloc_write(tx, changes, row.id, &alloc)
}
