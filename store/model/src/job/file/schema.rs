//! The JSON Schema of job files.

use serde_json::{Map, Value, json};

use super::{FieldInfo, FileMessage as _, fields_flat};
use crate::job::JobSpec;

/// The JSON Schema (draft 2020-12) of job files. Only `borough job validate` checks rules over several values, such as
/// a sum over roles.
pub fn job_file_schema() -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Borough job file",
    });
    merge(&mut schema, message_schema(JobSpec::FIELDS));
    command_optional(&mut schema);
    schema
}

/// An alloc set runs nothing itself: it has no command, and may leave out its task.
fn command_optional(schema: &mut Value) {
    let mut without = |path: &[&str], field: &str| {
        let part = path.iter().try_fold(&mut *schema, |part, key| part.get_mut(*key));
        if let Some(Value::Array(required)) = part {
            required.retain(|name| name != field);
        }
    };
    without(&["required"], "task");
    without(&["properties", "task", "required"], "command");
    let is_set = json!({"properties": {"kind": {"const": "alloc_set"}}, "required": ["kind"]});
    let others = json!({"required": ["task"], "properties": {"task": {"required": ["command"]}}});
    merge(schema, json!({"if": is_set, "else": others}));
}

/// A map with these fields and no other.
pub(crate) fn message_schema(fields: &'static [FieldInfo]) -> Value {
    let fields = fields_flat(fields);
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.file.to_owned(), field_schema(field))).collect();
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.file).collect();
    map_schema(properties, &required)
}

/// A map with these properties and no other.
pub(crate) fn map_schema(properties: Map<String, Value>, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        merge(&mut schema, json!({"required": required}));
    }
    schema
}

fn field_schema(field: &FieldInfo) -> Value {
    let mut description = field.meaning.to_owned();
    if field.says_more() {
        description = format!("{description} Accepted: {}", field.value);
    }
    description = plain(&description);
    if !matches!(field.default, "none" | "required") {
        description = format!("{}. Default: {}", description.trim_end_matches('.'), plain(field.default));
    }
    let mut schema = json!({"description": description});
    if let Some(example) = field.example {
        merge(&mut schema, json!({"examples": [example()]}));
    }
    merge(&mut schema, (field.schema)());
    schema
}

/// A schema with what its values mean.
pub(crate) fn described(meaning: &str, schema: Value) -> Value {
    let mut described = json!({"description": meaning});
    merge(&mut described, schema);
    described
}

/// A text without the marks of Markdown: code is shown plain, and a link as its words.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, (words, after))) = link(rest) {
        plain.push_str(before);
        plain.push_str(words);
        rest = after;
    }
    plain.push_str(rest);
    plain.replace('`', "")
}

/// The text before the first link `[words](#anchor)`, its words, and the text behind it.
fn link(text: &str) -> Option<(&str, (&str, &str))> {
    let (words, behind) = text.split_once("](#")?;
    let (before, words) = words.rsplit_once('[')?;
    let (_, after) = behind.split_once(')')?;
    Some((before, (words, after)))
}

fn merge(schema: &mut Value, more: Value) {
    if let (Value::Object(schema), Value::Object(more)) = (schema, more) {
        schema.extend(more);
    }
}
