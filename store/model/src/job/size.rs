//! Whether the owner of a job may set its count now.

use super::{COUNT_MAX, JobRow};

/// Why the count of a job stays for now. Wait for the end of its rollout, or end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountRefused {
    /// The canaries would be the owner's tasks, or the other way round.
    #[error(
        "canaries try its version {version}, so its count stays {count} until that is promoted or taken back"
    )]
    Canaries { version: u32, count: u32 },
    /// What surges is beside the owner's tasks, and no job has more than [`COUNT_MAX`] in all.
    #[error("{surge} tasks surge until its rollout is done; until then its count is {most} at most")]
    Surges { surge: u32, most: u32 },
}

impl JobRow {
    /// Returns an error if its rollout does not allow that its owner wants `count` tasks.
    pub fn count_check(&self, count: u32) -> Result<(), CountRefused> {
        let surge = self.surge();
        if self.canary_base().is_some() && count != self.owner_count() {
            return Err(CountRefused::Canaries { version: self.spec_version, count: self.owner_count() });
        }
        let most = COUNT_MAX.saturating_sub(surge);
        if surge > 0 && count > most { Err(CountRefused::Surges { surge, most }) } else { Ok(()) }
    }
}
