//! The versions of a job.

use borough_model::JobSpec;
use borough_model::job::file::file_diff;
use borough_proto::v1;
use serde::Serialize;
use serde_json::Value;

use super::changes::{ChangedField, version_text};
use super::job::command_text;
use super::table::Tabular;
use super::text::time;
use super::{Foreign, SpecView, Style};
use crate::jobfile::{job_text, overrides_gone};

/// One spec version of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct JobVersionView {
    pub(crate) version: u32,
    /// The revision of the job with which it came into force; null: not recorded.
    pub(crate) revision: Option<u64>,
    /// When it came into force, and who made it; null: not recorded.
    pub(crate) at_ms: Option<i64>,
    pub(crate) actor: Option<Foreign>,
    pub(crate) job: VersionJobView,
    pub(crate) spec: SpecView,
    /// What differs from the version before it, in the terms of a job file. That version may be of an earlier job. Null
    /// for the first version, or if this program cannot read one of the two.
    pub(crate) changes: Option<Vec<ChangedField>>,
}

/// The job of a version. What changes while a version is in force, such as its state, is no part of the version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct VersionJobView {
    pub(crate) user: Foreign,
    pub(crate) name: Foreign,
    pub(crate) id: Foreign,
    pub(crate) submitted_ms: i64,
}

impl From<v1::Job> for VersionJobView {
    fn from(job: v1::Job) -> Self {
        let v1::Job { user, name, id, submitted_ms, .. } = job;
        Self { user: user.into(), name: name.into(), id: id.into(), submitted_ms }
    }
}

/// A version of a name, until the one before it is known.
struct NewerVersion {
    view: JobVersionView,
    spec: Option<JobSpec>,
    /// The count and the priority before the change that made it; `None`: not recorded.
    before: Option<(u32, u32)>,
}

/// What differs between two versions of a spec.
pub(crate) fn spec_changes(old: &JobSpec, new: &JobSpec) -> Vec<ChangedField> {
    file_diff(old, new).into_iter().map(ChangedField::from).collect()
}

/// What the versions of a job since a revision have changed, of a history with the newest first. `id` is that of the
/// job, and empty for the newest one. Nothing if it has no newer version, or if nothing says which ones are newer.
pub(crate) fn version_changes_since(
    versions: &[v1::JobVersion],
    id: &str,
    revision: u64,
) -> Vec<ChangedField> {
    let id_of = |version: &v1::JobVersion| version.job.as_ref().map(|job| job.id.clone());
    let id = if id.is_empty() { versions.first().and_then(id_of) } else { Some(id.to_owned()) };
    let mut of_job = versions.iter().filter(|version| id_of(version) == id);
    let Some(newest) = of_job.next() else { return Vec::new() };
    let Some(seen) = of_job.find(|version| (1..=revision).contains(&version.revision)) else {
        return Vec::new();
    };
    let read = |version: &v1::JobVersion| SpecView::new(version.spec.as_ref()).read();
    let specs = read(seen).zip(read(newest)).filter(|_| newest.revision > revision);
    specs.map(|(old, new)| spec_changes(&old, &new)).unwrap_or_default()
}

impl JobVersionView {
    /// The versions of a name, newest first, each with its changes.
    pub(crate) fn all(versions: Vec<v1::JobVersion>) -> Vec<Self> {
        let mut views = Vec::with_capacity(versions.len());
        let mut newer: Option<NewerVersion> = None;
        for version in versions {
            let spec = SpecView::new(version.spec.as_ref());
            let row = version.job.unwrap_or_default();
            let (now, job) = ((row.count, row.priority), VersionJobView::from(row));
            let read = spec.read();
            if let Some(NewerVersion { mut view, spec: new, before }) = newer.take() {
                // A job may be scaled without a new version. That is no change of the next one.
                let size = if view.job.id == job.id { before } else { Some(now) };
                let old = read.clone().map(|mut old| {
                    (old.count, old.priority) = size.unwrap_or((old.count, old.priority));
                    old
                });
                view.changes = old.as_ref().zip(new.as_ref()).map(|(old, new)| spec_changes(old, new));
                views.push(view);
            }
            let view = Self {
                version: version.version,
                revision: Some(version.revision).filter(|&revision| revision > 0),
                at_ms: Some(version.at_ms).filter(|&at| at > 0),
                actor: Some(Foreign::from(version.by)).filter(|by| !by.is_empty()),
                job,
                spec,
                changes: None,
            };
            let before = version.count_before.zip(version.priority_before);
            newer = Some(NewerVersion { view, spec: read, before });
        }
        views.extend(newer.map(|newer| newer.view));
        views
    }

    /// The version as a job file, which begins with a comment about it.
    ///
    /// # Errors
    /// The fields that no job file can have, or that this program cannot read.
    pub(crate) fn file_text(&self, job: &str) -> Result<String, Vec<String>> {
        let mut spec = self.spec.read().ok_or_else(|| vec!["spec".to_owned()])?;
        let gone = overrides_gone(&mut spec);
        let file = job_text(&spec)?;
        let at = self.at_ms.map(|at_ms| format!(", in force since {}", time(at_ms))).unwrap_or_default();
        let by = self.actor.as_ref().map(|actor| format!(" by {actor}")).unwrap_or_default();
        Ok(format!("# Version {} of job {job}, {}{at}{by}.\n{gone}{file}", self.version, self.job.id))
    }

    /// What each version changed, for people.
    pub(crate) fn changes_text(views: &[Self], style: &Style) -> String {
        let mut text = String::new();
        for view in views {
            let Some(changes) = &view.changes else { continue };
            let version = format!("version {} of {}", view.version, view.job.id);
            text.push_str(&version_text(&version, changes, style));
        }
        text
    }
}

impl Tabular for JobVersionView {
    const PLURAL: &'static str = "versions";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let heads = vec!["ID", "VERSION", "TIME", "ACTOR", "COUNT", "COMMAND"];
        (heads, vec!["PRIORITY", "SUBMITTED", "REVISION"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let command = self.spec.read().as_ref().map(command_text).unwrap_or_default();
        let priority = self.spec.0.as_ref().and_then(|spec| spec.get("priority")).and_then(Value::as_u64);
        let shown = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let cells = vec![
            self.job.id.to_string(),
            self.version.to_string(),
            self.at_ms.map(time).unwrap_or_default(),
            self.actor.as_ref().map(ToString::to_string).unwrap_or_default(),
            shown(self.spec.count().map(u64::from)),
            command,
        ];
        (cells, vec![shown(priority), time(self.job.submitted_ms), shown(self.revision)])
    }
}

#[cfg(test)]
mod tests {
    use borough_model::Name;
    use borough_model::job::JobKind;

    use super::*;

    /// A job may be scaled between two versions, and after the last one. That is a change of neither.
    #[test]
    fn a_version_has_its_own_changes_and_no_scale_in_between() {
        let version = |number: u32, count: u32, command: &str, before: Option<u32>| {
            let name = |text: &str| Name::new(text).unwrap();
            let words = vec![command.to_owned()];
            let mut spec = JobSpec::defaults(name("alice"), name("web"), JobKind::Service, words);
            spec.count = count;
            v1::JobVersion {
                // It was scaled to 9 after the last version.
                job: Some(v1::Job {
                    id: "j1".to_owned(),
                    count: 9,
                    priority: spec.priority,
                    ..v1::Job::default()
                }),
                version: number,
                count_before: before,
                priority_before: before.map(|_| spec.priority),
                spec: Some(borough_proto::convert::job_spec_to_message(&spec)),
                ..v1::JobVersion::default()
            }
        };
        // From 2 to 5 by a scale, and from 5 to 4 by the file of version 3.
        let versions =
            vec![version(3, 4, "c", Some(5)), version(2, 5, "b", Some(5)), version(1, 2, "a", None)];
        let views = JobVersionView::all(versions);
        // Its state and its count now are no facts of a version.
        assert!(!JobVersionView::heads().0.contains(&"STATE"));
        let counts: Vec<String> = views.iter().map(|view| view.cells().0.remove(4)).collect();
        assert_eq!(
            (JobVersionView::heads().0[4], counts),
            ("COUNT", ["4", "5", "2"].map(str::to_owned).to_vec())
        );
        let text = JobVersionView::changes_text(&views, &Style::default());
        let changes: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).map(str::trim).collect();
        let count = changes.iter().filter(|line| line.contains("count")).collect::<Vec<_>>();
        assert_eq!((changes.len(), count), (3, vec![&"~ count: 5 -> 4"]), "{text}");
    }
}
