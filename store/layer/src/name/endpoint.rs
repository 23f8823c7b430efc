//! Publishes, demotes and withdraws endpoints, in the transaction that changes the task's row.

use borough_kv::Transaction;
use borough_model::job::JobSpec;
use borough_model::node::NodeRow;
use borough_model::task::{Endpoint, EndpointEffect, Health, TaskRow};
use borough_model::{Delta, Name};

use super::EndpointRow;
use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, EndpointKey, JobNameKey, NameRevisionKey, Prefix, RangeOptions};

/// The most endpoints of an ended job that one submission withdraws.
const LEFT_MAX: usize = 1_000;

/// The sources of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndpointChange<'a> {
    pub effect: EndpointEffect,
    /// The task's row as this transaction leaves it.
    pub row: &'a TaskRow,
    /// The spec of the row's version.
    pub spec: &'a JobSpec,
    /// The task's node; only publishing needs it.
    pub node: Option<EndpointNode<'a>>,
}

/// The sources of an endpoint that are of its node.
#[derive(Clone, Copy, Debug)]
pub struct EndpointNode<'a> {
    pub row: &'a NodeRow,
    /// The attributes that name failure domains in the cell, from the widest to the narrowest.
    pub domains: &'a [String],
}

/// Carries out a transition's effect on its task's endpoint. Returns true if the key has changed: the caller must then
/// stamp the job's revision ([`name_revision_stamp`]), once per transaction.
///
/// Only its own job changes an endpoint, and only the job that has the name publishes. An ended job of the name may
/// still have stopping tasks, so the key is read with a conflict.
pub async fn endpoint_apply(
    tx: &Transaction,
    changes: &mut ChangeSet,
    change: EndpointChange<'_>,
) -> StoreResult<bool> {
    let (row, spec) = (change.row, change.spec);
    let key = EndpointKey { user: spec.user.clone(), job: spec.name.clone(), index: row.id.index };
    let before = keys::read(tx, changes.space(), &key).await?;
    let before = before.filter(|before| before.endpoint.task == row.id);
    match (change.effect, before) {
        (EndpointEffect::Keep, _) | (EndpointEffect::Demote | EndpointEffect::Withdraw, None) => Ok(false),
        (EndpointEffect::Publish, before) => {
            let Some(endpoint) = endpoint_of(row, spec, change.node) else { return Ok(false) };
            if before.is_some_and(|before| before.endpoint == endpoint)
                || !has_name(tx, changes, row, spec).await?
            {
                return Ok(false);
            }
            endpoint_write(tx, changes, &key, EndpointRow { endpoint, revision: row.revision })?;
            Ok(true)
        }
        (EndpointEffect::Demote, Some(before)) => {
            let endpoint = Endpoint { health: Health::Unknown, healthy_since_ms: 0, ..before.endpoint };
            endpoint_write(tx, changes, &key, EndpointRow { endpoint, revision: row.revision })?;
            Ok(true)
        }
        (EndpointEffect::Withdraw, Some(_)) => {
            endpoint_withdraw_blind(tx, changes, key, row)?;
            Ok(true)
        }
    }
}

/// Updates a published endpoint from its node, whose host and domains may have changed. Never creates one: the row does
/// not change here, so a withdrawal that has not seen the key would not clear it. Returns true if the endpoint has
/// changed.
pub async fn endpoint_refresh(
    tx: &Transaction,
    changes: &mut ChangeSet,
    row: &TaskRow,
    spec: &JobSpec,
    node: Option<EndpointNode<'_>>,
) -> StoreResult<bool> {
    let key = EndpointKey { user: spec.user.clone(), job: spec.name.clone(), index: row.id.index };
    let before = keys::read(tx, changes.space(), &key).await?;
    let own = |known: &Endpoint| known.task == row.id && known.incarnation == row.incarnation;
    let before = before.filter(|before| own(&before.endpoint));
    let (Some(before), Some(endpoint)) = (before, endpoint_of(row, spec, node)) else { return Ok(false) };
    if before.endpoint == endpoint {
        return Ok(false);
    }
    endpoint_write(tx, changes, &key, EndpointRow { endpoint, revision: row.revision })?;
    Ok(true)
}

/// Returns true if the row's job has the name of its spec, with a read conflict.
async fn has_name(tx: &Transaction, changes: &ChangeSet, row: &TaskRow, spec: &JobSpec) -> StoreResult<bool> {
    let key = JobNameKey { user: spec.user.clone(), name: spec.name.clone() };
    Ok(keys::read(tx, changes.space(), &key).await? == Some(row.id.job))
}

/// Withdraws the endpoints that tasks of an ended job have left under a name that another job takes. The name's
/// endpoints are then those of the new job alone. They are read with a conflict.
///
/// # Errors
/// They are more than one transaction withdraws: the ended job's sweep removes them in a moment.
pub async fn endpoints_left_withdraw(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    job: &Name,
) -> StoreResult<()> {
    let left = endpoints_left(tx, changes.space(), user, job).await?;
    if left.len() > LEFT_MAX {
        let reason = format!(
            "tasks of the ended job {user}/{job} are still on their way out: submit it again in a moment"
        );
        return Err(StoreError::refused_with(RefusalRemedy::Wait, reason));
    }
    for (key, EndpointRow { endpoint, revision }) in &left {
        keys::clear(tx, changes.space(), key)?;
        let (user, job) = (user.clone(), job.clone());
        changes.push(Delta::EndpointWithdrawn { user, job, task: endpoint.task, revision: *revision });
    }
    if left.is_empty() { Ok(()) } else { name_revision_stamp(tx, changes.space(), user, job) }
}

/// Returns true if the name has no endpoint, with a read conflict.
pub(crate) async fn name_is_vacant(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    job: &Name,
) -> StoreResult<bool> {
    Ok(endpoints_left(tx, space, user, job).await?.is_empty())
}

/// The endpoints of a name, at most one more than a transaction withdraws.
async fn endpoints_left(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    job: &Name,
) -> StoreResult<Vec<(EndpointKey, EndpointRow)>> {
    let options = RangeOptions { limit: LEFT_MAX + 1, ..RangeOptions::default() };
    keys::range::<EndpointKey>(tx, space, &Prefix::of_two(user, job), options).await
}

/// The endpoint of a row; `None` if it has no node.
fn endpoint_of(row: &TaskRow, spec: &JobSpec, node: Option<EndpointNode<'_>>) -> Option<Endpoint> {
    let EndpointNode { row: node, domains } = node.filter(|node| row.node == Some(node.row.id))?;
    Some(Endpoint {
        task: row.id,
        user: spec.user.clone(),
        job: spec.name.clone(),
        incarnation: row.incarnation,
        host: node.host.clone(),
        ports: row.ports.clone(),
        health: row.health,
        weight: spec.weight_for(row.id.index),
        node: node.name.clone(),
        healthy_since_ms: if row.health == Health::Healthy { row.healthy_ms } else { 0 },
        domains: node.domain_values(domains),
    })
}

fn endpoint_write(
    tx: &Transaction,
    changes: &mut ChangeSet,
    key: &EndpointKey,
    row: EndpointRow,
) -> StoreResult<()> {
    keys::write(tx, changes.space(), key, &row)?;
    changes.push(Delta::Endpoint { endpoint: row.endpoint, revision: row.revision });
    Ok(())
}

/// Clears the endpoint under `key` without reading it. `row` is its task's row as this transaction leaves it. The
/// caller must know that no other job's task is published there. It has either read the endpoint as the task's own, or
/// has seen that the job has the name and guards on [`JobNameKey`].
pub fn endpoint_withdraw_blind(
    tx: &Transaction,
    changes: &mut ChangeSet,
    key: EndpointKey,
    row: &TaskRow,
) -> StoreResult<()> {
    keys::clear(tx, changes.space(), &key)?;
    let EndpointKey { user, job, .. } = key;
    changes.push(Delta::EndpointWithdrawn { user, job, task: row.id, revision: row.revision });
    Ok(())
}

/// Sets the job's name revision to the stamp of this commit.
pub fn name_revision_stamp(tx: &Transaction, space: &CellSpace, user: &Name, job: &Name) -> StoreResult<()> {
    keys::write_stamped_value(tx, space, &NameRevisionKey { user: user.clone(), job: job.clone() })
}
