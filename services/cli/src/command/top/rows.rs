//! The rows of the tables: what each column shows, and what it is sorted by.

use std::cmp::Ordering;

use borough_client::{JobRef, TaskRef};
use borough_model::resource::cpu_display;
use borough_proto::v1;

use super::query::TaskScope;
use crate::output::{ExitView, NodeOutput, TaskOutput, bytes, healthy_of, line_shown, time, word};

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowTarget {
    Cell(String),
    Node(String),
    Job(JobRef),
    Task(TaskRef),
}

/// How good the news of a value is. The text says the same without colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Good,
    Changing,
    Bad,
}

/// One value of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableValue {
    pub(super) text: String,
    /// Sorts before the text. Values without a number come last.
    pub(super) number: Option<u64>,
    pub(super) tone: Tone,
}

impl TableValue {
    /// Text of somebody else, as one line that no terminal acts on.
    fn text(text: &str) -> Self {
        let text = if text.is_empty() { "-" } else { text };
        Self { text: line_shown(text).into_owned(), ..Self::default() }
    }

    fn number(number: impl Into<u64>) -> Self {
        let number = number.into();
        Self { text: number.to_string(), number: Some(number), ..Self::default() }
    }

    fn amount(number: Option<u64>, show: impl Fn(u64) -> String) -> Self {
        Self { text: number.map_or_else(|| "-".to_owned(), show), number, ..Self::default() }
    }

    fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// Numbers before texts; both by their order.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(own), Some(others)) => own.cmp(&others),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.text.cmp(&other.text),
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableRow {
    pub(super) target: RowTarget,
    /// In the order of the columns.
    pub(super) values: Vec<TableValue>,
}

impl TableRow {
    /// Returns true if some value contains `text`, which is in lower case.
    pub(super) fn contains(&self, text: &str) -> bool {
        self.values.iter().any(|value| value.text.to_lowercase().contains(text))
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableColumn {
    pub(super) head: &'static str,
    /// Columns of lower rank leave a narrow terminal first.
    pub(super) rank: u8,
}

const fn column(head: &'static str, rank: u8) -> TableColumn {
    TableColumn { head, rank }
}

pub(super) const CELL_COLUMNS: &[TableColumn] = &[
    column("CELL", 9),
    column("STATE", 8),
    column("NODES", 7),
    column("JOBS", 5),
    column("RUNNING", 4),
    column("PENDING", 4),
    column("CPU ALLOC", 7),
    column("CPU USE", 7),
    column("MEM ALLOC", 6),
    column("MEM USE", 6),
];

pub(super) const NODE_COLUMNS: &[TableColumn] = &[
    column("NODE", 9),
    column("STATE", 8),
    column("TASKS", 7),
    column("CPU ALLOC", 7),
    column("CPU USE", 7),
    column("MEM ALLOC", 6),
    column("MEM USE", 6),
    column("HOST", 3),
    column("AGENT", 2),
    column("LABELS", 1),
];

pub(super) const JOB_COLUMNS: &[TableColumn] = &[
    column("JOB", 9),
    column("STATE", 8),
    column("HEALTHY", 7),
    column("PENDING", 5),
    column("CPU ALLOC", 7),
    column("CPU USE", 7),
    column("MEM ALLOC", 6),
    column("MEM USE", 6),
    column("KIND", 4),
    column("PRIORITY", 3),
    column("SUBMITTED", 2),
    column("LABELS", 1),
];

pub(super) const TASK_COLUMNS: &[TableColumn] = &[
    column("TASK", 9),
    column("STATE", 8),
    column("HEALTH", 7),
    column("NODE", 7),
    column("CPU ALLOC", 6),
    column("CPU USE", 6),
    column("MEM ALLOC", 6),
    column("MEM USE", 6),
    column("RESTARTS", 4),
    column("STARTED", 2),
    column("LAST EXIT", 3),
];

fn share(used: u64, capacity: u64, show: impl Fn(u64) -> String) -> TableValue {
    TableValue {
        text: format!("{}/{}", show(used), show(capacity)),
        number: Some(used),
        ..TableValue::default()
    }
}

/// A cell, with its use if the gateway knows it.
pub(super) fn cell_row(cell: &v1::Cell) -> TableRow {
    let (capacity, used) = (cell.capacity.clone().unwrap_or_default(), cell.used.clone().unwrap_or_default());
    let load = cell.load.as_ref().filter(|load| load.nodes > 0);
    let tasks = cell.tasks.unwrap_or_default();
    let state = TableValue::text(&word(cell.state().as_str_name(), "CELL_STATE_"));
    let tone = if cell.state() == v1::CellState::Open { Tone::Good } else { Tone::Changing };
    let nodes = TableValue {
        text: format!("{}/{}", cell.nodes_ready, cell.nodes),
        number: Some(cell.nodes.into()),
        ..TableValue::default()
    };
    let values = vec![
        TableValue::text(&cell.name),
        state.toned(tone),
        nodes,
        TableValue::number(cell.jobs),
        TableValue::number(tasks.running),
        TableValue::number(tasks.pending),
        share(used.cpu_millis, capacity.cpu_millis, cpu_display),
        TableValue::amount(load.map(|load| load.cpu_millis), cpu_display),
        share(used.memory_bytes, capacity.memory_bytes, bytes),
        TableValue::amount(load.map(|load| load.memory_bytes), bytes),
    ];
    TableRow { target: RowTarget::Cell(cell.name.clone()), values }
}

/// A node, with its measured load.
pub(super) fn node_row(node: v1::Node) -> TableRow {
    let name = node.name.clone();
    let is_ready = node.state() == v1::NodeState::Ready;
    let view = NodeOutput::from(node);
    let is_well = is_ready && view.schedulable && view.connected && view.session_failure.is_none();
    let tone = match view.state.as_str() {
        _ if is_well => Tone::Good,
        "lost" => Tone::Bad,
        _ => Tone::Changing,
    };
    let labels: Vec<String> = view.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let values = vec![
        TableValue::text(&name),
        TableValue::text(&view.state_text()).toned(tone),
        TableValue::number(view.tasks),
        share(view.used.cpu_millis, view.capacity.cpu_millis, cpu_display),
        TableValue::amount(view.load.map(|load| load.cpu_millis), cpu_display),
        share(view.used.memory_bytes, view.capacity.memory_bytes, bytes),
        TableValue::amount(view.load.map(|load| load.memory_bytes), bytes),
        TableValue::text(view.host.raw()),
        TableValue::text(view.agent_version.raw()),
        TableValue::text(&labels.join(",")),
    ];
    TableRow { target: RowTarget::Node(name), values }
}

/// What a job uses. A `+` says that some of its tasks have no sample at the gateway that answers.
fn job_use(usage: &v1::JobUsage, used: u64, show: impl Fn(u64) -> String) -> TableValue {
    let more = if usage.sampled < usage.charged { "+" } else { "" };
    TableValue::amount((usage.sampled > 0).then_some(used), |used| format!("{}{more}", show(used)))
}

/// A job, with the sums over its tasks.
pub(super) fn job_row(job: &v1::Job) -> TableRow {
    let tasks = job.tasks.unwrap_or_default();
    let ((reached, count), what) = match job.kind() {
        v1::JobKind::Batch => ((tasks.succeeded, job.count), " done"),
        _ => (healthy_of(job), ""),
    };
    let is_stopped = job.kind() != v1::JobKind::Batch && job.state() == v1::JobState::Stopped;
    let is_whole = reached >= count;
    let tone = match job.state() {
        v1::JobState::Succeeded => Tone::Good,
        v1::JobState::Failed | v1::JobState::DependencyFailed => Tone::Bad,
        v1::JobState::Running if is_whole => Tone::Good,
        v1::JobState::Running if tasks.failed + tasks.lost > 0 => Tone::Bad,
        _ => Tone::Changing,
    };
    let usage = job.usage.unwrap_or_default();
    let labels: std::collections::BTreeMap<_, _> = job.labels.iter().collect();
    let labels: Vec<String> = labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    let healthy = TableValue {
        text: if is_stopped { "-".to_owned() } else { format!("{reached}/{count}{what}") },
        number: Some(reached.into()),
        ..TableValue::default()
    };
    let charged = |amount| (usage.charged > 0).then_some(amount);
    let values = vec![
        TableValue::text(&format!("{}/{}", job.user, job.name)),
        TableValue::text(&word(job.state().as_str_name(), "JOB_STATE_")).toned(tone),
        healthy,
        TableValue::number(tasks.pending),
        TableValue::amount(charged(usage.charged_cpu_millis), cpu_display),
        job_use(&usage, usage.cpu_millis, cpu_display),
        TableValue::amount(charged(usage.charged_memory_bytes), bytes),
        job_use(&usage, usage.memory_bytes, bytes),
        TableValue::text(&word(job.kind().as_str_name(), "JOB_KIND_")),
        TableValue::number(job.priority),
        TableValue {
            number: u64::try_from(job.submitted_ms).ok(),
            ..TableValue::text(&time(job.submitted_ms))
        },
        TableValue::text(&labels.join(",")),
    ];
    TableRow { target: RowTarget::Job(JobRef::new(job.user.as_str(), job.name.as_str())), values }
}

/// A task, with its charge and its last sample. Among the tasks of one job, its index is its name.
pub(super) fn task_row(task: v1::Task, scope: &TaskScope) -> TableRow {
    let job = JobRef::new(task.user.as_str(), task.job.as_str());
    let target = TaskRef { job, index: task.index };
    let name = match scope {
        TaskScope::Job(_) => target.index.to_string(),
        TaskScope::Node(_) => target.to_string(),
    };
    let charge = task.charge.clone();
    let tone = match (task.state(), task.health()) {
        (v1::TaskState::Running, v1::Health::Unhealthy) | (v1::TaskState::Lost, _) => Tone::Bad,
        (v1::TaskState::Running, _) => Tone::Good,
        (v1::TaskState::Dead, _) => Tone::Plain,
        _ => Tone::Changing,
    };
    let is_running = task.state() == v1::TaskState::Running;
    let view = TaskOutput::from(task);
    let state = match &view.stop {
        Some(reason) => format!("{} ({})", view.state, reason.replace('_', " ")),
        None => view.state.clone(),
    };
    let exit = view.exit.as_ref().map(ExitView::text).unwrap_or_default();
    let started = view.started_ms.unwrap_or_default();
    let values = vec![
        TableValue::text(&name),
        TableValue::text(&state).toned(tone),
        TableValue::text(if is_running { &view.health } else { "" }),
        TableValue::text(view.node.raw()),
        TableValue::amount(charge.as_ref().map(|charge| charge.cpu_millis), cpu_display),
        TableValue::amount(view.usage.as_ref().map(|usage| usage.cpu_millis), cpu_display),
        TableValue::amount(charge.as_ref().map(|charge| charge.memory_bytes), bytes),
        TableValue::amount(view.usage.as_ref().map(|usage| usage.memory_bytes), bytes),
        TableValue::number(view.restarts),
        TableValue {
            number: u64::try_from(started).ok().filter(|&ms| ms > 0),
            ..TableValue::text(&time(started))
        },
        TableValue::text(&exit),
    ];
    TableRow { target: RowTarget::Task(target), values }
}
