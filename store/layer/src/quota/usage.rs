//! Usage: charged by admission, released by endings.

use borough_kv::Transaction;
use borough_model::access::AccessSubject;
use borough_model::job::{Band, JobRow, band};
use borough_model::resource::{Dimension, ResourceError};

use super::{QuotaRooms, QuotaUsed, lines_of};
use crate::error::{StoreError, StoreResult};
use crate::keys::{self, CellSpace, Prefix, QuotaReleasedKey, QuotaUsedKey, RangeOptions};

/// The counter of tasks among the released ones.
const TASKS: &str = "tasks";

/// A dimension as keys contain it.
pub fn dimension_text(dimension: &Dimension) -> String {
    match dimension {
        Dimension::Device(kind) => format!("device/{kind}"),
        Dimension::Cpu => "cpu".to_owned(),
        Dimension::Memory => "memory".to_owned(),
        Dimension::Disk => "disk".to_owned(),
        Dimension::DiskRate => "disk_rate".to_owned(),
        Dimension::NetworkRate => "network_rate".to_owned(),
    }
}

fn dimension_parse(text: &str) -> Option<Dimension> {
    match text.strip_prefix("device/") {
        Some(kind) => Some(Dimension::Device(kind.to_owned())),
        None => Dimension::FIXED.into_iter().find(|dimension| dimension_text(dimension) == text),
    }
}

/// Gives a new job (as its row will be) the groups that are charged for it, and charges `amount`, or fails with the
/// quota's line and the shortage.
pub(crate) async fn quota_admit(
    tx: &Transaction,
    space: &CellSpace,
    job: &mut JobRow,
    amount: &QuotaUsed,
    now_ms: i64,
) -> StoreResult<()> {
    let mut rooms = QuotaRooms::default();
    job.quota_groups = rooms.groups_open(tx, space, &job.user, band(job.priority)).await?;
    rooms.take(job, amount, amount, now_ms)?;
    rooms.charge(tx, space)
}

/// Charges `amount` to the lines of `job`, or fails with the line that has no room, and the shortage.
///
/// With a limit, admissions of one line are serialised: each reads the sum with a conflict, and folds in the releases.
/// Without a limit nobody needs the sum, so admissions only add to it and never conflict. They read the absence of the
/// limit with a conflict, so that a new limit fails them.
pub async fn quota_charge(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobRow,
    amount: &QuotaUsed,
    now_ms: i64,
) -> StoreResult<()> {
    if amount.is_zero() {
        return Ok(());
    }
    quota_charge_part(tx, space, job, amount, amount, now_ms).await
}

/// Charges `amount` if the lines have room for `wanted`, of which it is a part. The rest is charged later, by
/// [`quota_recharge`].
pub(crate) async fn quota_charge_part(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobRow,
    amount: &QuotaUsed,
    wanted: &QuotaUsed,
    now_ms: i64,
) -> StoreResult<()> {
    let mut rooms = QuotaRooms::of_job(tx, space, job).await?;
    rooms.take(job, amount, wanted, now_ms)?;
    rooms.charge(tx, space)
}

/// Charges `job` for `each` as often as its lines have room for it, at most `most` times. Returns how often.
pub(crate) async fn quota_charge_each(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobRow,
    each: &QuotaUsed,
    most: usize,
    now_ms: i64,
) -> StoreResult<usize> {
    let mut rooms = QuotaRooms::of_job(tx, space, job).await?;
    let mut charged = 0;
    while charged < most {
        match rooms.take(job, each, each, now_ms) {
            Ok(()) => charged += 1,
            Err(StoreError::Refused { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    rooms.charge(tx, space)?;
    Ok(charged)
}

/// Releases `amount` of `job`. The caller has read the charge's owner with a conflict and ends it in this transaction.
pub fn quota_give_back(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobRow,
    amount: &QuotaUsed,
) -> StoreResult<()> {
    lines_of(job).try_for_each(|line| counters_add(tx, space, &line, amount, |amount| amount))
}

/// Charges `job` for `later` instead of `held`, whatever its quota allows. The caller has read the charge's owner with
/// a conflict, and the charge was admitted when it was given to this owner.
pub(crate) fn quota_recharge(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobRow,
    held: &QuotaUsed,
    later: &QuotaUsed,
) -> StoreResult<()> {
    quota_give_back(tx, space, job, &held.beyond(later))?;
    let more = later.beyond(held);
    lines_of(job).try_for_each(|line| counters_add(tx, space, &line, &more, i64::saturating_neg))
}

/// Adds to the counters of releases: blind, so that they do not conflict.
pub(super) fn counters_add(
    tx: &Transaction,
    space: &CellSpace,
    line: &QuotaUsedKey,
    amount: &QuotaUsed,
    signed: impl Fn(i64) -> i64,
) -> StoreResult<()> {
    let amounts =
        amount.used.amounts().into_iter().map(|(dimension, amount)| (dimension_text(&dimension), amount));
    for (dimension, amount) in amounts.chain([(TASKS.to_owned(), amount.tasks)]) {
        let amount = i64::try_from(amount)
            .map_err(|_| StoreError::refused(format!("{dimension}: {amount} is more than can be counted")))?;
        if amount > 0 {
            let key = QuotaReleasedKey { holder: line.holder.clone(), band: line.band, dimension };
            keys::count_add(tx, space, &key, signed(amount))?;
        }
    }
    Ok(())
}

/// What is charged to the line of a holder in a band at the read version, without conflicts.
pub async fn quota_usage(
    tx: &Transaction,
    space: &CellSpace,
    holder: impl Into<AccessSubject>,
    band: Band,
) -> StoreResult<QuotaUsed> {
    let key = QuotaUsedKey { holder: holder.into(), band };
    let recorded = keys::read_snapshot(tx, space, &key).await?.unwrap_or_default();
    Ok(folded(tx, space, &key, recorded).await?.0)
}

/// `used` less the released `amount`; a negative amount was charged without a limit.
fn less(used: u64, amount: i64) -> Option<u64> {
    let by = amount.unsigned_abs();
    if amount.is_negative() { used.checked_add(by) } else { used.checked_sub(by) }
}

/// The recorded use less the releases since, and the counters that were read.
pub(super) async fn folded(
    tx: &Transaction,
    space: &CellSpace,
    line: &QuotaUsedKey,
    mut used: QuotaUsed,
) -> StoreResult<(QuotaUsed, Vec<(QuotaReleasedKey, i64)>)> {
    let prefix = Prefix::<QuotaReleasedKey>::of_two(&line.holder, &line.band);
    let counters = keys::range(tx, space, &prefix, RangeOptions::snapshot()).await?;
    let mut released = Vec::new();
    for (key, counter) in counters {
        released_fold(&mut used, &key.dimension, counter.0);
        if counter.0 != 0 {
            released.push((key, counter.0));
        }
    }
    Ok((used, released))
}

/// Takes one counter of releases off the use. One that cannot be counted takes it to 0.
pub(super) fn released_fold(used: &mut QuotaUsed, dimension: &str, amount: i64) {
    if dimension == TASKS {
        used.tasks = less(used.tasks, amount).unwrap_or_default();
    } else if let Some(dimension) = dimension_parse(dimension) {
        let left = less(used.used.amount(&dimension), amount).unwrap_or_default();
        used.used.amount_set(&dimension, left);
    }
}

/// The recorded use less the releases since, by dimension as keys contain it; the error text says why it cannot be
/// computed. Admission never fails for this: the check of the store reports sums that are wrong.
pub fn quota_fold<'a>(
    mut used: QuotaUsed,
    released: impl IntoIterator<Item = (&'a str, i64)>,
) -> Result<QuotaUsed, String> {
    for (dimension, amount) in released {
        let wrong = || format!("{amount} of {dimension} given back");
        if dimension == TASKS {
            used.tasks = less(used.tasks, amount).ok_or_else(wrong)?;
        } else {
            let known = dimension_parse(dimension).ok_or_else(wrong)?;
            let left = less(used.used.amount(&known), amount).ok_or_else(wrong)?;
            used.used.amount_set(&known, left);
        }
    }
    Ok(used)
}

/// Fails if a charge could not be released later: counters are signed.
pub(super) fn countable(used: &QuotaUsed) -> StoreResult<()> {
    let too_much = used.used.amounts().into_iter().find(|(_, amount)| i64::try_from(*amount).is_err());
    too_much.map_or(Ok(()), |(dimension, amount)| {
        Err(StoreError::refused(format!("{dimension}: {amount} over all jobs is more than can be counted")))
    })
}

pub(crate) fn overflow(error: &ResourceError) -> StoreError {
    StoreError::refused(format!("the sum over all tasks is more than can be counted: {error}"))
}

#[cfg(test)]
mod tests {
    use borough_kv::Idempotency;
    use borough_model::JobId;
    use borough_model::job::{JobKind, JobSpec};

    use super::*;
    use crate::job::job_submit;
    use crate::journal::ChangeSet;
    use crate::quota::{QuotaRow, quota_set};
    use crate::testing::{TestCell, change, name};

    /// Submits a job, with another one submitted after all reads. Returns the number of tries.
    async fn submit(cell: &TestCell, number: u64, meanwhile: Option<u64>) -> StoreResult<u32> {
        let command = vec!["true".to_owned()];
        let name = name(&format!("job-{number}"));
        let mut spec = JobSpec::defaults(crate::testing::name("ada"), name, JobKind::Service, command);
        spec.task.resources.cpu_millis = 100;
        let (change, space, spec) = (&change(u128::from(number), "job_submit"), &cell.space, &spec);
        let run = cell.db.run("job_submit", Idempotency::Natural, |tx, attempt| async move {
            let mut changes = ChangeSet::begin_open(&tx, space, change).await?;
            job_submit(&tx, &mut changes, spec, JobId(number)).await?;
            if let Some(other) = meanwhile.filter(|_| attempt.number == 1) {
                Box::pin(submit(cell, other, None)).await?;
            }
            changes.append(&tx)?;
            Ok(attempt.number)
        });
        run.await
    }

    async fn usage(cell: &TestCell) -> (u64, u64) {
        let space = &cell.space;
        let run = cell.db.run("usage", Idempotency::ReadOnly, |tx, _| async move {
            quota_usage(&tx, space, &name("ada"), Band::Production).await
        });
        let used = run.await.unwrap();
        (used.used.cpu_millis, used.tasks)
    }

    async fn limit_set(cell: &TestCell, tasks_max: u64) {
        let space = &cell.space;
        let run = cell.db.run("quota_set", Idempotency::Natural, |tx, _| async move {
            let limit = QuotaRow { tasks_max: Some(tasks_max), ..QuotaRow::default() };
            quota_set(&tx, space, &name("ada"), Band::Production, Some(&limit)).await
        });
        run.await.unwrap();
    }

    #[tokio::test]
    async fn admissions_of_one_user_meet_only_under_a_limit() {
        let cell = TestCell::new().await;
        assert_eq!(submit(&cell, 1, Some(2)).await.unwrap(), 1, "nobody waited");
        assert_eq!(usage(&cell).await, (200, 2));
        // Blind charges count under a later limit: the first admission folds them in.
        limit_set(&cell, 5).await;
        assert_eq!(submit(&cell, 3, Some(4)).await.unwrap(), 2, "one after the other");
        assert_eq!(submit(&cell, 5, None).await.unwrap(), 1);
        let refused = submit(&cell, 6, None).await.unwrap_err();
        assert!(refused.to_string().contains("quota of ada"), "{refused}");
        assert_eq!(usage(&cell).await, (500, 5));
    }
}
