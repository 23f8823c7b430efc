//! The index of lines by parent. A line that is set has a row, with what it grants.
//!
//! Stores from before this index have none of its rows. The first change of a quota there makes all of them, in its
//! own transaction.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::Name;
use borough_model::access::AccessSubject;
use borough_model::job::Band;
use borough_model::quota::{QuotaGrant, QuotaLimit};

use crate::cell::cell_meta_read;
use crate::error::StoreResult;
use crate::keys::{self, CellMetaKey, CellSpace, Prefix, QuotaBelowKey, QuotaKey, RangeOptions};
use crate::row::{CellMeta, QuotaRow};

fn parent_text(parent: Option<&Name>) -> String {
    parent.map(Name::to_string).unwrap_or_default()
}

/// The row of a line with this limit; `None`: it is not set.
fn below_row(line: &QuotaKey, limit: &QuotaLimit) -> Option<(QuotaBelowKey, QuotaGrant)> {
    let (parent, holder) = (parent_text(limit.parent.as_ref()), line.holder.clone());
    let key = QuotaBelowKey { band: line.band, parent, holder };
    (!limit.is_empty()).then(|| (key, QuotaGrant::from(limit)))
}

/// The whole index, as it follows from the lines.
pub(crate) fn below_rows<'a>(
    lines: impl IntoIterator<Item = (&'a (AccessSubject, Band), &'a QuotaRow)>,
) -> BTreeMap<(Band, String, AccessSubject), QuotaGrant> {
    let rows = lines.into_iter().filter_map(|((holder, band), row)| {
        below_row(&QuotaKey { holder: holder.clone(), band: *band }, &row.set())
    });
    rows.map(|(key, grant)| ((key.band, key.parent, key.holder), grant)).collect()
}

/// Replaces the row of a line.
pub(super) fn below_write(
    tx: &Transaction,
    space: &CellSpace,
    line: &QuotaKey,
    before: &QuotaLimit,
    after: &QuotaLimit,
) -> StoreResult<()> {
    let (old, new) = (below_row(line, before), below_row(line, after));
    if let Some((key, _)) = old
        && new.as_ref().is_none_or(|(kept, _)| *kept != key)
    {
        keys::clear(tx, space, &key)?;
    }
    new.map_or(Ok(()), |(key, grant)| keys::write(tx, space, &key, &grant))
}

/// The cell's settings, with a read conflict. Makes the index first if the store is from before it: every line is read
/// with a conflict then.
pub(super) async fn below_ensure(tx: &Transaction, space: &CellSpace) -> StoreResult<CellMeta> {
    let meta = cell_meta_read(tx, space).await?;
    if meta.quotas_indexed == Some(true) {
        return Ok(meta);
    }
    let lines = keys::range(tx, space, &Prefix::<QuotaKey>::all(), RangeOptions::default()).await?;
    keys::clear_prefix(tx, space, &Prefix::<QuotaBelowKey>::all())?;
    for (line, row) in lines {
        below_write(tx, space, &line, &QuotaLimit::default(), &row.set())?;
    }
    let meta = CellMeta { quotas_indexed: Some(true), ..meta };
    keys::write(tx, space, &CellMetaKey {}, &meta)?;
    Ok(meta)
}

/// The lines right below a group in a band, or those without a parent, by holder.
pub(super) async fn below_read(
    tx: &Transaction,
    space: &CellSpace,
    band: Band,
    parent: Option<&Name>,
    options: RangeOptions<AccessSubject>,
) -> StoreResult<Vec<(AccessSubject, QuotaGrant)>> {
    let parent = parent_text(parent);
    let RangeOptions { after, limit, isolation, reverse } = options;
    let after = after.map(|holder| QuotaBelowKey { band, parent: parent.clone(), holder });
    let options = RangeOptions { after, limit, isolation, reverse };
    let rows = keys::range(tx, space, &Prefix::<QuotaBelowKey>::of_two(&band, &parent), options).await?;
    Ok(rows.into_iter().map(|(key, grant)| (key.holder, grant)).collect())
}
