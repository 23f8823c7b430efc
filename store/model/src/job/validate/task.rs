//! Checks what a task runs and needs.

use std::collections::{BTreeMap, BTreeSet};

use super::gang::count_sources;
use crate::field_error::{FieldErrors, delay_text};
use crate::id::Name;
use crate::job::{JobSpec, PortSpec, Probe, TaskOverride, TaskSpec, resources_with_helpers};
use crate::node::{CORE_SPEED_REFERENCE, device_kind_check, task_packages_check};
use crate::resource::{Resources, cpu_display};

/// Lowest fixed port: those below need privileges.
pub(super) const FIXED_PORT_MIN: u16 = 1024;
/// Most ports of a task.
pub(crate) const PORTS_MAX: usize = 32;
/// Most accepted models of a device.
const MODELS_MAX: usize = 16;
/// Least memory of a task, in bytes. With less, the kernel ends a process before it has started.
pub(super) const MEMORY_BYTES_MIN: u64 = 1 << 20;

pub(in crate::job) fn command_of_task_check(fields: &mut FieldErrors, path: &str, task: &TaskSpec) {
    command_check(fields, path, &task.command);
}

pub(in crate::job) fn environment_of_task_check(fields: &mut FieldErrors, path: &str, task: &TaskSpec) {
    environment_check(fields, path, &task.environment);
}

pub(in crate::job) fn directory_check(fields: &mut FieldErrors, path: &str, task: &TaskSpec) {
    let Some(directory) = &task.working_directory else { return };
    let fine = directory.starts_with('/') && !directory.contains('\0');
    fields.require(fine, path, format!("{directory:?}"), "an absolute path");
}

pub(in crate::job) fn resources_of_task_check(fields: &mut FieldErrors, path: &str, task: &TaskSpec) {
    resources_check(fields, path, &task.resources);
}

pub(in crate::job) fn packages_check(fields: &mut FieldErrors, _: &str, task: &TaskSpec) {
    task_packages_check(fields, &task.packages);
}

pub(in crate::job) fn cores_of_task_check(fields: &mut FieldErrors, _: &str, task: &TaskSpec) {
    cores_check(fields, task, "task.resources", &task.resources);
}

pub(in crate::job) fn overrides_check(fields: &mut FieldErrors, _: &str, spec: &JobSpec) {
    for (&index, own) in &spec.overrides {
        let path = format!("overrides[{index}]");
        let accepted = format!("indexes below the count, {}", spec.count);
        let sources = count_sources(spec).into_iter().chain([format!("{path}.index")]);
        fields.related(&sources.collect::<Vec<_>>()).require(index < spec.count, &path, index, accepted);
        override_check(fields, &path, own);
        if let Some(resources) = &own.resources {
            cores_check(fields, &spec.task, &format!("{path}.resources"), resources);
        }
    }
}

/// A task with cores of its own requests whole cores.
fn cores_check(fields: &mut FieldErrors, task: &TaskSpec, path: &str, resources: &Resources) {
    let held = resources_with_helpers(resources, &task.helpers);
    let fine = !task.exclusive_cores || held.cpu_millis.is_multiple_of(CORE_SPEED_REFERENCE);
    let accepted = match task.helpers.as_slice() {
        [] => "whole cores, since they are to be its own",
        _ => "whole cores together with its helpers, since they are to be its own",
    };
    let others = ["task.exclusive_cores", "task.resources.cpu", "task.helpers"];
    fields.related(&others).require(fine, &format!("{path}.cpu"), cpu_display(held.cpu_millis), accepted);
}

pub(super) fn override_check(fields: &mut FieldErrors, path: &str, own: &TaskOverride) {
    if let Some(command) = &own.command {
        command_check(fields, &format!("{path}.command"), command);
    }
    for (at, argument) in own.arguments.iter().enumerate() {
        fields.argument(&format!("{path}.arguments[{at}]"), argument);
    }
    environment_check(fields, &format!("{path}.environment"), &own.environment);
    if let Some(resources) = &own.resources {
        resources_check(fields, &format!("{path}.resources"), resources);
    }
    if let Some(weight) = own.weight {
        weight_check(fields, &format!("{path}.weight"), weight);
    }
}

pub(super) fn command_check(fields: &mut FieldErrors, path: &str, command: &[String]) {
    // An argument may have a stand-in, so the list is not shown.
    match command.first().map(String::as_str) {
        None => fields.refuse(path, "[]", "a program and its arguments"),
        Some(program) => {
            fields.require(!program.is_empty(), &format!("{path}[0]"), format!("{program:?}"), "a program");
        }
    }
    for (at, argument) in command.iter().enumerate() {
        fields.argument(&format!("{path}[{at}]"), argument);
    }
}

pub(super) fn environment_check(
    fields: &mut FieldErrors,
    path: &str,
    environment: &BTreeMap<String, String>,
) {
    for (name, value) in environment {
        let path = format!("{path}[{name:?}]");
        fields.variable(&path, name);
        fields.argument(&path, value);
    }
}

fn resources_check(fields: &mut FieldErrors, path: &str, resources: &Resources) {
    // Without a request, any number of tasks would fit on one node.
    fields.require(resources.cpu_millis > 0, &format!("{path}.cpu"), 0, "at least one thousandth of a core");
    let memory = resources.memory_bytes;
    fields.require(memory >= MEMORY_BYTES_MIN, &format!("{path}.memory"), memory, "at least 1MiB");
    for (kind, &millis) in &resources.device_millis {
        let path = format!("{path}.devices[{kind:?}]");
        device_kind_check(fields, &path, kind);
        let whole_or_share = millis > 0 && (millis <= 1000 || millis % 1000 == 0);
        let accepted = "whole devices, or a share of one such as 0.5";
        fields.require(whole_or_share, &path, crate::resource::device_display(millis), accepted);
    }
}

pub(in crate::job) fn selectors_check(fields: &mut FieldErrors, _: &str, task: &TaskSpec) {
    for (kind, selector) in &task.device_selectors {
        let path = |field: &str| format!("task.device_selectors[{kind:?}]{field}");
        let asked = task.resources.device_millis.contains_key(kind);
        fields.related(&["task.resources"]).require(
            asked,
            &path(""),
            format!("{kind:?}"),
            "a kind of which the resources ask for devices",
        );
        let models = &selector.models;
        let given = format!("{} models", models.len());
        let accepted = format!("at most {MODELS_MAX}; none is any");
        fields.require(models.len() <= MODELS_MAX, &path(".models"), given, accepted);
        for (at, model) in models.iter().enumerate() {
            let path = path(&format!(".models[{at}]"));
            fields.require(!model.is_empty(), &path, format!("{model:?}"), "a model such as A100");
            fields.line(&path, model);
        }
    }
}

pub(in crate::job) fn ports_check(fields: &mut FieldErrors, _: &str, task: &TaskSpec) {
    let ports = &task.ports;
    let count = format!("{} ports", ports.len());
    fields.require(ports.len() <= PORTS_MAX, "task.ports", count, format!("at most {PORTS_MAX}"));
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let name_path = format!("task.ports[{at}].name");
        fields.require(
            names.insert(&port.name),
            &name_path,
            format!("{:?}", port.name.as_str()),
            "each name once",
        );
        let Some(number) = port.number else { continue };
        let number_path = format!("task.ports[{at}].number");
        let accepted = "1024 to 65535 (lower ones are reserved), or auto: the scheduler hands one out";
        fields.require(number >= FIXED_PORT_MIN, &number_path, number, accepted);
        fields.require(numbers.insert(number), &number_path, number, "each number once");
    }
}

pub(in crate::job) fn health_check(fields: &mut FieldErrors, _: &str, task: &TaskSpec) {
    let (Some(health), ports) = (&task.health, &task.ports) else { return };
    match &health.probe {
        Probe::Http { port, path } => {
            probe_port_check(fields, "task.health.http.port", port, ports);
            let fine = path.starts_with('/') && path.chars().all(|each| each.is_ascii_graphic());
            let accepted = "a path such as /healthz, in printable ASCII without spaces";
            fields.require(fine, "task.health.http.path", format!("{path:?}"), accepted);
        }
        Probe::Tcp { port } => probe_port_check(fields, "task.health.tcp.port", port, ports),
        Probe::Command { command } => command_check(fields, "task.health.command", command),
    }
    fields.delay("task.health.interval_ms", health.interval_ms, 100);
    // An interval of 0 has the timeout 0 by default. What is wrong is the interval.
    let fine = (1..=health.interval_ms).contains(&health.timeout_ms)
        || (health.interval_ms, health.timeout_ms) == (0, 0);
    let accepted = format!("1ms to the interval, {}", delay_text(health.interval_ms));
    fields.related(&["task.health.interval"]).require(
        fine,
        "task.health.timeout_ms",
        health.timeout_ms,
        accepted,
    );
    let failures = health.failures_max;
    fields.require((1..=1000).contains(&failures), "task.health.failures_max", failures, "1 to 1000");
    fields.delay("task.health.initial_grace_ms", health.initial_grace_ms, 0);
}

fn probe_port_check(fields: &mut FieldErrors, path: &str, port: &Name, ports: &[PortSpec]) {
    let mut declared: Vec<&str> = Vec::new();
    for (at, each) in ports.iter().enumerate() {
        let is_read = !fields.unread().covers(&format!("task.ports[{at}].name"));
        if is_read && !declared.contains(&each.name.as_str()) {
            declared.push(each.name.as_str());
        }
    }
    let accepted = if ports.is_empty() {
        "a port of the task, which has none".to_owned()
    } else if declared.is_empty() {
        "one of the task's ports".to_owned()
    } else {
        format!("one of the task's ports: {}", declared.join(", "))
    };
    let known = declared.contains(&port.as_str());
    fields.related(&["task.ports"]).require(known, path, port, accepted);
}

fn weight_check(fields: &mut FieldErrors, path: &str, weight: u32) {
    fields.require((1..=255).contains(&weight), path, weight, "1 to 255");
}
