//! Jobs and their specs.

use std::collections::BTreeMap;

use borough_model::JobSpec;
use borough_model::job::{JobKind, Role, spec_value};
use borough_proto::convert::job_spec_from_message;
use borough_proto::v1;
use serde::Serialize;
use serde_json::Value;

use super::daemon::DaemonNodesView;
use super::table::Tabular;
use super::task::{TaskOutput, inside_text, tasks_table};
use super::text::{facts, tally, time, word};
use super::{ExplanationView, Foreign, RolloutOutput, Style, explanations_text, healthy_of};
use crate::args::{condition_value, word_shown};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct JobView {
    pub(crate) cell: Foreign,
    pub(crate) user: Foreign,
    pub(crate) name: Foreign,
    pub(crate) id: Foreign,
    pub(crate) kind: String,
    pub(crate) state: String,
    pub(crate) priority: u32,
    pub(crate) count: u32,
    pub(crate) tasks: CountsView,
    pub(crate) spec_version: u32,
    pub(crate) revision: u64,
    pub(crate) submitted_ms: i64,
    pub(crate) changed_ms: i64,
    pub(crate) labels: BTreeMap<Foreign, Foreign>,
    /// Empty if the job has none.
    pub(crate) description: Foreign,
    /// Its last rollout; null if it has had none.
    pub(crate) rollout: Option<RolloutOutput>,
    /// How the nodes are served; null if it is no daemon job.
    pub(crate) daemon: Option<DaemonNodesView>,
    /// The jobs in it that have not ended, if it is an alloc set.
    pub(crate) alloc_jobs: Vec<Foreign>,
    /// How many tasks of a service are healthy, of how many: without those that surge, if the gateway says which.
    #[serde(skip)]
    pub(crate) healthy: (u32, u32),
}

/// Counts of tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct CountsView {
    pub(crate) pending: u32,
    pub(crate) held: u32,
    pub(crate) assigned: u32,
    pub(crate) starting: u32,
    pub(crate) running: u32,
    pub(crate) healthy: u32,
    pub(crate) stopping: u32,
    pub(crate) releasing: u32,
    pub(crate) lost: u32,
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
}

impl From<v1::TaskCounts> for CountsView {
    fn from(counts: v1::TaskCounts) -> Self {
        Self {
            pending: counts.pending,
            held: counts.held,
            assigned: counts.assigned,
            starting: counts.starting,
            running: counts.running,
            healthy: counts.healthy,
            stopping: counts.stopping,
            releasing: counts.releasing,
            lost: counts.lost,
            succeeded: counts.succeeded,
            failed: counts.failed,
        }
    }
}

impl CountsView {
    /// The counts that are not zero.
    pub(crate) fn text(&self) -> String {
        let all = [
            ("pending", self.pending),
            ("held", self.held),
            ("assigned", self.assigned),
            ("starting", self.starting),
            ("running", self.running),
            ("healthy", self.healthy),
            ("stopping", self.stopping),
            ("releasing", self.releasing),
            ("lost", self.lost),
            ("succeeded", self.succeeded),
            ("failed", self.failed),
        ];
        let some = all.iter().filter(|(_, number)| *number > 0);
        some.map(|(word, number)| format!("{number} {word}")).collect::<Vec<_>>().join(", ")
    }
}

impl From<v1::Job> for JobView {
    fn from(job: v1::Job) -> Self {
        Self {
            healthy: healthy_of(&job),
            kind: word(job.kind().as_str_name(), "JOB_KIND_"),
            state: word(job.state().as_str_name(), "JOB_STATE_"),
            cell: job.cell.into(),
            user: job.user.into(),
            name: job.name.into(),
            id: job.id.into(),
            priority: job.priority,
            count: job.count,
            daemon: job.daemon.map(DaemonNodesView::from),
            alloc_jobs: job.alloc_jobs.into_iter().map(Foreign::from).collect(),
            tasks: job.tasks.unwrap_or_default().into(),
            spec_version: job.spec_version,
            revision: job.revision,
            submitted_ms: job.submitted_ms,
            changed_ms: job.changed_ms,
            labels: job.labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            description: job.description.into(),
            rollout: job.rollout.map(RolloutOutput::from),
        }
    }
}

impl JobView {
    /// Tasks that a rollout runs beside the job's own.
    fn surge(&self) -> u32 {
        self.rollout.as_ref().map_or(0, |rollout| rollout.surge)
    }

    /// How many tasks are healthy or have done their work. Of a service that was stopped none is to be healthy.
    fn healthy_text(&self) -> String {
        match (self.kind.as_str(), self.state.as_str()) {
            ("batch", _) => format!("{}/{} done", self.tasks.succeeded, self.count),
            (_, "stopped") => String::new(),
            _ => format!("{}/{}", self.healthy.0, self.healthy.1),
        }
    }

    /// The state, with the rollout if it is not done: `running (rollout 1/3)`.
    fn state_text(&self) -> String {
        let is_live = matches!(self.state.as_str(), "waiting" | "running");
        let rollout = self.rollout.as_ref().filter(|_| is_live).map(RolloutOutput::text_short);
        match rollout.filter(|text| !text.is_empty()) {
            Some(rollout) => format!("{} ({rollout})", self.state),
            None => self.state.clone(),
        }
    }
}

impl Tabular for JobView {
    const PLURAL: &'static str = "jobs";

    fn name(&self) -> String {
        format!("{}/{}", self.user, self.name)
    }

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let heads = vec!["USER", "JOB", "KIND", "STATE", "HEALTHY", "PRIORITY", "SUBMITTED", "LABELS"];
        (heads, vec!["TASKS", "VERSION", "REVISION", "ID", "DESCRIPTION"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let labels =
            self.labels.iter().map(|(key, value)| format!("{key}={}", condition_value(&value.to_string())));
        let cells = vec![
            self.user.to_string(),
            self.name.to_string(),
            self.kind.clone(),
            self.state_text(),
            self.healthy_text(),
            self.priority.to_string(),
            time(self.submitted_ms),
            labels.collect::<Vec<_>>().join(","),
        ];
        let more = vec![
            self.tasks.text(),
            self.spec_version.to_string(),
            self.revision.to_string(),
            self.id.to_string(),
            self.description.to_string(),
        ];
        (cells, more)
    }
}

/// A spec in its stored form. A newer gateway's spec that this program cannot read is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct SpecView(pub(crate) Option<Value>);

impl SpecView {
    pub(crate) fn new(spec: Option<&v1::JobSpec>) -> Self {
        let read = spec.and_then(|spec| job_spec_from_message(spec).ok());
        Self(read.as_ref().map(spec_value))
    }

    /// How many tasks its owner wants; `None`: a newer gateway says what is not known here.
    pub(crate) fn count(&self) -> Option<u32> {
        self.read().map(|spec| spec.count)
    }

    pub(super) fn read(&self) -> Option<JobSpec> {
        serde_json::from_value(self.0.clone()?).ok()
    }
}

/// The gang of a job's tasks; empty without one.
fn gang_text(spec: &JobSpec) -> String {
    if spec.min_member < 2 {
        return String::new();
    }
    let mut text = format!("at least {} of {} placed, or none", spec.min_member, spec.count);
    if let Some(topology) = spec.gang_topology() {
        let domains = match (topology.domains_min, topology.domains_max) {
            (_, 1) => format!("in one {}", topology.attribute),
            (1, most) => format!("within {most} domains of {}", topology.attribute),
            (least, most) if least == most => format!("over {most} domains of {}", topology.attribute),
            (least, most) => format!("over {least} to {most} domains of {}", topology.attribute),
        };
        let wished = if topology.preferred { ", if there is room" } else { "" };
        text.push_str(&format!(", {domains}{wished}"));
    }
    let role = |role: &Role| format!("{} {} of {}", role.name, role.min_member, role.count);
    let roles: Vec<String> = spec.roles().iter().map(role).collect();
    if !roles.is_empty() {
        text.push_str(&format!("; roles {}", roles.join(", ")));
    }
    text
}

/// One job in full.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct JobStatusView {
    pub(crate) job: JobView,
    pub(crate) tasks: Vec<TaskOutput>,
    pub(crate) unplaced: Vec<ExplanationView>,
    /// Why tasks run and are not healthy, or why nobody knows it.
    pub(crate) unhealthy: Vec<ExplanationView>,
    pub(crate) spec: SpecView,
    /// The page behind these tasks; null if none follow.
    pub(crate) next_page: Option<String>,
}

impl JobStatusView {
    pub(crate) fn text(&self, style: &Style) -> String {
        let job = &self.job;
        let state = match job.state.as_str() {
            "running" | "succeeded" => style.paint(&job.state, 32),
            "failed" | "dependency_failed" => style.paint(&job.state, 31),
            _ => job.state.clone(),
        };
        let spec = self.spec.read();
        let gang = spec.as_ref().map(gang_text).unwrap_or_default();
        let name = format!("{}/{}", job.user, job.name);
        let mut shown = vec![
            ("job", format!("{name} in cell {}", job.cell)),
            ("kind", job.kind.clone()),
            ("state", state),
            ("priority", job.priority.to_string()),
        ];
        // The texts come from the job's owner, so they are shown as foreign.
        let of_spec = spec.as_ref().map(JobSpec::status_fields).unwrap_or_default();
        shown.extend(of_spec.into_iter().map(|(name, text)| (name, Foreign::from(text).to_string())));
        shown.extend([
            ("jobs in it", job.alloc_jobs.iter().map(Foreign::to_string).collect::<Vec<_>>().join(", ")),
            ("tasks", wanted_text(job)),
            ("gang", gang),
            ("command", spec.as_ref().map(command_text).unwrap_or_default()),
            ("submitted", style.time(job.submitted_ms)),
            ("changed", style.time(job.changed_ms)),
            ("version", format!("{} (revision {})", job.spec_version, job.revision)),
            (
                "rollout",
                job.rollout.as_ref().map(|rollout| rollout.text(&name, &job.state)).unwrap_or_default(),
            ),
        ]);
        // The labels of empty texts must not widen the column.
        shown.retain(|(_, text)| !text.is_empty());
        let mut text = facts(&shown);
        if !self.tasks.is_empty() {
            text.push('\n');
            text.push_str(&tasks_table(&self.tasks, style));
        }
        text.push_str(&inside_text(&self.tasks));
        let (failing, unplaced): (Vec<_>, Vec<_>) =
            self.unplaced.iter().cloned().partition(|explanation| explanation.failures > 0);
        for explained in [&unplaced, &self.unhealthy].into_iter().filter(|explained| !explained.is_empty()) {
            text.push('\n');
            text.push_str(&explanations_text(explained));
        }
        // The table says already how they ended.
        let failing: usize = failing.iter().map(|explanation| explanation.indexes.len()).sum();
        if failing > 0 {
            let fail = if failing == 1 { "1 task fails".to_owned() } else { format!("{failing} tasks fail") };
            let (user, name) = (&self.job.user, &self.job.name);
            text.push_str(&format!("\n{fail}; the next start and the output: borough why {user}/{name}\n"));
        }
        text
    }
}

/// The command of a job's tasks, as a shell has it. An alloc set runs none, and each role may have its own.
pub(super) fn command_text(spec: &JobSpec) -> String {
    if spec.kind == JobKind::AllocSet {
        return String::new();
    }
    let words: Vec<_> = spec.task.command.iter().map(|word| word_shown(word)).collect();
    Foreign::from(words.join(" ")).to_string()
}

/// How many tasks a job wants, and how many are in which state. Of a job that is over, none may be left in any.
fn wanted_text(job: &JobView) -> String {
    let surging = match job.surge() {
        0 => String::new(),
        surge => format!(" and {surge} surging"),
    };
    let nodes = job.daemon.as_ref().and_then(|daemon| daemon.text.as_ref());
    let nodes = nodes.map(|text| format!("; {text}")).unwrap_or_default();
    match job.tasks.text().as_str() {
        "" => format!("{} wanted{surging}, none now{nodes}", job.count),
        counts => format!("{} wanted{surging}: {counts}{nodes}", job.count),
    }
}

/// The jobs of one name that the cell has forgotten.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PurgedView {
    pub(crate) user: Foreign,
    pub(crate) name: Foreign,
    pub(crate) jobs: u32,
}

impl PurgedView {
    pub(crate) fn text(&self) -> String {
        let jobs = tally(usize::try_from(self.jobs).unwrap_or(usize::MAX), "job");
        format!("{}/{}: {jobs} forgotten", self.user, self.name)
    }
}

impl Tabular for PurgedView {
    const PLURAL: &'static str = "ended jobs";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["USER", "JOB", "FORGOTTEN"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        (vec![self.user.to_string(), self.name.to_string(), self.jobs.to_string()], Vec::new())
    }
}

/// The tasks of a job that were restarted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RestartedView {
    pub(crate) user: Foreign,
    pub(crate) name: Foreign,
    pub(crate) restarted: Vec<u32>,
    /// Those that had no attempt to end.
    pub(crate) left: Vec<LeftTaskView>,
}

/// A task that was left alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LeftTaskView {
    pub(crate) index: u32,
    pub(crate) why: &'static str,
}

impl RestartedView {
    pub(crate) fn text(&self) -> String {
        let mut text =
            format!("{}/{}: {} restarted\n", self.user, self.name, tally(self.restarted.len(), "task"));
        for left in &self.left {
            text.push_str(&format!("  task {} was left alone: {}\n", left.index, left.why));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use borough_model::Name;
    use borough_model::job::{GangSpec, GangTopology, TaskOverride};

    use super::*;

    #[test]
    fn a_gang_with_everything() {
        let name = |text: &str| Name::new(text).unwrap();
        let role = |text: &str, count, min_member| Role {
            name: name(text),
            count,
            min_member,
            task: TaskOverride::default(),
        };
        let topology =
            GangTopology { attribute: "rack".to_owned(), domains_min: 1, domains_max: 2, preferred: false };
        let mut spec = JobSpec::defaults(name("alice"), name("web"), JobKind::Batch, vec!["run".to_owned()]);
        (spec.count, spec.min_member) = (5, 4);
        spec.gang = Some(GangSpec {
            topology: Some(topology),
            roles: vec![role("driver", 1, 1), role("worker", 4, 3)],
        });
        spec.queue = Some("research/vision".to_owned());
        spec.scheduler = Some(name("gangs"));
        spec.profile = Some("fgd".to_owned());
        assert_eq!(
            gang_text(&spec),
            "at least 4 of 5 placed, or none, within 2 domains of rack; roles driver 1 of 1, worker 3 of 4"
        );
        let view = JobStatusView {
            job: v1::Job::default().into(),
            tasks: Vec::new(),
            unplaced: Vec::new(),
            unhealthy: Vec::new(),
            spec: SpecView(Some(spec_value(&spec))),
            next_page: None,
        };
        let text = view.text(&Style::default());
        for expected in
            ["gang       at least 4 of 5", "queue      research/vision", "scheduler  gangs", "profile    fgd"]
        {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
        spec.min_member = 1;
        assert_eq!(gang_text(&spec), "");
    }
}
