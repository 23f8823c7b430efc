//! Steps of transactions on a node.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::Transaction;
use borough_model::node::{
    NodeAlloc, NodeEvent, NodeFacts, NodeRow, NodeState, NodeTransition, Pressure, Taint, TaintMatch,
    node_alloc_touch, node_facts_check, node_labels_check, node_new, node_taints_check, node_transition,
    taints_changed,
};
use borough_model::{Delta, Name, NodeId, TaskId};

use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{
    self, CellSpace, NodeAllocKey, NodeKey, NodeLiveKey, NodeLoadKey, NodeNameKey, NodeReservedKey,
    NodeTaskKey, Prefix, RangeOptions,
};

/// What a registration came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The row in force. While it is `Recovering` the node takes no tasks: apply the agent's full report first.
    pub row: NodeRow,
    /// Whether the node is new to the store.
    pub created: bool,
    /// Whether it was declared lost: its old tasks may be placed elsewhere and it must be told which to stop.
    pub returning: bool,
    /// Whether it runs in another boot than when it last registered: no process of before lives.
    pub rebooted: bool,
    /// Whether anything was written.
    pub changed: bool,
}

/// Registers a node: by its name it keeps its id, what operators set, and what is committed on it. Repeating a
/// registration writes nothing. `id` is a new one, used where the name is new; one that is in use is refused.
pub async fn node_register(
    tx: &Transaction,
    changes: &mut ChangeSet,
    name: &Name,
    facts: &NodeFacts,
    id: NodeId,
) -> StoreResult<Registered> {
    node_facts_check(facts).map_err(|errors| StoreError::InvalidSpec { errors })?;
    let space = changes.space().clone();
    let name_key = NodeNameKey { name: name.clone() };
    if let Some(known) = keys::read(tx, &space, &name_key).await? {
        let before = node_read(tx, &space, known).await?;
        let event = NodeEvent::Registered(Box::new(facts.clone()));
        let NodeTransition { row, changed, rebooted } = node_event(tx, changes, known, &event).await?;
        let returning = before.state == NodeState::Lost;
        return Ok(Registered { row, created: false, returning, rebooted, changed });
    }
    if keys::read(tx, &space, &NodeKey { node: id }).await?.is_some() {
        return Err(StoreError::AlreadyExists { what: format!("node {id}") });
    }
    let row = node_new(id, name.clone(), facts.clone(), changes.at_ms());
    keys::write(tx, &space, &name_key, &id)?;
    node_write(tx, changes, &row).await?;
    Ok(Registered { row, created: true, returning: false, rebooted: false, changed: true })
}

/// The row of `node`, with a read conflict.
pub async fn node_read(tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<NodeRow> {
    let row = keys::read(tx, space, &NodeKey { node }).await?;
    row.ok_or_else(|| StoreError::not_found(format!("node {node}")))
}

/// What is committed on `node`, with a read conflict; nothing where it has no key yet.
pub async fn node_alloc_read(tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<NodeAlloc> {
    Ok(keys::read(tx, space, &NodeAllocKey { node }).await?.unwrap_or_default())
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

/// Tasks charged to `node`, with read conflicts.
pub async fn node_tasks(tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<Vec<TaskId>> {
    let prefix = Prefix::<NodeTaskKey>::of(&node);
    let rows = keys::range(tx, space, &prefix, RangeOptions::default()).await?;
    Ok(rows.into_iter().map(|(key, ())| key.task()).collect())
}

/// Applies an event to a node's row; where it changes, its token is bumped too. Otherwise nothing is written.
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

/// Takes no new tasks from now on; those that run stay.
pub async fn node_cordon(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    Ok(node_event(tx, changes, node, &NodeEvent::Cordon).await?.row)
}

/// Takes tasks again: ends a cordon and a drain.
pub async fn node_uncordon(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    Ok(node_event(tx, changes, node, &NodeEvent::Uncordon).await?.row)
}

/// Is to be emptied: takes no new tasks, and those that run are moved by the cell's controller.
pub async fn node_drain(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    Ok(node_event(tx, changes, node, &NodeEvent::Drain).await?.row)
}

/// Sets labels, and removes those given without a value.
pub async fn node_labels_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    labels: &BTreeMap<String, Option<String>>,
) -> StoreResult<NodeRow> {
    let mut all = node_read(tx, changes.space(), node).await?.labels;
    for (key, value) in labels {
        match value {
            Some(value) => all.insert(key.clone(), value.clone()),
            None => all.remove(key),
        };
    }
    node_labels_check(&all).map_err(|errors| StoreError::InvalidSpec { errors })?;
    Ok(node_event(tx, changes, node, &NodeEvent::LabelsSet(all)).await?.row)
}

/// Sets the taints of `add` and takes away those that `remove` means. Tasks that run and do not tolerate a new
/// `NoExecute` are moved by the cell's controller.
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

/// What the node's agent says that it is short of, all of it. Where nothing has changed nothing is written.
pub async fn node_pressure_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    short_of: &BTreeSet<Pressure>,
) -> StoreResult<NodeRow> {
    Ok(node_event(tx, changes, node, &NodeEvent::PressureSet(short_of.clone())).await?.row)
}

/// Which packages the node's agent says are installed, all of them. Where nothing has changed nothing is written.
pub async fn node_packages_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    packages: &BTreeSet<String>,
) -> StoreResult<NodeRow> {
    Ok(node_event(tx, changes, node, &NodeEvent::PackagesSet(packages.clone())).await?.row)
}

/// The agent's full report was applied: a recovering node with nothing old left takes tasks again.
pub async fn node_reported(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    lost_tasks: u32,
    stale_lives: u32,
) -> StoreResult<NodeRow> {
    Ok(node_event(tx, changes, node, &NodeEvent::Reported { lost_tasks, stale_lives }).await?.row)
}

/// Forgets a node, for good: a node of its name that comes later is another one. Refused while tasks are charged
/// to it, and while it could be given some.
pub async fn node_remove(tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
    let space = changes.space().clone();
    let row = node_read(tx, &space, node).await?;
    if row.schedulable && row.state != NodeState::Lost {
        return Err(StoreError::refused(format!("node {} takes tasks: drain it first", row.name)));
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
    keys::clear(tx, &space, &NodeLoadKey { node })?;
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
    let alloc = node_alloc_touch(&node_alloc_read(tx, changes.space(), row.id).await?);
    keys::write(tx, changes.space(), &NodeKey { node: row.id }, row)?;
    changes.push(Delta::Node { row: row.clone() });
    node_alloc_write(tx, changes, row.id, &alloc)
}
