//! Checks alloc sets, and jobs in them. An alloc is a place that other jobs fill: it runs nothing itself. A job in an
//! alloc set is placed where its alloc is: it decides about no node.

use super::gang::gang_sources;
use super::tally;
use crate::field_error::FieldErrors;
use crate::job::{ALLOC_COMMAND, JobKind, JobSpec, MEMBER_TASKS_MAX};

/// Refuses the fields that an alloc set does not have.
pub(super) fn alloc_set_check(fields: &mut FieldErrors, spec: &JobSpec) {
    if spec.kind != JobKind::AllocSet {
        return;
    }
    let kind = ["kind"];
    let fields = fields.related(&kind);
    let accepted =
        "none in an alloc set: an alloc is in no other alloc. A job that runs something names the set";
    if let Some(set) = &spec.alloc_set {
        fields.refuse("alloc_set", set, accepted);
    }
    let accepted = "none in an alloc set: an alloc runs nothing itself. Submit jobs with `alloc_set` into it";
    let is_own = spec.task.command.iter().map(String::as_str).eq(ALLOC_COMMAND);
    fields.require(is_own, "task.command", format!("{:?}", spec.task.command), accepted);
    let helpers = format!("{} helpers", spec.task.helpers.len());
    fields.require(spec.task.helpers.is_empty(), "task.helpers", helpers, accepted);
    let identities = format!("{} identities", spec.task.identities.len());
    fields.require(spec.task.identities.is_empty(), "task.identities", identities, accepted);
    let secrets = tally(spec.task.secrets.len(), "secret");
    fields.require(spec.task.secrets.is_empty(), "task.secrets", secrets, accepted);
    if let Some(check) = &spec.task.health {
        fields.refuse("task.health", format!("every {} ms", check.interval_ms), accepted);
    }
    gang_refuse(fields, spec, "none in an alloc set: each of its allocs is placed by itself");
    let overrides = tally(spec.overrides.len(), "task");
    let accepted = "none in an alloc set: its allocs are alike, so that each can take any task";
    fields.require(spec.overrides.is_empty(), "overrides", overrides, accepted);
    let endless = spec.restart.is_endless();
    let accepted = "`always` without a limit in an alloc set: it is held until it is stopped";
    fields.require(endless, "restart", "an end for good", accepted);
    whole_node_parts_refuse(
        fields,
        spec,
        "none in an alloc set: its allocs hold amounts of a node, not parts of it",
    );
}

/// Refuses the fields that a job in an alloc set does not have.
pub(super) fn alloc_member_check(fields: &mut FieldErrors, spec: &JobSpec) {
    let Some(set) = spec.alloc_set.as_ref().filter(|_| spec.kind != JobKind::AllocSet) else { return };
    let fields = fields.related(&["alloc_set", "kind"]);
    let accepted =
        "`service` or `batch` in an alloc set: a daemon job has a task on each node, and not in an alloc";
    fields.require(spec.kind != JobKind::Daemon, "kind", "daemon", accepted);
    let accepted = "another name: a job is not in itself";
    fields.require(*set != spec.name, "alloc_set", set, accepted);
    let accepted =
        format!("at most {MEMBER_TASKS_MAX} in a job with `alloc_set`; larger work is several jobs");
    fields.require(spec.count <= MEMBER_TASKS_MAX, "count", spec.count, accepted);
    gang_refuse(fields, spec, "none in a job with `alloc_set`: each task is placed by itself");
    let accepted = format!(
        "none in a job with `alloc_set`: its tasks run where the allocs of {set} are. Give it to {set}"
    );
    let decided = [
        ("constraints", spec.constraints.len()),
        ("spread", spec.spread.len()),
        ("affinity", spec.affinity.len()),
        ("tolerations", spec.tolerations.len()),
        ("task.packages", spec.task.packages.len()),
    ];
    for (path, entries) in decided {
        let value = if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") };
        fields.require(entries == 0, path, value, accepted.clone());
    }
    if let Some(profile) = &spec.profile {
        fields.refuse("profile", profile, accepted.clone());
    }
    fields.require(spec.preemption.is_none(), "preemption", "rules for evictions", accepted);
    let accepted = "none in a job with `alloc_set`: its alloc holds amounts of a node, not parts of it";
    whole_node_parts_refuse(fields, spec, accepted);
}

fn gang_refuse(fields: &mut FieldErrors, spec: &JobSpec, accepted: &str) {
    let fields = fields.related(&gang_sources(spec));
    fields.require(spec.gang.is_none(), "roles", "a gang", accepted);
    if spec.gang.is_none() {
        fields.require(spec.min_member <= 1, "min_member", spec.min_member, accepted);
    }
}

/// Refuses cores, domains and devices of a node: they belong to the process that asks for them.
fn whole_node_parts_refuse(fields: &mut FieldErrors, spec: &JobSpec, accepted: &str) {
    let mut asked =
        spec.overrides.values().filter_map(|own| own.resources.as_ref()).chain([&spec.task.resources]);
    let devices = asked.find_map(|resources| resources.device_millis.keys().next());
    if let Some(device) = devices {
        fields.refuse("task.resources.devices", device, accepted);
    }
    fields.require(!spec.task.exclusive_cores, "task.exclusive_cores", true, accepted);
    fields.require(spec.task.within.is_none(), "task.within", "a part of the node", accepted);
}
