//! The transaction: guards, blind writes, one journal entry.

use std::collections::BTreeSet;

use borough_kv::Transaction;
use borough_model::task::TaskRow;
use borough_model::{Delta, Name};

use super::PlacementBatch;
use crate::error::StoreResult;
use crate::gate::GateOpen;
use crate::journal::{Change, ChangeSet};
use crate::keys::{self, CellSpace, ConstraintKey, GangKey, JobGateKey, NodeAllocKey, NodeTaskKey, TaskKey};
use crate::name::{endpoint_withdraw_blind, name_revision_stamp};
use crate::row::ConstraintToken;

/// Adds the guards and the writes of `batch` to a transaction of `commit_at(gate.version())`. `gate` proves that the
/// cell was open at that version; its guard fails the commit if that has changed. Reads nothing; see the module's
/// rules.
///
/// Two defects of the planner are refused before anything is added, since no snapshot can justify them. One is a node
/// that is not in the batch. The other is a placement that does not fit the values in the batch itself.
pub fn placement_commit(tx: &Transaction, gate: &GateOpen, batch: &PlacementBatch) -> StoreResult<()> {
    let space = gate.space();
    let allocs = batch.allocs_after()?;
    let change = Change {
        request: batch.id,
        actor: format!("{}/{}", batch.lease.role, batch.lease.shard),
        action: "placement_commit",
        at_ms: batch.at_ms,
    };
    let mut changes = ChangeSet::begin_at(tx, gate, &change)?;
    guards_add(tx, space, batch)?;
    for (node, alloc) in allocs {
        keys::write(tx, space, &NodeAllocKey { node }, &alloc)?;
        changes.push(Delta::NodeAlloc { node, alloc });
    }
    for placement in &batch.placements {
        task_write(tx, space, &mut changes, &placement.row)?;
        if let Some(node) = placement.row.node {
            keys::write(tx, space, &NodeTaskKey::of(node, placement.row.id), &())?;
        }
    }
    evictions_write(tx, space, &mut changes, batch)?;
    for gang in &batch.gangs {
        keys::write(tx, space, &GangKey { gang: gang.id }, gang)?;
        changes.push(Delta::Gang { row: gang.clone() });
    }
    let token = ConstraintToken::of(batch.id);
    for term in batch.terms() {
        keys::write(tx, space, term, &token)?;
    }
    changes.append(tx)
}

fn guards_add(tx: &Transaction, space: &CellSpace, batch: &PlacementBatch) -> StoreResult<()> {
    keys::guard(tx, space, &batch.lease)?;
    keys::guard(tx, space, &ConstraintKey::of_all())?;
    for job in batch.jobs() {
        keys::guard(tx, space, &JobGateKey { job })?;
    }
    for &node in batch.nodes.keys() {
        keys::guard(tx, space, &NodeAllocKey { node })?;
    }
    // The blind clear below must hit the endpoint of the job that has the name, and not that of a later job.
    for eviction in batch.evictions.iter().filter(|eviction| eviction.withdraws()) {
        keys::guard(tx, space, &eviction.name_key())?;
    }
    for task in batch.tasks().into_iter().chain(batch.dependencies()) {
        keys::guard(tx, space, &TaskKey::of(task))?;
    }
    for gang in &batch.gangs {
        keys::guard(tx, space, &GangKey { gang: gang.id })?;
    }
    batch.terms().into_iter().try_for_each(|term: &ConstraintKey| keys::guard(tx, space, term))
}

fn task_write(
    tx: &Transaction,
    space: &CellSpace,
    changes: &mut ChangeSet,
    row: &TaskRow,
) -> StoreResult<()> {
    keys::write(tx, space, &TaskKey::of(row.id), row)?;
    changes.push(Delta::Task { row: row.clone() });
    Ok(())
}

/// Writes victims: the new row, and the withdrawal of its endpoint. A victim that only held has left its node.
fn evictions_write(
    tx: &Transaction,
    space: &CellSpace,
    changes: &mut ChangeSet,
    batch: &PlacementBatch,
) -> StoreResult<()> {
    let mut jobs: BTreeSet<(&Name, &Name)> = BTreeSet::new();
    for eviction in &batch.evictions {
        let row = &eviction.row;
        task_write(tx, space, changes, row)?;
        let capacity = &eviction.effects.capacity;
        if let Some(share) = capacity.share().filter(|_| capacity.is_leaving()) {
            keys::clear(tx, space, &NodeTaskKey::of(share.node, row.id))?;
        }
        if eviction.withdraws() {
            endpoint_withdraw_blind(tx, changes, eviction.endpoint_key(), row)?;
            jobs.insert((&eviction.user, &eviction.job));
        }
    }
    jobs.into_iter().try_for_each(|(user, job)| name_revision_stamp(tx, space, user, job))
}
