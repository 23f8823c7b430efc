//! The top of a job file.

use std::collections::BTreeMap;

use borough_model::Name;
use borough_model::job::{
    After, AfterCondition, JobKind, JobSpec, PreemptionSpec, RestartMode, RestartSpec, TaskOverride, TaskSpec,
};

use super::super::reader::{FieldReader, FileItem, MapFields};
use super::super::tree::{TreeKey, TreeValue};
use super::affinity::affinity_decode;
use super::constraint::constraints_decode;
use super::gang::gang_decode;
use super::spread::spread_decode;
use super::task::{OVERRIDE_FIELDS, override_decode, task_decode};
use super::toleration::tolerations_decode;

const FIELDS: [&str; 23] = [
    "user",
    "name",
    "kind",
    "priority",
    "count",
    "min_member",
    "roles",
    "gang_topology",
    "after",
    "constraints",
    "spread",
    "affinity",
    "tolerations",
    "task",
    "overrides",
    "restart",
    "drain_delay",
    "lost_after",
    "labels",
    "scheduler",
    "profile",
    "queue",
    "preemption",
];

/// A band stands for the lowest priority in it.
const BANDS: [(&str, u32); 4] =
    [("best_effort", 0), ("batch", 100), ("production", 200), ("monitoring", 300)];

pub(super) fn job_decode(reader: &mut FieldReader, root: &FileItem<'_>, caller: &Name) -> Option<JobSpec> {
    let fields = reader.fields(root, &FIELDS)?;
    let user = match fields.get("user") {
        Some(item) => reader.name(&item),
        None => Some(caller.clone()),
    };
    let name = match fields.get("name") {
        Some(item) => reader.name(&item),
        None => {
            reader.missing(root, "name", "a name such as web");
            None
        }
    };
    let kinds = [("service", JobKind::Service), ("batch", JobKind::Batch)];
    let kind = fields.get("kind").and_then(|item| reader.word(&item, &kinds)).unwrap_or(JobKind::Service);
    // A name that could not be read has been noted; the caller's stands in for it until all problems are known.
    let or_caller = |name: Option<Name>| name.unwrap_or_else(|| caller.clone());
    let mut spec = JobSpec::defaults(or_caller(user), or_caller(name), kind, Vec::new());
    match fields.get("task") {
        Some(item) => spec.task = task_decode(reader, &item).unwrap_or(spec.task),
        None => reader.missing(root, "task", "a map with at least a command"),
    }
    numbers_decode(reader, &fields, &mut spec);
    gang_decode(reader, &fields, &mut spec);
    if let Some(item) = fields.get("after") {
        spec.after = after_decode(reader, &item);
    }
    if let Some(item) = fields.get("constraints") {
        spec.constraints = constraints_decode(reader, &item);
    }
    if let Some(item) = fields.get("spread") {
        spec.spread = spread_decode(reader, &item);
    }
    if let Some(item) = fields.get("affinity") {
        spec.affinity = affinity_decode(reader, &item);
    }
    if let Some(item) = fields.get("tolerations") {
        spec.tolerations = tolerations_decode(reader, &item);
    }
    if let Some(item) = fields.get("overrides") {
        spec.overrides = overrides_decode(reader, &item, &spec.task);
    }
    if let Some(item) = fields.get("restart") {
        spec.restart = restart_decode(reader, &item, kind);
    }
    if let Some(item) = fields.get("labels") {
        spec.labels = reader.text_map(&item);
    }
    if let Some(item) = fields.get("scheduler") {
        spec.scheduler = reader.name(&item);
    }
    if let Some(item) = fields.get("profile") {
        spec.profile = reader.text(&item);
    }
    if let Some(item) = fields.get("queue") {
        spec.queue = reader.text(&item);
    }
    if let Some(item) = fields.get("preemption") {
        spec.preemption = Some(preemption_decode(reader, &item));
    }
    Some(spec)
}

fn numbers_decode(reader: &mut FieldReader, fields: &MapFields<'_>, spec: &mut JobSpec) {
    if let Some(item) = fields.get("priority") {
        spec.priority = priority_decode(reader, &item).unwrap_or(spec.priority);
    }
    if let Some(item) = fields.get("count") {
        let accepted = "a whole number of tasks from 0 to 100000";
        spec.count = reader.whole(&item, accepted).unwrap_or(spec.count);
    }
    if let Some(item) = fields.get("drain_delay") {
        spec.drain_delay_ms = reader.duration(&item).unwrap_or(spec.drain_delay_ms);
    }
    if let Some(item) = fields.get("lost_after") {
        spec.lost_after_ms = reader.duration(&item);
    }
}

/// A number, or the name of a band.
fn priority_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<u32> {
    match item.node.value {
        TreeValue::Text(_) => reader.word(item, &BANDS),
        _ => reader.whole(item, "0 to 399, or best_effort, batch, production or monitoring"),
    }
}

fn after_decode(reader: &mut FieldReader, list: &FileItem<'_>) -> Vec<After> {
    let items = reader.items(list, "a list of jobs such as [prepare]");
    items.iter().filter_map(|item| after_one(reader, item)).collect()
}

/// `prepare`, or `{job: prepare, condition: finished}`.
fn after_one(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<After> {
    let TreeValue::Map(_) = item.node.value else {
        let job = reader.name(item)?;
        return Some(After { job, condition: AfterCondition::default() });
    };
    let conditions = [("finished", AfterCondition::Finished), ("succeeded", AfterCondition::Succeeded)];
    let fields = reader.fields(item, &["job", "condition"])?;
    let condition = fields.get("condition").and_then(|item| reader.word(&item, &conditions));
    let Some(job) = fields.get("job") else {
        reader.missing(item, "job", "the name of a job of the same user");
        return None;
    };
    Some(After { job: reader.name(&job)?, condition: condition.unwrap_or_default() })
}

fn overrides_decode(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    task: &TaskSpec,
) -> BTreeMap<u32, TaskOverride> {
    let entries = reader.entries(item, "a map from task indexes to what those tasks have otherwise");
    let mut overrides = BTreeMap::new();
    for (key, own) in entries {
        let Some(index) = index_decode(reader, key, &own) else { continue };
        let path = format!("overrides[{index}]");
        reader.placed(path.clone(), own.node);
        if let Some(fields) = reader.fields(&FileItem { node: own.node, path }, &OVERRIDE_FIELDS) {
            overrides.insert(index, override_decode(reader, &fields, task));
        }
    }
    overrides
}

fn index_decode(reader: &mut FieldReader, key: &TreeKey, own: &FileItem<'_>) -> Option<u32> {
    let index = key.text.parse::<u32>().ok().filter(|index| index.to_string() == key.text);
    if index.is_none() {
        reader.refuse_as(own, "the key is no task's index; accepted: whole numbers from 0");
    }
    index
}

fn preemption_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> PreemptionSpec {
    let mut preemption = PreemptionSpec::default();
    let Some(fields) = reader.fields(item, &["never", "notice_max", "down_max"]) else { return preemption };
    if let Some(item) = fields.get("never") {
        preemption.never = reader.truth(&item).unwrap_or_default();
    }
    if let Some(item) = fields.get("notice_max") {
        preemption.notice_max_ms = reader.duration(&item);
    }
    if let Some(item) = fields.get("down_max") {
        preemption.down_max = reader.whole(&item, "a whole number of tasks that may be without a place");
    }
    preemption
}

/// `always`, or a map.
fn restart_decode(reader: &mut FieldReader, item: &FileItem<'_>, kind: JobKind) -> RestartSpec {
    let modes = [
        ("always", RestartMode::Always),
        ("on_failure", RestartMode::OnFailure),
        ("never", RestartMode::Never),
    ];
    let mut restart = RestartSpec::for_kind(kind);
    if let TreeValue::Text(_) = item.node.value {
        restart.mode = reader.word(item, &modes).unwrap_or(restart.mode);
        return restart;
    }
    let accepted = ["mode", "attempts", "backoff", "backoff_max", "reset_after"];
    let Some(fields) = reader.fields(item, &accepted) else { return restart };
    if let Some(item) = fields.get("mode") {
        restart.mode = reader.word(&item, &modes).unwrap_or(restart.mode);
    }
    if let Some(item) = fields.get("attempts") {
        restart.attempts_max = match &item.node.value {
            TreeValue::Text(text) if text == "unlimited" => None,
            _ => reader.whole(&item, "a whole number of restarts in a row, or unlimited"),
        };
    }
    if let Some(item) = fields.get("backoff") {
        restart.backoff_initial_ms = reader.duration(&item).unwrap_or(restart.backoff_initial_ms);
        // A long first pause alone must not make the default longest one wrong.
        restart.backoff_max_ms = restart.backoff_max_ms.max(restart.backoff_initial_ms);
    }
    if let Some(item) = fields.get("backoff_max") {
        restart.backoff_max_ms = reader.duration(&item).unwrap_or(restart.backoff_max_ms);
    }
    if let Some(item) = fields.get("reset_after") {
        restart.reset_after_ms = reader.duration(&item).unwrap_or(restart.reset_after_ms);
    }
    restart
}
