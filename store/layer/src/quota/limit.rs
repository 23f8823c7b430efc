//! Limits, and the decision whether an admission keeps them.

use std::time::{Duration, UNIX_EPOCH};

use borough_kv::Transaction;
use borough_model::access::AccessSubject;
use borough_model::job::Band;
use borough_model::quota::QuotaBorrow;
use borough_model::resource::Dimension;
use borough_model::{Name, Resources};

use super::below::below_write;
use super::{QuotaRow, QuotaUsed};
use crate::error::StoreResult;
use crate::keys::{self, CellSpace, QuotaKey};

/// The shortage of an admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaShort {
    pub amounts: Vec<AmountShort>,
    /// When the limit ends, wall time, milliseconds since 1970; absent: never.
    pub until_ms: Option<i64>,
}

/// One amount that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmountShort {
    /// Absent: the number of tasks.
    pub dimension: Option<Dimension>,
    pub asked: u64,
    /// What is charged already.
    pub used: u64,
    /// The most, with what may be borrowed.
    pub granted: u64,
}

impl AmountShort {
    /// What would fit now.
    pub fn room(&self) -> u64 {
        self.granted.saturating_sub(self.used)
    }
}

impl std::fmt::Display for AmountShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |amount: u64| match &self.dimension {
            Some(dimension) => dimension.amount_display(amount),
            None => amount.to_string(),
        };
        let sum = self.used.saturating_add(self.asked);
        let (name, verb) = match &self.dimension {
            Some(dimension) => (dimension.to_string(), "used"),
            None => ("tasks".to_owned(), "admitted"),
        };
        let missing = show(sum.saturating_sub(self.granted));
        let (sum, granted, asked) = (show(sum), show(self.granted), show(self.asked));
        let (used, room) = (show(self.used), show(self.room()));
        write!(f, "{name}: {sum} of {granted} would be {verb}, {missing} too many ")?;
        write!(f, "({asked} asked, {used} used, {room} would fit now)")
    }
}

impl std::fmt::Display for QuotaShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.amounts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let until = self.until_ms.and_then(|until| u64::try_from(until).ok());
        let Some(until) = until.and_then(|until| UNIX_EPOCH.checked_add(Duration::from_millis(until))) else {
            return Ok(());
        };
        write!(f, "; the window of this quota closes at {}", humantime::format_rfc3339_seconds(until))
    }
}

/// An admission as one line sees it.
#[derive(Clone, Copy, Debug)]
pub struct LineAsk<'a> {
    /// What is charged to the line already.
    pub used: &'a QuotaUsed,
    pub asked: &'a QuotaUsed,
    /// The group that is charged too, right above: what is borrowed is its room.
    pub above: Option<&'a Name>,
    /// Wall time, milliseconds since 1970.
    pub now_ms: i64,
}

/// Checks an admission against `limit`. A dimension that the limit does not name (its amount is 0) is unlimited, and so
/// is everything outside the limit's window.
pub fn quota_check(limit: Option<&QuotaRow>, ask: LineAsk<'_>) -> Result<(), QuotaShort> {
    let Some(limit) = limit.filter(|limit| limit.is_in_force(ask.now_ms)) else { return Ok(()) };
    let lends = ask.above.is_some() && ask.above == limit.parent.as_ref();
    let none = (Resources::default(), 0);
    let (more, more_tasks) = match limit.borrow.as_ref().filter(|_| lends) {
        None => (&none.0, none.1),
        Some(QuotaBorrow::UpTo { resources, tasks }) => (resources, *tasks),
        // The lines above decide.
        Some(QuotaBorrow::All) => return Ok(()),
    };
    let short = |dimension, (asked, used): (u64, u64), granted: u64| {
        let fits = asked == 0 || used.checked_add(asked).is_some_and(|sum| sum <= granted);
        (!fits).then_some(AmountShort { dimension, asked, used, granted })
    };
    let mut amounts: Vec<AmountShort> = Vec::new();
    for (dimension, most) in limit.limit.amounts().into_iter().filter(|(_, most)| *most > 0) {
        let of = (ask.asked.used.amount(&dimension), ask.used.used.amount(&dimension));
        let granted = most.saturating_add(more.amount(&dimension));
        amounts.extend(short(Some(dimension), of, granted));
    }
    if let Some(most) = limit.tasks_max {
        let of = (ask.asked.tasks, ask.used.tasks);
        amounts.extend(short(None, of, most.saturating_add(more_tasks)));
    }
    if amounts.is_empty() { Ok(()) } else { Err(QuotaShort { amounts, until_ms: limit.until_ms }) }
}

/// The line of a holder in a band, with a read conflict.
pub async fn quota_get(
    tx: &Transaction,
    space: &CellSpace,
    holder: &AccessSubject,
    band: Band,
) -> StoreResult<Option<QuotaRow>> {
    keys::read(tx, space, &QuotaKey { holder: holder.clone(), band }).await
}

/// Sets or removes the line of a holder in a band. Admitted work beyond it stays; only new work is refused.
/// The store counts the revision. Nobody checks the parent.
pub async fn quota_set(
    tx: &Transaction,
    space: &CellSpace,
    holder: impl Into<AccessSubject>,
    band: Band,
    limit: Option<&QuotaRow>,
) -> StoreResult<()> {
    let key = QuotaKey { holder: holder.into(), band };
    let before = keys::read(tx, space, &key).await?;
    let after = limit.map(QuotaRow::set).unwrap_or_default();
    below_write(tx, space, &key, &before.as_ref().map(QuotaRow::set).unwrap_or_default(), &after)?;
    match limit {
        None => keys::clear(tx, space, &key),
        Some(limit) => {
            let revision = before.map_or(0, |before| before.revision).saturating_add(1);
            keys::write(tx, space, &key, &QuotaRow { revision, ..limit.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name;

    fn used(cpu_millis: u64, tasks: u64) -> QuotaUsed {
        QuotaUsed { used: Resources { cpu_millis, ..Resources::default() }, tasks }
    }

    #[test]
    fn a_shortage_says_what_is_asked_used_granted_and_what_fits() {
        let (until_ms, most) = (Some(4_000), used(500, 0).used);
        let limit = QuotaRow { limit: most, tasks_max: Some(2), until_ms, ..QuotaRow::default() };
        let (before, asked) = (used(400, 1), used(300, 2));
        let ask = LineAsk { used: &before, asked: &asked, above: None, now_ms: 0 };
        assert_eq!(
            quota_check(Some(&limit), ask).unwrap_err().to_string(),
            "cpu: 700m of 500m would be used, 200m too many (300m asked, 400m used, 100m would fit now); \
             tasks: 3 of 2 would be admitted, 1 too many (2 asked, 1 used, 1 would fit now); \
             the window of this quota closes at 1970-01-01T00:00:04Z"
        );
        assert_eq!(
            quota_check(Some(&limit), LineAsk { now_ms: 4_000, ..ask }),
            Ok(()),
            "the window is closed"
        );
        assert_eq!(quota_check(Some(&limit), LineAsk { asked: &used(100, 1), ..ask }), Ok(()));
    }

    #[test]
    fn what_is_borrowed_is_room_of_the_parent_that_is_charged() {
        let (shop, other) = (name("shop"), name("other"));
        let parent = Some(shop.clone());
        let row =
            |borrow| QuotaRow { tasks_max: Some(2), parent: parent.clone(), borrow, ..QuotaRow::default() };
        let fits = |row: &QuotaRow, tasks, above: Option<&Name>| {
            let (before, asked) = (used(0, 2), used(0, tasks));
            let ask = LineAsk { used: &before, asked: &asked, above, now_ms: 0 };
            quota_check(Some(row), ask).is_ok()
        };
        let up_to = QuotaBorrow::UpTo { resources: Resources::default(), tasks: 3 };
        let (none, some, all) = (row(None), row(Some(up_to)), row(Some(QuotaBorrow::All)));
        assert!(!fits(&none, 1, Some(&shop)));
        assert!(fits(&some, 3, Some(&shop)) && !fits(&some, 4, Some(&shop)));
        assert!(fits(&all, 1_000, Some(&shop)));
        for above in [None, Some(&other)] {
            assert!(!fits(&some, 1, above) && !fits(&all, 1, above), "the parent is not charged");
        }
    }
}
