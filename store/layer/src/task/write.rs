//! Writes a book: all effects of its transitions, in the transaction that read it.

use std::collections::BTreeSet;

use borough_kv::Transaction;
use borough_model::node::NodeAlloc;
use borough_model::task::{EndpointEffect, TaskRow};
use borough_model::{Delta, Name, NodeId};

use super::book::{JobEntry, NodeEntry, TaskBook, TaskEntry, is_on_node};
use crate::cell::failure_domains;
use crate::error::StoreResult;
use crate::job::job_tasks_ended;
use crate::journal::ChangeSet;
use crate::keys::{self, JobRowKey, NodeAllocKey, NodeKey, NodeTaskKey, TaskKey};
use crate::name::{EndpointChange, EndpointNode, endpoint_apply, endpoint_refresh, name_revision_stamp};
use crate::quota::{ChargeBasis, charges_touch, quota_give_back, quota_recharge, task_charge};

impl TaskBook {
    /// Writes what has changed, and adds it to the transaction's journal entry. Writes nothing if nothing has changed.
    pub async fn write(mut self, tx: &Transaction, changes: &mut ChangeSet) -> StoreResult<()> {
        self.promises_keep(tx, &changes.space().clone(), changes.at_ms()).await?;
        self.gangs_give_up(tx, changes).await?;
        let mut names: BTreeSet<(Name, Name)> = BTreeSet::new();
        let publishes = |entry: &TaskEntry| entry.refresh || entry.endpoint == EndpointEffect::Publish;
        let domains = if self.tasks.values().any(publishes) {
            failure_domains(tx, changes.space()).await?
        } else {
            Vec::new()
        };
        for entry in self.tasks.values() {
            task_write(tx, changes, entry)?;
            if let Some(name) = self.endpoint_write(tx, changes, entry, &domains).await? {
                names.insert(name);
            }
        }
        for (&node, entry) in self.nodes.iter().filter(|(_, entry)| entry.changed) {
            node_write(tx, changes, node, entry)?;
        }
        for (user, job) in &names {
            name_revision_stamp(tx, changes.space(), user, job)?;
        }
        for entry in self.jobs.values() {
            job_write(tx, changes, entry)?;
        }
        Ok(())
    }

    /// Returns the name whose revision must be stamped.
    async fn endpoint_write(
        &self,
        tx: &Transaction,
        changes: &mut ChangeSet,
        entry: &TaskEntry,
        domains: &[String],
    ) -> StoreResult<Option<(Name, Name)>> {
        let (row, effect) = (&entry.row, entry.endpoint);
        let keeps = effect == EndpointEffect::Keep;
        let spec = self.spec(row.id.job, row.spec_version).filter(|_| !keeps || entry.refresh);
        let Some(spec) = spec else { return Ok(None) };
        let node = row.node.and_then(|node| self.nodes.get(&node)).map(|node| &node.row);
        if let Some(node) = node.filter(|_| keeps || effect == EndpointEffect::Publish) {
            keys::guard(tx, changes.space(), &NodeKey { node: node.id })?;
        }
        let node = node.map(|row| EndpointNode { row, domains });
        let changed = if keeps {
            endpoint_refresh(tx, changes, row, spec, node).await?
        } else {
            endpoint_apply(tx, changes, EndpointChange { effect, row, spec, node }).await?
        };
        Ok(changed.then(|| (spec.user.clone(), spec.name.clone())))
    }
}

fn task_write(tx: &Transaction, changes: &mut ChangeSet, entry: &TaskEntry) -> StoreResult<()> {
    let (before, row) = (entry.before.as_ref(), &entry.row);
    if before.map_or(0, |before| before.revision) == row.revision {
        return Ok(());
    }
    keys::write(tx, changes.space(), &TaskKey::of(row.id), row)?;
    let node_of = |row: &TaskRow| row.node.filter(|_| is_on_node(row.state));
    let (left, entered) = (before.and_then(node_of), node_of(row));
    if left != entered {
        if let Some(node) = left {
            keys::clear(tx, changes.space(), &NodeTaskKey::of(node, row.id))?;
        }
        if let Some(node) = entered {
            keys::write(tx, changes.space(), &NodeTaskKey::of(node, row.id), &())?;
        }
    }
    changes.push(Delta::Task { row: row.clone() });
    Ok(())
}

/// The commitment was read without a conflict. Since it changes, it becomes one.
fn node_write(tx: &Transaction, changes: &mut ChangeSet, node: NodeId, entry: &NodeEntry) -> StoreResult<()> {
    let key = NodeAllocKey { node };
    keys::guard(tx, changes.space(), &key)?;
    let alloc: NodeAlloc = entry.alloc.clone();
    keys::write(tx, changes.space(), &key, &alloc)?;
    changes.push(Delta::NodeAlloc { node, alloc });
    Ok(())
}

/// Counts ended tasks and releases their charges. Like a commitment, the row becomes a conflict only here.
fn job_write(tx: &Transaction, changes: &mut ChangeSet, entry: &JobEntry) -> StoreResult<()> {
    let is_known = entry.specs.contains_key(&entry.row.spec_version);
    let basis = is_known
        .then(|| ChargeBasis::of(&entry.row, |version| entry.specs.get(&version).map(|spec| &**spec)));
    let shares = basis.iter().flat_map(|basis| {
        entry.shared.iter().map(|row| (task_charge(basis, row), basis.share_of(row.id.index)))
    });
    let resized = basis.iter().flat_map(|basis| {
        entry.resized.iter().map(|(row, after)| (task_charge(basis, row), task_charge(basis, after)))
    });
    let shares: Vec<_> = shares.chain(resized).filter(|(held, share)| held != share).collect();
    if entry.ended.is_empty() && entry.released.is_empty() && !entry.regained && shares.is_empty() {
        return Ok(());
    }
    keys::guard(tx, changes.space(), &JobRowKey { job: entry.row.id })?;
    charges_touch(tx, changes.space(), entry.row.id)?;
    if let Some(basis) = &basis {
        for row in &entry.released {
            quota_give_back(tx, changes.space(), &entry.row, &task_charge(basis, row))?;
        }
    }
    for (held, share) in &shares {
        quota_recharge(tx, changes.space(), &entry.row, held, share)?;
    }
    job_tasks_ended(tx, changes, &entry.row, &entry.ended)
}
