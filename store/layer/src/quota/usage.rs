//! Usage: charged by admission, released by endings.

use borough_kv::Transaction;
use borough_model::job::{Band, JobRow, band};
use borough_model::resource::{Dimension, ResourceError};
use borough_model::{JobId, Name};

use super::{QuotaUsed, quota_check, quota_get};
use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::keys::{self, CellSpace, Prefix, QuotaReleasedKey, QuotaUsedKey, RangeOptions};
use crate::row::QuotaRow;

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

/// Charges `amount` to the user and band of `job` (as its row will be), or fails with the quota's line and the
/// shortage.
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

/// Charges `amount` if the line has room for `wanted`, of which it is a part. The rest is charged later, by
/// [`quota_recharge`].
pub(crate) async fn quota_charge_part(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobRow,
    amount: &QuotaUsed,
    wanted: &QuotaUsed,
    now_ms: i64,
) -> StoreResult<()> {
    let line = line_of(job);
    let room = LineRoom::read(tx, space, &line).await?;
    room.plus(&QuotaUsed::default(), wanted, now_ms)?;
    room.charge(tx, space, amount)
}

/// The line that a job is charged to.
pub(crate) fn line_of(job: &JobRow) -> QuotaUsedKey {
    QuotaUsedKey { user: job.user.clone(), band: band(job.priority) }
}

/// What a new job charges to its line.
#[derive(Clone, Debug)]
pub(crate) struct LineCharge {
    pub job: JobId,
    pub amount: QuotaUsed,
}

/// Charges new jobs to their line, in their order. One that the line has no room for is left, and the next one is
/// tried. Returns those that are charged.
pub(crate) async fn line_charge_fitting(
    tx: &Transaction,
    space: &CellSpace,
    line: &QuotaUsedKey,
    charges: &[LineCharge],
    now_ms: i64,
) -> StoreResult<Vec<JobId>> {
    let room = LineRoom::read(tx, space, line).await?;
    let (mut sum, mut charged) = (QuotaUsed::default(), Vec::with_capacity(charges.len()));
    for LineCharge { job, amount } in charges {
        match room.plus(&sum, amount, now_ms) {
            Ok(more) => sum = more,
            Err(StoreError::Refused { .. }) => continue,
            Err(error) => return Err(error),
        }
        charged.push(*job);
    }
    if !sum.is_zero() {
        room.charge(tx, space, &sum)?;
    }
    Ok(charged)
}

/// Charges `job` for `each` as often as its line has room for it, at most `most` times. Returns how often.
pub(crate) async fn quota_charge_each(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobRow,
    each: &QuotaUsed,
    most: usize,
    now_ms: i64,
) -> StoreResult<usize> {
    let line = line_of(job);
    let room = LineRoom::read(tx, space, &line).await?;
    let (mut sum, mut charged) = (QuotaUsed::default(), 0);
    while charged < most {
        match room.plus(&sum, each, now_ms) {
            Ok(more) => sum = more,
            Err(StoreError::Refused { .. }) => break,
            Err(error) => return Err(error),
        }
        charged += 1;
    }
    if !sum.is_zero() {
        room.charge(tx, space, &sum)?;
    }
    Ok(charged)
}

/// A line as it was read for a charge.
struct LineRoom<'a> {
    line: &'a QuotaUsedKey,
    limit: Option<QuotaRow>,
    /// What is charged, less what was released since.
    used: QuotaUsed,
    released: Vec<(QuotaReleasedKey, i64)>,
}

impl<'a> LineRoom<'a> {
    /// Reads a line: with conflicts if it has a limit.
    async fn read(tx: &Transaction, space: &CellSpace, line: &'a QuotaUsedKey) -> StoreResult<Self> {
        let limit = quota_get(tx, space, &line.user, line.band).await?.filter(QuotaRow::is_limit);
        let recorded = match &limit {
            Some(_) => keys::read(tx, space, line).await?,
            None => keys::read_snapshot(tx, space, line).await?,
        };
        let (used, released) = folded(tx, space, line, recorded.unwrap_or_default()).await?;
        Ok(Self { line, limit, used, released })
    }

    /// The sum of `charged` and `amount`, if the line has room for it.
    fn plus(&self, charged: &QuotaUsed, amount: &QuotaUsed, now_ms: i64) -> StoreResult<QuotaUsed> {
        let sum = charged.plus(amount).map_err(|error| overflow(&error))?;
        if amount.is_zero() {
            return Ok(sum);
        }
        let used = self.used.plus(&sum).map_err(|error| overflow(&error))?;
        countable(&used)?;
        if self.limit.is_some() {
            quota_check(self.limit.as_ref(), &used, now_ms).map_err(|short| {
                let (user, line) = (&self.line.user, band_text(self.line.band));
                let reason = format!("the quota of {user} for {line} does not allow it: {short}");
                StoreError::refused_with(RefusalRemedy::Quota, reason)
            })?;
        }
        Ok(sum)
    }

    /// Charges what there is room for. A refusal has written nothing.
    fn charge(self, tx: &Transaction, space: &CellSpace, amount: &QuotaUsed) -> StoreResult<()> {
        if self.limit.is_none() {
            return counters_add(tx, space, self.line, amount, i64::saturating_neg);
        }
        let used = self.used.plus(amount).map_err(|error| overflow(&error))?;
        for (key, amount) in self.released {
            keys::count_add(tx, space, &key, amount.saturating_neg())?;
        }
        keys::write(tx, space, self.line, &used)
    }
}

/// Releases `amount` of `job`. The caller has read the charge's owner with a conflict and ends it in this transaction.
pub fn quota_give_back(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobRow,
    amount: &QuotaUsed,
) -> StoreResult<()> {
    counters_add(tx, space, &line_of(job), amount, |amount| amount)
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
    counters_add(tx, space, &line_of(job), &later.beyond(held), i64::saturating_neg)
}

/// Adds to the counters of releases: blind, so that they do not conflict.
fn counters_add(
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
            let key = QuotaReleasedKey { user: line.user.clone(), band: line.band, dimension };
            keys::count_add(tx, space, &key, signed(amount))?;
        }
    }
    Ok(())
}

/// What a user has admitted in a band at the read version, without conflicts.
pub async fn quota_usage(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    band: Band,
) -> StoreResult<QuotaUsed> {
    let key = QuotaUsedKey { user: user.clone(), band };
    let recorded = keys::read_snapshot(tx, space, &key).await?.unwrap_or_default();
    Ok(folded(tx, space, &key, recorded).await?.0)
}

/// `used` less the released `amount`; a negative amount was charged without a limit.
fn less(used: u64, amount: i64) -> Option<u64> {
    let by = amount.unsigned_abs();
    if amount.is_negative() { used.checked_add(by) } else { used.checked_sub(by) }
}

/// The recorded use less the releases since, and the counters that were read.
async fn folded(
    tx: &Transaction,
    space: &CellSpace,
    line: &QuotaUsedKey,
    mut used: QuotaUsed,
) -> StoreResult<(QuotaUsed, Vec<(QuotaReleasedKey, i64)>)> {
    let prefix = Prefix::<QuotaReleasedKey>::of_two(&line.user, &line.band);
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
fn countable(used: &QuotaUsed) -> StoreResult<()> {
    let too_much = used.used.amounts().into_iter().find(|(_, amount)| i64::try_from(*amount).is_err());
    too_much.map_or(Ok(()), |(dimension, amount)| {
        Err(StoreError::refused(format!("{dimension}: {amount} over all jobs is more than can be counted")))
    })
}

pub(crate) fn overflow(error: &ResourceError) -> StoreError {
    StoreError::refused(format!("the sum over all tasks is more than can be counted: {error}"))
}

fn band_text(band: Band) -> &'static str {
    match band {
        Band::BestEffort => "best effort (priority 0-99)",
        Band::Batch => "batch (priority 100-199)",
        Band::Production => "production (priority 200-299)",
        Band::Monitoring => "monitoring (priority 300-399)",
    }
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
