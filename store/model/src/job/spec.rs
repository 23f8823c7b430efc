//! The spec of a job. The store keeps it, the programs show it, and a submission compares it.

use std::collections::BTreeMap;

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::file::kind::{AnyText, Delay, Labels, NameText, Priority, TextLine, Whole, delay_schema_any};
use super::file::read::{
    affinities_read, affinity_schema, after_read, after_schema, attempts_schema, constraints_read,
    constraints_schema, count_schema, gang_read, kind_schema, members_schema, overrides_read,
    overrides_schema, pause_schema, restart_mode_schema, restart_read, restart_schema, spread_read,
    spread_schema, tolerations_read, tolerations_schema,
};
use super::validate::{
    LABELS_MAX, affinities_check, after_check, constraints_check, count_of_spec_check, gang_check,
    overrides_check, profile_check, queue_check, restart_check, spread_check, tolerations_check,
    update_check,
};
use super::{
    Affinity, Constraint, GangSpec, PreemptionSpec, Spread, TaskOverride, TaskSpec, Toleration, UpdateSpec,
    defaults,
};
use crate::field_error::DELAY_MS_MAX;
use crate::id::Name;

/// Everything that the owner of a job decides about it. A job belongs to one cell.
///
/// This struct defines each field: `#[field(…)]` says how a job file names it, which values are accepted, what its
/// absence means, and what a change of it does. `borough_model_derive` lists the attributes.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize, FileMessage)]
#[message(rest = gang_read)]
pub struct JobSpec {
    /// Whose job it is.
    #[n(0)]
    #[field(given, kind = NameText, value = "as `name`", default = "who runs the command", example = "bob")]
    pub user: Name,
    /// The job's name, unique for the user within the cell.
    #[n(1)]
    #[field(
        given,
        kind = NameText,
        required = "a name such as web",
        value = "a DNS label: 1 to 63 of `a-z`, `0-9`, `-`, starting with a letter",
        example = "web"
    )]
    pub name: Name,
    /// Whether its tasks run until stopped or until done, and whether each node has one.
    #[n(2)]
    #[field(
        given,
        by_hand,
        schema = kind_schema,
        value = "`service` (until stopped), `batch` (until done), `daemon` (until stopped, one task on each node that \
                 matches), or `alloc_set` (each task is an alloc: a place on a node for tasks of other jobs)",
        default = "`service`",
        example = "batch"
    )]
    pub kind: JobKind,
    /// 0 to 399; the band follows from it. Higher goes first.
    #[n(3)]
    #[field(
        kind = Priority,
        init = defaults::priority(kind),
        value = "0 to 399, or a band: `best_effort` (0), `batch` (100), `production` (200), `monitoring` (300)",
        default = "200, batch jobs 100",
        example = 250,
        change = CountOrPriority
    )]
    pub priority: u32,
    /// How many tasks; 0 is legal.
    #[n(4)]
    #[field(
        kind = Whole::any("a whole number of tasks from 0 to 100000"),
        schema = count_schema,
        check = count_of_spec_check,
        init = defaults::count(kind),
        value = "tasks, 0 to 100000; a daemon job has none",
        default = "1",
        example = 4,
        change = CountOrPriority
    )]
    pub count: u32,
    /// How many tasks must fit together before any is placed. With 1 the job is no gang.
    #[n(5)]
    #[field(
        by_hand,
        schema = members_schema,
        init = 1,
        value = "tasks that must fit together before any is placed: a number, or `all`",
        default = "what the kind of work asks for: 1 for services and batch work, the sum over its `roles`, all with \
                   `gang_topology`"
    )]
    pub min_member: u32,
    /// Jobs of the same user that must have ended before this one starts.
    #[n(6)]
    #[field(
        read = after_read,
        check = after_check,
        schema = after_schema,
        value = "jobs of the same user that must have ended: `[prepare]`, `[{job: prepare, condition: finished}]` \
                 (`succeeded` or `finished`)",
        example = ["prepare", {"job": "seed", "condition": "finished"}]
    )]
    pub after: Vec<After>,
    /// Where tasks may and should run.
    #[n(7)]
    #[field(
        read = constraints_read,
        check = constraints_check,
        schema = constraints_schema,
        value = "see below",
        example = ["rack in [r1, r2]", {"attribute": "arch", "operator": "in", "values": ["amd64"], "prefer": 10}]
    )]
    pub constraints: Vec<Constraint>,
    /// The failure domains over which tasks spread.
    #[n(8)]
    #[field(
        read = spread_read,
        check = spread_check,
        schema = spread_schema,
        value = "attributes that name failure domains, the first weighing most: `[rack, node.name]`, or \
                 `{rack: 70, node.name: 30}`",
        example = ["node.name", {"attribute": "rack", "weight": 70, "max_skew": 1}]
    )]
    pub spread: Vec<Spread>,
    /// What each task runs.
    #[n(9)]
    #[field(given, nested, required = "a map with at least a command", value = "see below")]
    pub task: TaskSpec,
    /// Fields that differ for single tasks, by the index of the task.
    #[n(10)]
    #[field(
        read = overrides_read,
        check = overrides_check,
        schema = overrides_schema,
        value = "by task index: `command`, `arguments` (appended), `environment` (over the job's), `resources` (those \
                 named), `weight`",
        example = {"0": {"arguments": ["x"], "weight": 9}}
    )]
    pub overrides: BTreeMap<u32, TaskOverride>,
    /// What happens when a task ends by itself.
    #[n(11)]
    #[field(
        nested,
        read = restart_read,
        check = restart_check,
        schema = restart_schema,
        init = RestartSpec::for_kind(kind),
        value = "`always`, `on_failure`, `never`, or a map of `mode`, `attempts` (a number or `unlimited`), `backoff`, \
                 `backoff_max`, `reset_after`",
        default = "services `always` without limit, batch jobs `on_failure` three times; 500ms, 1m, 2m",
        example = {"mode": "on_failure", "attempts": 7, "backoff": "1s"}
    )]
    pub restart: RestartSpec,
    /// The time between the withdrawal of an endpoint and SIGTERM; 0: the cell's, if the task has ports.
    #[n(12)]
    #[field(
        file = "drain_delay",
        kind = Delay::of(0, DELAY_MS_MAX),
        init = defaults::DRAIN_DELAY_MS,
        value = "time between the withdrawal of an endpoint and SIGTERM; 0s: the cell's, if the task has ports",
        default = "0s",
        example = "2s"
    )]
    pub drain_delay_ms: u64,
    /// How long a vanished node is waited for before its tasks are placed elsewhere; absent: the cell's.
    #[n(13)]
    #[field(
        file = "lost_after",
        kind = Delay::of(1_000, 24 * DELAY_MS_MAX),
        value = "how long a vanished node is waited for, 1s to 24h; the cell's tolerance is the least",
        default = "the cell's",
        example = "45s"
    )]
    pub lost_after_ms: Option<u64>,
    /// Free labels, for selection.
    #[n(14)]
    #[field(
        kind = Labels { most: LABELS_MAX },
        value = "a map of texts, by which affinities and `borough job list --label` select jobs",
        example = {"team": "web"},
        change = Metadata,
        status
    )]
    pub labels: BTreeMap<String, String>,
    /// Other tasks to run near to, and others to keep apart from.
    #[n(15)]
    #[cbor(default)]
    #[serde(default)]
    #[field(
        read = affinities_read,
        check = affinities_check,
        schema = affinity_schema,
        value = "near which other tasks, and apart from which: `[{apart: node.name, jobs: [\"app == cache\"]}]`",
        example = [{"apart": "node.name", "jobs": ["app == cache"]}]
    )]
    pub affinity: Vec<Affinity>,
    /// Taints of nodes that do not keep its tasks away.
    #[n(16)]
    #[cbor(default)]
    #[serde(default)]
    #[field(
        read = tolerations_read,
        check = tolerations_check,
        schema = tolerations_schema,
        value = "see below",
        example = ["maintenance", {"taint": "dedicated", "value": "db", "effect": "no_schedule"}]
    )]
    pub tolerations: Vec<Toleration>,
    /// The scheduler of the cell that places its tasks; absent: `default`. Admission sets it by the rules of the cell
    /// if the job names none.
    #[n(20)]
    #[serde(default)]
    #[field(
        kind = NameText,
        value = "which of the cell's schedulers places it (`borough scheduler --scheduler NAME`)",
        default = "what the cell's rules choose (`borough cell set --scheduler WORK=NAME`), else `default`",
        example = "night",
        status
    )]
    pub scheduler: Option<Name>,
    /// The scoring profile for its tasks; absent: that of the cell. Admission refuses an unknown profile.
    #[n(21)]
    #[cbor(default)]
    #[serde(default)]
    #[field(
        kind = AnyText,
        check = profile_check,
        value = "the scoring profile by which nodes are scored for its tasks, perhaps with weights",
        default = "the cell's",
        example = "kubernetes:spread=0.5",
        status
    )]
    pub profile: Option<String>,
    /// Roles and failure domains of its gang; absent: only `min_member` counts.
    #[n(24)]
    #[serde(default)]
    #[field(flatten, check = gang_check)]
    pub gang: Option<GangSpec>,
    /// The path of the queue in which it waits; absent: the queue with the name of its user, or `default`.
    #[n(22)]
    #[cbor(default)]
    #[serde(default)]
    #[field(
        kind = AnyText,
        check = queue_check,
        value = "the cell's queue in which it waits, by its path",
        default = "the queue called after its user, else `default`",
        example = "research/vision",
        status
    )]
    pub queue: Option<String>,
    /// Whether its tasks evict others, and how others may evict them; absent: the defaults.
    #[n(28)]
    #[serde(default)]
    #[field(
        nested,
        value = "a map of `never` (`true`: its tasks wait for room and evict nobody), `notice_max` (most time that its \
                 victims have between SIGTERM and SIGKILL) and `down_max` (its disruption budget for evictions: those that leave \
                 more than so many of its tasks without a place are the last choice)",
        default = "it evicts lower priorities; the victims' own grace; what a service's `update` says, or no budget",
        example = {"never": true, "notice_max": "2s", "down_max": 1}
    )]
    pub preemption: Option<PreemptionSpec>,
    /// What the job is for, in one line of at most 512 bytes.
    #[n(29)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[field(kind = TextLine { most: 512 }, example = "the shop's front page", change = Metadata, status)]
    pub description: Option<String>,
    /// How long a rollout waits while no further task of a service becomes healthy. Then it fails. `job run` and `job
    /// scale` wait as long for a job without one, and then report a failure. The job goes on.
    #[n(30)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[field(
        file = "progress_deadline",
        kind = Delay::of(1_000, 24 * DELAY_MS_MAX),
        value = "how long a rollout or `job run` waits while no further task of a service becomes healthy, 1s to 24h. Then \
                 the rollout fails; without one, `job run` reports a failure, and the job goes on",
        default = "10m",
        example = "2m",
        change = Metadata
    )]
    pub progress_deadline_ms: Option<u64>,
    /// How a changed spec reaches its tasks; absent: the defaults.
    #[n(31)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[field(
        nested,
        value = "a map of `unavailable_max` and `unavailable_percent_max` (its disruption budget: tasks that may be \
                 without a healthy attempt while a rollout, a drain or a taint ends others), `healthy_after` (how long a new attempt must be healthy before it \
                 counts), `failures_max` (failures in a row of one task that a rollout bears), `on_failure` \
                 (`revert` or `stop`), `surge_max` and `surge_percent_max` (tasks that a rollout runs beside the job's \
                 own until it is done), `canaries` (tasks beside the job's own that try the new version before any other \
                 has it), `auto_promote` (`true`: it goes on by itself when they are healthy), `disruptions_max` (healthy \
                 tasks that one rollout ends in all; the others keep their version until they begin again), `resize` (`in_place` \
                 or `restart`: how other amounts of `cpu`, `memory`, `disk_rate` and `network_rate` reach a running \
                 task), `resize_signal` (`SIGHUP`, `SIGUSR1`, `SIGUSR2` or `SIGWINCH`: what it gets after a resize in place)",
        default = "`unavailable_max: 1`, `healthy_after: 10s`, `failures_max: 2`, `on_failure: revert`",
        example = {"unavailable_percent_max": 25, "healthy_after": "5s", "failures_max": 0, "on_failure": "stop"},
        check = update_check,
        change = Metadata
    )]
    pub update: Option<UpdateSpec>,
    /// The alloc set that has its tasks, a job of the same user; absent: they have places of their own.
    #[n(32)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[field(
        kind = NameText,
        value = "an alloc set of the same user: its tasks run in the allocs of the set",
        example = "places",
        status
    )]
    pub alloc_set: Option<Name>,
}

/// Whether tasks run until stopped or until done, and whether each node has one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// Its tasks run until they are stopped. Any exit leads to a restart or is a failure.
    #[n(0)]
    Service,
    /// Its tasks run until they are done. Exit code 0 ends a task for good.
    #[n(1)]
    Batch,
    /// One task runs on each node that matches, until the job is stopped. Otherwise they are as those of a service.
    #[n(2)]
    Daemon,
    /// Its tasks are allocs: places on nodes that are held until the job is stopped, and that hold tasks of other jobs.
    #[n(3)]
    AllocSet,
}

impl JobKind {
    /// The kinds with their names in a job file.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("service", Self::Service),
        ("batch", Self::Batch),
        ("daemon", Self::Daemon),
        ("alloc_set", Self::AllocSet),
    ];
}

/// The four bands of priority, in order. Monitoring 300–399, production 200–299, batch 100–199, best effort 0–99.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// 0–99. Quotas do not limit it, and its tasks are the first victims.
    #[n(0)]
    BestEffort,
    /// 100–199.
    #[n(1)]
    Batch,
    /// 200–299. No task of its own band evicts it.
    #[n(2)]
    Production,
    /// 300–399.
    #[n(3)]
    Monitoring,
}

impl Band {
    /// Its name in job files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BestEffort => "best_effort",
            Self::Batch => "batch",
            Self::Production => "production",
            Self::Monitoring => "monitoring",
        }
    }
}

/// Another job that must end before this one starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct After {
    /// The name of the other job, which has the same user.
    #[n(0)]
    pub job: Name,
    #[n(1)]
    pub condition: AfterCondition,
}

/// How the other job must have ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum AfterCondition {
    /// With any outcome.
    #[n(0)]
    Finished,
    /// Every task exited with code 0.
    #[default]
    #[n(1)]
    Succeeded,
}

/// What happens when a task ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize, FileMessage)]
pub struct RestartSpec {
    /// The exits after which the task restarts.
    #[n(0)]
    #[field(by_hand, schema = restart_mode_schema, default = "services `always`, batch jobs `on_failure`")]
    pub mode: RestartMode,
    /// The most restarts in a row; the next failure ends the task for good.
    #[n(1)]
    #[field(by_hand, file = "attempts", schema = attempts_schema, default = "services no limit, batch jobs 3")]
    pub attempts_max: Option<u32>,
    /// The pause before the first restart. Each further failure in a row doubles it.
    #[n(2)]
    #[field(by_hand, file = "backoff", schema = pause_schema, default = "500ms")]
    pub backoff_initial_ms: u64,
    /// The longest pause of the job. After many failures in a row the cell itself pauses for up to 10 s.
    #[n(3)]
    #[field(by_hand, file = "backoff_max", schema = pause_schema, default = "1m")]
    pub backoff_max_ms: u64,
    /// After an attempt of at least this time, the next failure is the first in a row.
    #[n(4)]
    #[field(by_hand, file = "reset_after", schema = delay_schema_any, default = "2m")]
    pub reset_after_ms: u64,
}

/// The exits after which a task starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum RestartMode {
    #[n(0)]
    Always,
    /// Any end except exit code 0.
    #[n(1)]
    OnFailure,
    #[n(2)]
    Never,
}
