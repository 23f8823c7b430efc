//! The auditor's rules of quotas: it counts again what jobs and tasks hold.

use borough_model::job::{Band, JobState, band};
use borough_model::task::ChargeOwner;
use borough_model::{JobId, JobRow};

use super::Auditor;

/// How many tasks these users may have admitted in a band, during the whole run.
pub const QUOTAS: [(&str, Band, u64); 3] =
    [("eve", Band::Batch, 8), ("eve", Band::Production, 6), ("bob", Band::Batch, 10)];

impl Auditor {
    /// Nobody has more admitted than the quota allows, whatever was submitted, grown or moved to another band at once.
    pub(super) fn quota_check(&mut self, job: JobId) {
        let Some(row) = self.jobs.get(&job) else { return };
        let line = (row.user.as_str().to_owned(), band(row.priority));
        let quotas = QUOTAS.into_iter();
        let Some((.., most)) = quotas.into_iter().find(|(user, of, _)| (*user, *of) == (&line.0, line.1))
        else {
            return;
        };
        let of_line = |row: &&JobRow| row.user.as_str() == line.0 && band(row.priority) == line.1;
        let held: u64 = self.jobs.values().filter(of_line).map(|row| self.tasks_held(row)).sum();
        self.require(held <= most, "quota", || format!("{line:?} has {held} tasks of {most}"));
        if held == most {
            self.note("quota_full");
        }
    }

    /// The charged tasks of a job: wanted ones without a row, and rows that have not ended.
    fn tasks_held(&self, job: &JobRow) -> u64 {
        let charged = self.tasks_of(job.id).filter(|row| row.charge.owner != ChargeOwner::Released).count();
        let rows = self.tasks_of(job.id).filter(|row| row.id.index < job.count).count();
        let unplaced = match job.state {
            JobState::Ended { .. } => 0,
            _ => usize::try_from(job.count).unwrap_or(usize::MAX).saturating_sub(rows),
        };
        u64::try_from(charged + unplaced).unwrap_or(u64::MAX)
    }
}
