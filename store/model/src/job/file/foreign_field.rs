//! Fields of job files of other systems, with the field of this one that says the same, or that it has none.

use super::help::{FieldHelp, field_help};
use super::suggest::nearest;

/// What this system has for a field of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnField<'p> {
    /// The path of the field. For a field of a role, an override or a probe, the last name of it counts.
    Is(&'p str),
    /// No field says it. The text says what is done instead.
    Absent(&'static str),
}

const IMAGE: &str =
    "a task runs a program of its node, and has no image; see `command` and `packages` of task";
const VOLUME: &str = "a task has its own directory and the paths of its node, and no volumes";
const CRON: &str =
    "a job begins when it is submitted, and none begins by a clock; run it by a clock of yours";
const FEDERATION: &str = "a job with this part runs in several cells: borough federation job run FILE";
const SPEC: &str = "a job file has its fields at the top, such as name, count and task";

const SERVICES: &str = "a file has one job, with its fields at the top, such as name, count and task";
const SERVICE: &str =
    "the ports of healthy tasks are published under the name of their job; see `ports` and `health` of task";
const NAMESPACE: &str =
    "the jobs of each user are apart from those of others; see `user` at the top of the file";
const CELL: &str =
    "the command names the cell: borough --cell CELL job run FILE; for several: borough explain federation";
const SIGNAL: &str = "a task gets SIGTERM, and SIGKILL after its `grace`";
const DEADLINE: &str = "no job ends after a time of its own; run its command below `timeout`";

/// Their names, in small letters without separators. Nomad, Kubernetes, Docker and systemd use them.
const FOREIGN: [(&str, OwnField<'_>); 99] = [
    ("activedeadlineseconds", OwnField::Absent(DEADLINE)),
    ("annotations", OwnField::Is("labels")),
    ("apiversion", OwnField::Absent(SPEC)),
    ("args", OwnField::Is("task.command")),
    ("artifact", OwnField::Is("task.packages")),
    ("artifacts", OwnField::Is("task.packages")),
    ("autopromote", OwnField::Is("update.auto_promote")),
    ("autorevert", OwnField::Is("update.on_failure")),
    ("backofflimit", OwnField::Is("restart.attempts")),
    ("canary", OwnField::Is("update.canaries")),
    ("check", OwnField::Is("task.health")),
    ("cmd", OwnField::Is("task.command")),
    ("command", OwnField::Is("task.command")),
    ("completions", OwnField::Is("count")),
    ("containers", OwnField::Is("task")),
    ("cpus", OwnField::Is("task.resources.cpu")),
    ("cron", OwnField::Absent(CRON)),
    ("datacenter", OwnField::Absent(CELL)),
    ("datacenters", OwnField::Absent(CELL)),
    ("dependson", OwnField::Is("after")),
    ("desiredcount", OwnField::Is("count")),
    ("driver", OwnField::Absent(IMAGE)),
    ("entrypoint", OwnField::Is("task.command")),
    ("env", OwnField::Is("task.environment")),
    ("failurethreshold", OwnField::Is("task.health.failures")),
    ("federation", OwnField::Absent(FEDERATION)),
    ("gpu", OwnField::Is("task.resources.devices.gpu")),
    ("gpus", OwnField::Is("task.resources.devices.gpu")),
    ("graceperiod", OwnField::Is("task.grace")),
    ("healthcheck", OwnField::Is("task.health")),
    ("healthydeadline", OwnField::Is("progress_deadline")),
    ("httpget", OwnField::Is("task.health.http")),
    ("image", OwnField::Absent(IMAGE)),
    ("initcontainers", OwnField::Is("task.helpers")),
    ("initialdelayseconds", OwnField::Is("task.health.initial_grace")),
    ("instances", OwnField::Is("count")),
    ("job", OwnField::Absent(SPEC)),
    ("key", OwnField::Is("tolerations.taint")),
    ("killsignal", OwnField::Absent(SIGNAL)),
    ("killtimeout", OwnField::Is("task.grace")),
    ("lifecycle", OwnField::Is("task.helpers")),
    ("limits", OwnField::Is("task.resources")),
    ("livenessprobe", OwnField::Is("task.health")),
    ("maxparallel", OwnField::Is("update.unavailable_max")),
    ("maxsurge", OwnField::Is("update.surge_max")),
    ("maxunavailable", OwnField::Is("update.unavailable_max")),
    ("mem", OwnField::Is("task.resources.memory")),
    ("meta", OwnField::Is("labels")),
    ("metadata", OwnField::Absent(SPEC)),
    ("minhealthytime", OwnField::Is("update.healthy_after")),
    ("minreadyseconds", OwnField::Is("update.healthy_after")),
    ("mounts", OwnField::Absent(VOLUME)),
    ("namespace", OwnField::Absent(NAMESPACE)),
    ("network", OwnField::Is("task.ports")),
    ("networks", OwnField::Is("task.ports")),
    ("nodeaffinity", OwnField::Is("constraints")),
    ("nodeselector", OwnField::Is("constraints")),
    ("nvidia.com/gpu", OwnField::Is("task.resources.devices.gpu")),
    ("parallelism", OwnField::Is("count")),
    ("periodic", OwnField::Absent(CRON)),
    ("periodseconds", OwnField::Is("task.health.interval")),
    ("podantiaffinity", OwnField::Is("affinity")),
    ("priorityclassname", OwnField::Is("priority")),
    ("progressdeadline", OwnField::Is("progress_deadline")),
    ("progressdeadlineseconds", OwnField::Is("progress_deadline")),
    ("readinessprobe", OwnField::Is("task.health")),
    ("region", OwnField::Absent(CELL)),
    ("replicas", OwnField::Is("count")),
    ("requests", OwnField::Is("task.resources")),
    ("reschedule", OwnField::Is("restart")),
    ("resources", OwnField::Is("task.resources")),
    ("restartpolicy", OwnField::Is("restart")),
    ("retries", OwnField::Is("restart.attempts")),
    ("rollingupdate", OwnField::Is("update")),
    ("scale", OwnField::Is("count")),
    ("schedule", OwnField::Absent(CRON)),
    ("service", OwnField::Absent(SERVICE)),
    ("services", OwnField::Absent(SERVICES)),
    ("shutdowndelay", OwnField::Is("drain_delay")),
    ("sidecar", OwnField::Is("task.helpers")),
    ("sidecars", OwnField::Is("task.helpers")),
    ("spec", OwnField::Absent(SPEC)),
    ("startupprobe", OwnField::Is("task.health.initial_grace")),
    ("stopgraceperiod", OwnField::Is("task.grace")),
    ("stopsignal", OwnField::Absent(SIGNAL)),
    ("strategy", OwnField::Is("update")),
    ("surge", OwnField::Is("update.surge_max")),
    ("suspend", OwnField::Absent(CRON)),
    ("tcpsocket", OwnField::Is("task.health.tcp")),
    ("template", OwnField::Is("task")),
    ("terminationgraceperiodseconds", OwnField::Is("task.grace")),
    ("timeoutseconds", OwnField::Is("task.health.timeout")),
    ("topologyspreadconstraints", OwnField::Is("spread")),
    ("type", OwnField::Is("kind")),
    ("updatestrategy", OwnField::Is("update")),
    ("volumemounts", OwnField::Absent(VOLUME)),
    ("volumes", OwnField::Absent(VOLUME)),
    ("workdir", OwnField::Is("task.working_directory")),
    ("workingdir", OwnField::Is("task.working_directory")),
];

/// What this system has for the field `key` of another one, if it is one.
pub(super) fn own_field(key: &str) -> Option<OwnField<'static>> {
    let plain = key.to_lowercase().replace(['-', '_', ' '], "");
    FOREIGN.iter().find(|(name, _)| *name == plain).map(|(_, own)| *own)
}

/// Where a field of this system belongs that stands in `outer` by mistake, such as `cpu` in `task`.
pub(super) fn own_path(outer: &str, key: &str) -> Option<String> {
    // Other systems name the kind of a check in a field of its own.
    if outer == "task.health" && matches!(key, "type" | "protocol") {
        return Some("task.health.http".to_owned());
    }
    let mut paths = places_of(outer, key)?.iter().map(|place| format!("{place}{key}"));
    paths.find(|path| field_help(path).is_ok_and(|help| help.path == *path))
}

/// The same for a field whose name is written almost right, such as `memroy` in `task`.
pub(super) fn own_path_near(outer: &str, key: &str) -> Option<String> {
    let near = |place: &&str| {
        let help = field_help(place.trim_end_matches('.')).ok()?;
        let names: Vec<&str> = help.inner.iter().map(FieldHelp::name).collect();
        nearest(key, &names).map(|name| format!("{place}{name}"))
    };
    places_of(outer, key)?.iter().find_map(near)
}

/// Where else a field may belong that stands in `outer`.
fn places_of(outer: &str, key: &str) -> Option<&'static [&'static str]> {
    // An item of a list has fields of its own.
    if !key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') || outer.contains('[') {
        return None;
    }
    match outer {
        "" => Some(&["task.", "task.resources."]),
        "task" => Some(&["task.resources.", ""]),
        "task.resources" => Some(&["task.", ""]),
        "task.health" => Some(&["task.health.http."]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A suggestion that no file may have helps nobody.
    #[test]
    fn each_foreign_field_leads_to_one_that_exists() {
        for (name, own) in FOREIGN {
            if let OwnField::Is(path) = own
                && path != "task.resources.devices.gpu"
            {
                assert!(field_help(path).is_ok(), "{name}: {path}");
            }
            assert_eq!(own_field(name), Some(own), "{name} stands twice, or is not written plainly");
        }
        assert!(FOREIGN.is_sorted_by_key(|(name, _)| *name));
        assert_eq!(own_field("max_surge"), own_field("maxSurge"));
        assert_eq!(own_field("memory"), None);
    }

    #[test]
    fn a_field_at_the_wrong_level_is_known_at_the_right_one() {
        let of = |outer: &str, key: &str| own_path(outer, key).unwrap_or_default();
        assert_eq!(of("task", "cpu"), "task.resources.cpu");
        assert_eq!(of("", "memory"), "task.resources.memory");
        for key in ["ports", "environment", "health", "command"] {
            assert_eq!(of("", key), format!("task.{key}"));
        }
        for key in ["restart", "count", "constraints", "priority", "user"] {
            assert_eq!(of("task", key), key);
        }
        assert_eq!(of("task.resources", "ports"), "task.ports");
        let near = |outer: &str, key: &str| own_path_near(outer, key).unwrap_or_default();
        assert_eq!(near("task", "memroy"), "task.resources.memory");
        assert_eq!(near("", "comand"), "task.command");
        assert_eq!((near("task.ports[0]", "comand"), near("", "zzzzzzzz")), (String::new(), String::new()));
        assert_eq!((of("task.ports[0]", "cpu"), of("", "no_such")), (String::new(), String::new()));
    }
}
