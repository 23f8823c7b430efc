//! Reads what a task runs and needs, and the overrides of single tasks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::described;
use super::super::kind::{amount_schema, bytes_schema, text_schema};
use super::super::reader::{FieldReader, FileItem, MapFields};
use super::super::tree::{TreeNode, TreeValue};
use super::{any_of, map_of};
use crate::job::{PORTS_MAX, PortSpec, TaskOverride, TaskSpec};
use crate::node::CardSelector;
use crate::resource::{Resources, bytes_parse, cpu_parse, device_parse, rate_parse};

const RESOURCE_FIELDS: [&str; 6] = ["cpu", "memory", "disk", "disk_rate", "network_rate", "devices"];
pub(crate) const COMMAND: &str = "a list of the program and its arguments, such as [sleep, 60]";
const PORT: &str = "1024 to 65535, or auto: the scheduler hands one out";

/// Reads the fields of a task. A field that the file leaves out has its default.
pub(crate) fn resources_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    task: &TaskSpec,
) -> Option<Resources> {
    let mut resources = task.resources.clone();
    resources_decode(reader, item, &mut resources);
    Some(resources)
}

/// Reads amounts of resources. The map of a device also says which devices are accepted.
pub(crate) fn selectors_read(reader: &mut FieldReader, fields: &MapFields<'_>, task: &mut TaskSpec) {
    if let Some(item) = fields.get("resources") {
        task.device_selectors = selectors_decode(reader, &item);
    }
}

pub(crate) fn resources_schema() -> Value {
    let cores = amount_schema("cores, such as 2, 0.5 or 500m", "m?");
    let rate = amount_schema("bytes per second, such as 10MiB/s", "([kMGTP]|[KMGTP]i)?B?(/s)?");
    let count = amount_schema("devices, such as 2, or a share such as 0.5", "");
    let models = any_of(&[text_schema(), json!({"type": "array", "items": text_schema()})]);
    let device = json!({
        "count": described("How many, or the share of one. Default: 1", count.clone()),
        "model": described("The accepted models.", models),
        "memory": described("The least memory of each.", bytes_schema()),
    });
    let devices = json!({"type": "object", "additionalProperties": any_of(&[count, map_of(device, &[])])});
    let form = json!({
        "cpu": described("Processor time that its node holds for it. Default: 100m", cores),
        "memory": described("Memory. Default: 64MiB", bytes_schema()),
        "disk": described("Space in the task's directory. Default: 0", bytes_schema()),
        "disk_rate": described("Bytes read and written on disks. Default: 0", rate.clone()),
        "network_rate": described("Bytes sent and received. Default: 0", rate),
        "devices": described("Devices by kind, such as {gpu: 1}. Default: none", devices),
    });
    map_of(form, &[])
}

/// Sets the amounts that the file names. Other amounts stay.
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
        let devices = entries.into_iter().map(|(key, item)| {
            let amount = match &item.node.value {
                TreeValue::Map(_) => device_amount(reader, &item),
                _ => reader.amount(&item, device_parse),
            };
            (key.text.clone(), amount.unwrap_or(ONE_DEVICE_MILLIS))
        });
        resources.device_millis = devices.collect();
    }
}

const ONE_DEVICE_MILLIS: u64 = 1000;
const DEVICE: [&str; 3] = ["count", "model", "memory"];

/// The amount of `{count: 2, model: [A100], memory: 40GiB}`; the default of the count is one.
fn device_amount(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<u64> {
    let fields = reader.fields(item, &DEVICE)?;
    match fields.get("count") {
        Some(item) => reader.amount(&item, device_parse),
        None => Some(ONE_DEVICE_MILLIS),
    }
}

/// The accepted devices of each kind that the file gives as a map. Problems of amounts were recorded before.
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
        let shown = format!("{}.devices[{:?}]", item.path, key.text);
        reader.alias(format!("task.device_selectors[{:?}].models", key.text), format!("{shown}.model"));
        reader.alias(format!("task.device_selectors[{:?}]", key.text), shown);
        selectors.insert(key.text.clone(), selector);
    }
    selectors
}

pub(crate) fn ports_schema() -> Value {
    let number =
        json!({"anyOf": [{"type": "integer", "minimum": 1024, "maximum": 65535}, {"const": "auto"}]});
    let name = json!({"type": "string"});
    let form = json!({
        "name": described("The name of the port, as in PORT_<NAME>.", name.clone()),
        "number": described("A fixed number. Default: auto, the scheduler hands one out", number.clone()),
    });
    let one = map_of(form, &["name"]);
    let list = json!({"type": "array", "maxItems": PORTS_MAX, "items": any_of(&[name, one])});
    let auto = any_of(&[number, json!({"type": "null"})]);
    any_of(&[list, json!({"type": "object", "additionalProperties": auto})])
}

/// `[http, {name: admin, number: 8081}]` or `{http: auto, admin: 8081}`.
pub(crate) fn ports_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &TaskSpec,
) -> Option<Vec<PortSpec>> {
    if let TreeValue::Map(_) = item.node.value {
        let entries = reader.entries(item, "a map of ports");
        let ports = entries.into_iter().enumerate().map(|(at, (key, number))| {
            reader.alias(format!("task.ports[{at}]"), &number.path);
            let name = reader.key_name(item, key, &format!("task.ports[{at}].name"));
            PortSpec { name, number: port_number(reader, &number) }
        });
        return Some(ports.collect());
    }
    let items = reader.items(item, "a list of names such as [http], or a map such as {http: auto}");
    Some(items.iter().map(|item| port_decode(reader, item)).collect())
}

fn port_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> PortSpec {
    if let TreeValue::Number(_) = item.node.value {
        reader.refuse(item, "a name such as http; a number has a name too: {http: 20080}");
        return PortSpec { name: reader.name_stand_in(), number: None };
    }
    let TreeValue::Map(_) = item.node.value else {
        return PortSpec { name: reader.name_or_stand_in(item), number: None };
    };
    let Some(fields) = reader.fields(item, &["name", "number"]) else {
        return PortSpec { name: reader.name_stand_in(), number: None };
    };
    let number = fields.get("number").and_then(|item| port_number(reader, &item));
    PortSpec { name: reader.name_of(item, &fields, "name", "a name such as http"), number }
}

fn port_number(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<u16> {
    match &item.node.value {
        TreeValue::Null => None,
        TreeValue::Text(text) if text == "auto" => None,
        _ => reader.whole(item, PORT),
    }
}

/// The fields of an override.
pub(super) const OVERRIDE_FIELDS: [&str; 5] = ["command", "arguments", "environment", "resources", "weight"];

pub(super) fn override_properties() -> Value {
    let texts = json!({"type": "array", "items": text_schema()});
    let environment = json!({"type": "object", "additionalProperties": text_schema()});
    let weight = json!({"type": "integer", "minimum": 1, "maximum": 255});
    let resources = resources_over_schema();
    json!({
        "command": described("Replaces the command. Default: the job's", texts.clone()),
        "arguments": described("Follow the command.", texts),
        "environment": described("Variables over those of the job.", environment),
        "resources": described("Amounts over those of the job. Default: the job's", resources),
        "weight": described("Replaces the weight. Default: the job's", weight),
    })
}

/// The amounts that replace those of the job: each that is absent stays that of the job.
fn resources_over_schema() -> Value {
    let mut schema = resources_schema();
    for amount in schema["properties"].as_object_mut().into_iter().flat_map(|fields| fields.values_mut()) {
        let text = amount["description"].as_str().unwrap_or_default();
        let meaning = text.split(" Default: ").next().unwrap_or_default();
        amount["description"] = json!(format!("{meaning} Default: the job's"));
    }
    schema
}

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
        // An amount that the override leaves out is that of the job.
        let mut resources = task.resources.clone();
        resources_decode(reader, &item, &mut resources);
        own.resources = Some(resources);
    }
    if let Some(item) = fields.get("weight") {
        own.weight = reader.whole(&item, "1 to 255");
    }
    own
}
