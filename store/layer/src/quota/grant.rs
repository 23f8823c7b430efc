//! What the lines of a band grant together, against the capacity of the cell.
//!
//! Two changes of lines without a parent in one pool conflict: each reads all of them. Changes below a group, and
//! admissions, do not conflict with them. The capacity is an argument: nodes come and go at any time, and no grant ends
//! for that.

use borough_kv::{Isolation, Transaction};
use borough_model::Resources;
use borough_model::access::AccessSubject;
use borough_model::quota::{
    GrantBound, GrantExcess, GrantPool, GrantStep, OversellFactors, QuotaGrant, QuotaLimit, grant_check,
    grants_excess, grants_peak, quota_holder_text,
};

use super::below::{below_ensure, below_read, below_rows};
use super::line::LineChange;
use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::keys::{self, CellMetaKey, CellSpace, Prefix, QuotaKey, RangeOptions};
use crate::row::CellMeta;

/// What a line counts for; `None`: nothing. A line below a group shares what the group has.
fn granted(limit: &QuotaLimit) -> Option<QuotaGrant> {
    (limit.parent.is_none() && !limit.resources.is_zero()).then(|| QuotaGrant::from(limit))
}

/// Checks that a line fits beside the others of its pool. `meta` was read with a conflict, so a change of the factors
/// at the same time fails this one.
pub(super) async fn grant_fits(
    tx: &Transaction,
    space: &CellSpace,
    meta: &CellMeta,
    before: &QuotaLimit,
    change: &LineChange<'_>,
    now_ms: i64,
) -> StoreResult<()> {
    let Some(pool) = GrantPool::of(change.band) else { return Ok(()) };
    let (Some(after), Some(percent)) = (granted(change.limit), meta.oversell().percent(pool)) else {
        return Ok(());
    };
    let Some(capacity) = change.capacity else { return Ok(()) };
    let mut others = Vec::new();
    for &band in pool.bands() {
        let lines = below_read(tx, space, band, None, RangeOptions::default()).await?;
        let own = |holder: &AccessSubject| band == change.band && holder == change.holder;
        others.extend(lines.into_iter().filter(|(holder, _)| !own(holder)).map(|(_, grant)| grant));
    }
    let before = granted(before);
    let step = GrantStep { before: before.as_ref(), after: &after };
    let short = grant_check(GrantBound { capacity, percent }, &others, step, now_ms);
    if short.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = short.iter().map(ToString::to_string).collect();
    let (holder, band) = (quota_holder_text(change.holder), change.band.name());
    let reason = format!(
        "the quota of {holder} in {band} does not fit the cell beside the others of {pool}: {}; grant less, give it a \
         parent, or add nodes; borough quota list shows the others",
        texts.join("; "),
    );
    Err(StoreError::refused_with(RefusalRemedy::Capacity, reason))
}

/// Checks that present grants fit smaller factors. Larger ones always fit. Without a `capacity` nothing is checked.
pub async fn oversell_check(
    tx: &Transaction,
    space: &CellSpace,
    factors: OversellFactors,
    capacity: Option<&Resources>,
    now_ms: i64,
) -> StoreResult<()> {
    let meta = below_ensure(tx, space).await?;
    let Some(capacity) = capacity else { return Ok(()) };
    for pool in GrantPool::ALL {
        let (before, after) = (meta.oversell().percent(pool), factors.percent(pool));
        let Some(percent) = after.filter(|after| before.is_none_or(|before| *after < before)) else {
            continue;
        };
        let grants = grants_read(tx, space, pool, Isolation::Serializable).await?;
        let excess = grants_excess(GrantBound { capacity, percent }, &grants, now_ms);
        if excess.is_empty() {
            continue;
        }
        let texts: Vec<String> = excess.iter().map(ToString::to_string).collect();
        let reason = format!(
            "the quotas of {pool} do not fit a factor of {percent}%: {}; make quotas smaller first, or choose a larger \
             factor; borough quota list shows them",
            texts.join("; "),
        );
        return Err(StoreError::refused_with(RefusalRemedy::Capacity, reason));
    }
    Ok(())
}

/// What the lines of a pool grant together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolGrants {
    pub pool: GrantPool,
    /// At one moment, at most, from now on.
    pub granted: Resources,
    /// The factor; absent: nobody checks.
    pub percent: Option<u32>,
    /// What they grant too much of: nodes may have gone since, or the grants are older than the check.
    pub excess: Vec<GrantExcess>,
}

/// What the lines of each pool grant together, without conflicts.
pub async fn pool_grants(
    tx: &Transaction,
    space: &CellSpace,
    capacity: Option<&Resources>,
    now_ms: i64,
) -> StoreResult<Vec<PoolGrants>> {
    let meta = keys::read_snapshot(tx, space, &CellMetaKey {}).await?.unwrap_or_default();
    let mut pools = Vec::new();
    for pool in GrantPool::ALL {
        let grants = match meta.quotas_indexed {
            Some(true) => grants_read(tx, space, pool, Isolation::Snapshot).await?,
            _ => grants_scan(tx, space, pool).await?,
        };
        let percent = meta.oversell().percent(pool);
        let bound = capacity.zip(percent).map(|(capacity, percent)| GrantBound { capacity, percent });
        let excess = bound.map(|bound| grants_excess(bound, &grants, now_ms)).unwrap_or_default();
        pools.push(PoolGrants { pool, granted: grants_peak(&grants, now_ms), percent, excess });
    }
    Ok(pools)
}

/// The grants of lines without a parent.
async fn grants_read(
    tx: &Transaction,
    space: &CellSpace,
    pool: GrantPool,
    isolation: Isolation,
) -> StoreResult<Vec<QuotaGrant>> {
    let mut grants = Vec::new();
    for &band in pool.bands() {
        let options = RangeOptions { isolation, ..RangeOptions::default() };
        let lines = below_read(tx, space, band, None, options).await?;
        grants.extend(lines.into_iter().map(|(_, grant)| grant));
    }
    Ok(grants)
}

/// The same of a store from before the index.
async fn grants_scan(tx: &Transaction, space: &CellSpace, pool: GrantPool) -> StoreResult<Vec<QuotaGrant>> {
    let lines = keys::range(tx, space, &Prefix::<QuotaKey>::all(), RangeOptions::snapshot()).await?;
    let lines = lines.into_iter().map(|(key, row)| ((key.holder, key.band), row)).collect::<Vec<_>>();
    let rows = below_rows(lines.iter().map(|(line, row)| (line, row)));
    let of_pool =
        rows.into_iter().filter(|((band, parent, _), _)| parent.is_empty() && pool.bands().contains(band));
    Ok(of_pool.map(|(_, grant)| grant).collect())
}
