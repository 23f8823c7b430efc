//! The files that `job init` writes: a complete one with every field there is, and a short one per kind of work.

use borough_model::job::JobSpec;
use borough_model::job::file::{FieldInfo, fields_flat};

/// A kind of work that `job init --kind` writes a file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StarterKind {
    /// A service with a port and a health check
    Web,
    /// Tasks that run to their end
    Batch,
    /// Tasks of several roles that start together
    Gang,
    /// A task with a GPU
    Gpu,
    /// One task on each node that matches
    Daemon,
    /// Places on nodes that hold tasks of several jobs
    AllocSet,
}

/// A short commented job file for a kind of work.
pub fn starter_of(kind: StarterKind) -> &'static str {
    match kind {
        StarterKind::Web => include_str!("starter/web.yaml"),
        StarterKind::Batch => include_str!("starter/batch.yaml"),
        StarterKind::Gang => include_str!("starter/gang.yaml"),
        StarterKind::Gpu => include_str!("starter/gpu.yaml"),
        StarterKind::Daemon => include_str!("starter/daemon.yaml"),
        StarterKind::AllocSet => include_str!("starter/alloc_set.yaml"),
    }
}

/// A file to start from as JSON, which has no comments.
///
/// # Errors
/// The text is no YAML.
pub fn starter_json(yaml: &str) -> Result<String, String> {
    let value: serde_json::Value = serde_saphyr::from_str(yaml).map_err(|error| error.to_string())?;
    Ok(format!("{value:#}\n"))
}

/// Where further fields of the task are added.
const TASK_MARK: &str = "  # (task)\n";

/// A commented job file that runs as it is. Fields that its text does not name follow from their definition.
pub fn starter() -> String {
    let fields = JobSpec::file_fields();
    let task = fields.iter().find(|field| field.file == "task").and_then(|task| task.inner);
    let text = TEXT.replace(TASK_MARK, &others(task.unwrap_or_default(), "  "));
    format!("{text}{}", others(fields, ""))
}

/// A comment for each field that the text does not name.
fn others(fields: &'static [FieldInfo], indent: &str) -> String {
    let named = |field: &&FieldInfo| {
        TEXT.lines().any(|line| {
            let line = line.strip_prefix(indent).unwrap_or_default();
            line.strip_prefix("# ").unwrap_or(line).starts_with(&format!("{}:", field.file))
        })
    };
    let line = |field: &FieldInfo| {
        let example = field.example.map_or_else(String::new, |example| example().to_string());
        format!("{indent}# {}: {example}  # {}\n", field.file, field.value.replace('`', ""))
    };
    fields_flat(fields).into_iter().filter(|field| !named(field)).map(line).collect()
}

const TEXT: &str = r#"# A job of Borough. Check it with `borough job validate FILE`, preview it with
# `borough job plan FILE`, and run it with `borough job run FILE`.

name: hello            # unique among your jobs in the cell
kind: service          # service: runs until stopped. batch: runs until done
count: 2               # how many tasks
# user: alice          # default: the user who runs the command
# priority: production # or a number, 0 to 399: best_effort 0, batch 100, production 200, monitoring 300
# min_member: 2        # this many must fit before any is placed; or all
# gang_topology: rack     # and in one rack; or {attribute: rack, at_most: 2}, {attribute: rack, exactly: 2}, with prefer: true
# after: [prepare]     # jobs that must have succeeded first; or {job: prepare, condition: finished}

task:
  # The program and its arguments. The node fills in ${PORT_<NAME>} and ${BOROUGH_...} in arguments.
  command: [python3, -m, http.server, --bind, 127.0.0.1, "${PORT_HTTP}"]
  # environment: {GREETING: hello}
  # working_directory: /srv
  resources:
    cpu: 100m          # thousandths of a core; 1 or 0.5 are cores
    memory: 64MiB
    # disk: 1GiB
    # disk_rate: 10MiB/s
    # network_rate: 10MiB/s
    # devices: {gpu: 1}    # whole ones, or a share such as 0.5; {gpu: {count: 2, model: A100, memory: 40GiB}}
  # packages: [web/1.4.2]  # the scheduler prefers nodes that have them
  # exclusive_cores: true  # its cpu is whole cores that no other task of the cell uses
  # within: one_numa_node  # or one_socket: its processors and memory stay together
  ports: [http]        # the scheduler hands out the numbers; a fixed one is {name: http, number: 8080}
  health:
    http: {port: http, path: /}    # or tcp: http, or command: [check]
    interval: 2s
    timeout: 1s
    failures: 3        # in a row before a restart
    initial_grace: 10s # failures right after the start do not count
  grace: 5s            # between SIGTERM and SIGKILL
  # log: {file_bytes: 10MiB, files: 3}
  # weight: 1          # share of traffic, 1 to 255
  # helpers:           # programs beside the command, or before or after it
  #   - {name: migrate, when: before, command: [migrate], cpu: 1, deadline: 2m}
  # identities: [vault, {name: aws, audience: sts.amazonaws.com, ttl: 30m}] # signed tokens in files, by which others know it
  # secrets:           # its node has them, below the secrets of your user
  #   - {name: DB_PASSWORD, source: db/password}
  #   - {name: TLS_KEY, source: tls/key.pem, as: file} # the variable has the path of a file
  # (task)

# What single tasks replace, by their index.
# overrides:
#   0: {arguments: [--directory, /tmp], environment: {ROLE: first}, resources: {memory: 128MiB}, weight: 2}

# Where tasks must run, and where they should (prefer).
# constraints: ["rack in [r1, r2]", "arch == x86_64", "ssd exists prefer 50"]
spread: [rack, node.name]
# Limits per domain: spread: [{attribute: rack, weight: 100, max_skew: 1, tasks_max: 3, percent_max: 25}]

# Near or apart from the tasks of other jobs of yours (of all users with "job.user exists"), by the jobs' labels.
# affinity:
#   - {apart: node.name, jobs: ["team == web"]}
#   - {near: rack, jobs: ["job.name == cache"], prefer: 50}

# Taints of nodes that do not keep the tasks away.
# tolerations: [maintenance, {taint: dedicated, value: db}, {taint: old, effect: no_execute, evict_after: 5m}]

# restart: on_failure  # always, on_failure, never; or {mode: always, attempts: 5, backoff: 500ms, backoff_max: 1m}
# update: {unavailable_max: 1, unavailable_percent_max: 25, healthy_after: 10s, failures_max: 2, on_failure: revert, surge_max: 1, canaries: 0, auto_promote: false} # of a changed file
drain_delay: 1s        # between the withdrawal of an endpoint and SIGTERM
# lost_after: 30s      # how long its node may be silent before its tasks move
# progress_deadline: 2m # a rollout fails if no further task becomes healthy for so long
# labels: {team: web}
# description: the front page of the shop
# preemption: {never: true, notice_max: 2s, down_max: 1} # evicts nobody; grace of its victims; how many of its tasks may be down
# roles: [{name: server}, {name: worker}] # tasks that differ, placed together
# alloc_set: places    # its tasks run in the allocs of this alloc set of yours
# queue: research/vision # the cell's queue in which it waits
# profile: kubernetes:spread=0.5 # how nodes are scored for its tasks
# scheduler: night     # which of the cell's schedulers places it
"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// Each field stands in the starter as YAML by hand: what follows from a definition is JSON, and one long line.
    #[test]
    fn no_line_of_the_starter_is_json() {
        for line in starter().lines() {
            assert!(!line.contains("{\"") && !line.contains("[\"{") && line.chars().count() <= 200, "{line}");
        }
    }
}
