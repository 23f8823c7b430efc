//! Usage: charged by admission, given back by endings.

use borough_kv::Transaction;
use borough_model::Name;
use borough_model::job::{Band, JobRow, band};
use borough_model::resource::{Dimension, ResourceError};

use super::{QuotaUsed, quota_check, quota_get};
use crate::error::{StoreError, StoreResult};
use crate::keys::{self, CellSpace, Prefix, QuotaReleasedKey, QuotaUsedKey, RangeOptions};

/// The counter of tasks among the released ones.
const TASKS: &str = "tasks";

/// A dimension as it stands in keys.
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

/// Charges `amount` to the user and band of `job` (as its row is to be), or refuses with the quota's line and what is
/// missing. Folds in what was given back since the last admission.
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
    let (user, band) = (&job.user, band(job.priority));
    let key = QuotaUsedKey { user: user.clone(), band };
    let recorded = keys::read(tx, space, &key).await?.unwrap_or_default();
    let (folded, released) = folded(tx, space, (user, band), recorded).await?;
    let used = folded.plus(amount).map_err(|error| overflow(&error))?;
    countable(&used)?;
    let limit = quota_get(tx, space, user, band).await?;
    quota_check(limit.as_ref(), &used, now_ms).map_err(|short| {
        let line = band_text(band);
        StoreError::refused(format!("the quota of {user} for {line} does not allow it: {short}"))
    })?;
    for (key, amount) in released {
        keys::count_add(tx, space, &key, amount.saturating_neg())?;
    }
    keys::write(tx, space, &key, &used)
}

/// Gives `amount` of `job` back. The caller has read the charge's owner with a conflict and ends it in this transaction.
pub fn quota_give_back(
    tx: &Transaction,
    space: &CellSpace,
    job: &JobRow,
    amount: &QuotaUsed,
) -> StoreResult<()> {
    let amounts =
        amount.used.amounts().into_iter().map(|(dimension, amount)| (dimension_text(&dimension), amount));
    for (dimension, amount) in amounts.chain([(TASKS.to_owned(), amount.tasks)]) {
        let amount = i64::try_from(amount)
            .map_err(|_| StoreError::refused(format!("{dimension}: {amount} is more than can be counted")))?;
        if amount > 0 {
            let key = QuotaReleasedKey { user: job.user.clone(), band: band(job.priority), dimension };
            keys::count_add(tx, space, &key, amount)?;
        }
    }
    Ok(())
}

/// What a user has admitted in a band as of the read version, without conflicts.
pub async fn quota_usage(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    band: Band,
) -> StoreResult<QuotaUsed> {
    let key = QuotaUsedKey { user: user.clone(), band };
    let recorded = keys::read_snapshot(tx, space, &key).await?.unwrap_or_default();
    Ok(folded(tx, space, (user, band), recorded).await?.0)
}

/// What is recorded less what was given back since, and the counters it was read from.
async fn folded(
    tx: &Transaction,
    space: &CellSpace,
    (user, band): (&Name, Band),
    mut used: QuotaUsed,
) -> StoreResult<(QuotaUsed, Vec<(QuotaReleasedKey, i64)>)> {
    let prefix = Prefix::<QuotaReleasedKey>::of_two(user, &band);
    let counters = keys::range(tx, space, &prefix, RangeOptions::snapshot()).await?;
    let mut released = Vec::new();
    for (key, counter) in counters {
        let Ok(amount) = u64::try_from(counter.0) else { continue };
        if key.dimension == TASKS {
            used.tasks = used.tasks.saturating_sub(amount);
        } else if let Some(dimension) = dimension_parse(&key.dimension) {
            let left = used.used.amount(&dimension).saturating_sub(amount);
            used.used.amount_set(&dimension, left);
        }
        if amount > 0 {
            released.push((key, counter.0));
        }
    }
    Ok((used, released))
}

/// What is recorded less what was given back since, by dimension as it stands in keys; the text says why that is
/// nothing. Admission itself never fails here: what does not add up is for the check of the store.
pub fn quota_fold<'a>(
    mut used: QuotaUsed,
    released: impl IntoIterator<Item = (&'a str, i64)>,
) -> Result<QuotaUsed, String> {
    for (dimension, amount) in released {
        let wrong = || format!("{amount} of {dimension} given back");
        let amount = u64::try_from(amount).map_err(|_| wrong())?;
        if dimension == TASKS {
            used.tasks = used.tasks.checked_sub(amount).ok_or_else(wrong)?;
        } else {
            let known = dimension_parse(dimension).ok_or_else(wrong)?;
            let left = used.used.amount(&known).checked_sub(amount).ok_or_else(wrong)?;
            used.used.amount_set(&known, left);
        }
    }
    Ok(used)
}

/// What is charged must be possible to give back: counters are signed.
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
