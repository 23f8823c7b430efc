//! The versions of a federated job, and what differs between two of them.

use std::collections::BTreeSet;

use borough_model::federation::{FEDERATION_FIELD, FederatedJob};
use borough_proto::v1;
use serde::Serialize;
use serde_json::Value;

use super::super::changes::{ChangedField, version_text};
use super::super::job_version::spec_changes;
use super::super::table::{Tabular, table};
use super::super::text::time;
use super::super::{Foreign, Style};
use super::release::FederatedReleaseView;
use crate::jobfile::federated_read;

/// A version of a federated job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FederatedVersionView {
    version: u64,
    /// `rolling`, `in force`, `failed`, `going back`, `taken back`, or `proven` for the one to which a release goes
    /// back; empty: none of these.
    state: &'static str,
    at_ms: i64,
    by: Foreign,
    job_file: Value,
    /// What differs from the version before it, in the terms of a job file. Null for the oldest one that is kept, or if
    /// this program cannot read one of the two.
    changes: Option<Vec<ChangedField>>,
}

impl FederatedVersionView {
    /// The versions of a job of this user, newest first, each with its changes, and with what `release` makes of it.
    pub(crate) fn all(
        versions: Vec<v1::FederatedJobVersion>,
        user: &str,
        release: Option<&FederatedReleaseView>,
    ) -> Vec<Self> {
        let state = |version| release.map_or("", |release| release.version_state(version));
        let read = |version: &v1::FederatedJobVersion| federated_read(&version.job_file, user);
        let specs: Vec<Option<FederatedJob>> = versions.iter().map(read).collect();
        let older = specs.iter().skip(1).chain(std::iter::once(&None));
        let changed = |(new, old): (&Option<FederatedJob>, &Option<FederatedJob>)| {
            Some(version_changes(old.as_ref()?, new.as_ref()?))
        };
        let changes: Vec<Option<Vec<ChangedField>>> = specs.iter().zip(older).map(changed).collect();
        let view = |(version, changes): (v1::FederatedJobVersion, _)| Self {
            version: version.version,
            state: state(version.version),
            at_ms: version.at_ms,
            by: version.by.into(),
            job_file: serde_json::from_str(&version.job_file).unwrap_or_default(),
            changes,
        };
        versions.into_iter().zip(changes).map(view).collect()
    }

    /// For people: the versions, and then what each one changed.
    pub(crate) fn text(views: &[Self], style: &Style) -> String {
        let mut text = table(views, style);
        for view in views {
            let Some(changes) = &view.changes else { continue };
            text.push_str(&version_text(&format!("version {}", view.version), changes, style));
        }
        text
    }
}

/// What one version changed. A count is no part of a version: a scale between the two is no change of the later one.
fn version_changes(old: &FederatedJob, new: &FederatedJob) -> Vec<ChangedField> {
    let mut old = old.clone();
    old.job.count = new.job.count;
    federated_changes(&old, new)
}

/// What differs between two job files: the fields of the job, and then those of its `federation` part.
pub(crate) fn federated_changes(old: &FederatedJob, new: &FederatedJob) -> Vec<ChangedField> {
    let mut changes = spec_changes(&old.job, &new.job);
    let (old, new) = (old.federation.to_file(), new.federation.to_file());
    let keys = |part: &Value| -> Vec<String> {
        part.as_object().map(|part| part.keys().cloned().collect()).unwrap_or_default()
    };
    let all: BTreeSet<String> = keys(&old).into_iter().chain(keys(&new)).collect();
    let value = |part: &Value, key: &str| part.get(key).cloned().unwrap_or_default();
    let of_part = all.iter().filter(|key| value(&old, key) != value(&new, key)).map(|key| ChangedField {
        path: format!("{FEDERATION_FIELD}.{key}").into(),
        old: value(&old, key),
        new: value(&new, key),
    });
    changes.extend(of_part);
    changes
}

impl Tabular for FederatedVersionView {
    const PLURAL: &'static str = "versions";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["VERSION", "STATE", "CHANGED", "BY"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let state = if self.state.is_empty() { "-" } else { self.state };
        let cells = vec![self.version.to_string(), state.to_owned(), time(self.at_ms), self.by.to_string()];
        (cells, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(count: u32, word: &str, cells: &str) -> String {
        format!(
            r#"{{"name": "web", "kind": "service", "count": {count}, "task": {{"command": ["serve", "{word}"]}},
            "federation": {{"cells": {cells}}}}}"#
        )
    }

    #[test]
    fn a_history_shows_what_each_version_changed() {
        let version = |version, job_file| v1::FederatedJobVersion { version, job_file, ..Default::default() };
        let history = vec![
            version(3, file(9, "b", r#"["alpha", "beta"]"#)),
            version(2, file(3, "b", r#"["alpha"]"#)),
            version(1, file(3, "a", r#"["alpha"]"#)),
        ];
        let release = v1::FederatedRelease {
            version: 3,
            from: 2,
            phase: v1::ReleasePhase::Reverted.into(),
            ..v1::FederatedRelease::default()
        };
        let views = FederatedVersionView::all(history, "ann", Some(&FederatedReleaseView::from(release)));
        let states: Vec<&str> = views.iter().map(|view| view.state).collect();
        assert_eq!(states, ["taken back", "in force", ""]);
        let paths = |view: &FederatedVersionView| {
            view.changes.as_ref().map(|all| all.iter().map(|one| one.path.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(paths(&views[0]), Some(vec!["federation.cells".to_owned()]), "a count is of no version");
        assert_eq!(paths(&views[1]), Some(vec!["task.command[1]".to_owned()]));
        assert_eq!(paths(&views[2]), None);
        let text = FederatedVersionView::text(&views, &Style::default());
        let end = "\nversion 3\n  ~ federation.cells: [alpha] -> [alpha, beta]\n\
                   \nversion 2\n  ~ task.command[1]: a -> b\n";
        assert!(text.ends_with(end), "{text}");
    }
}
