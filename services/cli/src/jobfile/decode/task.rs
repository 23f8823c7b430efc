//! What a task runs and needs, and what single tasks have otherwise.

use std::collections::BTreeMap;

use borough_model::job::{LogSpec, PortSpec, TaskOverride, TaskSpec};
use borough_model::node::{CardSelector, Within};
use borough_model::resource::{Resources, bytes_parse, cpu_parse, device_parse, rate_parse};

use super::super::reader::{FieldReader, FileItem, MapFields};
use super::super::tree::{TreeNode, TreeValue};
use super::health::health_decode;

const TASK_FIELDS: [&str; 12] = [
    "command",
    "environment",
    "working_directory",
    "resources",
    "within",
    "exclusive_cores",
    "packages",
    "ports",
    "health",
    "grace",
    "log",
    "weight",
];
const RESOURCE_FIELDS: [&str; 6] = ["cpu", "memory", "disk", "disk_rate", "network_rate", "devices"];
pub(super) const COMMAND: &str = "a list of the program and its arguments, such as [sleep, 60]";
const PORT: &str = "1024 to 65535, or auto: the scheduler hands one out";

pub(super) fn task_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<TaskSpec> {
    let fields = reader.fields(item, &TASK_FIELDS)?;
    let mut task = TaskSpec::of(Vec::new());
    match fields.get("command") {
        Some(command) => task.command = reader.texts(&command, COMMAND),
        None => reader.missing(item, "command", COMMAND),
    }
    if let Some(item) = fields.get("environment") {
        task.environment = reader.text_map(&item);
    }
    if let Some(item) = fields.get("working_directory") {
        task.working_directory = reader.text(&item);
    }
    if let Some(item) = fields.get("resources") {
        resources_decode(reader, &item, &mut task.resources);
        task.device_selectors = selectors_decode(reader, &item);
    }
    if let Some(item) = fields.get("within") {
        task.within = reader.word(&item, &Within::NAMES);
    }
    if let Some(item) = fields.get("exclusive_cores") {
        task.exclusive_cores = reader.truth(&item).unwrap_or_default();
    }
    if let Some(item) = fields.get("packages") {
        task.packages = reader.texts(&item, "a list of names and versions such as [web/1.4.2]");
    }
    if let Some(item) = fields.get("ports") {
        task.ports = ports_decode(reader, &item);
    }
    if let Some(item) = fields.get("health") {
        task.health = health_decode(reader, &item);
    }
    if let Some(item) = fields.get("grace") {
        task.grace_ms = reader.duration(&item).unwrap_or(task.grace_ms);
    }
    if let Some(item) = fields.get("log") {
        log_decode(reader, &item, &mut task.log);
    }
    if let Some(item) = fields.get("weight") {
        task.weight = reader.whole(&item, "1 to 255").unwrap_or(task.weight);
    }
    Some(task)
}

/// Sets what the file names; the rest stays.
fn resources_decode(reader: &mut FieldReader, item: &FileItem<'_>, resources: &mut Resources) {
    let Some(fields) = reader.fields(item, &RESOURCE_FIELDS) else { return };
    let mut set = |name: &str, parse, amount: &mut u64| {
        if let Some(item) = fields.get(name) {
            *amount = reader.amount(&item, parse).unwrap_or(*amount);
        }
    };
    set("cpu", cpu_parse, &mut resources.cpu_millis);
    set("memory", bytes_parse, &mut resources.memory_bytes);
    set("disk", bytes_parse, &mut resources.disk_bytes);
    set("disk_rate", rate_parse, &mut resources.disk_bytes_per_s);
    set("network_rate", rate_parse, &mut resources.network_bytes_per_s);
    if let Some(item) = fields.get("devices") {
        let entries =
            reader.entries(&item, "a map such as {gpu: 1} or {gpu: {count: 2, model: A100, memory: 40GiB}}");
        let devices = entries.into_iter().filter_map(|(key, item)| {
            let amount = match &item.node.value {
                TreeValue::Map(_) => device_amount(reader, &item)?,
                _ => reader.amount(&item, device_parse)?,
            };
            Some((key.text.clone(), amount))
        });
        resources.device_millis = devices.collect();
    }
}

const DEVICE: [&str; 3] = ["count", "model", "memory"];

/// The amount of `{count: 2, model: [A100], memory: 40GiB}`; without a count it is one.
fn device_amount(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<u64> {
    let fields = reader.fields(item, &DEVICE)?;
    match fields.get("count") {
        Some(item) => reader.amount(&item, device_parse),
        None => Some(1000),
    }
}

/// Which devices will do, of those kinds that are asked for as maps. What is wrong with an amount was said before.
fn selectors_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> BTreeMap<String, CardSelector> {
    let TreeValue::Map(resources) = &item.node.value else { return BTreeMap::new() };
    let devices = resources.iter().find(|(key, _)| key.text == "devices");
    let Some((_, TreeNode { value: TreeValue::Map(kinds), .. })) = devices else { return BTreeMap::new() };
    let mut selectors = BTreeMap::new();
    for (key, node) in kinds.iter().filter(|(_, node)| matches!(node.value, TreeValue::Map(_))) {
        let path = format!("{}.devices[{:?}]", item.path, key.text);
        let mut quiet = FieldReader::default();
        let Some(fields) = quiet.fields(&FileItem { node, path }, &DEVICE) else { continue };
        let mut selector = CardSelector::default();
        if let Some(item) = fields.get("model") {
            selector.models = match &item.node.value {
                TreeValue::List(_) => reader.texts(&item, "a model or a list of models"),
                _ => reader.text(&item).into_iter().collect(),
            };
        }
        if let Some(item) = fields.get("memory") {
            selector.memory_bytes_min = reader.amount(&item, bytes_parse).unwrap_or(0);
        }
        reader.placed(format!("task.device_selectors[{:?}]", key.text), node);
        selectors.insert(key.text.clone(), selector);
    }
    selectors
}

/// `[http, {name: admin, number: 8081}]` or `{http: auto, admin: 8081}`.
fn ports_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Vec<PortSpec> {
    if let TreeValue::Map(_) = item.node.value {
        let entries = reader.entries(item, "a map of ports");
        let ports = entries.into_iter().enumerate().filter_map(|(at, (key, number))| {
            reader.placed(format!("task.ports[{at}]"), number.node);
            let name = reader.key_name(key);
            let number = port_number(reader, &number);
            Some(PortSpec { name: name?, number })
        });
        return ports.collect();
    }
    let items = reader.items(item, "a list of names such as [http], or a map such as {http: auto}");
    items.iter().filter_map(|item| port_decode(reader, item)).collect()
}

fn port_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<PortSpec> {
    let TreeValue::Map(_) = item.node.value else {
        return Some(PortSpec { name: reader.name(item)?, number: None });
    };
    let fields = reader.fields(item, &["name", "number"])?;
    let number = fields.get("number").and_then(|item| port_number(reader, &item));
    let Some(name) = fields.get("name") else {
        reader.missing(item, "name", "a name such as http");
        return None;
    };
    Some(PortSpec { name: reader.name(&name)?, number })
}

fn port_number(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<u16> {
    match &item.node.value {
        TreeValue::Null => None,
        TreeValue::Text(text) if text == "auto" => None,
        _ => reader.whole(item, PORT),
    }
}

fn log_decode(reader: &mut FieldReader, item: &FileItem<'_>, log: &mut LogSpec) {
    let Some(fields) = reader.fields(item, &["file_bytes", "files"]) else { return };
    if let Some(item) = fields.get("file_bytes") {
        log.file_bytes_max = reader.amount(&item, bytes_parse).unwrap_or(log.file_bytes_max);
    }
    if let Some(item) = fields.get("files") {
        log.files_max = reader.whole(&item, "1 to 100").unwrap_or(log.files_max);
    }
}

/// The fields of an override.
pub(super) const OVERRIDE_FIELDS: [&str; 5] = ["command", "arguments", "environment", "resources", "weight"];

pub(super) fn override_decode(
    reader: &mut FieldReader,
    fields: &MapFields<'_>,
    task: &TaskSpec,
) -> TaskOverride {
    let mut own = TaskOverride::default();
    if let Some(item) = fields.get("command") {
        own.command = Some(reader.texts(&item, COMMAND));
    }
    if let Some(item) = fields.get("arguments") {
        own.arguments = reader.texts(&item, "a list of arguments that are appended to the command");
    }
    if let Some(item) = fields.get("environment") {
        own.environment = reader.text_map(&item);
    }
    if let Some(item) = fields.get("resources") {
        // What the override does not name stays the job's.
        let mut resources = task.resources.clone();
        resources_decode(reader, &item, &mut resources);
        own.resources = Some(resources);
    }
    if let Some(item) = fields.get("weight") {
        own.weight = reader.whole(&item, "1 to 255");
    }
    own
}
