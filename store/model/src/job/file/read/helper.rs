//! Reads the helpers of a task.

use serde_json::{Value, json};

use super::super::described;
use super::super::kind::{amount_schema, bytes_schema, delay_schema_within, text_schema, words_schema};
use super::super::reader::{FieldReader, FileItem};
use super::map_of;
use super::task::COMMAND;
use crate::job::defaults::{CPU_MILLIS, MEMORY_BYTES};
use crate::job::{DEADLINES_MS, HELPERS_MAX, HelperPhase, HelperSpec, TaskSpec};
use crate::resource::{bytes_parse, cpu_parse};

const FIELDS: [&str; 7] = ["name", "when", "command", "environment", "cpu", "memory", "deadline"];
const LIST: &str = "a list of helpers such as [{name: migrate, when: before, command: [migrate]}]";
const WHEN: &str = "before, beside or after";

pub(crate) fn helpers_schema() -> Value {
    let deadline = delay_schema_within(*DEADLINES_MS.start(), *DEADLINES_MS.end());
    let command = json!({"type": "array", "minItems": 1, "items": text_schema()});
    let environment = json!({"type": "object", "additionalProperties": text_schema()});
    let form = json!({
        "name": described("Its name, unique within the task.", json!({"type": "string"})),
        "when": described("When it runs, as seen from the command of the task.", words_schema(&HelperPhase::NAMES)),
        "command": described("The program and its arguments.", command),
        "environment": described("Variables over those of the task.", environment),
        "cpu": described("Processor time that its node holds for it. Default: 100m", amount_schema("cores, such as 2, 0.5 or 500m", "m?")),
        "memory": described("Memory that its node holds for it. Default: 64MiB", bytes_schema()),
        "deadline": described("How long it may run; none beside the command. Default: 10m before, 30s after", deadline),
    });
    let one = map_of(form, &["name", "when", "command"]);
    json!({"type": "array", "maxItems": HELPERS_MAX, "items": one})
}

pub(crate) fn helpers_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &TaskSpec,
) -> Option<Vec<HelperSpec>> {
    let items = reader.items(item, LIST);
    Some(items.iter().filter_map(|item| helper_decode(reader, item)).collect())
}

fn helper_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<HelperSpec> {
    let fields = reader.fields(item, &FIELDS)?;
    let name = reader.name_of(item, &fields, "name", "a name such as migrate");
    let when = match fields.get("when") {
        Some(item) => reader.word(&item, &HelperPhase::NAMES),
        None => {
            reader.missing(item, "when", WHEN);
            None
        }
    };
    let command = match fields.get("command") {
        Some(item) => reader.texts(&item, COMMAND),
        None => {
            reader.missing(item, "command", COMMAND);
            vec!["unread".to_owned()]
        }
    };
    let environment = fields.get("environment").map(|item| reader.text_map(&item)).unwrap_or_default();
    let cpu_millis = fields.get("cpu").and_then(|item| reader.amount(&item, cpu_parse));
    let memory_bytes = fields.get("memory").and_then(|item| reader.amount(&item, bytes_parse));
    let deadline_ms = fields.get("deadline").and_then(|item| reader.duration(&item));
    Some(HelperSpec {
        name,
        when: when.unwrap_or(HelperPhase::Before),
        command,
        environment,
        cpu_millis: cpu_millis.unwrap_or(CPU_MILLIS),
        memory_bytes: memory_bytes.unwrap_or(MEMORY_BYTES),
        deadline_ms,
    })
}
