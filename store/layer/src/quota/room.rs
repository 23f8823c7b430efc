//! The room of lines: that of a job's user, and those of the groups above. A charge goes to all of them, or to none.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::Name;
use borough_model::access::AccessSubject;
use borough_model::job::{Band, JobRow, band};
use borough_model::quota::{QUOTA_GROUPS_MAX, quota_holder_text};

use super::usage::{countable, counters_add, folded};
use super::{LineAsk, QuotaUsed, overflow, quota_check, quota_get};
use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::keys::{self, CellSpace, QuotaReleasedKey, QuotaUsedKey};
use crate::row::QuotaRow;

/// The lines that a job is charged to: that of its user first, and those of groups above. Whoever charges and whoever
/// releases goes by the job's row, so a new parent changes nothing of what is charged.
pub(crate) fn lines_of(job: &JobRow) -> impl Iterator<Item = QuotaUsedKey> + '_ {
    let groups = job.quota_groups.iter().flatten().cloned().map(AccessSubject::Group);
    let band = band(job.priority);
    std::iter::once(AccessSubject::from(&job.user))
        .chain(groups)
        .map(move |holder| QuotaUsedKey { holder, band })
}

/// Lines as they were read for charges, and what the transaction charges to them. Dropped, it has charged nothing.
#[derive(Default)]
pub(crate) struct QuotaRooms {
    lines: BTreeMap<QuotaUsedKey, LineRoom>,
}

impl QuotaRooms {
    /// The lines of a job.
    pub(crate) async fn of_job(tx: &Transaction, space: &CellSpace, job: &JobRow) -> StoreResult<Self> {
        let mut rooms = Self::default();
        for line in lines_of(job) {
            rooms.open(tx, space, line).await?;
        }
        Ok(rooms)
    }

    /// Reads the lines that a new job of `user` in a band is charged to, and returns the groups of them, the nearest
    /// first. `None`: there are none.
    pub(crate) async fn groups_open(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        user: &Name,
        band: Band,
    ) -> StoreResult<Option<Vec<Name>>> {
        let mut groups: Vec<Name> = Vec::new();
        let mut next = self.open(tx, space, QuotaUsedKey { holder: user.into(), band }).await?.parent.clone();
        // `quota_change` keeps the tree without cycles and within its depth. Whatever else is stored ends here.
        while let Some(group) = next.filter(|next| groups.len() < QUOTA_GROUPS_MAX && !groups.contains(next))
        {
            let line = QuotaUsedKey { holder: AccessSubject::Group(group.clone()), band };
            groups.push(group);
            next = self.open(tx, space, line).await?.parent.clone();
        }
        Ok(Some(groups).filter(|groups| !groups.is_empty()))
    }

    async fn open(
        &mut self,
        tx: &Transaction,
        space: &CellSpace,
        line: QuotaUsedKey,
    ) -> StoreResult<&LineRoom> {
        if !self.lines.contains_key(&line) {
            let room = LineRoom::read(tx, space, &line).await?;
            self.lines.insert(line.clone(), room);
        }
        // Just inserted.
        Ok(self.lines.entry(line).or_default())
    }

    /// Takes `amount` for `job` if each of its lines has room for `wanted`, of which it is a part. A refusal names the
    /// first line without room, and takes nothing.
    pub(crate) fn take(
        &mut self,
        job: &JobRow,
        amount: &QuotaUsed,
        wanted: &QuotaUsed,
        now_ms: i64,
    ) -> StoreResult<()> {
        let mut groups = job.quota_groups.iter().flatten();
        for line in lines_of(job) {
            let room = self.lines.entry(line.clone()).or_default();
            room.fits(&line, wanted, groups.next(), now_ms)?;
        }
        for line in lines_of(job) {
            let room = self.lines.entry(line).or_default();
            room.taken = room.taken.plus(amount).map_err(|error| overflow(&error))?;
        }
        Ok(())
    }

    /// Charges what was taken.
    pub(crate) fn charge(self, tx: &Transaction, space: &CellSpace) -> StoreResult<()> {
        let lines = self.lines.into_iter().filter(|(_, room)| !room.taken.is_zero());
        for (line, room) in lines {
            room.charge(tx, space, &line)?;
        }
        Ok(())
    }
}

/// A line as it was read for a charge.
#[derive(Default)]
struct LineRoom {
    /// Absent: nothing is limited.
    limit: Option<QuotaRow>,
    parent: Option<Name>,
    /// What is charged, less what was released since.
    used: QuotaUsed,
    released: Vec<(QuotaReleasedKey, i64)>,
    /// What this transaction charges.
    taken: QuotaUsed,
}

impl LineRoom {
    /// Reads a line: with conflicts if it has a limit.
    async fn read(tx: &Transaction, space: &CellSpace, line: &QuotaUsedKey) -> StoreResult<Self> {
        let row = quota_get(tx, space, &line.holder, line.band).await?;
        let parent = row.as_ref().and_then(|row| row.parent.clone());
        let limit = row.filter(QuotaRow::is_limit);
        let recorded = match &limit {
            Some(_) => keys::read(tx, space, line).await?,
            None => keys::read_snapshot(tx, space, line).await?,
        };
        let (used, released) = folded(tx, space, line, recorded.unwrap_or_default()).await?;
        Ok(Self { limit, parent, used, released, taken: QuotaUsed::default() })
    }

    /// Checks that the line has room for `asked` beside what was taken.
    fn fits(
        &self,
        line: &QuotaUsedKey,
        asked: &QuotaUsed,
        above: Option<&Name>,
        now_ms: i64,
    ) -> StoreResult<()> {
        if asked.is_zero() {
            return Ok(());
        }
        let used = self.used.plus(&self.taken).map_err(|error| overflow(&error))?;
        countable(&used.plus(asked).map_err(|error| overflow(&error))?)?;
        let ask = LineAsk { used: &used, asked, above, now_ms };
        quota_check(self.limit.as_ref(), ask).map_err(|short| {
            let (holder, band) = (quota_holder_text(&line.holder), band_text(line.band));
            let reason = format!("the quota of {holder} for {band} does not allow it: {short}");
            StoreError::refused_with(RefusalRemedy::Quota, reason)
        })
    }

    /// Charges what was taken.
    fn charge(self, tx: &Transaction, space: &CellSpace, line: &QuotaUsedKey) -> StoreResult<()> {
        if self.limit.is_none() {
            return counters_add(tx, space, line, &self.taken, i64::saturating_neg);
        }
        let used = self.used.plus(&self.taken).map_err(|error| overflow(&error))?;
        for (key, amount) in self.released {
            keys::count_add(tx, space, &key, amount.saturating_neg())?;
        }
        keys::write(tx, space, line, &used)
    }
}

fn band_text(band: Band) -> &'static str {
    match band {
        Band::BestEffort => "best effort (priority 0-99)",
        Band::Batch => "batch (priority 100-199)",
        Band::Production => "production (priority 200-299)",
        Band::Monitoring => "monitoring (priority 300-399)",
    }
}
