//! Steps of transactions on a node.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::node::{NodeAlloc, NodeRow, NodeState};
use borough_model::{Delta, Name, NodeId};

use super::decide::{NodeRegistration, Registered, registration_decide};
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{
    self, CellSpace, NodeAllocKey, NodeKey, NodeLiveKey, NodeNameKey, NodeReservedKey, NodeTaskKey, Prefix,
    RangeOptions,
};

/// Registers a node: by its name it keeps its id, what operators set, and what is committed on it. Repeating a
/// registration writes nothing. `id` is a new one, used where the name is new; a random one that was used already
/// is refused.
pub async fn node_register(
    tx: &Transaction,
    changes: &mut ChangeSet,
    registration: &NodeRegistration,
    id: NodeId,
) -> StoreResult<Registered> {
    let space = changes.space().clone();
    let name_key = NodeNameKey { name: registration.name.clone() };
    let before = match keys::read(tx, &space, &name_key).await? {
        Some(known) => Some(node_read(tx, &space, known).await?),
        None => None,
    };
    let registered = registration_decide(before.as_ref(), registration, id, changes.at_ms());
    if registered.created {
        if keys::read(tx, &space, &NodeKey { node: id }).await?.is_some() {
            return Err(StoreError::AlreadyExists { what: format!("node {id}") });
        }
        keys::write(tx, &space, &name_key, &id)?;
    }
    if registered.changed {
        node_write(tx, changes, &registered.row).await?;
    }
    Ok(registered)
}

/// The row of `node`, with a read conflict.
pub async fn node_read(tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<NodeRow> {
    let row = keys::read(tx, space, &NodeKey { node }).await?;
    row.ok_or_else(|| StoreError::not_found(format!("node {node}")))
}

/// The row of the node called `name`, with read conflicts.
pub async fn node_by_name(tx: &Transaction, space: &CellSpace, name: &Name) -> StoreResult<NodeRow> {
    let id = keys::read(tx, space, &NodeNameKey { name: name.clone() }).await?;
    let id = id.ok_or_else(|| StoreError::not_found(format!("node {name}")))?;
    node_read(tx, space, id).await
}

/// Every node, by id. For cells small enough for one transaction; a mirror serves the others.
pub async fn node_list(tx: &Transaction, space: &CellSpace) -> StoreResult<Vec<NodeRow>> {
    let rows = keys::range::<NodeKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Changes a node's row: counts its revision, and bumps the node's token. What `edit` leaves alike writes nothing.
pub async fn node_change(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    edit: impl FnOnce(&mut NodeRow),
) -> StoreResult<NodeRow> {
    let before = node_read(tx, changes.space(), node).await?;
    let mut row = before.clone();
    edit(&mut row);
    if row == before {
        return Ok(before);
    }
    row.revision = before.revision.saturating_add(1);
    row.changed_ms = changes.at_ms();
    node_write(tx, changes, &row).await?;
    Ok(row)
}

/// Takes no new tasks from now on; those that run stay.
pub async fn node_cordon(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    node_change(tx, changes, node, |row| row.schedulable = false).await
}

/// Takes tasks again: ends a cordon and a drain.
pub async fn node_uncordon(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    let edit = |row: &mut NodeRow| {
        row.schedulable = true;
        row.draining = false;
    };
    node_change(tx, changes, node, edit).await
}

/// Is to be emptied: takes no new tasks, and those that run are moved by the cell's controller.
pub async fn node_drain(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    let edit = |row: &mut NodeRow| {
        row.schedulable = false;
        row.draining = true;
    };
    node_change(tx, changes, node, edit).await
}

/// Sets labels, and removes those given without a value.
pub async fn node_labels_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    labels: &BTreeMap<String, Option<String>>,
) -> StoreResult<NodeRow> {
    let edit = |row: &mut NodeRow| {
        for (key, value) in labels {
            match value {
                Some(value) => row.labels.insert(key.clone(), value.clone()),
                None => row.labels.remove(key),
            };
        }
    };
    node_change(tx, changes, node, edit).await
}

/// A recovering node has ended what it must: it takes tasks again. Others stay as they are.
pub async fn node_recovered(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    let edit = |row: &mut NodeRow| {
        if row.state == NodeState::Recovering {
            row.state = NodeState::Ready;
        }
    };
    node_change(tx, changes, node, edit).await
}

/// Forgets a node, for good: a node of its name that comes later is another one. Refused while tasks are charged
/// to it, and while it could be given some.
pub async fn node_remove(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    let space = changes.space().clone();
    let row = node_read(tx, &space, node).await?;
    if row.schedulable && row.state == NodeState::Ready {
        let reason = format!("node {} takes tasks: drain it first", row.name);
        return Err(StoreError::refused(reason));
    }
    let options = RangeOptions { limit: 1, ..RangeOptions::default() };
    let charged = keys::range::<NodeTaskKey>(tx, &space, &Prefix::of(&node), options).await?;
    if !charged.is_empty() {
        let reason = format!("tasks are still charged to node {}: drain it, and wait", row.name);
        return Err(StoreError::refused(reason));
    }
    // Whoever placed on it by a read version of before loses: the token is gone.
    keys::clear(tx, &space, &NodeAllocKey { node })?;
    keys::clear(tx, &space, &NodeKey { node })?;
    keys::clear(tx, &space, &NodeLiveKey { node })?;
    keys::clear(tx, &space, &NodeReservedKey { node })?;
    keys::clear(tx, &space, &NodeNameKey { name: row.name.clone() })?;
    changes.push(Delta::NodeRemoved { node });
    Ok(row)
}

/// Writes what is committed on a node; the caller has counted its epoch.
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

/// Writes a row and bumps the node's token.
async fn node_write(tx: &Transaction, changes: &mut ChangeSet, row: &NodeRow) -> StoreResult<()> {
    let alloc = keys::read(tx, changes.space(), &NodeAllocKey { node: row.id }).await?;
    let mut alloc = alloc.unwrap_or_default();
    alloc.epoch = alloc.epoch.saturating_add(1);
    keys::write(tx, changes.space(), &NodeKey { node: row.id }, row)?;
    changes.push(Delta::Node { row: row.clone() });
    node_alloc_write(tx, changes, row.id, &alloc)
}
