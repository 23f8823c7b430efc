//! The rollout of a job, for people and programs.

use borough_proto::v1;
use serde::Serialize;

use super::text::facts;
use super::{Foreign, time, word};

/// The last rollout of a job, and what its tasks have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RolloutStatusView {
    pub(crate) user: Foreign,
    pub(crate) name: Foreign,
    pub(crate) state: String,
    /// Once the job is over, nothing of its rollout goes on.
    pub(crate) job_state: String,
    pub(crate) version: u32,
    pub(crate) begun_ms: i64,
    pub(crate) by: Foreign,
    /// The version that it takes back; null if none.
    pub(crate) reverts: Option<u32>,
    /// Why it has failed, or why the version that it takes back has; null if it has not.
    pub(crate) failure: Option<Foreign>,
    /// The versions that were rolled out before, oldest first.
    pub(crate) versions: Vec<u32>,
    /// Tasks of the job, those with an attempt of the version, and the healthy ones of these.
    pub(crate) count: u32,
    pub(crate) updated: usize,
    pub(crate) healthy: usize,
}

impl RolloutStatusView {
    pub(crate) fn new(job: &v1::Job, rollout: v1::Rollout, updated: usize, healthy: usize) -> Self {
        Self {
            user: job.user.as_str().into(),
            name: job.name.as_str().into(),
            state: word(rollout.state().as_str_name(), "ROLLOUT_STATE_"),
            job_state: word(job.state().as_str_name(), "JOB_STATE_"),
            version: rollout.version,
            begun_ms: rollout.begun_ms,
            by: rollout.by.into(),
            reverts: Some(rollout.reverts).filter(|version| *version > 0),
            failure: Some(rollout.failure).filter(|failure| !failure.is_empty()).map(Foreign::from),
            versions: rollout.versions,
            count: job.count,
            updated,
            healthy,
        }
    }

    pub(crate) fn text(&self) -> String {
        let Self { updated, healthy, count, .. } = self;
        let versions = self.versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let over = match self.job_state.as_str() {
            "waiting" | "running" => String::new(),
            state => format!(", and the job is {state}"),
        };
        let takes_back = self.reverts.map(|version| format!("version {version}")).unwrap_or_default();
        let mut shown = vec![
            ("job", format!("{}/{}", self.user, self.name)),
            ("rollout", format!("of version {}: {}{over}", self.version, self.state)),
            ("takes back", takes_back),
            ("why", self.failure.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("begun", format!("{} by {}", time(self.begun_ms), self.by)),
            ("tasks", format!("{updated} of {count} have it, {healthy} of these are healthy")),
            ("earlier", versions),
        ];
        shown.retain(|(_, text)| !text.is_empty());
        facts(&shown)
    }
}
