//! JSON merge patches (RFC 7386) over a job file, one for each cell that differs.

use serde_json::{Map, Value};

use super::spec::FederationSpec;
use crate::id::Name;
use crate::job::file::{FieldReader, FileItem, TreeValue};

/// Fields that say which job it is, or how many tasks it has. They are the same in every cell.
pub(super) const PATCH_REFUSED: [&str; 5] = ["name", "user", "kind", "count", "federation"];

impl FederationSpec {
    /// The job file for one cell: the file of the job with what the override of the cell changes.
    pub fn patched(&self, job_file: &Value, cell: &Name) -> Value {
        let mut file = job_file.clone();
        let patch = self.overrides.get(cell).and_then(|text| serde_json::from_str(text).ok());
        if let Some(patch) = patch {
            merge_patch(&mut file, patch);
        }
        file
    }
}

/// The algorithm of RFC 7386, section 2: maps are merged, `null` takes a field away, and anything else replaces.
fn merge_patch(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            fields.shift_remove(&key);
        } else {
            merge_patch(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// The one text of a JSON value: without spaces, the keys of each map sorted.
pub(super) fn canonical(value: &Value) -> String {
    sorted(value).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> =
                fields.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            fields.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// The JSON value of a part of a job file. The reader records its places, and keys that stand twice. A number that JSON
/// does not have stays as it is written.
pub(super) fn patch_json(reader: &mut FieldReader, item: &FileItem<'_>) -> Value {
    match &item.node.value {
        TreeValue::Null => Value::Null,
        TreeValue::Bool(value) => Value::Bool(*value),
        TreeValue::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
        TreeValue::Text(text) => Value::String(text.clone()),
        TreeValue::List(_) => {
            let items = reader.items(item, "a list");
            Value::Array(items.iter().map(|item| patch_json(reader, item)).collect())
        }
        TreeValue::Map(entries) => {
            let keys: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
            let Some(fields) = reader.fields(item, &keys) else { return Value::Null };
            let mut map = Map::new();
            for key in keys {
                let value = fields.get(key).map_or(Value::Null, |inner| patch_json(reader, &inner));
                map.insert(key.to_owned(), value);
            }
            Value::Object(map)
        }
    }
}
