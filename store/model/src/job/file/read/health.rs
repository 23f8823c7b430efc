//! Reads health checks: one probe and its timing.

use serde_json::{Value, json};

use super::super::described;
use super::super::kind::{delay_schema, text_schema};
use super::super::reader::{FieldReader, FileItem, MapFields};
use super::super::tree::TreeValue;
use super::task::COMMAND;
use super::{any_of, map_of};
use crate::id::Name;
use crate::job::{HealthCheck, Probe, TaskSpec};

const FIELDS: [&str; 7] = ["http", "tcp", "command", "interval", "timeout", "failures", "initial_grace"];
const PORT: &str = "the name of a port in `ports` of the task, such as http";

pub(crate) fn health_schema() -> Value {
    let text = json!({"type": "string"});
    let port = described("The name of a port of the task.", text.clone());
    let path = described("The path with its query. Default: /", text.clone());
    let http = map_of(json!({"port": port, "path": path}), &["port"]);
    let tcp = map_of(json!({"port": port}), &["port"]);
    let command = json!({"type": "array", "minItems": 1, "items": text_schema()});
    let failures = json!({"type": "integer", "minimum": 1, "maximum": 1000});
    let form = json!({
        "http": described("A GET over HTTP/1.1. Healthy: status 200 to 399.", any_of(&[text.clone(), http])),
        "tcp": described("Healthy: a connection to this port opens.", any_of(&[text, tcp])),
        "command": described("Healthy: this command exits with 0 in the task's environment.", command),
        "interval": described("Time between two checks. Default: 5s", delay_schema(100)),
        "timeout": described("A check that takes longer fails. At most the interval. Default: 2s, or the interval if shorter", delay_schema(1)),
        "failures": described("So many failures in a row restart the task. Default: 3", failures),
        "initial_grace": described("Failures so soon after the start do not count. Default: 10s", delay_schema(0)),
    });
    let mut schema = map_of(form, &[]);
    schema["oneOf"] = json!(["http", "tcp", "command"].map(|probe| json!({"required": [probe]})));
    schema
}

pub(crate) fn health_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &TaskSpec,
) -> Option<Option<HealthCheck>> {
    health_decode(reader, item).map(Some)
}

fn health_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<HealthCheck> {
    let fields = reader.fields(item, &FIELDS)?;
    let probes = ["http", "tcp", "command"].map(|kind| fields.get(kind));
    let probe = match probes {
        [Some(item), None, None] => http_decode(reader, &item),
        [None, Some(item), None] => tcp_decode(reader, &item),
        [None, None, Some(item)] => Some(Probe::Command { command: reader.texts(&item, COMMAND) }),
        [None, None, None] => {
            reader.refuse_whole(item, "has no probe; accepted: one of http, tcp and command");
            None
        }
        _ => {
            reader.refuse_whole(item, "has several probes; accepted: one of http, tcp and command");
            None
        }
    };
    // The problems of the timing are reported too, even if the probe is invalid.
    let stand_in = || Probe::Command { command: vec!["true".to_owned()] };
    let mut health = HealthCheck::of(probe.unwrap_or_else(stand_in));
    if let Some(item) = fields.get("interval") {
        health.interval_ms = reader.duration(&item).unwrap_or(health.interval_ms);
        // The default timeout must not exceed a short interval.
        health.timeout_ms = health.timeout_ms.min(health.interval_ms);
    }
    if let Some(item) = fields.get("timeout") {
        health.timeout_ms = reader.duration(&item).unwrap_or(health.timeout_ms);
    }
    if let Some(item) = fields.get("failures") {
        health.failures_max = reader.whole(&item, "1 to 1000").unwrap_or(health.failures_max);
    }
    if let Some(item) = fields.get("initial_grace") {
        health.initial_grace_ms = reader.duration(&item).unwrap_or(health.initial_grace_ms);
    }
    Some(health)
}

/// `{port: http, path: /}`, or only the name of the port.
fn http_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Probe> {
    let TreeValue::Map(_) = item.node.value else {
        return Some(Probe::Http { port: port_read(reader, item), path: "/".to_owned() });
    };
    let fields = reader.fields(item, &["port", "path"])?;
    let path = fields.get("path").and_then(|item| reader.text(&item));
    let port = port_of(reader, item, &fields);
    Some(Probe::Http { port, path: path.unwrap_or_else(|| "/".to_owned()) })
}

/// `{port: http}`, or only the name of the port.
fn tcp_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Probe> {
    let TreeValue::Map(_) = item.node.value else {
        return Some(Probe::Tcp { port: port_read(reader, item) });
    };
    let fields = reader.fields(item, &["port"])?;
    Some(Probe::Tcp { port: port_of(reader, item, &fields) })
}

/// The name of a port. Its number, or a path, is a common mistake.
fn port_read(reader: &mut FieldReader, item: &FileItem<'_>) -> Name {
    match &item.node.value {
        TreeValue::Text(text) | TreeValue::Number(text) if Name::new(text.as_str()).is_err() => {
            reader.refuse(item, PORT);
            reader.name_stand_in()
        }
        _ => reader.name_or_stand_in(item),
    }
}

/// The port in the map of a probe, which must have it.
fn port_of(reader: &mut FieldReader, outer: &FileItem<'_>, fields: &MapFields<'_>) -> Name {
    match fields.get("port") {
        Some(item) => port_read(reader, &item),
        None => reader.name_of(outer, fields, "port", PORT),
    }
}
