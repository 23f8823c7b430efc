//! What differs between two specs, field by field, and what kind of change that is.

use serde_json::Value;

use crate::job::JobSpec;
use crate::job::file::FileMessage as _;

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Where: `task.resources.memory_bytes`, `task.command[1]`, `labels["a.b"]`.
    pub path: String,
    /// What it was; absent where there was no such field.
    pub old: Option<Value>,
    /// What it becomes; absent where there is no such field any more.
    pub new: Option<Value>,
}

/// What differs between two specs, in the order of the spec's fields.
pub fn spec_diff(old: &JobSpec, new: &JobSpec) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    value_diff(&mut changes, String::new(), Some(&spec_value(old)), Some(&spec_value(new)));
    changes
}

/// A spec as JSON, as it is shown. Writing plain data cannot fail; were it to, the error would be the value.
pub fn spec_value(spec: &JobSpec) -> Value {
    serde_json::to_value(spec).unwrap_or_else(|error| Value::String(error.to_string()))
}

fn value_diff(changes: &mut Vec<FieldChange>, path: String, old: Option<&Value>, new: Option<&Value>) {
    match (old, new) {
        (Some(old), Some(new)) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                value_diff(changes, path_field(&path, key), old.get(key), new.get(key));
            }
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

fn path_field(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match (plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{key:?}]"),
    }
}

/// What a running job takes without an update of its tasks: the `change` of a field's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecChange {
    /// The count and the priority. The job's row has them.
    CountOrPriority,
    /// What people and selectors read of the job, and its tasks do not. It makes a new version of the spec.
    Metadata,
}

/// What kind of change a new spec is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeClass {
    /// None.
    Nothing,
    /// Only the count, the priority or both: applied to a running job.
    CountOrPriorityOnly,
    /// Only metadata, perhaps with the count and the priority: applied to a running job as a new version of its spec,
    /// which restarts nothing.
    Metadata,
    /// Anything else: tasks would have to be replaced. Refused until rolling updates exist.
    NeedsUpdate,
}

/// What kind of change `new` is. Pass [`JobSpec::in_force`] as `old`.
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
