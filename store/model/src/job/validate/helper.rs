//! Checks the helpers of a task.

use std::collections::BTreeSet;

use super::task::{MEMORY_BYTES_MIN, command_check, environment_check};
use crate::field_error::{FieldErrors, delay_text};
use crate::job::{DEADLINES_MS, HELPERS_MAX, HelperPhase, HelperSpec, TaskSpec};

pub(in crate::job) fn helpers_check(fields: &mut FieldErrors, path: &str, task: &TaskSpec) {
    let helpers = &task.helpers;
    let count = format!("{} helpers", helpers.len());
    fields.require(helpers.len() <= HELPERS_MAX, path, count, format!("at most {HELPERS_MAX}"));
    let mut names = BTreeSet::new();
    for (at, helper) in helpers.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let name = format!("{:?}", helper.name.as_str());
        fields.require(names.insert(&helper.name), &format!("{path}.name"), name, "each name once");
        helper_check(fields, &path, helper);
    }
}

fn helper_check(fields: &mut FieldErrors, path: &str, helper: &HelperSpec) {
    command_check(fields, &format!("{path}.command"), &helper.command);
    environment_check(fields, &format!("{path}.environment"), &helper.environment);
    let least = "at least one thousandth of a core";
    fields.require(helper.cpu_millis > 0, &format!("{path}.cpu"), helper.cpu_millis, least);
    let memory = helper.memory_bytes;
    fields.require(memory >= MEMORY_BYTES_MIN, &format!("{path}.memory"), memory, "at least 1MiB");
    let Some(deadline_ms) = helper.deadline_ms else { return };
    let path = format!("{path}.deadline_ms");
    let when = path.replace(".deadline_ms", ".when");
    if helper.when == HelperPhase::Beside {
        let accepted = "none: a helper beside the command runs as long as the command does";
        fields.related(&[when]).refuse(&path, delay_text(deadline_ms), accepted);
        return;
    }
    let accepted = format!("{} to {}", delay_text(*DEADLINES_MS.start()), delay_text(*DEADLINES_MS.end()));
    fields.require(DEADLINES_MS.contains(&deadline_ms), &path, delay_text(deadline_ms), accepted);
}
