//! Reads fields at the top of a job file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::kind::{delay_schema, words_schema};
use super::super::reader::{FieldReader, FileItem};
use super::super::tree::{TreeKey, TreeValue};
use super::super::{FileMessage as _, described, file_names, message_schema};
use super::task::{OVERRIDE_FIELDS, override_decode, override_properties};
use super::{any_of, map_of};
use crate::field_error::DELAY_MS_MAX;
use crate::job::{After, AfterCondition, JobKind, JobSpec, RestartMode, RestartSpec, TaskOverride};

pub(in crate::job::file) const CONDITIONS: [(&str, AfterCondition); 2] =
    [("finished", AfterCondition::Finished), ("succeeded", AfterCondition::Succeeded)];
pub(in crate::job::file) const MODES: [(&str, RestartMode); 3] =
    [("always", RestartMode::Always), ("on_failure", RestartMode::OnFailure), ("never", RestartMode::Never)];

pub(crate) fn after_read(reader: &mut FieldReader, list: &FileItem<'_>, _: &JobSpec) -> Option<Vec<After>> {
    let items = reader.items(list, "a list of jobs such as [prepare]");
    Some(items.iter().map(|item| after_one(reader, item)).collect())
}

pub(crate) fn after_schema() -> Value {
    let form = json!({
        "job": described("The name of the other job.", json!({"type": "string"})),
        "condition": described("How it must have ended. Default: succeeded", words_schema(&CONDITIONS)),
    });
    json!({"type": "array", "items": any_of(&[json!({"type": "string"}), map_of(form, &["job"])])})
}

/// `prepare`, or `{job: prepare, condition: finished}`.
fn after_one(reader: &mut FieldReader, item: &FileItem<'_>) -> After {
    let TreeValue::Map(_) = item.node.value else {
        return After { job: reader.name_or_stand_in(item), condition: AfterCondition::default() };
    };
    let Some(fields) = reader.fields(item, &["job", "condition"]) else {
        return After { job: reader.name_stand_in(), condition: AfterCondition::default() };
    };
    let condition = fields.get("condition").and_then(|item| reader.word(&item, &CONDITIONS));
    let job = reader.name_of(item, &fields, "job", "the name of a job of the same user");
    After { job, condition: condition.unwrap_or_default() }
}

pub(crate) fn overrides_schema() -> Value {
    let one = map_of(override_properties(), &[]);
    json!({"type": "object", "propertyNames": {"pattern": "^[0-9]+$"}, "additionalProperties": one})
}

pub(crate) fn overrides_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    spec: &JobSpec,
) -> Option<BTreeMap<u32, TaskOverride>> {
    let entries = reader.entries(item, "a map from task indexes to what those tasks have otherwise");
    let mut overrides = BTreeMap::new();
    for (stand_in, (key, own)) in (0..=u32::MAX).rev().zip(entries) {
        let index = index_decode(reader, key, &own).unwrap_or_else(|| {
            reader.unread.insert(format!("overrides[{stand_in}].index"));
            reader.alias(format!("overrides[{stand_in}]"), &own.path);
            stand_in
        });
        let path = format!("overrides[{index}]");
        reader.placed(path.clone(), own.node);
        let own = FileItem { node: own.node, path: reader.shown(&path) };
        if let Some(fields) = reader.fields(&own, &OVERRIDE_FIELDS) {
            let task = override_decode(reader, &fields, &spec.task);
            overrides.entry(index).or_insert(task);
        }
    }
    Some(overrides)
}

fn index_decode(reader: &mut FieldReader, key: &TreeKey, own: &FileItem<'_>) -> Option<u32> {
    let index = key.text.parse::<u32>().ok().filter(|index| index.to_string() == key.text);
    if index.is_none() {
        reader.refuse_whole(own, "the key is no task's index; accepted: whole numbers from 0");
    }
    index
}

/// `always`, or a map.
pub(crate) fn restart_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    spec: &JobSpec,
) -> Option<RestartSpec> {
    let mut restart = spec.restart;
    if let TreeValue::Text(_) = item.node.value {
        restart.mode = reader.word(item, &MODES).unwrap_or(restart.mode);
        return Some(restart);
    }
    if !matches!(item.node.value, TreeValue::Map(_)) {
        let words: Vec<&str> = MODES.iter().map(|(word, _)| *word).collect();
        let fields = file_names(RestartSpec::FIELDS).join(", ");
        reader.refuse(item, &format!("{}, or a map with {fields}", words.join(", ")));
        return None;
    }
    let fields = reader.fields(item, &file_names(RestartSpec::FIELDS))?;
    if let Some(item) = fields.get("mode") {
        restart.mode = reader.word(&item, &MODES).unwrap_or(restart.mode);
    }
    if let Some(item) = fields.get("attempts") {
        restart.attempts_max = match &item.node.value {
            TreeValue::Text(text) if text == "unlimited" => None,
            _ => reader.whole(&item, "0 to 4294967295 restarts in a row, or unlimited"),
        };
    }
    if let Some(item) = fields.get("backoff") {
        restart.backoff_initial_ms = reader.duration(&item).unwrap_or(restart.backoff_initial_ms);
        // The default of the longest pause must not be below a long first one.
        restart.backoff_max_ms = restart.backoff_max_ms.max(restart.backoff_initial_ms.min(DELAY_MS_MAX));
    }
    if let Some(item) = fields.get("backoff_max") {
        restart.backoff_max_ms = reader.duration(&item).unwrap_or(restart.backoff_max_ms);
    }
    if let Some(item) = fields.get("reset_after") {
        restart.reset_after_ms = reader.duration(&item).unwrap_or(restart.reset_after_ms);
    }
    Some(restart)
}

pub(crate) fn restart_schema() -> Value {
    any_of(&[restart_mode_schema(), message_schema(RestartSpec::FIELDS)])
}

pub(crate) fn restart_mode_schema() -> Value {
    words_schema(&MODES)
}

/// The pauses between two attempts.
pub(crate) fn pause_schema() -> Value {
    delay_schema(10)
}

pub(crate) fn attempts_schema() -> Value {
    any_of(&[json!({"type": "integer", "minimum": 0}), json!({"const": "unlimited"})])
}

/// A kind of job, or a word of another system for one.
pub(in crate::job::file) fn kind_read(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<JobKind> {
    if let TreeValue::Text(text) = &item.node.value
        && let Some((_, own)) = FOREIGN_KINDS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word))
    {
        let names = JobKind::NAMES.map(|(name, _)| name).join(", ");
        reader.refuse_as(item, &format!("{}, which is {own:?} here; accepted: {names}", item.given()));
        return None;
    }
    reader.word(item, &JobKind::NAMES)
}

/// Kinds of work by the words of Kubernetes, Nomad and Docker Swarm, with ours.
const FOREIGN_KINDS: [(&str, &str); 9] = [
    ("CronJob", "batch"),
    ("DaemonSet", "daemon"),
    ("Deployment", "service"),
    ("global", "daemon"),
    ("Job", "batch"),
    ("replicated", "service"),
    ("StatefulSet", "service"),
    ("sysbatch", "batch"),
    ("system", "daemon"),
];

pub(crate) fn kind_schema() -> Value {
    words_schema(&JobKind::NAMES)
}
