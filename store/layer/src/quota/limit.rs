//! Limits, and the decision whether an admission keeps them.

use borough_kv::Transaction;
use borough_model::Name;
use borough_model::job::Band;
use borough_model::resource::{Shortfall, shortfall};

use super::{QuotaRow, QuotaUsed};
use crate::error::StoreResult;
use crate::keys::{self, CellSpace, QuotaKey};

/// The shortage of an admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaShort {
    /// Per dimension: the use with the admission (needed) and the limit (free).
    pub resources: Vec<Shortfall>,
    /// Tasks with the admission and their limit, if that is exceeded.
    pub tasks: Option<(u64, u64)>,
}

impl std::fmt::Display for QuotaShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let resources = self.resources.iter().map(|short| {
            let show = |amount: u64| short.dimension.amount_display(amount);
            let (needed, limit, missing) = (show(short.needed), show(short.free), show(short.missing()));
            format!("{}: {needed} of {limit} would be used, {missing} too many", short.dimension)
        });
        let tasks = self.tasks.iter().map(|&(needed, limit)| {
            format!("tasks: {needed} of {limit} would be admitted, {} too many", needed.saturating_sub(limit))
        });
        f.write_str(&resources.chain(tasks).collect::<Vec<_>>().join("; "))
    }
}

/// Checks `used` against `limit` at wall time `now_ms` (milliseconds since 1970). A dimension that the limit does not
/// name (its amount is 0) is unlimited, and so is everything outside the limit's window.
pub fn quota_check(limit: Option<&QuotaRow>, used: &QuotaUsed, now_ms: i64) -> Result<(), QuotaShort> {
    let Some(limit) = limit.filter(|limit| limit.is_in_force(now_ms)) else { return Ok(()) };
    let limited = |short: &Shortfall| limit.limit.amount(&short.dimension) > 0;
    let resources: Vec<Shortfall> = shortfall(&used.used, &limit.limit).into_iter().filter(limited).collect();
    let tasks = limit.tasks_max.filter(|&most| used.tasks > most).map(|most| (used.tasks, most));
    if resources.is_empty() && tasks.is_none() { Ok(()) } else { Err(QuotaShort { resources, tasks }) }
}

/// The limit of a user in a band, with a read conflict.
pub async fn quota_get(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    band: Band,
) -> StoreResult<Option<QuotaRow>> {
    keys::read(tx, space, &QuotaKey { user: user.clone(), band }).await
}

/// Sets or removes the limit of a user in a band. Admitted work beyond it stays; only new work is refused.
/// The store counts the revision.
pub async fn quota_set(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    band: Band,
    limit: Option<&QuotaRow>,
) -> StoreResult<()> {
    let key = QuotaKey { user: user.clone(), band };
    let before = keys::read(tx, space, &key).await?;
    match limit {
        None => keys::clear(tx, space, &key),
        Some(limit) => {
            let revision = before.map_or(0, |before| before.revision).saturating_add(1);
            keys::write(tx, space, &key, &QuotaRow { revision, ..limit.clone() })
        }
    }
}
