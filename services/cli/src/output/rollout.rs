//! The rollout of a job, for people and programs.

use borough_proto::v1;
use serde::Serialize;

use super::text::{facts, tally};
use super::{Foreign, time, word};

/// How many tasks a job has, with those that surge.
pub(crate) fn count_with_surge(job: &v1::Job) -> u32 {
    let surge = job.rollout.as_ref().map_or(0, |rollout| rollout.surge);
    job.count.saturating_add(surge)
}

/// So many canaries, with their verb.
pub(crate) fn canaries_text(canaries: u32) -> String {
    if canaries == 1 { "1 canary is".to_owned() } else { format!("{canaries} canaries are") }
}

/// The last rollout of a job. The three counts are null in a watch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RolloutOutput {
    pub(crate) state: String,
    pub(crate) version: u32,
    /// The last version that was rolled out before; null: none is known.
    pub(crate) from: Option<u32>,
    pub(crate) begun_ms: i64,
    pub(crate) by: Foreign,
    /// The version that it takes back; null if none.
    pub(crate) reverts: Option<u32>,
    /// Why it has failed, or why the version that it takes back has; null if it has not.
    pub(crate) failure: Option<Foreign>,
    /// The versions that were rolled out before, oldest first.
    pub(crate) versions: Vec<u32>,
    /// Tasks that it concerns, those with an attempt of the version, and the healthy ones of these.
    pub(crate) concerned: Option<u32>,
    pub(crate) updated: Option<u32>,
    pub(crate) healthy: Option<u32>,
    /// Tasks that run beside the job's own until it is done.
    pub(crate) surge: u32,
    /// Those of them that have the version first; 0: it is promoted, or had none.
    pub(crate) canaries: u32,
    /// Since when they have waited for the promotion, healthy; null: they do not.
    pub(crate) canaries_healthy_ms: Option<i64>,
}

impl From<v1::Rollout> for RolloutOutput {
    fn from(rollout: v1::Rollout) -> Self {
        Self {
            state: word(rollout.state().as_str_name(), "ROLLOUT_STATE_"),
            version: rollout.version,
            from: rollout.versions.last().copied(),
            begun_ms: rollout.begun_ms,
            by: rollout.by.into(),
            reverts: Some(rollout.reverts).filter(|version| *version > 0),
            failure: Some(rollout.failure).filter(|failure| !failure.is_empty()).map(Foreign::from),
            versions: rollout.versions,
            concerned: rollout.progress.map(|progress| progress.concerned),
            updated: rollout.progress.map(|progress| progress.updated),
            healthy: rollout.progress.map(|progress| progress.healthy),
            surge: rollout.surge,
            canaries: rollout.canaries,
            canaries_healthy_ms: Some(rollout.canaries_healthy_ms).filter(|at_ms| *at_ms > 0),
        }
    }
}

impl RolloutOutput {
    /// In a list, behind the state of a job; empty if it is done.
    pub(crate) fn text_short(&self) -> String {
        let healthy = self.healthy.zip(self.concerned);
        let progress = healthy.map(|(healthy, of)| format!(" {healthy}/{of}")).unwrap_or_default();
        match self.state.as_str() {
            "done" => String::new(),
            "rolling" if self.canaries_healthy_ms.is_some() => "canary waits for promote".to_owned(),
            "rolling" if self.canaries > 0 => "canary".to_owned(),
            "rolling" => format!("rollout{progress}"),
            "failed" => "rollout failed".to_owned(),
            state => format!("rollout {state}{progress}"),
        }
    }

    /// In one line: from which version to which, how far, and why not further.
    pub(crate) fn text(&self) -> String {
        let why = self.failure.as_ref().map(|failure| format!(": {failure}")).unwrap_or_default();
        let mut text = format!("of version {}", self.version);
        match (self.reverts, self.from) {
            (Some(reverts), _) => text.push_str(&format!(", which takes back version {reverts}")),
            (None, Some(from)) => text.push_str(&format!(" from {from}")),
            (None, None) => {}
        }
        text.push_str(&format!(", {}", self.state));
        if let Some(canaries) = self.canaries_text() {
            text.push_str(&format!("; {canaries}"));
        }
        if self.state == "failed" {
            text.push_str(&why);
        }
        if self.state != "done"
            && let Some(progress) = self.progress_text()
        {
            text.push_str(&format!("; {progress}"));
        }
        // What goes back has failed by itself, or goes back because of that.
        if let Some(reverts) = self.reverts.filter(|_| self.state != "failed" && !why.is_empty()) {
            text.push_str(&format!("; version {reverts} failed{why}"));
        }
        text
    }

    /// What its canaries wait for; `None`: it has none.
    fn canaries_text(&self) -> Option<String> {
        let canaries = canaries_text(self.canaries);
        match self.canaries_healthy_ms {
            _ if self.canaries == 0 => None,
            Some(since_ms) => Some(format!(
                "{canaries} healthy since {}; `borough rollout promote` goes on",
                time(since_ms)
            )),
            None => Some(format!("nothing is replaced until {canaries} healthy")),
        }
    }

    /// How many tasks have the version, and how many of them are healthy; `None`: not known.
    fn progress_text(&self) -> Option<String> {
        let (updated, of, healthy) = (self.updated?, self.concerned?, self.healthy?);
        let have = format!("{updated} of {of} have it");
        let have = if updated == 0 { have } else { format!("{have}, {healthy} of these are healthy") };
        Some(if self.surge == 0 { have } else { format!("{have}; {} surging", self.surge) })
    }
}

/// The last rollout of a job, with the job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RolloutStatusView {
    pub(crate) user: Foreign,
    pub(crate) name: Foreign,
    /// Once the job is over, nothing of its rollout goes on.
    pub(crate) job_state: String,
    pub(crate) kind: String,
    /// Tasks of the job.
    pub(crate) count: u32,
    #[serde(flatten)]
    pub(crate) rollout: RolloutOutput,
}

impl RolloutStatusView {
    pub(crate) fn new(job: &v1::Job, rollout: v1::Rollout) -> Self {
        Self {
            user: job.user.as_str().into(),
            name: job.name.as_str().into(),
            job_state: word(job.state().as_str_name(), "JOB_STATE_"),
            kind: word(job.kind().as_str_name(), "JOB_KIND_"),
            count: job.count,
            rollout: rollout.into(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let rollout = &self.rollout;
        let versions = rollout.versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let over = match self.job_state.as_str() {
            "waiting" | "running" => String::new(),
            state => format!(", and the job is {state}"),
        };
        let takes_back = rollout.reverts.map(|version| format!("version {version}")).unwrap_or_default();
        let is_batch = self.kind == "batch";
        let batch =
            if is_batch { "running attempts go on, and only later ones get the new version" } else { "" };
        let mut shown = vec![
            ("job", format!("{}/{}", self.user, self.name)),
            ("rollout", format!("of version {}: {}{over}", rollout.version, rollout.state)),
            ("takes back", takes_back),
            ("why", rollout.failure.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("begun", format!("{} by {}", time(rollout.begun_ms), rollout.by)),
            ("tasks", self.tasks_text()),
            ("canaries", self.rollout.canaries_text().unwrap_or_default()),
            ("batch", batch.to_owned()),
            ("earlier", versions),
        ];
        shown.retain(|(_, text)| !text.is_empty());
        facts(&shown)
    }

    fn tasks_text(&self) -> String {
        let Some(progress) = self.rollout.progress_text() else { return String::new() };
        let others = self.count.saturating_sub(self.rollout.concerned.unwrap_or(self.count));
        if others == 0 || self.kind == "batch" {
            return progress;
        }
        let need = if others == 1 { "needs" } else { "need" };
        let others = tally(usize::try_from(others).unwrap_or(usize::MAX), "other task");
        format!("{progress}; {others} of the job {need} no change")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_says_how_far_it_is_and_why_not_further() {
        let progress = Some(v1::RolloutProgress { concerned: 3, updated: 2, healthy: 1 });
        let rolling = v1::Rollout {
            state: v1::RolloutState::Rolling.into(),
            version: 4,
            versions: vec![1, 3],
            progress,
            ..v1::Rollout::default()
        };
        let of = |rollout: &v1::Rollout| {
            let output = RolloutOutput::from(rollout.clone());
            (output.text_short(), output.text())
        };
        let text = |short: &str, long: &str| (short.to_owned(), long.to_owned());
        assert_eq!(
            of(&rolling),
            text("rollout 1/3", "of version 4 from 3, rolling; 2 of 3 have it, 1 of these are healthy")
        );
        let surging = v1::Rollout { surge: 2, ..rolling.clone() };
        let text_of = "of version 4 from 3, rolling; 2 of 3 have it, 1 of these are healthy; 2 surging";
        assert_eq!(of(&surging), text("rollout 1/3", text_of));
        let unknown =
            v1::Rollout { state: v1::RolloutState::Paused.into(), progress: None, ..rolling.clone() };
        assert_eq!(of(&unknown), text("rollout paused", "of version 4 from 3, paused"));
        let done = v1::Rollout { state: v1::RolloutState::Done.into(), ..rolling.clone() };
        assert_eq!(of(&done), text("", "of version 4 from 3, done"));
        let failure = "task 0 failed 3 times in a row".to_owned();
        let failed =
            v1::Rollout { state: v1::RolloutState::Failed.into(), failure, progress: None, ..rolling };
        let why = "of version 4 from 3, failed: task 0 failed 3 times in a row";
        assert_eq!(of(&failed), text("rollout failed", why));
        let back = v1::Rollout { state: v1::RolloutState::Done.into(), version: 5, reverts: 4, ..failed };
        let why = "of version 5, which takes back version 4, done; version 4 failed: task 0 failed 3 times in a row";
        assert_eq!(of(&back), text("", why));
    }
}
