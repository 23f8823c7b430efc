//! Decides whether the journal has the measured loads of nodes: while the cell's profile or that of a job reads them.
//!
//! A gateway begins before it accepts such a profile. The controller ends, and begins where no gateway did.

use std::collections::BTreeSet;
use std::time::Duration;

use borough_model::JobId;
use borough_model::job::JobState;
use borough_scheduler_core::ScoringProfile;
use borough_store::cell::{CellMeta, LoadJournal};
use borough_store::mirror::MirrorState;
use borough_store::node::LoadsStep;

/// For so long after the last follower the journal still has loads. To begin costs a transaction per 500 nodes. A
/// tenant who submits and ends followers as fast as possible causes that once.
const KEPT: Duration = Duration::from_secs(600);

/// What to do about the journal of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadAction {
    Begin,
    End,
}

/// Who follows loads.
#[derive(Clone, Debug)]
pub(crate) struct LoadFollowers {
    /// Jobs with a profile of their own that reads loads, and that have not ended.
    jobs: BTreeSet<JobId>,
    /// Whether every job has been noted.
    is_complete: bool,
    /// Since when nobody follows, by the clock of this process.
    unfollowed_at: Duration,
}

impl LoadFollowers {
    /// Knows nobody, at `now`.
    pub(crate) fn new(now: Duration) -> Self {
        Self { jobs: BTreeSet::new(), is_complete: false, unfollowed_at: now }
    }

    /// Forgets the jobs: each is noted again.
    pub(crate) fn begin_again(&mut self) {
        self.jobs.clear();
        self.is_complete = false;
    }

    /// Records that every job has been noted.
    pub(crate) fn all_noted(&mut self) {
        self.is_complete = true;
    }

    /// Notes a job as it is now.
    pub(crate) fn job_note(&mut self, state: &MirrorState, job: JobId) {
        let live = state.jobs().get(&job).filter(|row| !matches!(row.state, JobState::Ended { .. }));
        let follows =
            live.and_then(|row| state.spec_of(row)).is_some_and(|spec| reads_load(spec.profile.as_deref()));
        if follows {
            self.jobs.insert(job);
        } else {
            self.jobs.remove(&job);
        }
    }

    /// What to do at `now`.
    pub(crate) fn action(&mut self, meta: &CellMeta, now: Duration) -> Option<LoadAction> {
        if reads_load(Some(&meta.profile)) || !self.jobs.is_empty() {
            self.unfollowed_at = now;
            return (meta.loads != Some(LoadJournal::On)).then_some(LoadAction::Begin);
        }
        let kept = match meta.loads {
            Some(LoadJournal::Off) => return None,
            // Nobody ever decided it in this cell.
            None => Duration::ZERO,
            Some(LoadJournal::Begun | LoadJournal::On) => KEPT,
        };
        (self.is_complete && now.saturating_sub(self.unfollowed_at) >= kept).then_some(LoadAction::End)
    }
}

fn reads_load(profile: Option<&str>) -> bool {
    profile
        .and_then(|profile| profile.parse::<ScoringProfile>().ok())
        .is_some_and(|profile| profile.reads_load())
}

impl LoadAction {
    /// The first of its transactions.
    pub(crate) fn step(self) -> LoadsStep {
        match self {
            Self::Begin => LoadsStep::Begin,
            Self::End => LoadsStep::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(profile: &str, loads: Option<LoadJournal>) -> CellMeta {
        CellMeta { profile: profile.to_owned(), loads, ..CellMeta::default() }
    }

    #[test]
    fn the_journal_has_loads_while_a_profile_reads_them_and_some_time_after() {
        use LoadJournal::{Begun, Off, On};
        let at = Duration::from_secs;
        let mut followers = LoadFollowers::new(at(0));
        followers.all_noted();
        let mut action = |profile, loads, now| followers.action(&meta(profile, loads), at(now));
        assert_eq!(action("load-aware", None, 1), Some(LoadAction::Begin), "nobody has decided");
        assert_eq!(action("load-aware", Some(Off), 1), Some(LoadAction::Begin));
        assert_eq!(
            action("load-aware", Some(Begun), 1),
            Some(LoadAction::Begin),
            "whoever began may have died"
        );
        assert_eq!(action("load-aware", Some(On), 1), None);
        assert_eq!(action("best-fit", Some(Off), 1_000), None);
        assert_eq!(action("best-fit", None, 1_000), Some(LoadAction::End));
        assert_eq!(action("load-aware", Some(On), 1_000), None);
        assert_eq!(action("best-fit", Some(On), 1_599), None, "another follower may come soon");
        assert_eq!(action("best-fit", Some(On), 1_600), Some(LoadAction::End));
        assert_eq!(action("best-fit", Some(Begun), 1_600), Some(LoadAction::End));
        followers.begin_again();
        assert_eq!(followers.action(&meta("best-fit", None), at(9_000)), None, "jobs are still to be noted");
        followers.jobs.insert(JobId(1));
        assert_eq!(followers.action(&meta("best-fit", Some(On)), at(9_000)), None);
        assert_eq!(followers.action(&meta("best-fit", Some(Off)), at(9_000)), Some(LoadAction::Begin));
    }
}
