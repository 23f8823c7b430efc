//! Lines of quotas: what an operator sets for a holder in a band, and what is charged there.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::Transaction;
use borough_model::access::AccessSubject;
use borough_model::job::Band;
use borough_model::quota::{QuotaLimit, quota_holder_text};
use borough_model::{Name, Resources};
use futures::future::try_join_all;

use super::below::{below_ensure, below_read, below_write};
use super::grant::grant_fits;
use super::tree::tree_check;
use super::{QuotaRow, QuotaUsed, quota_get, quota_usage};
use crate::access::access_head_move;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{
    self, CellMetaKey, CellSpace, Prefix, QuotaKey, QuotaReleasedKey, QuotaUsedKey, RangeOptions,
};
use crate::quota::usage::released_fold;
use crate::row::{QUOTA_CHANGES_MAX, QuotaChange};

/// Rows of each kind that a page reads. A user has a few dozen in all bands.
const PAGE_ROWS: usize = 4_000;
/// Lines of a page that are read at once.
const PAGE_READS: usize = 64;
/// Sorts after every dimension.
const DIMENSION_LAST: &str = "\u{10ffff}";

/// A line, with what is charged to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaLine {
    pub holder: AccessSubject,
    pub band: Band,
    /// Absent: nobody has ever set it.
    pub row: Option<QuotaRow>,
    pub used: QuotaUsed,
}

impl QuotaLine {
    /// Returns true if an operator has set it, or something is charged to it.
    fn is_shown(&self) -> bool {
        !self.used.is_zero() || self.row.as_ref().is_some_and(|row| !row.set().is_empty())
    }
}

/// A change of the line of a holder in a band.
#[derive(Clone, Copy, Debug)]
pub struct LineChange<'a> {
    pub holder: &'a AccessSubject,
    pub band: Band,
    /// Empty: the line is removed.
    pub limit: &'a QuotaLimit,
    /// The revision that the change was made for; 0: any.
    pub expected: u64,
    /// The sum over the nodes that are ready; absent: nobody knows any node yet, and nothing is checked against it.
    pub capacity: Option<&'a Resources>,
}

/// Sets or removes the line of a holder in a band, and records who did. Admitted work beyond it stays; only new work is
/// refused. The same limit again changes nothing. A change for another revision than `expected` is refused; 0: any.
///
/// A line that grants more than before fits the cell beside the others, or is refused.
pub async fn quota_change(
    tx: &Transaction,
    changes: &mut ChangeSet,
    asked: &LineChange<'_>,
) -> StoreResult<QuotaRow> {
    let LineChange { holder, band, limit, expected, .. } = *asked;
    let before = quota_get(tx, changes.space(), holder, band).await?.unwrap_or_default();
    if expected != 0 && expected != before.revision {
        let holder = quota_holder_text(holder);
        let (what, look) = (format!("quota of {holder}"), format!("borough quota status {holder}"));
        let by = before.changes.last().map(|change| &change.by);
        return Err(StoreError::overtaken(&what, expected, before.revision, by, &look));
    }
    if *limit == before.set() {
        return Ok(before);
    }
    let meta = below_ensure(tx, changes.space()).await?;
    tree_check(tx, changes.space(), holder, band, limit).await?;
    grant_fits(tx, changes.space(), &meta, &before.set(), asked, changes.at_ms()).await?;
    let key = QuotaKey { holder: holder.clone(), band };
    below_write(tx, changes.space(), &key, &before.set(), limit)?;
    let QuotaLimit { resources: limit, tasks_max, from_ms, until_ms, parent, borrow } = limit.clone();
    let (revision, at_ms) = (before.revision.saturating_add(1), changes.at_ms());
    let by = changes.actor().to_owned();
    let change = QuotaChange { revision, at_ms, by, limit, tasks_max, from_ms, until_ms, parent, borrow };
    let QuotaChange { limit, parent, borrow, .. } = change.clone();
    let changed = before.changes;
    let mut row =
        QuotaRow { limit, tasks_max, from_ms, until_ms, revision, changes: changed, parent, borrow };
    row.changes.push(change);
    let old = row.changes.len().saturating_sub(QUOTA_CHANGES_MAX);
    row.changes.drain(..old);
    keys::write(tx, changes.space(), &key, &row)?;
    changes.revised(revision.saturating_sub(1), revision);
    // A quota in a band lets its user run there.
    access_head_move(tx, changes.space())?;
    Ok(row)
}

/// A line at the read version.
pub async fn quota_line(
    tx: &Transaction,
    space: &CellSpace,
    holder: &AccessSubject,
    band: Band,
) -> StoreResult<QuotaLine> {
    let row = keys::read_snapshot(tx, space, &QuotaKey { holder: holder.clone(), band }).await?;
    let used = quota_usage(tx, space, holder.clone(), band).await?;
    Ok(QuotaLine { holder: holder.clone(), band, row, used })
}

/// The lines of some holders, by holder and band, and the holder after whom the next page begins; `None` at the end.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QuotaPage {
    pub lines: Vec<QuotaLine>,
    pub next: Option<AccessSubject>,
}

/// Which lines a list has.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QuotaFilter {
    /// Those with this parent; absent: all.
    pub parent: Option<Name>,
}

/// The lines that an operator has set or that have charges, of about `limit` lines, after those of the holder `after`:
/// users first. A holder is never cut in two. Reads without conflicts.
pub async fn quota_page(
    tx: &Transaction,
    space: &CellSpace,
    filter: &QuotaFilter,
    after: Option<&AccessSubject>,
    limit: usize,
) -> StoreResult<QuotaPage> {
    if let Some(parent) = &filter.parent
        && let Some(page) = children_page(tx, space, parent, after, limit).await?
    {
        return Ok(page);
    }
    let band = Band::Monitoring;
    let behind = |holder: &AccessSubject| QuotaKey { holder: holder.clone(), band };
    let (rows, rows_end) = chunk(tx, space, after.map(behind), |key: &QuotaKey| &key.holder).await?;
    let behind = |holder: &AccessSubject| QuotaUsedKey { holder: holder.clone(), band };
    let (used, used_end) = chunk(tx, space, after.map(behind), |key: &QuotaUsedKey| &key.holder).await?;
    let dimension = DIMENSION_LAST.to_owned();
    let behind = |holder: &AccessSubject| QuotaReleasedKey { holder: holder.clone(), band, dimension };
    let (released, released_end) =
        chunk(tx, space, after.map(behind), |key: &QuotaReleasedKey| &key.holder).await?;
    let mut lines: BTreeMap<(AccessSubject, Band), QuotaLine> = BTreeMap::new();
    let mut line = |holder: AccessSubject, band: Band, put: &mut dyn FnMut(&mut QuotaLine)| {
        let of = || QuotaLine { holder: holder.clone(), band, row: None, used: QuotaUsed::default() };
        put(lines.entry((holder.clone(), band)).or_insert_with(of));
    };
    for (key, row) in rows {
        line(key.holder, key.band, &mut |line| line.row = Some(row.clone()));
    }
    for (key, row) in used {
        line(key.holder, key.band, &mut |line| line.used = row.clone());
    }
    for (key, counter) in released {
        line(key.holder, key.band, &mut |line| released_fold(&mut line.used, &key.dimension, counter.0));
    }
    // The last holder of a chunk that was cut may lack rows.
    let end = [rows_end, used_end, released_end].into_iter().flatten().min();
    Ok(page_of(lines, filter, end.as_ref(), limit))
}

/// The lines right below a group; `None`: the store is from before the index.
async fn children_page(
    tx: &Transaction,
    space: &CellSpace,
    parent: &Name,
    after: Option<&AccessSubject>,
    limit: usize,
) -> StoreResult<Option<QuotaPage>> {
    let meta = keys::read_snapshot(tx, space, &CellMetaKey {}).await?;
    if meta.and_then(|meta| meta.quotas_indexed) != Some(true) {
        return Ok(None);
    }
    let mut found: BTreeSet<(AccessSubject, Band)> = BTreeSet::new();
    for band in [Band::BestEffort, Band::Batch, Band::Production, Band::Monitoring] {
        // One more than a page tells whether there is another one.
        let most = limit.saturating_add(1);
        let options = RangeOptions { after: after.cloned(), limit: most, ..RangeOptions::snapshot() };
        let rows = below_read(tx, space, band, Some(parent), options).await?;
        found.extend(rows.into_iter().map(|(holder, _)| (holder, band)));
    }
    let (mut page, mut lines) = (QuotaPage::default(), Vec::new());
    for (holder, band) in found {
        let last = lines.last().map(|(last, _)| last);
        if lines.len() >= limit && last != Some(&holder) {
            page.next = last.cloned();
            break;
        }
        lines.push((holder, band));
    }
    for part in lines.chunks(PAGE_READS) {
        let reads = part.iter().map(|(holder, band)| quota_line(tx, space, holder, *band));
        page.lines.extend(try_join_all(reads).await?);
    }
    Ok(Some(page))
}

/// Some rows of a kind, and the last holder of them if there are more.
async fn chunk<K: keys::Key>(
    tx: &Transaction,
    space: &CellSpace,
    after: Option<K>,
    holder: impl Fn(&K) -> &AccessSubject,
) -> StoreResult<(Vec<(K, K::Value)>, Option<AccessSubject>)> {
    let options = RangeOptions { after, limit: PAGE_ROWS, ..RangeOptions::snapshot() };
    let rows = keys::range(tx, space, &Prefix::all(), options).await?;
    let end = rows.last().filter(|_| rows.len() == PAGE_ROWS).map(|(key, _)| holder(key).clone());
    Ok((rows, end))
}

/// The first lines of holders before `end` that pass the filter, about `limit` of them.
fn page_of(
    lines: BTreeMap<(AccessSubject, Band), QuotaLine>,
    filter: &QuotaFilter,
    end: Option<&AccessSubject>,
    limit: usize,
) -> QuotaPage {
    let (mut page, mut last): (Vec<QuotaLine>, Option<AccessSubject>) = (Vec::new(), None);
    for line in lines.into_values().filter(|line| end.is_none_or(|end| line.holder < *end)) {
        if page.len() >= limit && last.as_ref() != Some(&line.holder) {
            return QuotaPage { lines: page, next: last };
        }
        last = Some(line.holder.clone());
        let parent = line.row.as_ref().and_then(|row| row.parent.as_ref());
        if line.is_shown() && (filter.parent.is_none() || filter.parent.as_ref() == parent) {
            page.push(line);
        }
    }
    QuotaPage { lines: page, next: last.filter(|_| end.is_some()) }
}

#[cfg(test)]
mod tests {
    use borough_kv::Idempotency;

    use super::*;
    use crate::testing::{TestCell, change, name};

    impl TestCell {
        async fn limit(
            &self,
            number: u128,
            user: &str,
            tasks_max: Option<u64>,
            expected: u64,
        ) -> StoreResult<QuotaRow> {
            let (change, space) = (&change(number, "quota_set"), &self.space);
            let (user, limit) =
                (&AccessSubject::User(name(user)), &QuotaLimit { tasks_max, ..QuotaLimit::default() });
            let set = self.db.run("quota_set", Idempotency::Natural, |tx, _| async move {
                let mut changes = ChangeSet::begin(&tx, space, change).await?;
                let asked = LineChange { holder: user, band: Band::Batch, limit, expected, capacity: None };
                let row = quota_change(&tx, &mut changes, &asked).await?;
                changes.append(&tx)?;
                Ok(row)
            });
            set.await
        }

        async fn page(&self, after: Option<&str>, limit: usize) -> (Vec<String>, Option<String>) {
            let (after, space) = (after.map(|user| AccessSubject::User(name(user))), &self.space);
            let after = after.as_ref();
            let read = self.db.run("quota_list", Idempotency::ReadOnly, |tx, _| async move {
                quota_page(&tx, space, &QuotaFilter::default(), after, limit).await
            });
            let page = read.await.unwrap();
            let users = page.lines.iter().map(|line| quota_holder_text(&line.holder)).collect();
            (users, page.next.map(|holder| quota_holder_text(&holder)))
        }
    }

    #[tokio::test]
    async fn a_limit_counts_its_changes_and_says_who_made_the_last_ones() {
        let cell = TestCell::new().await;
        let first = cell.limit(1, "ada", Some(5), 0).await.unwrap();
        assert_eq!((first.revision, first.changes.len()), (1, 1));
        assert_eq!(cell.limit(2, "ada", Some(5), 0).await.unwrap(), first, "the same again");
        let refused = cell.limit(3, "ada", Some(6), 9).await.unwrap_err().to_string();
        assert!(refused.contains("is at revision 1, by ") && refused.contains("made for 9"), "{refused}");
        let gone = cell.limit(4, "ada", None, 1).await.unwrap();
        assert_eq!((gone.revision, gone.is_limit(), gone.changes.len()), (2, false, 2));
        for number in 5..30 {
            cell.limit(number, "ada", Some(u64::try_from(number).unwrap()), 0).await.unwrap();
        }
        let last = cell.limit(30, "ada", Some(0), 27).await.unwrap();
        let kept: Vec<u64> = last.changes.iter().map(|change| change.revision).collect();
        assert_eq!(kept, (19..=28).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn pages_show_every_user_with_a_limit_or_a_charge_once() {
        let cell = TestCell::new().await;
        for (number, user) in (1..).zip(["ada", "bob", "cyd"]) {
            cell.limit(number, user, Some(5), 0).await.unwrap();
        }
        cell.limit(9, "bob", None, 0).await.unwrap();
        assert_eq!(cell.page(None, 9).await, (vec!["ada".to_owned(), "cyd".to_owned()], None));
        let (first, next) = cell.page(None, 1).await;
        assert_eq!(first, ["ada"]);
        assert_eq!(cell.page(next.as_deref(), 1).await, (vec!["cyd".to_owned()], None));
        assert_eq!(cell.page(Some("cyd"), 1).await, (Vec::new(), None));
    }
}
