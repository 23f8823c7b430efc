//! Publishing, demoting and withdrawing endpoints, as part of the transaction that changes the task's row.

use borough_kv::Transaction;
use borough_model::job::JobSpec;
use borough_model::node::NodeRow;
use borough_model::task::{Endpoint, EndpointEffect, Health, TaskRow};
use borough_model::{Delta, Name};

use super::EndpointRow;
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, EndpointKey, NameRevisionKey};

/// What an endpoint is made from.
#[derive(Clone, Copy, Debug)]
pub struct EndpointChange<'a> {
    /// What is to happen to it.
    pub effect: EndpointEffect,
    /// The task's row as this transaction leaves it.
    pub row: &'a TaskRow,
    /// The spec of the row's version.
    pub spec: &'a JobSpec,
    /// The row of the task's node; only publishing needs it.
    pub node: Option<&'a NodeRow>,
}

/// Carries out what a transition asks of its task's endpoint. Answers whether the key has changed: then the job's
/// revision is due ([`name_revision_stamp`]), once per transaction.
///
/// The key is read without a conflict: it changes only together with the task's row, which the transaction has read.
pub async fn endpoint_apply(
    tx: &Transaction,
    changes: &mut ChangeSet,
    change: EndpointChange<'_>,
) -> StoreResult<bool> {
    let (row, spec) = (change.row, change.spec);
    let key = EndpointKey { user: spec.user.clone(), job: spec.name.clone(), index: row.id.index };
    let before = keys::read_snapshot(tx, changes.space(), &key).await?;
    let before = before.filter(|before| before.endpoint.task == row.id);
    match (change.effect, before) {
        (EndpointEffect::Keep, _) | (EndpointEffect::Demote | EndpointEffect::Withdraw, None) => Ok(false),
        (EndpointEffect::Publish, before) => {
            let Some(endpoint) = endpoint_of(row, spec, change.node) else { return Ok(false) };
            if before.is_some_and(|before| before.endpoint == endpoint) {
                return Ok(false);
            }
            endpoint_write(tx, changes, &key, EndpointRow { endpoint, revision: row.revision })?;
            Ok(true)
        }
        (EndpointEffect::Demote, Some(before)) => {
            let endpoint = Endpoint { health: Health::Unknown, ..before.endpoint };
            endpoint_write(tx, changes, &key, EndpointRow { endpoint, revision: row.revision })?;
            Ok(true)
        }
        (EndpointEffect::Withdraw, Some(_)) => {
            endpoint_withdraw_blind(tx, changes, (&spec.user, &spec.name), row)?;
            Ok(true)
        }
    }
}

/// Brings a published endpoint up to date with its node, whose host may have changed since. Never creates one: the row
/// does not change here, so a withdrawal that has not seen the key would not clear it. Answers whether it has changed.
pub async fn endpoint_refresh(
    tx: &Transaction,
    changes: &mut ChangeSet,
    row: &TaskRow,
    spec: &JobSpec,
    node: Option<&NodeRow>,
) -> StoreResult<bool> {
    let key = EndpointKey { user: spec.user.clone(), job: spec.name.clone(), index: row.id.index };
    let before = keys::read_snapshot(tx, changes.space(), &key).await?;
    let (Some(before), Some(endpoint)) = (before, endpoint_of(row, spec, node)) else { return Ok(false) };
    if before.endpoint == endpoint || before.endpoint.incarnation != row.incarnation {
        return Ok(false);
    }
    endpoint_write(tx, changes, &key, EndpointRow { endpoint, revision: row.revision })?;
    Ok(true)
}

/// The endpoint of a row; `None` where it has no node to be reached on.
fn endpoint_of(row: &TaskRow, spec: &JobSpec, node: Option<&NodeRow>) -> Option<Endpoint> {
    let node = node.filter(|node| row.node == Some(node.id))?;
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

/// Clears the endpoint of a task of job `(user, name)`, whatever is there; reads nothing. `row` is the row as this
/// transaction leaves it.
pub fn endpoint_withdraw_blind(
    tx: &Transaction,
    changes: &mut ChangeSet,
    (user, job): (&Name, &Name),
    row: &TaskRow,
) -> StoreResult<()> {
    let key = EndpointKey { user: user.clone(), job: job.clone(), index: row.id.index };
    keys::clear(tx, changes.space(), &key)?;
    let (user, job) = (user.clone(), job.clone());
    changes.push(Delta::EndpointWithdrawn { user, job, task: row.id, revision: row.revision });
    Ok(())
}

/// Gives the job's name revision the stamp of this commit.
pub fn name_revision_stamp(tx: &Transaction, space: &CellSpace, user: &Name, job: &Name) -> StoreResult<()> {
    keys::write_stamped_value(tx, space, &NameRevisionKey { user: user.clone(), job: job.clone() })
}
