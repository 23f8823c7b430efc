//! Lines of quotas: what an operator sets for a user in a band, and what the user has admitted there.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::Name;
use borough_model::job::Band;
use borough_model::quota::QuotaLimit;

use super::{QuotaRow, QuotaUsed, quota_get, quota_usage};
use crate::access::access_head_move;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, Prefix, QuotaKey, QuotaReleasedKey, QuotaUsedKey, RangeOptions};
use crate::quota::usage::released_fold;
use crate::row::{QUOTA_CHANGES_MAX, QuotaChange};

/// Rows of each kind that a page reads. A user has a few dozen in all bands.
const PAGE_ROWS: usize = 4_000;
/// Sorts after every dimension.
const DIMENSION_LAST: &str = "\u{10ffff}";

/// A line, with what is charged to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaLine {
    pub user: Name,
    pub band: Band,
    /// Absent: nobody has ever set it.
    pub row: Option<QuotaRow>,
    pub used: QuotaUsed,
}

impl QuotaLine {
    /// Returns true if it limits something, or something is charged to it.
    fn is_shown(&self) -> bool {
        !self.used.is_zero() || self.row.as_ref().is_some_and(QuotaRow::is_limit)
    }
}

/// Sets or removes the line of a user in a band, and records who did. Admitted work beyond it stays; only new work is
/// refused. The same limit again changes nothing. A change for another revision than `expected` is refused; 0: any.
pub async fn quota_change(
    tx: &Transaction,
    changes: &mut ChangeSet,
    user: &Name,
    band: Band,
    limit: &QuotaLimit,
    expected: u64,
) -> StoreResult<QuotaRow> {
    let before = quota_get(tx, changes.space(), user, band).await?.unwrap_or_default();
    if expected != 0 && expected != before.revision {
        let (what, look) = (format!("quota of {user}"), format!("borough quota status {user}"));
        let by = before.changes.last().map(|change| &change.by);
        return Err(StoreError::overtaken(&what, expected, before.revision, by, &look));
    }
    if *limit == before.set() {
        return Ok(before);
    }
    let QuotaLimit { resources: limit, tasks_max, from_ms, until_ms } = limit.clone();
    let (revision, at_ms) = (before.revision.saturating_add(1), changes.at_ms());
    let by = changes.actor().to_owned();
    let mut row = QuotaRow { limit: limit.clone(), tasks_max, from_ms, until_ms, revision, ..before };
    row.changes.push(QuotaChange { revision, at_ms, by, limit, tasks_max, from_ms, until_ms });
    let old = row.changes.len().saturating_sub(QUOTA_CHANGES_MAX);
    row.changes.drain(..old);
    keys::write(tx, changes.space(), &QuotaKey { user: user.clone(), band }, &row)?;
    changes.revised(revision.saturating_sub(1), revision);
    // A quota in a band lets its user run there.
    access_head_move(tx, changes.space())?;
    Ok(row)
}

/// A line at the read version.
pub async fn quota_line(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    band: Band,
) -> StoreResult<QuotaLine> {
    let row = keys::read_snapshot(tx, space, &QuotaKey { user: user.clone(), band }).await?;
    let used = quota_usage(tx, space, user, band).await?;
    Ok(QuotaLine { user: user.clone(), band, row, used })
}

/// The lines of some users, by user and band, and the user after whom the next page begins; `None` at the end.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QuotaPage {
    pub lines: Vec<QuotaLine>,
    pub next: Option<Name>,
}

/// The lines that limit something or have charges, of about `limit` lines, after those of the user `after`. A user is
/// never cut in two. Reads without conflicts.
pub async fn quota_page(
    tx: &Transaction,
    space: &CellSpace,
    after: Option<&Name>,
    limit: usize,
) -> StoreResult<QuotaPage> {
    let band = Band::Monitoring;
    let behind = |user: &Name| QuotaKey { user: user.clone(), band };
    let (rows, rows_end) = chunk(tx, space, after.map(behind), |key: &QuotaKey| &key.user).await?;
    let behind = |user: &Name| QuotaUsedKey { user: user.clone(), band };
    let (used, used_end) = chunk(tx, space, after.map(behind), |key: &QuotaUsedKey| &key.user).await?;
    let behind =
        |user: &Name| QuotaReleasedKey { user: user.clone(), band, dimension: DIMENSION_LAST.to_owned() };
    let (released, released_end) =
        chunk(tx, space, after.map(behind), |key: &QuotaReleasedKey| &key.user).await?;
    let mut lines: BTreeMap<(Name, Band), QuotaLine> = BTreeMap::new();
    let mut line = |user: Name, band: Band, put: &mut dyn FnMut(&mut QuotaLine)| {
        let of = || QuotaLine { user: user.clone(), band, row: None, used: QuotaUsed::default() };
        put(lines.entry((user.clone(), band)).or_insert_with(of));
    };
    for (key, row) in rows {
        line(key.user, key.band, &mut |line| line.row = Some(row.clone()));
    }
    for (key, row) in used {
        line(key.user, key.band, &mut |line| line.used = row.clone());
    }
    for (key, counter) in released {
        line(key.user, key.band, &mut |line| released_fold(&mut line.used, &key.dimension, counter.0));
    }
    // The last user of a chunk that was cut may lack rows.
    let end = [rows_end, used_end, released_end].into_iter().flatten().min();
    Ok(page_of(lines, end.as_ref(), limit))
}

/// Some rows of a kind, and the last user of them if there are more.
async fn chunk<K: keys::Key>(
    tx: &Transaction,
    space: &CellSpace,
    after: Option<K>,
    user: impl Fn(&K) -> &Name,
) -> StoreResult<(Vec<(K, K::Value)>, Option<Name>)> {
    let options = RangeOptions { after, limit: PAGE_ROWS, ..RangeOptions::snapshot() };
    let rows = keys::range(tx, space, &Prefix::all(), options).await?;
    let end = rows.last().filter(|_| rows.len() == PAGE_ROWS).map(|(key, _)| user(key).clone());
    Ok((rows, end))
}

/// The first lines of users before `end`, about `limit` of them.
fn page_of(lines: BTreeMap<(Name, Band), QuotaLine>, end: Option<&Name>, limit: usize) -> QuotaPage {
    let (mut page, mut last): (Vec<QuotaLine>, Option<Name>) = (Vec::new(), None);
    for line in lines.into_values().filter(|line| end.is_none_or(|end| line.user < *end)) {
        if page.len() >= limit && last.as_ref() != Some(&line.user) {
            return QuotaPage { lines: page, next: last };
        }
        last = Some(line.user.clone());
        if line.is_shown() {
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
            let (user, limit) = (&name(user), &QuotaLimit { tasks_max, ..QuotaLimit::default() });
            let set = self.db.run("quota_set", Idempotency::Natural, |tx, _| async move {
                let mut changes = ChangeSet::begin(&tx, space, change).await?;
                let row = quota_change(&tx, &mut changes, user, Band::Batch, limit, expected).await?;
                changes.append(&tx)?;
                Ok(row)
            });
            set.await
        }

        async fn page(&self, after: Option<&str>, limit: usize) -> (Vec<String>, Option<String>) {
            let (after, space) = (after.map(name), &self.space);
            let after = after.as_ref();
            let read = self.db.run("quota_list", Idempotency::ReadOnly, |tx, _| async move {
                quota_page(&tx, space, after, limit).await
            });
            let page = read.await.unwrap();
            let users = page.lines.iter().map(|line| line.user.to_string()).collect();
            (users, page.next.map(|user| user.to_string()))
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
