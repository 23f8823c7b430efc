//! Grants: which rights users and groups have in a cell.
//!
//! A gateway keeps all of them in memory. Every change of a grant, and of a quota, moves one counter, which gateways
//! watch. A grant therefore holds at every gateway within a moment, and no request reads the store for its rights.

use std::collections::BTreeMap;

use borough_kv::{Transaction, Watch};
use borough_model::access::{AccessGrant, AccessSubject, AccessTable, QuotaTie, QuotaWindow};

use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, AccessGrantKey, AccessHeadKey, CellSpace, Prefix, QuotaKey, RangeOptions};

pub use crate::row::{AccessGrantChange, AccessGrantRow, GRANT_CHANGES_MAX};

/// Rows of each kind that one transaction reads.
const CHUNK_ROWS: usize = 2_000;

/// A grant with the number of its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantLine {
    pub subject: AccessSubject,
    pub row: AccessGrantRow,
}

fn key_of(subject: &AccessSubject) -> AccessGrantKey {
    AccessGrantKey { subject: subject.to_string() }
}

/// The grant of a subject at the read version. One that was never set gives nothing.
pub async fn grant_read(
    tx: &Transaction,
    space: &CellSpace,
    subject: &AccessSubject,
) -> StoreResult<AccessGrantRow> {
    Ok(keys::read_snapshot(tx, space, &key_of(subject)).await?.unwrap_or_default())
}

/// Sets the grant of a subject as a whole, and records who did. An empty one takes everything away. The same grant
/// again changes nothing. A change for another revision than `expected` is refused; 0: any.
pub async fn grant_change(
    tx: &Transaction,
    changes: &mut ChangeSet,
    subject: &AccessSubject,
    grant: &AccessGrant,
    expected: u64,
) -> StoreResult<AccessGrantRow> {
    let space = changes.space();
    let before = keys::read(tx, space, &key_of(subject)).await?.unwrap_or_default();
    if expected != 0 && expected != before.revision {
        let (what, look) = (format!("grant of {subject}"), format!("borough auth grants {subject}"));
        let by = before.changes.last().map(|change| &change.by);
        return Err(StoreError::overtaken(&what, expected, before.revision, by, &look));
    }
    if *grant == before.grant() {
        return Ok(before);
    }
    let AccessGrant { roles, allow, deny } = grant;
    let change = AccessGrantChange {
        revision: before.revision.saturating_add(1),
        at_ms: changes.at_ms(),
        by: changes.actor().to_owned(),
        roles: roles.iter().copied().collect(),
        allow: allow.iter().copied().collect(),
        deny: deny.iter().copied().collect(),
    };
    let AccessGrantChange { revision, roles, allow, deny, .. } = change.clone();
    let before_revision = before.revision;
    let mut row = AccessGrantRow { roles, allow, deny, revision, changes: before.changes };
    row.changes.push(change);
    let old = row.changes.len().saturating_sub(GRANT_CHANGES_MAX);
    row.changes.drain(..old);
    keys::write(tx, space, &key_of(subject), &row)?;
    access_head_move(tx, space)?;
    changes.revised(before_revision, row.revision);
    Ok(row)
}

/// Some grants in the order of subjects, also those that give nothing any more.
pub async fn grants_page(
    tx: &Transaction,
    space: &CellSpace,
    after: Option<&AccessSubject>,
    limit: usize,
) -> StoreResult<Vec<GrantLine>> {
    let options = RangeOptions { after: after.map(key_of), limit, ..RangeOptions::snapshot() };
    let rows = keys::range(tx, space, &Prefix::all(), options).await?;
    rows.into_iter().map(|(key, row)| Ok(GrantLine { subject: subject_of(&key)?, row })).collect()
}

fn subject_of(key: &AccessGrantKey) -> StoreResult<AccessSubject> {
    key.subject
        .parse()
        .map_err(|_| StoreError::refused(format!("{:?} is no subject of a grant", key.subject)))
}

/// How often a grant or a quota of the cell has changed. While it stays, the table stays.
pub async fn access_head(tx: &Transaction, space: &CellSpace) -> StoreResult<i64> {
    Ok(keys::read_snapshot(tx, space, &AccessHeadKey {}).await?.unwrap_or_default().0)
}

/// A watch that ends when a grant or a quota may have changed. It is inert until the transaction is committed.
pub async fn access_head_watch(tx: &Transaction, space: &CellSpace) -> StoreResult<Watch> {
    keys::watch(tx, space, &AccessHeadKey {}).await
}

/// An addition conflicts with no other, so changes of different grants do not fail each other.
pub(crate) fn access_head_move(tx: &Transaction, space: &CellSpace) -> StoreResult<()> {
    keys::count_add(tx, space, &AccessHeadKey {}, 1)
}

/// Where the next part of the table begins. A part is read in one transaction.
#[derive(Clone, Debug, Default)]
pub struct AccessPart {
    grants_after: Option<AccessGrantKey>,
    quotas_after: Option<QuotaKey>,
    grants_read: bool,
    quotas_read: bool,
}

impl AccessPart {
    /// Returns true if everything was read.
    pub fn is_last(&self) -> bool {
        self.grants_read && self.quotas_read
    }
}

/// Reads the part of the table after `part` into `table`, and returns where the next one begins.
pub async fn access_part_read(
    tx: &Transaction,
    space: &CellSpace,
    part: AccessPart,
) -> StoreResult<(AccessTable, AccessPart)> {
    let (mut table, mut next) = (AccessTable::default(), part);
    if !next.grants_read {
        let options =
            RangeOptions { after: next.grants_after.take(), limit: CHUNK_ROWS, ..RangeOptions::snapshot() };
        let rows = keys::range(tx, space, &Prefix::all(), options).await?;
        next.grants_read = rows.len() < CHUNK_ROWS;
        next.grants_after = rows.last().map(|(key, _)| key.clone());
        for (key, row) in &rows {
            table.grants.insert(subject_of(key)?, row.grant());
        }
    }
    if !next.quotas_read {
        let options =
            RangeOptions { after: next.quotas_after.take(), limit: CHUNK_ROWS, ..RangeOptions::snapshot() };
        let rows = keys::range(tx, space, &Prefix::all(), options).await?;
        next.quotas_read = rows.len() < CHUNK_ROWS;
        next.quotas_after = rows.last().map(|(key, _): &(QuotaKey, _)| key.clone());
        let counted = rows.into_iter().filter(|(_, row)| row.is_limit() || row.parent.is_some());
        table.quotas = counted
            .map(|(key, row)| {
                let window = QuotaWindow { from_ms: row.from_ms, until_ms: row.until_ms };
                let window = row.is_limit().then_some(window);
                ((key.holder, key.band), QuotaTie { window, parent: row.parent })
            })
            .collect::<BTreeMap<_, _>>();
    }
    table.grants.retain(|_, grant| !grant.is_empty());
    Ok((table, next))
}

#[cfg(test)]
mod tests;
