//! The difference between two specs, field by field, and its class.

use serde_json::Value;

use crate::job::JobSpec;
use crate::job::file::{FileMessage as _, file_diff};

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// The path of the field: `task.resources.memory_bytes`, `task.command[1]`, `labels["a.b"]`.
    pub path: String,
    /// The old value; absent if the field is new.
    pub old: Option<Value>,
    /// The new value; absent if the field is gone.
    pub new: Option<Value>,
}

/// The fields that differ between two specs, in the order of the spec.
pub fn spec_diff(old: &JobSpec, new: &JobSpec) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    value_diff(&mut changes, String::new(), Some(&spec_value(old)), Some(&spec_value(new)));
    changes
}

/// The spec as JSON, for people. Plain data always serialises; an error would be shown as the value.
pub fn spec_value(spec: &JobSpec) -> Value {
    serde_json::to_value(spec).unwrap_or_else(|error| Value::String(error.to_string()))
}

pub(crate) fn value_diff(
    changes: &mut Vec<FieldChange>,
    path: String,
    old: Option<&Value>,
    new: Option<&Value>,
) {
    match (old, new) {
        (Some(old), Some(new)) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                value_diff(changes, path_field(&path, key), old.get(key), new.get(key));
            }
        }
        // Behind a word that is new or gone, each index would differ.
        (Some(Value::Array(olds)), Some(Value::Array(news)))
            if olds.len() != news.len() && olds.iter().chain(news).all(is_word) =>
        {
            changes.push(FieldChange { path, old: old.cloned(), new: new.cloned() });
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                value_diff(changes, format!("{path}[{index}]"), old.get(index), new.get(index));
            }
        }
        _ => {
            let given = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
            changes.push(FieldChange { path, old: given(old), new: given(new) });
        }
    }
}

fn is_word(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

fn path_field(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match (plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{key:?}]"),
    }
}

/// Fields that change in a running job without an update of its tasks. The `change` of a field names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecChange {
    /// The count and the priority, which are in the row of the job.
    CountOrPriority,
    /// Fields that people and selectors read, and tasks do not. A change makes a new version of the spec.
    Metadata,
}

/// The class of a change of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeClass {
    Nothing,
    /// Only the count, the priority or both. A running job takes the change.
    CountOrPriorityOnly,
    /// Metadata, and perhaps the count and the priority. A running job takes the change as a new version of its spec,
    /// and no task restarts.
    Metadata,
    /// Anything else. A rollout replaces the attempts that it concerns.
    NeedsUpdate,
}

/// The fields that a running job keeps, of those that differ, in the terms of a job file. Its tasks are of one kind,
/// the members of a gang and their roles are counted by their indexes, and one scheduler decides over all of them. The
/// weights of roles may change.
pub fn fields_fixed(old: &JobSpec, new: &JobSpec) -> Vec<FieldChange> {
    let mut adapted = old.clone();
    adapted.role_weights_adopt(new);
    let alike = old.kind == new.kind && old.alloc_set == new.alloc_set && old.scheduler == new.scheduler;
    if alike && (adapted.min_member, &adapted.gang) == (new.min_member, &new.gang) {
        return Vec::new();
    }
    file_diff(old, new).into_iter().filter(|change| is_fixed(&change.path)).collect()
}

/// Returns true if a running job keeps the field, or a part of it. The path is that of a job file.
pub fn is_fixed(path: &str) -> bool {
    ["kind", "min_member", "roles", "gang_topology", "scheduler", "alloc_set"]
        .iter()
        .any(|name| path.starts_with(name))
}

/// Returns true if attempts with one spec run as those with the other: they differ in count, priority and metadata at
/// most.
pub fn runs_alike(one: &JobSpec, other: &JobSpec) -> bool {
    change_class(one, other) != ChangeClass::NeedsUpdate
}

/// The class of the change from `old` to `new`. Pass [`JobSpec::in_force`] as `old`.
pub fn change_class(old: &JobSpec, new: &JobSpec) -> ChangeClass {
    if old == new {
        return ChangeClass::Nothing;
    }
    let mut adapted = old.clone();
    adapted.adopt(new, SpecChange::CountOrPriority);
    if adapted == *new {
        return ChangeClass::CountOrPriorityOnly;
    }
    adapted.adopt(new, SpecChange::Metadata);
    if adapted == *new { ChangeClass::Metadata } else { ChangeClass::NeedsUpdate }
}
