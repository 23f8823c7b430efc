//! Merged services: the endpoints of several jobs of a user under one name. Only the owner's verbs make, change and
//! remove a row. No job refers to one, and none refers to a job by its id: names may be of jobs that come later.

#[cfg(test)]
mod tests;

use borough_kv::Transaction;
use borough_model::merged::{MERGED_SERVICES_MAX, MergedServiceRow, MergedServiceSpec};
use borough_model::{Delta, MergedServiceId, Name};

use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, MergedServiceKey, Prefix, RangeOptions};

fn key_of(user: &Name, name: &Name) -> MergedServiceKey {
    MergedServiceKey { user: user.clone(), name: name.clone() }
}

/// Makes a merged service, or changes its spec as a whole. `new` is the id of one that is made. The same spec again
/// changes nothing. A change for another revision than `expected` is refused; 0: any. The caller has checked the spec.
pub async fn merged_service_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    name: &Name,
    new: MergedServiceId,
    spec: &MergedServiceSpec,
    expected: u64,
) -> StoreResult<MergedServiceRow> {
    let space = changes.space().clone();
    let key = &key_of(user, name);
    let before = keys::read(tx, &space, key).await?;
    let revision = before.as_ref().map_or(0, |before| before.revision);
    if expected != 0 && expected != revision {
        let look = format!("borough name status {user}/{name}");
        let by = before.as_ref().map(|before| &before.changed_by);
        return Err(StoreError::overtaken(&format!("service {user}/{name}"), expected, revision, by, &look));
    }
    let MergedServiceSpec { selector, shares } = spec.clone();
    if let Some(before) = &before
        && (&before.selector, &before.shares) == (&selector, &shares)
    {
        return Ok(before.clone());
    }
    let id = match before {
        Some(before) => before.id,
        None => {
            merged_room_check(tx, changes, user).await?;
            new
        }
    };
    let (user, name) = (user.clone(), name.clone());
    let (changed_ms, changed_by) = (changes.at_ms(), changes.actor().to_owned());
    let revision = revision.saturating_add(1);
    let row = MergedServiceRow { id, user, name, selector, shares, revision, changed_ms, changed_by };
    keys::write(tx, &space, key, &row)?;
    changes.push(Delta::MergedService { row: Box::new(row.clone()) });
    Ok(row)
}

/// Fails if a user has as many merged services as the cell keeps.
async fn merged_room_check(tx: &Transaction, changes: &ChangeSet, user: &Name) -> StoreResult<()> {
    let options = RangeOptions { limit: MERGED_SERVICES_MAX, ..RangeOptions::default() };
    let rows = keys::range::<MergedServiceKey>(tx, changes.space(), &Prefix::of(user), options).await?;
    if rows.len() < MERGED_SERVICES_MAX {
        return Ok(());
    }
    let reason = format!(
        "user {user} has {MERGED_SERVICES_MAX} services over labels; accepted: at most {MERGED_SERVICES_MAX}; remove one: borough name remove"
    );
    Err(StoreError::refused(reason))
}

/// Removes a merged service. The endpoints of its jobs stay under the names of the jobs.
pub async fn merged_service_remove(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    name: &Name,
) -> StoreResult<MergedServiceRow> {
    let space = changes.space().clone();
    let key = &key_of(user, name);
    let row = keys::read(tx, &space, key).await?;
    let row = row.ok_or_else(|| StoreError::not_found(format!("service \"{user}/{name}\"")))?;
    keys::clear(tx, &space, key)?;
    changes.push(Delta::MergedServiceRemoved { id: row.id, user: user.clone(), name: name.clone() });
    Ok(row)
}
