//! The difference between two specs in the terms of their job files.

use serde_json::{Map, Value};

use super::help::{FieldHelp, field_help};
use crate::job::diff::value_diff;
use crate::job::{FieldChange, JobSpec};

/// The fields that differ, by their paths in a job file and with the values that its author writes: `task.grace`, 5s
/// and 10s. A field that a file leaves out has its default, if that is one value.
pub fn file_diff(old: &JobSpec, new: &JobSpec) -> Vec<FieldChange> {
    let Ok(help) = field_help("") else { return Vec::new() };
    let whole = |spec: &JobSpec| match spec.to_file() {
        Value::Object(mut fields) => {
            // Its default follows from the kind.
            fields.insert("priority".to_owned(), spec.priority.into());
            fields
        }
        // No spec is written otherwise.
        _ => Map::new(),
    };
    let (mut old, mut new) = (whole(old), whole(new));
    defaults_add(&mut old, &mut new, &help);
    let mut changes = Vec::new();
    value_diff(&mut changes, String::new(), Some(&Value::Object(old)), Some(&Value::Object(new)));
    changes
}

/// A value in one line, as the author of a YAML file writes it: `10s`, `{cpu: 2, memory: 64MiB}`. A text that could be
/// taken for something else is in quotes, with its control characters escaped.
pub fn file_value_text(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(file_value_text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let key =
                |key: &str| if is_plain(key) || is_index(key) { key.to_owned() } else { format!("{key:?}") };
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", key(name), file_value_text(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether YAML reads a text without quotes as this text.
fn is_plain(text: &str) -> bool {
    let is_word = |each: char| each.is_ascii_alphanumeric() || "-_./%@+".contains(each);
    let is_other = matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "null" | "y" | "n"
    );
    let is_number = text.parse::<f64>().is_ok() || is_index(text);
    text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/')
        && text.chars().all(is_word)
        && !is_other
        && !is_number
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Adds the defaults of absent fields, also of those in maps that both files have. A map that only one of them has is
/// shown as it is written.
fn defaults_add(old: &mut Map<String, Value>, new: &mut Map<String, Value>, help: &FieldHelp) {
    for field in &help.inner {
        let name = field.name();
        for fields in [&mut *old, &mut *new] {
            if !fields.contains_key(name)
                && let Some(default) = field.default_value()
            {
                fields.insert(name.to_owned(), default);
            }
        }
        // Entries of lists, and of maps by a free key, have no defaults of their own here.
        if let (Some(Value::Object(old)), Some(Value::Object(new))) = (old.get_mut(name), new.get_mut(name))
            && field.is_message()
        {
            defaults_add(old, new, field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Name;
    use crate::job::file::TreeNode;

    fn spec(more: Value) -> JobSpec {
        let mut file = serde_json::json!({"name": "web", "task": {"command": ["true"]}});
        for (key, value) in more.as_object().unwrap() {
            match (file.get_mut(key), value) {
                (Some(Value::Object(map)), Value::Object(more)) => map.extend(more.clone()),
                _ => file[key] = value.clone(),
            }
        }
        let caller = Name::new("ada").unwrap();
        let read = JobSpec::from_file(&TreeNode::from(&file), &caller);
        read.unwrap_or_else(|problems| panic!("{problems:?}")).0
    }

    #[test]
    fn a_value_is_shown_as_it_is_written() {
        let of = |value: Value| file_value_text(&value);
        assert_eq!(of(serde_json::json!("10s")), "10s");
        assert_eq!(of(serde_json::json!("two words")), "\"two words\"");
        for quoted in ["", "true", "12", "1e5", "-x", "a: b", "a\nb", "NO"] {
            assert_eq!(of(quoted.into()), Value::from(quoted).to_string());
        }
        let map =
            serde_json::json!({"0": {"resources": {"cpu": "2"}, "arguments": ["-v", "x"]}, "a b": null});
        assert_eq!(of(map), r#"{0: {resources: {cpu: "2"}, arguments: ["-v", x]}, "a b": null}"#);
    }

    #[test]
    fn a_difference_has_the_words_of_the_file() {
        let plain = spec(serde_json::json!({}));
        let of = |more: Value| -> Vec<String> {
            let text = |value: Option<Value>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            let changes = file_diff(&plain, &spec(more)).into_iter();
            changes
                .map(|change| format!("{} {} {}", change.path, text(change.old), text(change.new)))
                .collect()
        };
        let cases = [
            (serde_json::json!({"task": {"grace": "10s"}}), vec![r#"task.grace "5s" "10s""#]),
            (
                serde_json::json!({"count": 3, "drain_delay": "2s"}),
                vec!["count 1 3", r#"drain_delay "0s" "2s""#],
            ),
            (serde_json::json!({"priority": 250}), vec!["priority 200 250"]),
            // Nobody has written the defaults within it.
            (serde_json::json!({"update": {"canaries": 1}}), vec![r#"update - {"canaries":1}"#]),
            (
                serde_json::json!({"task": {"resources": {"cpu": "2"}}}),
                vec![r#"task.resources.cpu "100m" 2"#],
            ),
            (
                serde_json::json!({"task": {"log": {"file_bytes": "1MiB"}}}),
                vec![r#"task.log.file_bytes "10MiB" "1MiB""#],
            ),
            (
                serde_json::json!({"count": 2, "overrides": {"1": {"weight": 2, "resources": {"memory": "1GiB"}}}}),
                vec![
                    "count 1 2",
                    r#"overrides - {"1":{"resources":{"cpu":"100m","memory":"1GiB"},"weight":2}}"#,
                ],
            ),
            (serde_json::json!({"restart": "never"}), vec![r#"restart - "never""#]),
            (serde_json::json!({"constraints": ["rack == r1"]}), vec![r#"constraints - ["rack == r1"]"#]),
            (
                serde_json::json!({"task": {"exclusive_cores": true, "resources": {"cpu": 1}}}),
                vec![r#"task.resources.cpu "100m" 1"#, "task.exclusive_cores false true"],
            ),
        ];
        for (more, expected) in cases {
            assert_eq!(of(more.clone()), expected, "{more}");
        }
        assert!(file_diff(&plain, &plain).is_empty());
    }
}
