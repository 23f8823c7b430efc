//! The versions of a job, with which of them a rollout can go back to.

use borough_model::JobSpec;
use borough_model::job::runs_alike;
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
    /// Whether its rollout was done, or that of a version that runs alike, so that `rollout undo` can go back to it.
    /// The last ten are known.
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
        let mut views: Vec<Self> = views.map(|view| Self::of(row, view)).collect();
        let rolled_out = views.iter().filter(|view| view.rolled_out);
        let proven: Vec<JobSpec> = rolled_out.filter_map(|view| view.job.spec.read()).collect();
        for view in views.iter_mut().filter(|view| !view.rolled_out) {
            let spec = view.job.spec.read();
            view.rolled_out = spec.is_some_and(|spec| proven.iter().any(|one| runs_alike(one, &spec)));
        }
        views
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
    use borough_model::Name;
    use borough_model::job::JobKind;

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
        // Tasks of a version that differs in a label only run as those of one that is proven.
        let labelled = |number, team: &str, command: &str| {
            let name = |text: &str| Name::new(text).unwrap();
            let words = vec![command.to_owned()];
            let mut spec = JobSpec::defaults(name("ann"), name("web"), JobKind::Service, words);
            spec.labels = [("team".to_owned(), team.to_owned())].into();
            let spec = Some(borough_proto::convert::job_spec_to_message(&spec));
            v1::JobVersion { spec, ..version(number, "j2") }
        };
        let rollout = v1::Rollout { version: 3, versions: vec![1], ..Default::default() };
        let row =
            v1::Job { id: "j2".to_owned(), spec_version: 3, rollout: Some(rollout), ..Default::default() };
        let alike = vec![labelled(3, "a", "new"), labelled(2, "b", "old"), labelled(1, "a", "old")];
        let views = RolledVersionView::all(&row, alike);
        let rolled_out = views.iter().map(|view| (view.version, view.rolled_out)).collect::<Vec<_>>();
        assert_eq!(rolled_out, [(3, false), (2, true), (1, true)]);
        let never = v1::Job { id: "j1".to_owned(), spec_version: 1, ..v1::Job::default() };
        let views = RolledVersionView::all(&never, versions());
        assert_eq!(views.iter().map(|view| view.rolled_out).collect::<Vec<_>>(), [true]);
    }
}
