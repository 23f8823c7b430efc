//! Tasks.

use std::collections::{BTreeMap, BTreeSet};

use borough_proto::v1;
use serde::Serialize;

use super::helper::HelperView;
use super::table::{Tabular, table};
use super::text::{ResourcesView, bytes, facts, ranges, time, word};
use super::{ExitView, ExplanationView, Foreign, Style, explanations_text};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TaskOutput {
    pub(crate) user: Foreign,
    pub(crate) job: Foreign,
    pub(crate) index: u32,
    pub(crate) state: String,
    pub(crate) health: String,
    /// Empty without a node.
    pub(crate) node: Foreign,
    pub(crate) host: Foreign,
    /// The number of its attempt; 0: it was never placed.
    pub(crate) attempt: u64,
    pub(crate) ports: BTreeMap<Foreign, u32>,
    pub(crate) pid: Option<u32>,
    pub(crate) cores: Vec<u32>,
    pub(crate) restarts: u32,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Why it is being stopped.
    pub(crate) stop: Option<String>,
    /// How its last attempt ended.
    pub(crate) exit: Option<ExitView>,
    /// Earliest time of the next start, in milliseconds since 1970; 0 for at once.
    pub(crate) not_before_ms: i64,
    pub(crate) started_ms: Option<i64>,
    pub(crate) changed_ms: i64,
    pub(crate) spec_version: u32,
    pub(crate) revision: u64,
    pub(crate) usage: Option<UsageView>,
    /// What its node is charged for it; null while none is.
    pub(crate) charge: Option<ResourcesView>,
    /// Whether a rollout runs it beside the tasks that the job's owner wants.
    pub(crate) surges: bool,
    /// A resize in place that is not in force; null: what it is charged is.
    pub(crate) resize: Option<TaskResizeView>,
    /// Its place in an alloc; null if it is in none.
    pub(crate) alloc: Option<InAllocView>,
    /// The tasks in it, if it is an alloc.
    pub(crate) inside: Vec<InsideView>,
    /// Its helpers in this attempt, or in the last one.
    pub(crate) helpers: Vec<HelperView>,
}

/// The place of a task in an alloc.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct InAllocView {
    pub(crate) set: Foreign,
    pub(crate) index: u32,
    /// What it takes of the alloc.
    pub(crate) resources: ResourcesView,
}

/// A task in an alloc.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct InsideView {
    pub(crate) job: Foreign,
    pub(crate) index: u32,
    /// What it takes of the alloc.
    pub(crate) resources: ResourcesView,
}

impl From<v1::TaskInAlloc> for InAllocView {
    fn from(alloc: v1::TaskInAlloc) -> Self {
        let resources = alloc.resources.unwrap_or_default().into();
        Self { set: alloc.set.into(), index: alloc.index, resources }
    }
}

impl From<v1::TaskInside> for InsideView {
    fn from(inside: v1::TaskInside) -> Self {
        let resources = inside.resources.unwrap_or_default().into();
        Self { job: inside.job.into(), index: inside.index, resources }
    }
}

/// A resize of a running task that is ordered, or was refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TaskResizeView {
    /// What it is to have.
    pub(crate) granted: ResourcesView,
    /// What it has.
    pub(crate) in_force: ResourcesView,
    pub(crate) spec_version: u32,
    /// When it was ordered, or refused: milliseconds since 1970.
    pub(crate) at_ms: i64,
    /// Why it was refused; null: it is ordered.
    pub(crate) refused: Option<Foreign>,
}

impl From<v1::TaskResize> for TaskResizeView {
    fn from(resize: v1::TaskResize) -> Self {
        Self {
            granted: resize.granted.unwrap_or_default().into(),
            in_force: resize.in_force.unwrap_or_default().into(),
            spec_version: resize.spec_version,
            at_ms: resize.at_ms,
            refused: Some(Foreign::from(resize.refused)).filter(|refused| !refused.is_empty()),
        }
    }
}

impl TaskResizeView {
    /// What it is to have, and why it has not.
    fn text(&self) -> String {
        let granted = self.granted.text();
        match &self.refused {
            None => format!("{granted}, not in force yet"),
            Some(why) => format!("{granted}, refused at {}: {why}", time(self.at_ms)),
        }
    }
}

/// The use of a task at a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct UsageView {
    pub(crate) at_ms: i64,
    pub(crate) cpu_millis: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_peak_bytes: u64,
    pub(crate) processes: u32,
}

impl From<v1::Task> for TaskOutput {
    fn from(task: v1::Task) -> Self {
        let stop = task.stop();
        let stop = (stop != v1::StopReason::Unspecified).then(|| word(stop.as_str_name(), "STOP_REASON_"));
        Self {
            state: word(task.state().as_str_name(), "TASK_STATE_"),
            health: word(task.health().as_str_name(), "HEALTH_"),
            user: task.user.into(),
            job: task.job.into(),
            index: task.index,
            node: task.node.into(),
            host: task.host.into(),
            attempt: task.incarnation,
            ports: task.ports.into_iter().map(|port| (port.name.into(), port.number)).collect(),
            pid: task.pid,
            cores: task.cores,
            restarts: task.restarts,
            failures: task.failures,
            stop,
            exit: task.exit.map(ExitView::from),
            not_before_ms: task.not_before_ms,
            started_ms: task.started_ms,
            changed_ms: task.changed_ms,
            spec_version: task.spec_version,
            revision: task.revision,
            usage: task.usage.map(|usage| UsageView {
                at_ms: usage.at_ms,
                cpu_millis: usage.cpu_millis,
                memory_bytes: usage.memory_bytes,
                memory_peak_bytes: usage.memory_peak_bytes,
                processes: usage.processes,
            }),
            charge: task.charge.map(ResourcesView::from),
            surges: task.surges,
            resize: task.resize.map(TaskResizeView::from),
            alloc: task.alloc.map(InAllocView::from),
            inside: task.inside.into_iter().map(InsideView::from).collect(),
            helpers: task.helpers.into_iter().map(HelperView::from).collect(),
        }
    }
}

impl TaskOutput {
    /// The alloc that it is in, and what it takes of it.
    fn alloc_text(&self) -> String {
        let Some(InAllocView { set, index, resources }) = &self.alloc else { return String::new() };
        format!("{}/{set}/{index}, of which it takes {}", self.user, resources.text())
    }

    /// What is in it, if it is an alloc: `web/0 (cpu 100m, memory 64MiB), logs/0 (cpu 50m, memory 32MiB)`.
    fn inside_text(&self) -> String {
        let inside = self.inside.iter();
        let inside =
            inside.map(|inside| format!("{}/{} ({})", inside.job, inside.index, inside.resources.text()));
        inside.collect::<Vec<_>>().join(", ")
    }

    /// A line about what is in it; `None` if nothing is.
    fn inside_line(&self) -> Option<String> {
        let inside = self.inside_text();
        (!inside.is_empty()).then(|| format!("in {}/{}/{}: {inside}\n", self.user, self.job, self.index))
    }
    /// The state, with the reason of a stop, or that it surges.
    fn state_text(&self) -> String {
        match &self.stop {
            None if self.surges && self.state != "dead" => format!("{} (surging)", self.state),
            Some(reason) => format!("{} ({})", self.state, reason.replace('_', " ")),
            None => self.state.clone(),
        }
    }

    /// The version of its attempt; empty if it was never placed.
    fn version_text(&self) -> String {
        if self.spec_version == 0 { String::new() } else { self.spec_version.to_string() }
    }

    /// The health, which only a running task has.
    fn health_text(&self) -> String {
        if self.state == "running" { self.health.clone() } else { String::new() }
    }
}

/// A paragraph with a line for each alloc that has something in it.
pub(super) fn inside_text(tasks: &[TaskOutput]) -> String {
    let lines: String = tasks.iter().filter_map(TaskOutput::inside_line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Named ports: `http:8080, admin:8081`.
pub(super) fn ports_text(ports: &BTreeMap<Foreign, u32>) -> String {
    let texts = ports.iter().map(|(name, number)| format!("{name}:{number}"));
    texts.collect::<Vec<_>>().join(", ")
}

impl Tabular for TaskOutput {
    const PLURAL: &'static str = "tasks";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let heads = vec!["TASK", "STATE", "HEALTH", "NODE", "PORTS", "RESTARTS", "LAST EXIT"];
        (heads, vec!["ATTEMPT", "VERSION", "PID", "STARTED", "CPU", "MEMORY", "PEAK"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let cells = vec![
            format!("{}/{}/{}", self.user, self.job, self.index),
            self.state_text(),
            self.health_text(),
            self.node.to_string(),
            ports_text(&self.ports),
            self.restarts.to_string(),
            self.exit.as_ref().map(ExitView::text).unwrap_or_default(),
        ];
        let used = |stat: fn(&UsageView) -> String| self.usage.as_ref().map(stat).unwrap_or_default();
        let more = vec![
            self.attempt.to_string(),
            self.version_text(),
            self.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            self.started_ms.map(time).unwrap_or_default(),
            used(|usage| format!("{}m", usage.cpu_millis)),
            used(|usage| bytes(usage.memory_bytes)),
            used(|usage| bytes(usage.memory_peak_bytes)),
        ];
        (cells, more)
    }
}

/// A task in a table of a job with tasks of several versions.
struct VersionedTask(TaskOutput);

impl Tabular for VersionedTask {
    const PLURAL: &'static str = TaskOutput::PLURAL;

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let (mut heads, mut more) = TaskOutput::heads();
        more.retain(|head| *head != "VERSION");
        heads.insert(VERSION_PLACE, "VERSION");
        (heads, more)
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let (mut cells, mut more) = self.0.cells();
        let (_, heads) = TaskOutput::heads();
        if let Some(place) = heads.iter().position(|head| *head == "VERSION") {
            more.remove(place);
        }
        cells.insert(VERSION_PLACE, self.0.version_text());
        (cells, more)
    }
}

/// Behind the name, the state and the health.
const VERSION_PLACE: usize = 3;

/// The tasks of a job. If they have attempts of several versions, each shows its own.
pub(super) fn tasks_table(tasks: &[TaskOutput], style: &Style) -> String {
    let versions = tasks.iter().map(|task| task.spec_version).filter(|version| *version > 0);
    if versions.collect::<BTreeSet<u32>>().len() < 2 {
        return table(tasks, style);
    }
    table(&tasks.iter().cloned().map(VersionedTask).collect::<Vec<_>>(), style)
}

/// One task in full.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TaskStatusView {
    pub(crate) cell: Foreign,
    pub(crate) task: TaskOutput,
    /// Why it has no node; empty if it has one, or wants none.
    pub(crate) unplaced: Vec<ExplanationView>,
    /// Why it runs and is not healthy; empty if it is, or does not run.
    pub(crate) unhealthy: Vec<ExplanationView>,
    /// The silence of its node; null: the agent answers, as far as the cell knows.
    pub(crate) silent: Option<SilentNodeView>,
}

/// The node of a task, if its agent does not answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SilentNodeView {
    node: Foreign,
    is_lost: bool,
    /// Since when; null: not known.
    silent_since_ms: Option<i64>,
    /// When it will be declared lost, about; null: not known.
    lost_at_ms: Option<i64>,
}

impl SilentNodeView {
    /// `None` if its agent answers, as far as the cell knows.
    pub(crate) fn of(node: &v1::Node) -> Option<Self> {
        let silent_since_ms = Some(node.silent_since_ms).filter(|&since| since > 0);
        let is_lost = node.state() == v1::NodeState::Lost;
        (is_lost || silent_since_ms.is_some()).then(|| Self {
            node: node.name.as_str().into(),
            is_lost,
            silent_since_ms,
            lost_at_ms: Some(node.lost_at_ms).filter(|&at| at > 0 && !is_lost),
        })
    }

    fn text(&self) -> String {
        let Self { node, is_lost, silent_since_ms, lost_at_ms } = self;
        let lost = if *is_lost { "is lost: it " } else { "" };
        let since = silent_since_ms.map(|since| format!(" since {}", time(since))).unwrap_or_default();
        let next = lost_at_ms.map(|at| format!("; declared lost at about {}", time(at))).unwrap_or_default();
        format!("silent\n  its node {node} {lost}does not answer{since}{next}: borough node status {node}\n")
    }
}

impl TaskStatusView {
    pub(crate) fn text(&self, style: &Style) -> String {
        let task = &self.task;
        let state = match task.state.as_str() {
            "running" => style.paint(&task.state_text(), 32),
            "lost" => style.paint(&task.state_text(), 31),
            _ => task.state_text(),
        };
        let number = |number: u64| if number == 0 { String::new() } else { number.to_string() };
        let at = if task.host.is_empty() { String::new() } else { format!(" at {}", task.host) };
        let node = if task.node.is_empty() { String::new() } else { format!("{}{at}", task.node) };
        let used = |stat: fn(&UsageView) -> String| task.usage.as_ref().map(stat).unwrap_or_default();
        let mut text = facts(&[
            ("task", format!("{}/{}/{} in cell {}", task.user, task.job, task.index, self.cell)),
            ("state", state),
            ("health", task.health_text()),
            ("node", node),
            ("ports", ports_text(&task.ports)),
            ("pid", task.pid.map(|pid| pid.to_string()).unwrap_or_default()),
            ("cores", ranges(&task.cores)),
            ("attempt", number(task.attempt)),
            ("restarts", task.restarts.to_string()),
            ("failures", task.failures_text()),
            ("last exit", task.exit.as_ref().map(ExitView::text_long).unwrap_or_default()),
            ("started", task.started_ms.map(|at_ms| style.time(at_ms)).unwrap_or_default()),
            ("changed", if task.changed_ms > 0 { style.time(task.changed_ms) } else { String::new() }),
            ("next start", task.next_start_text()),
            ("in force", task.resize.as_ref().map(|resize| resize.in_force.text()).unwrap_or_default()),
            ("asked for", task.resize.as_ref().map(TaskResizeView::text).unwrap_or_default()),
            ("alloc", task.alloc_text()),
            ("in it", task.inside_text()),
            ("charged", task.charge.as_ref().map(ResourcesView::text).unwrap_or_default()),
            ("in use", used(UsageView::text)),
            ("version", number(u64::from(task.spec_version))),
        ]);
        if !task.helpers.is_empty() {
            text.push_str("helpers\n");
            let lines = task.helpers.iter().map(|helper| format!("  {}: {}\n", helper.name, helper.text()));
            text.extend(lines);
        }
        if let Some(silent) = &self.silent {
            text.push_str(&silent.text());
        }
        // The facts say already how it fails and when it starts next.
        let unplaced = self.unplaced.iter().filter(|explanation| explanation.failures == 0);
        let unplaced = unplaced.chain(&self.unhealthy).cloned();
        let unplaced = explanations_text(&unplaced.collect::<Vec<_>>());
        if !unplaced.is_empty() {
            text.push('\n');
            text.push_str(&unplaced);
        }
        text
    }
}

impl TaskOutput {
    fn failures_text(&self) -> String {
        let before = if self.health == "healthy" { ", before it became healthy" } else { "" };
        if self.failures == 0 { String::new() } else { format!("{} in a row{before}", self.failures) }
    }

    /// Before when it does not start again.
    fn next_start_text(&self) -> String {
        // Without failures its pause was taken away.
        let waits = self.state == "pending" && self.failures > 0 && self.not_before_ms > 0;
        if waits { format!("not before {}", time(self.not_before_ms)) } else { String::new() }
    }
}

impl UsageView {
    fn text(&self) -> String {
        let (now, most) = (bytes(self.memory_bytes), bytes(self.memory_peak_bytes));
        let processes = match self.processes {
            1 => "1 process".to_owned(),
            number => format!("{number} processes"),
        };
        format!(
            "cpu {}m, memory {now} (at most {most}), {processes}, at {}",
            self.cpu_millis,
            time(self.at_ms)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silence_of_a_node_is_said_until_its_agent_answers() {
        let node = |state: v1::NodeState, silent_since_ms, lost_at_ms| {
            let name = "n1".to_owned();
            let node =
                v1::Node { name, state: state.into(), silent_since_ms, lost_at_ms, ..v1::Node::default() };
            SilentNodeView::of(&node).map(|silent| silent.text()).unwrap_or_default()
        };
        assert_eq!(node(v1::NodeState::Ready, 0, 0), "");
        assert_eq!(
            node(v1::NodeState::Ready, 1_000, 31_000),
            "silent\n  its node n1 does not answer since 1970-01-01T00:00:01Z; declared lost at about \
             1970-01-01T00:00:31Z: borough node status n1\n"
        );
        assert_eq!(
            node(v1::NodeState::Lost, 1_000, 31_000),
            "silent\n  its node n1 is lost: it does not answer since 1970-01-01T00:00:01Z: borough node status n1\n"
        );
    }
}
