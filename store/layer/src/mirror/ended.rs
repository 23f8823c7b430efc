//! Ended jobs by the time of their end, and jobs that wait for others, so that garbage collection finds what may go
//! without a look at every job.

use std::collections::BTreeSet;
use std::sync::Arc;

use borough_model::job::JobState;
use borough_model::{JobId, JobRow};

use super::MirrorState;

/// The ended jobs of a cell, in parts. Processes that collect different parts never meet at a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndedJobs {
    parts: [BTreeSet<(i64, JobId)>; Self::PARTS],
}

impl EndedJobs {
    /// The number of parts.
    pub const PARTS: usize = 16;

    /// The number of ended jobs that have a row.
    pub fn len(&self) -> usize {
        self.parts.iter().map(BTreeSet::len).sum()
    }

    /// Whether no ended job has a row.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(BTreeSet::is_empty)
    }

    /// The jobs of a part with the time of their end, in milliseconds since 1970, the oldest first. A part that does
    /// not exist is empty.
    pub fn part(&self, part: usize) -> impl Iterator<Item = (i64, JobId)> {
        self.parts.get(part).into_iter().flatten().copied()
    }

    /// The time of the oldest end, in milliseconds since 1970.
    pub fn oldest_ms(&self) -> Option<i64> {
        self.parts.iter().filter_map(|part| part.first().map(|(ended_ms, _)| *ended_ms)).min()
    }

    /// Follows the change of a job's row; `None` is no row.
    pub(super) fn follow(&mut self, before: Option<&JobRow>, after: Option<&JobRow>) {
        if let Some((part, entry)) = before.and_then(entry_of) {
            self.parts.get_mut(part).map(|entries| entries.remove(&entry));
        }
        if let Some((part, entry)) = after.and_then(entry_of) {
            self.parts.get_mut(part).map(|entries| entries.insert(entry));
        }
    }
}

/// The part of an ended job and its entry there. An ended job does not change any more, so the time of its last change
/// is that of its end.
fn entry_of(row: &JobRow) -> Option<(usize, (i64, JobId))> {
    let ended = matches!(row.state, JobState::Ended { .. });
    let part = usize::try_from(row.id.0 % EndedJobs::PARTS as u64).unwrap_or(0);
    ended.then_some((part, (row.changed_ms, row.id)))
}

/// The jobs that wait for other jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WaitingJobs(BTreeSet<JobId>);

impl WaitingJobs {
    /// Follows the change of a job's row; `None` is no row.
    pub(super) fn follow(&mut self, job: JobId, after: Option<&JobRow>) {
        if after.is_some_and(|row| row.state == JobState::Waiting) {
            self.0.insert(job);
        } else {
            self.0.remove(&job);
        }
    }
}

impl MirrorState {
    /// The jobs that wait for other jobs.
    pub fn waiting_jobs(&self) -> impl Iterator<Item = &Arc<JobRow>> {
        self.waiting_jobs.0.iter().filter_map(|job| self.jobs().get(job))
    }
}
