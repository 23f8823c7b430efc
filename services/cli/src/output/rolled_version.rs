//! The versions of a job, with which of them a rollout can go back to.

use borough_proto::v1;
use serde::Serialize;

use super::changes::ChangedField;
use super::job_version::JobVersionView;
use super::table::Tabular;
use super::text::time;
use super::{Foreign, Style};

/// A version of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RolledVersionView {
    pub(crate) version: u32,
    /// When it came into force, and who made it; null: not recorded.
    pub(crate) at_ms: Option<i64>,
    pub(crate) actor: Option<Foreign>,
    /// Whether it is the version of the job now.
    pub(crate) in_force: bool,
    /// Whether its rollout was done, so that `rollout undo` can go back to it. The last ten are known.
    pub(crate) rolled_out: bool,
    /// The state of its rollout, if that is the last one of the job.
    pub(crate) rollout: Option<String>,
    /// What differs from the version before it; null for the first one.
    pub(crate) changes: Option<Vec<ChangedField>>,
    /// The job of the versions.
    #[serde(skip)]
    job: JobVersionView,
}

impl RolledVersionView {
    /// The versions of the present job of a name, newest first.
    pub(crate) fn all(row: &v1::Job, versions: Vec<v1::JobVersion>) -> Vec<Self> {
        let own = |view: &JobVersionView| view.job.id == row.id.as_str();
        let views = JobVersionView::all(versions).into_iter().filter(own);
        views.map(|view| Self::of(row, view)).collect()
    }

    fn of(row: &v1::Job, view: JobVersionView) -> Self {
        let version = view.version;
        let last = row.rollout.as_ref().filter(|rollout| rollout.version == version);
        let is_done = |rollout: &v1::Rollout| rollout.state() == v1::RolloutState::Done && !rollout.untried;
        let rolled_out = match &row.rollout {
            // Without a rollout, tasks begin with the version in force.
            None => version == row.spec_version,
            Some(rollout) => rollout.versions.contains(&version) || last.is_some_and(is_done),
        };
        Self {
            version,
            at_ms: view.at_ms,
            actor: view.actor.clone(),
            in_force: version == row.spec_version,
            rolled_out,
            rollout: last.map(|rollout| super::word(rollout.state().as_str_name(), "ROLLOUT_STATE_")),
            changes: view.changes.clone(),
            job: view,
        }
    }

    /// What each version changed, for people.
    pub(crate) fn changes_text(views: &[Self], style: &Style) -> String {
        let views: Vec<JobVersionView> = views.iter().map(|view| view.job.clone()).collect();
        JobVersionView::changes_text(&views, style)
    }
}

impl Tabular for RolledVersionView {
    const PLURAL: &'static str = "versions";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["VERSION", "TIME", "ACTOR", "IN FORCE", "ROLLED OUT", "ROLLOUT"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let yes = |is: bool| if is { "yes".to_owned() } else { String::new() };
        let cells = vec![
            self.version.to_string(),
            self.at_ms.map(time).unwrap_or_default(),
            self.actor.as_ref().map(ToString::to_string).unwrap_or_default(),
            yes(self.in_force),
            yes(self.rolled_out),
            self.rollout.clone().unwrap_or_default(),
        ];
        (cells, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_rolled_out_if_a_rollout_can_go_back_to_it() {
        let version = |version, id: &str| v1::JobVersion {
            version,
            job: Some(v1::Job { id: id.to_owned(), ..v1::Job::default() }),
            ..v1::JobVersion::default()
        };
        let versions = || vec![version(3, "j2"), version(2, "j2"), version(1, "j2"), version(1, "j1")];
        let of = |state: v1::RolloutState| {
            let rollout =
                v1::Rollout { version: 3, versions: vec![1], state: state.into(), ..Default::default() };
            let row = v1::Job {
                id: "j2".to_owned(),
                spec_version: 3,
                rollout: Some(rollout),
                ..Default::default()
            };
            let views = RolledVersionView::all(&row, versions());
            views.iter().map(|view| (view.version, view.rolled_out)).collect::<Vec<_>>()
        };
        assert_eq!(of(v1::RolloutState::Rolling), [(3, false), (2, false), (1, true)]);
        assert_eq!(of(v1::RolloutState::Done), [(3, true), (2, false), (1, true)]);
        let never = v1::Job { id: "j1".to_owned(), spec_version: 1, ..v1::Job::default() };
        let views = RolledVersionView::all(&never, versions());
        assert_eq!(views.iter().map(|view| view.rolled_out).collect::<Vec<_>>(), [true]);
    }
}
