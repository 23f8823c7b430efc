//! The row of a job: its desired state, and the counts that people ask for first.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::{DaemonCounts, GoneVersions, JobAlloc, Rollout, RolloutState};
use crate::id::{JobId, Name, RequestId};

/// The present state of a job. Placements guard on its gate, which is a key of its own. Only a change that can make a
/// placement in flight wrong writes the gate ([`super::JobTransition::gate`]).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct JobRow {
    #[n(0)]
    pub id: JobId,
    #[n(1)]
    pub user: Name,
    #[n(2)]
    pub name: Name,
    #[n(3)]
    pub state: JobState,
    /// Desired number of tasks: those that the owner wants, and those that surge. Their indexes are below it. A daemon
    /// job has an index for each node that it has served: see [`JobRow::wanted_count`].
    #[n(4)]
    pub count: u32,
    /// The priority in force. It may differ from that of the first spec.
    #[n(5)]
    pub priority: u32,
    /// The spec version in force, from 1.
    #[n(6)]
    pub spec_version: u32,
    /// Counts every change of this row.
    #[n(7)]
    pub revision: u64,
    /// Wall time of submission, milliseconds since 1970.
    #[n(8)]
    pub submitted_ms: i64,
    /// Wall time of the last change, milliseconds since 1970.
    #[n(9)]
    pub changed_ms: i64,
    /// The request that last changed it.
    #[n(10)]
    pub request: RequestId,
    /// Tasks that have ended for good with exit code 0.
    #[n(11)]
    pub succeeded: u32,
    /// Tasks that have ended for good otherwise.
    #[n(12)]
    pub failed: u32,
    /// The last rollout; absent: its spec was never changed in a way that concerns its tasks.
    #[n(13)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Box<Rollout>>,
    /// What people have changed of it, and who; absent: not recorded.
    #[n(14)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Box<JobChanges>>,
    /// How the nodes of the cell are served, if it is a daemon job.
    #[n(15)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<Box<DaemonCounts>>,
    /// What drains and taints have done with it; absent: nothing that its row must say.
    #[n(16)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<Box<JobMoves>>,
    /// What it has to do with allocs; absent: nothing.
    #[n(17)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alloc: Option<Box<JobAlloc>>,
    /// The groups whose quotas are charged for it beside its user's, the nearest first; absent: none. They stay while
    /// the job stays in its band, whatever the user's parent is by then: what was charged is given back to the same.
    #[n(18)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_groups: Option<Vec<Name>>,
}

/// What moves of a job's tasks off their nodes have to leave in its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct JobMoves {
    /// How often they have ended healthy attempts of a large job. Each time is decided by the rows after the time
    /// before.
    #[n(0)]
    pub steps: u32,
    /// Tasks of the job's count that its owner has not asked for: they serve while others are moved.
    #[n(1)]
    #[cbor(default)]
    #[serde(default)]
    pub surge: u32,
    /// Whether the quota had no room for one that surges: one task may be away instead, until nothing has to move.
    #[n(2)]
    #[cbor(default)]
    #[serde(default)]
    pub surge_refused: bool,
}

/// The changes of a job's spec, its count and its priority. Steps of a rollout and ends of tasks are none.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct JobChanges {
    /// The revision of the row after the last of them.
    #[n(0)]
    pub revision: u64,
    /// Who made the last of them.
    #[n(1)]
    pub by: String,
    /// Where the last versions of the spec come from, oldest first.
    #[n(2)]
    pub versions: Vec<VersionOrigin>,
    /// The count and the priority before the last request that changed them; absent: none has, or it is not recorded.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<ScaleOrigin>,
    /// Versions of the spec that are kept no more; absent: all are.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<GoneVersions>,
}

/// What a request has changed the count and the priority from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ScaleOrigin {
    #[n(0)]
    pub request: RequestId,
    #[n(1)]
    pub before: WantedSize,
}

/// How many tasks the owner of a job wants, and with which priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct WantedSize {
    #[n(0)]
    pub count: u32,
    #[n(1)]
    pub priority: u32,
}

/// Who made a version of a job's spec, and when.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct VersionOrigin {
    #[n(0)]
    pub version: u32,
    /// The revision of the row with which it came into force.
    #[n(1)]
    pub revision: u64,
    /// Wall time, milliseconds since 1970.
    #[n(2)]
    pub at_ms: i64,
    /// Such as `user/ada`, or `controller` for a version that takes one back.
    #[n(3)]
    pub by: String,
    /// What the owner wanted before the change that made it. A scale in between is none of this version. Absent: it is
    /// the first version, or it is not recorded.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<WantedSize>,
}

/// Versions of which a row says who made them.
const ORIGINS_MAX: usize = 20;

impl JobRow {
    /// Records who has changed the spec, the count or the priority, if one of them differs from the row `before`;
    /// without one, who has submitted it.
    pub fn change_record(&mut self, before: Option<&Self>, by: &str) {
        let is_new_version = before.is_none_or(|before| before.spec_version != self.spec_version);
        let is_scaled = before.is_some_and(|before| before.wanted_size() != self.wanted_size());
        if !is_new_version && !is_scaled {
            return;
        }
        let (mut versions, mut scaled, gone) = match self.changes.take() {
            Some(changes) => (changes.versions, changes.scaled, changes.gone),
            None => (Vec::new(), None, None),
        };
        // One request may change the size first, and then the spec.
        let of_request = scaled.filter(|scaled| scaled.request == self.request);
        let size = of_request.map(|scaled| scaled.before).or_else(|| before.map(Self::wanted_size));
        if is_scaled {
            scaled = size.map(|before| ScaleOrigin { request: self.request, before });
        }
        let JobRow { spec_version: version, revision, changed_ms: at_ms, .. } = *self;
        if is_new_version {
            versions.push(VersionOrigin { version, revision, at_ms, by: by.to_owned(), before: size });
            versions.drain(..versions.len().saturating_sub(ORIGINS_MAX));
        }
        self.changes = Some(Box::new(JobChanges { revision, by: by.to_owned(), versions, scaled, gone }));
    }

    /// The versions of its spec that are kept no more.
    pub fn gone_versions(&self) -> Option<&GoneVersions> {
        self.changes.as_deref()?.gone.as_ref()
    }

    /// The row after more versions have gone. It is no change of the job. `None`: of this job no changes are recorded.
    pub fn with_gone(&self, gone: GoneVersions) -> Option<Self> {
        let changes = JobChanges { gone: Some(gone), ..self.changes.as_deref()?.clone() };
        let revision = self.revision.saturating_add(1);
        Some(Self { revision, changes: Some(Box::new(changes)), ..self.clone() })
    }

    /// Returns true if a change that was made for `revision` may still be made: nobody has changed the spec, the count
    /// or the priority since.
    pub fn is_unchanged_since(&self, revision: u64) -> bool {
        let changed = self.changes.as_ref().map_or(self.revision, |changes| changes.revision);
        (changed..=self.revision).contains(&revision)
    }
}

impl JobRow {
    /// How many of its tasks surge: the last ones.
    pub fn surge(&self) -> u32 {
        let for_rollout = self.rollout.as_ref().map_or(0, |rollout| rollout.surge);
        for_rollout.saturating_add(self.moves_surge()).min(self.count)
    }

    /// How many of these stand in for tasks that have to leave their nodes.
    pub fn moves_surge(&self) -> u32 {
        self.moves.as_ref().map_or(0, |moves| moves.surge)
    }

    /// The version of the owner's tasks while its rollout waits for canaries: only these have the version in force.
    pub fn canary_base(&self) -> Option<u32> {
        self.rollout.as_ref().filter(|rollout| rollout.canaries > 0).map(|rollout| rollout.base)
    }

    /// The version that the owner's tasks had before a rollout that is not done; `None`: every task has the one in
    /// force. Canaries of a further version leave them with this one: what is under way may be bad.
    pub fn earlier_version(&self) -> Option<u32> {
        let rollout = self.rollout.as_deref().filter(|rollout| rollout.state != RolloutState::Done)?;
        if rollout.canaries > 0 { Some(rollout.base) } else { rollout.stable.last().copied() }
    }

    /// The version beside the one in force with which a later row may have its tasks placed. That is the earlier one,
    /// also while the rollout is over only because the job has no tasks: a count brings that rollout back, without a
    /// spec.
    pub fn version_beside(&self) -> Option<u32> {
        let untried = self.rollout.as_deref().filter(|rollout| rollout.untried);
        self.earlier_version().or_else(|| untried?.stable.last().copied())
    }

    /// Its last rollout, if it has failed and a person may begin it again: the job runs, and has tasks.
    pub fn rollout_failed(&self) -> Option<&Rollout> {
        let rollout = self.rollout.as_deref().filter(|rollout| rollout.state == RolloutState::Failed);
        rollout.filter(|_| self.state == JobState::Running && self.owner_count() > 0)
    }

    /// Its rollout when it has tasks again, if that ended because it had none.
    pub fn rollout_resumed(&self, now_ms: i64) -> Option<Rollout> {
        let rollout = self.rollout.as_deref().filter(|_| self.owner_count() == 0);
        let rollout = rollout.filter(|rollout| rollout.state == RolloutState::Done && rollout.untried);
        rollout.map(|rollout| rollout.with_first_tasks(now_ms))
    }

    /// The version with which the task `index` begins its next attempt.
    pub fn version_of(&self, index: u32) -> u32 {
        self.canary_base().filter(|_| index < self.owner_count()).unwrap_or(self.spec_version)
    }

    /// The owner of a daemon job decides about no count.
    fn wanted_size(&self) -> WantedSize {
        let count = if self.daemon.is_some() { 0 } else { self.owner_count() };
        WantedSize { count, priority: self.priority }
    }

    /// How many indexes the tasks of its owner have.
    pub fn owner_count(&self) -> u32 {
        self.count.saturating_sub(self.surge())
    }

    /// How many tasks its owner wants: without those of a daemon job whose nodes it does not serve any more.
    pub fn wanted_count(&self) -> u32 {
        self.owner_count().saturating_sub(self.daemon.as_ref().map_or(0, |daemon| daemon.withdrawn))
    }
}

/// Desired state and outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Admitted. None of its tasks is placed before the jobs that it waits for have ended.
    #[n(0)]
    Waiting,
    #[n(1)]
    Running,
    /// The controller ends its tasks.
    #[n(2)]
    Stopping,
    #[n(3)]
    Ended {
        #[n(0)]
        outcome: JobOutcome,
    },
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Ended { outcome: JobOutcome::Succeeded } => "over: succeeded",
            Self::Ended { outcome: JobOutcome::Failed } => "over: failed",
            Self::Ended { outcome: JobOutcome::Stopped } => "over: stopped",
            Self::Ended { outcome: JobOutcome::DependencyFailed } => {
                "over: a job that it waits for has failed"
            }
        })
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    /// Every task has ended with exit code 0.
    #[n(0)]
    Succeeded,
    /// Every task has ended, some of them otherwise.
    #[n(1)]
    Failed,
    /// Its owner has stopped it.
    #[n(2)]
    Stopped,
    /// It can never start, since a job that it waits for has failed.
    #[n(3)]
    DependencyFailed,
}
