//! Member cells of a federation, in the cell that is its home. Nothing here opens a connection to a member: a
//! federation process looks at each, and records what it has seen.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::member::{
    MEMBERS_OF_FEDERATION_MAX, MemberRow, MemberSeen, MemberSpec, member_spec_check,
};
use borough_model::{Delta, MemberId, Name};

use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, MemberKey, MemberSeenKey, Prefix, RangeOptions};

/// What changes of a member cell. What is absent or empty stays.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MemberEdit {
    /// Replaces all addresses of gateways.
    pub gateways: Option<Vec<String>>,
    /// Labels to set.
    pub labels: BTreeMap<String, String>,
    /// Keys of labels to remove. A label that is missing is no error.
    pub labels_removed: Vec<String>,
    /// Whether it gets no new work.
    pub cordoned: Option<bool>,
    /// Whether its federated tasks go to other cells.
    pub draining: Option<bool>,
}

/// Adds a cell to the federation, as the membership `new`. Refuses one that is a member: only a change changes it.
pub async fn member_join(
    tx: &Transaction,
    changes: &mut ChangeSet,
    new: MemberId,
    cell: &Name,
    spec: MemberSpec,
) -> StoreResult<MemberRow> {
    let spec = member_spec_check(spec).map_err(|errors| StoreError::InvalidSpec { errors })?;
    if cell.as_str() == changes.space().to_string() {
        let reason = format!("{cell} is the home of the federation; accepted: another cell");
        return Err(StoreError::refused(reason));
    }
    if let Some(known) = keys::read(tx, changes.space(), &key_of(cell)).await? {
        let reason = format!(
            "cell {cell} is a member, at {}; to change that: borough cell rename-endpoint {cell} --at HOST:PORT",
            known.gateways.join(", ")
        );
        return Err(StoreError::refused(reason));
    }
    members_room_check(tx, changes.space()).await?;
    let (joined_ms, changed_by) = (changes.at_ms(), changes.actor().to_owned());
    let row = MemberRow {
        id: new,
        cell: cell.clone(),
        gateways: spec.gateways,
        labels: spec.labels,
        cordoned: false,
        revision: 1,
        joined_ms,
        changed_ms: joined_ms,
        changed_by,
        draining: false,
    };
    row_write(tx, changes, &row)?;
    Ok(row)
}

/// Changes a member cell. The same again changes nothing. A change for another revision than `expected` is refused; 0:
/// any.
pub async fn member_change(
    tx: &Transaction,
    changes: &mut ChangeSet,
    cell: &Name,
    change: &MemberEdit,
    expected: u64,
) -> StoreResult<MemberRow> {
    let before = member_read(tx, changes.space(), cell).await?;
    if expected != 0 && expected != before.revision {
        let (look, by) = (format!("borough cell members {cell}"), Some(&before.changed_by));
        let what = format!("member cell {cell}");
        return Err(StoreError::overtaken(&what, expected, before.revision, by, &look));
    }
    let mut labels = before.labels.clone();
    labels.retain(|key, _| !change.labels_removed.contains(key));
    labels.extend(change.labels.clone());
    let gateways = change.gateways.clone().unwrap_or_else(|| before.gateways.clone());
    let spec = member_spec_check(MemberSpec { gateways, labels });
    let MemberSpec { gateways, labels } = spec.map_err(|errors| StoreError::InvalidSpec { errors })?;
    let cordoned = change.cordoned.unwrap_or(before.cordoned);
    let draining = change.draining.unwrap_or(before.draining);
    let intake = (before.cordoned, before.draining);
    if (&gateways, &labels, (cordoned, draining)) == (&before.gateways, &before.labels, intake) {
        return Ok(before);
    }
    let row = MemberRow {
        gateways,
        labels,
        cordoned,
        draining,
        revision: before.revision.saturating_add(1),
        changed_ms: changes.at_ms(),
        changed_by: changes.actor().to_owned(),
        ..before
    };
    row_write(tx, changes, &row)?;
    Ok(row)
}

/// Takes a cell out of the federation, with what was seen of it. The cell itself does not notice.
pub async fn member_leave(tx: &Transaction, changes: &mut ChangeSet, cell: &Name) -> StoreResult<MemberRow> {
    let row = member_read(tx, changes.space(), cell).await?;
    keys::clear(tx, changes.space(), &key_of(cell))?;
    keys::clear(tx, changes.space(), &MemberSeenKey { cell: cell.clone() })?;
    changes.push(Delta::MemberRemoved { id: row.id, cell: cell.clone() });
    Ok(row)
}

/// Records what was seen of member cells. Skips those whose membership is another by now. The caller holds the lease of
/// the federation.
pub async fn members_seen_record(
    tx: &Transaction,
    space: &CellSpace,
    seen: &[(Name, MemberSeen)],
) -> StoreResult<()> {
    for (cell, seen) in seen {
        let row = keys::read(tx, space, &key_of(cell)).await?;
        if row.is_some_and(|row| row.id == seen.member) {
            keys::write(tx, space, &MemberSeenKey { cell: cell.clone() }, seen)?;
        }
    }
    Ok(())
}

/// What was last seen of one member cell. Reads without conflicts.
pub async fn member_seen_read(
    tx: &Transaction,
    space: &CellSpace,
    cell: &Name,
) -> StoreResult<Option<MemberSeen>> {
    keys::read_snapshot(tx, space, &MemberSeenKey { cell: cell.clone() }).await
}

/// What was last seen of each member cell. Reads without conflicts.
pub async fn members_seen_list(
    tx: &Transaction,
    space: &CellSpace,
) -> StoreResult<BTreeMap<Name, MemberSeen>> {
    let rows = keys::range::<MemberSeenKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    Ok(rows.into_iter().map(|(key, seen)| (key.cell, seen)).collect())
}

fn key_of(cell: &Name) -> MemberKey {
    MemberKey { cell: cell.clone() }
}

async fn member_read(tx: &Transaction, space: &CellSpace, cell: &Name) -> StoreResult<MemberRow> {
    let row = keys::read(tx, space, &key_of(cell)).await?;
    row.ok_or_else(|| StoreError::not_found(format!("member cell \"{cell}\"")))
}

fn row_write(tx: &Transaction, changes: &mut ChangeSet, row: &MemberRow) -> StoreResult<()> {
    keys::write(tx, changes.space(), &key_of(&row.cell), row)?;
    changes.push(Delta::Member { row: Box::new(row.clone()) });
    Ok(())
}

/// Fails if the federation has as many cells as it may.
async fn members_room_check(tx: &Transaction, space: &CellSpace) -> StoreResult<()> {
    let options = RangeOptions { limit: MEMBERS_OF_FEDERATION_MAX, ..RangeOptions::default() };
    let rows = keys::range::<MemberKey>(tx, space, &Prefix::all(), options).await?;
    if rows.len() < MEMBERS_OF_FEDERATION_MAX {
        return Ok(());
    }
    let reason = format!(
        "the federation has {MEMBERS_OF_FEDERATION_MAX} cells; accepted: at most {MEMBERS_OF_FEDERATION_MAX}; take one out: \
         borough cell leave"
    );
    Err(StoreError::refused(reason))
}
