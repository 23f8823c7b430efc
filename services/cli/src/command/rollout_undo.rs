//! `rollout undo`: which version it brings back, and what that changes.

use std::collections::BTreeSet;

use borough_client::{Client, JobRef};
use borough_model::JobSpec;
use borough_model::job::runs_alike;
use borough_proto::convert::job_spec_from_message;
use borough_proto::v1::{Job, JobVersion, Rollout, RolloutState};

use crate::output::{Style, changes_text, spec_changes};

/// The specs of a job's versions, newest first.
pub(crate) struct KnownVersions(Vec<(u32, JobSpec)>);

impl KnownVersions {
    /// Reads the versions of a job; none if that fails: the gateway decides without them.
    pub(crate) async fn read(client: &Client, job: &JobRef, row: &Job) -> Self {
        Self::of(client.job_history(job).await.unwrap_or_default(), &row.id)
    }

    fn of(versions: Vec<JobVersion>, job_id: &str) -> Self {
        let known = versions.into_iter().filter_map(|version| {
            version.job.as_ref().filter(|job| job.id == job_id)?;
            let mut spec = job_spec_from_message(version.spec.as_ref()?).ok()?;
            // They stay as they are in force.
            (spec.count, spec.priority) = (0, 0);
            Some((version.version, spec))
        });
        let mut known: Vec<(u32, JobSpec)> = known.collect();
        known.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
        Self(known)
    }

    fn spec(&self, version: u32) -> Option<&JobSpec> {
        self.0.iter().find(|(known, _)| *known == version).map(|(_, spec)| spec)
    }

    /// The versions to which a rollout can go back, oldest first: those that were rolled out, and those that run tasks
    /// as one of them does.
    fn proven(&self, row: &Job) -> Vec<u32> {
        let done = |rollout: &Rollout| (rollout.state() == RolloutState::Done).then_some(rollout.version);
        let rollouts = row.rollout.iter();
        let rolled_out = rollouts.flat_map(|rollout| rollout.versions.iter().copied().chain(done(rollout)));
        let rolled_out: BTreeSet<u32> = rolled_out.collect();
        let specs: Vec<&JobSpec> = rolled_out.iter().filter_map(|version| self.spec(*version)).collect();
        let alike = self.0.iter().filter(|(_, spec)| specs.iter().any(|proven| runs_alike(proven, spec)));
        let alike: Vec<u32> = alike.map(|(version, _)| *version).collect();
        rolled_out.into_iter().chain(alike).collect::<BTreeSet<u32>>().into_iter().collect()
    }

    /// Those of them that differ from the version in force, all of them if that is not known.
    pub(crate) fn others(&self, row: &Job) -> Vec<u32> {
        let in_force = self.spec(row.spec_version);
        let differs = |version: &u32| match (self.spec(*version), in_force) {
            (Some(spec), Some(in_force)) => spec != in_force,
            _ => *version != row.spec_version,
        };
        self.proven(row).into_iter().filter(differs).collect()
    }

    /// The version that `rollout undo` without `--to` brings back: the newest rolled out one that differs. A way back
    /// that has failed is not there yet.
    pub(super) fn before(&self, row: &Job) -> Option<u32> {
        let in_force = self.spec(row.spec_version)?;
        let way_back = row.rollout.as_ref().filter(|rollout| rollout.reverts > 0);
        if let Some(failed) = way_back.filter(|rollout| rollout.state() == RolloutState::Failed) {
            return failed.versions.last().copied();
        }
        let rolled_out = row.rollout.iter().flat_map(|rollout| rollout.versions.iter().rev());
        rolled_out.copied().find(|version| self.spec(*version).is_some_and(|spec| spec != in_force))
    }

    /// Why a gateway would refuse to go back to `version`; `None`: it would not, or that is not known here.
    pub(super) fn refusal(&self, job: &JobRef, row: &Job, version: u32) -> Option<String> {
        row.rollout.as_ref()?;
        self.spec(row.spec_version)?;
        if self.spec(version).is_some() && self.proven(row).contains(&version) {
            return None;
        }
        let other: Vec<String> = self.others(row).iter().map(ToString::to_string).collect();
        let accepted = if other.is_empty() {
            ", and no version that was rolled out differs from the one in force".to_owned()
        } else {
            format!("; accepted: {}", other.join(", "))
        };
        Some(format!("job {job}: version {version} was not rolled out, or is no longer kept{accepted}"))
    }

    /// The version of which `version` is a copy: the first one that says the same. Those between are copies too.
    pub(super) fn original(&self, version: u32) -> Option<u32> {
        let spec = self.spec(version)?;
        let mut earlier = self.0.iter().filter(|(known, _)| *known < version);
        earlier.rfind(|(_, known)| known == spec).map(|(known, _)| *known)
    }

    /// Which version comes back, in words.
    pub(super) fn back_text(&self, version: Option<u32>) -> String {
        match version.map(|version| (version, self.original(version))) {
            None => "an earlier version".to_owned(),
            Some((version, None)) => format!("version {version}"),
            Some((version, Some(original))) => {
                format!("version {version}, which says the same as version {original}")
            }
        }
    }

    /// That a version comes back, and what that changes; `None` if that is not known.
    pub(super) fn undo_text(&self, job: &JobRef, row: &Job, version: Option<u32>) -> Option<String> {
        let changes = self.changes(row, version?);
        let (now, back) = (row.spec_version, self.back_text(version));
        let is_known = !changes.is_empty();
        is_known.then(|| format!("{job}: from version {now} back to {back}:\n{}", changes.trim_end()))
    }

    /// What changes if `version` comes back, a line per field; empty if that is not known.
    fn changes(&self, row: &Job, version: u32) -> String {
        let specs = self.spec(row.spec_version).zip(self.spec(version));
        let changes = specs.map(|(now, back)| spec_changes(now, back)).unwrap_or_default();
        changes_text(&changes, &Style::default()).lines().map(|line| format!("  {line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use borough_model::Name;
    use borough_model::job::JobKind;
    use borough_proto::convert::job_spec_to_message;

    use super::*;

    fn version(number: u32, team: &str, count: u32) -> JobVersion {
        let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
        let (user, name) = (Name::new("ann").unwrap(), Name::new("web").unwrap());
        let spec = JobSpec::defaults(user, name, JobKind::Service, vec!["serve".to_owned()]);
        let spec = JobSpec { labels, count, ..spec };
        let job = Job { id: "j1".to_owned(), ..Job::default() };
        let spec = Some(job_spec_to_message(&spec));
        JobVersion { job: Some(job), version: number, spec, ..JobVersion::default() }
    }

    fn versions_again() -> Vec<JobVersion> {
        vec![version(1, "a", 1), version(2, "b", 1), version(3, "a", 1), version(4, "b", 1)]
    }

    /// A count is none of a version: it stays as it is.
    #[test]
    fn the_version_that_comes_back_is_the_newest_that_differs() {
        let versions = vec![version(1, "a", 1), version(2, "b", 1), version(3, "b", 5)];
        let known = KnownVersions::of(versions, "j1");
        let rollout = Rollout { version: 3, versions: vec![1, 2], ..Rollout::default() };
        let row = Job { spec_version: 3, rollout: Some(rollout), ..Job::default() };
        assert_eq!(known.before(&row), Some(1), "version 2 says the same");
        assert_eq!(known.others(&row), [1]);
        assert_eq!(KnownVersions::of(Vec::new(), "j1").others(&row), [1, 2], "nothing is known of them");
        assert_eq!(known.changes(&row, 1), "  ~ labels.team: b -> a\n");
        assert_eq!((known.original(3), known.original(2)), (Some(2), None));
        let told = known.undo_text(&JobRef::new("ann", "web"), &row, Some(1)).unwrap();
        assert_eq!(told, "ann/web: from version 3 back to version 1:\n  ~ labels.team: b -> a");
        assert_eq!(known.undo_text(&JobRef::new("ann", "web"), &row, None), None);
        let again = KnownVersions::of([versions_again(), vec![version(5, "b", 1)]].concat(), "j1");
        assert_eq!(again.original(5), Some(2), "version 4 is a copy itself");
        assert_eq!(KnownVersions::of(vec![version(1, "a", 1)], "j2").before(&row), None);
    }

    /// Nothing is shown or asked of a version that cannot come back.
    #[test]
    fn a_version_that_was_not_rolled_out_is_refused_before_its_difference_is_shown() {
        let mut failed = version(2, "a", 1);
        if let Some(task) = failed.spec.as_mut().and_then(|spec| spec.task.as_mut()) {
            task.command = vec!["bad".to_owned()];
        }
        let known = KnownVersions::of(vec![version(1, "a", 1), failed, version(3, "b", 1)], "j1");
        let rollout = Rollout { version: 3, versions: vec![1], ..Rollout::default() };
        let row = Job { spec_version: 3, rollout: Some(rollout), ..Job::default() };
        let job = JobRef::new("ann", "web");
        let of = |version| known.refusal(&job, &row, version);
        let words = "was not rolled out, or is no longer kept; accepted: 1";
        assert_eq!(of(2), Some(format!("job ann/web: version 2 {words}")));
        assert_eq!(of(9), Some(format!("job ann/web: version 9 {words}")));
        assert_eq!((of(1), of(3)), (None, None), "version 3 differs from version 1 in a label only");
        let row = Job { spec_version: 1, ..row };
        assert_eq!(known.others(&row), [3], "version 3 runs as version 1");
    }
}
