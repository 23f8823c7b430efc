//! Checks the variables of commands: a task whose command names an unknown one would fail at each start.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_error::FieldErrors;
use crate::id::Name;
use crate::job::{HelperSpec, JobSpec, SecretForm, TaskOverride};

/// Variables that agents set, besides those of ports and those that begin with [`AGENT_PREFIXES`]. A node without cards
/// of its own lacks those of devices, and only tasks in allocs, of roles and of helpers have theirs.
const AGENT_VARIABLES: [&str; 23] = [
    "PATH",
    "HOME",
    "HOST",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "BOROUGH_CELL",
    "BOROUGH_USER",
    "BOROUGH_JOB",
    "BOROUGH_INDEX",
    "BOROUGH_ATTEMPT",
    "BOROUGH_NODE",
    "BOROUGH_TASK_DIR",
    "BOROUGH_ALLOC",
    "BOROUGH_ALLOC_SET",
    "BOROUGH_ALLOC_INDEX",
    "BOROUGH_ALLOC_DIR",
    "BOROUGH_ROLE",
    "BOROUGH_ROLE_INDEX",
    "BOROUGH_HELPER",
    "BOROUGH_EXIT_CODE",
    "BOROUGH_EXIT_SIGNAL",
    "BOROUGH_EXIT_STOPPED",
];
/// What a command may have of a secret.
const SECRET_ACCEPTED: &str = "no secret, because everybody sees the arguments of a process: the program reads its \
                               environment, or takes the path of a secret with `as: file`";
/// The beginnings of variables with a name behind them: of a port of an alloc, of an identity, or of a device.
const AGENT_PREFIXES: [&str; 3] = ["BOROUGH_ALLOC_PORT_", "BOROUGH_IDENTITY_", "BOROUGH_DEVICE_"];

/// The names of every `${NAME}` in a text of a command. `$${` is a plain `${`, and braces around anything but a name
/// stay as they are.
pub fn variables_of(text: &str) -> Vec<&str> {
    let (mut names, mut rest) = (Vec::new(), text);
    while let Some((before, inner)) = rest.split_once("${") {
        let name = inner.split_once('}').map(|(name, _)| name).filter(|name| is_name(name));
        match name.filter(|_| !before.ends_with('$')) {
            Some(name) => {
                names.push(name);
                rest = inner.get(name.len().saturating_add(1)..).unwrap_or_default();
            }
            None => rest = inner,
        }
    }
    names
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A name as it stands within a variable.
pub(in crate::job) fn variable_part(name: &Name) -> String {
    name.as_str().to_ascii_uppercase().replace('-', "_")
}

/// Every variable that a command of the job names, with the path of its text.
pub(in crate::job) fn variables_named(spec: &JobSpec) -> Vec<(String, &str)> {
    let helpers = spec.task.helpers.iter().enumerate();
    let helpers =
        helpers.map(|(at, helper)| (format!("task.helpers[{at}].command"), helper.command.as_slice()));
    let own = spec.overrides.iter().map(|(index, own)| (format!("overrides[{index}]"), own));
    let roles = spec.roles().iter().enumerate().map(|(at, role)| (format!("roles[{at}]"), &role.task));
    let parts = own.chain(roles).flat_map(|(path, part)| {
        let command = part.command.as_deref().unwrap_or_default();
        [(format!("{path}.command"), command), (format!("{path}.arguments"), part.arguments.as_slice())]
    });
    let main = std::iter::once(("task.command".to_owned(), spec.task.command.as_slice()));
    let texts = main.chain(helpers).chain(parts).flat_map(|(path, texts)| {
        texts.iter().enumerate().map(move |(at, text)| (format!("{path}[{at}]"), text))
    });
    texts
        .flat_map(|(path, text)| variables_of(text).into_iter().map(move |name| (path.clone(), name)))
        .collect()
}

/// The variables that some task of a job has.
#[derive(Clone)]
struct KnownVariables {
    names: BTreeSet<String>,
    /// Those of secrets, which no command may have.
    secrets: BTreeSet<String>,
    /// The paths of the overrides and roles, which may define more.
    parts: Vec<String>,
}

/// Refuses each part of a command that names a variable that no task of the job has.
pub(super) fn variables_check(fields: &mut FieldErrors, spec: &JobSpec) {
    let own = spec.overrides.iter().map(|(index, own)| (format!("overrides[{index}]"), own));
    let roles = spec.roles().iter().enumerate().map(|(at, role)| (format!("roles[{at}]"), &role.task));
    let parts: Vec<(String, &TaskOverride)> = own.chain(roles).collect();
    let ports = spec.task.ports.iter();
    let mut known: BTreeSet<String> =
        ports.map(|port| format!("PORT_{}", variable_part(&port.name))).collect();
    if !known.is_empty() {
        known.insert("PORT".to_owned());
    }
    known.extend(AGENT_VARIABLES.map(str::to_owned));
    let names = |environment: &BTreeMap<String, String>| environment.keys().cloned().collect::<Vec<_>>();
    known.extend(names(&spec.task.environment));
    // The path of a secret may be an argument. The secret itself may not: everybody sees the arguments of a process.
    let (files, secrets): (Vec<_>, Vec<_>) =
        spec.task.secrets.iter().partition(|secret| secret.form == SecretForm::File);
    known.extend(files.into_iter().map(|secret| secret.name.clone()));
    // An override may define a variable of the common command.
    known.extend(parts.iter().flat_map(|(_, part)| names(&part.environment)));
    let known = KnownVariables {
        names: known,
        secrets: secrets.into_iter().map(|secret| secret.name.clone()).collect(),
        parts: parts.iter().map(|(path, _)| path.clone()).collect(),
    };
    command_check(fields, &known, "task.command", &spec.task.command);
    helpers_check(fields, &known, &spec.task.helpers);
    for (path, part) in &parts {
        command_check(
            fields,
            &known,
            &format!("{path}.command"),
            part.command.as_deref().unwrap_or_default(),
        );
        command_check(fields, &known, &format!("{path}.arguments"), &part.arguments);
    }
}

/// Checks the commands of helpers. Each has the variables of the task and its own.
fn helpers_check(fields: &mut FieldErrors, known: &KnownVariables, helpers: &[HelperSpec]) {
    for (at, helper) in helpers.iter().enumerate() {
        let mut own = known.clone();
        own.names.extend(helper.environment.keys().cloned());
        own.parts.push(format!("task.helpers[{at}]"));
        command_check(fields, &own, &format!("task.helpers[{at}].command"), &helper.command);
    }
}

fn command_check(fields: &mut FieldErrors, known: &KnownVariables, path: &str, command: &[String]) {
    for (at, text) in command.iter().enumerate() {
        let is_of_agent = |name: &str| AGENT_PREFIXES.iter().any(|begin| name.starts_with(begin));
        let unknown = |name: &&str| !is_of_agent(name) && !known.names.contains(*name);
        let Some(name) = variables_of(text).into_iter().find(unknown) else { continue };
        let accepted = if known.secrets.contains(name) {
            SECRET_ACCEPTED.to_owned()
        } else {
            format!("a variable of the task, its ports or Borough's; a plain one is written $${{{name}}}")
        };
        // What could not be read may have defined the variable.
        if name.starts_with("PORT") && fields.unread().touches("task.ports") {
            continue;
        }
        let others = known.parts.iter().map(|part| format!("{part}.environment"));
        let others =
            others.chain(["task.environment", "task.secrets", "overrides", "roles"].map(str::to_owned));
        fields.related(&others.collect::<Vec<_>>()).refuse(
            &format!("{path}[{at}]"),
            format!("${{{name}}}"),
            accepted,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of them stands in the page of job files.
    #[test]
    fn the_variables_of_agents_are_documented() {
        let page = include_str!("../../../../../docs/job-files.md");
        for name in AGENT_VARIABLES.iter().chain(&AGENT_PREFIXES) {
            assert!(page.contains(&format!("`{name}")), "{name}");
        }
    }

    #[test]
    fn the_names_of_variables_are_found_as_agents_expand_them() {
        for (text, names) in [
            ("x${A}y${B}", vec!["A", "B"]),
            ("$${A} ${B}", vec!["B"]),
            ("${A:-2} ${} ${A", vec![]),
            ("${${A}", vec!["A"]),
            ("é${_A1}é", vec!["_A1"]),
            ("$A {A}", vec![]),
        ] {
            assert_eq!(variables_of(text), names, "{text}");
        }
    }
}
