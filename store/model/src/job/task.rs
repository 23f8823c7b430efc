//! What a task runs and needs, and the overrides of single tasks.

use std::collections::BTreeMap;

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::defaults;
use super::file::kind::{AmountOfBytes, AnyText, Delay, TextList, TextMap, Truth, Whole, Words};
use super::file::read::{
    COMMAND, health_read, health_schema, helpers_read, helpers_schema, identities_read, identities_schema,
    ports_read, ports_schema, resources_read, resources_schema, secrets_read, secrets_schema, selectors_read,
};
use super::helper::HelperSpec;
use super::identity::IdentitySpec;
use super::secret::SecretReference;
use super::validate::{
    command_of_task_check, cores_of_task_check, directory_check, environment_of_task_check, health_check,
    helpers_check, identities_check, packages_check, ports_check, resources_of_task_check, secrets_check,
    selectors_check,
};
use crate::field_error::DELAY_MS_MAX;
use crate::id::Name;
use crate::node::{CardSelector, Within};
use crate::resource::Resources;

/// What a task runs, and what it needs.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize, FileMessage)]
#[message(rest = selectors_read)]
pub struct TaskSpec {
    /// Program and arguments. A program without a slash is searched in `PATH`.
    #[n(0)]
    #[field(
        given,
        kind = TextList(COMMAND),
        check = command_of_task_check,
        required = COMMAND,
        value = "the program and its arguments, a list; an alloc set has none",
        example = ["run", "--fast"]
    )]
    pub command: Vec<String>,
    /// Environment. The agent adds the `BOROUGH_*` variables and a `PORT_<NAME>` for each port.
    #[n(1)]
    #[field(kind = TextMap, check = environment_of_task_check, value = "a map of texts", example = {"A": "b"})]
    pub environment: BTreeMap<String, String>,
    /// The working directory; absent: the task's own directory.
    #[n(2)]
    #[field(
        kind = AnyText,
        check = directory_check,
        value = "an absolute path",
        default = "the task's own directory",
        example = "/srv"
    )]
    pub working_directory: Option<String>,
    /// The resources that it requests and is limited to.
    #[n(3)]
    #[field(
        read = resources_read,
        check = resources_of_task_check,
        schema = resources_schema,
        init = defaults::resources(),
        value = "`cpu`, `memory`, `disk`, `disk_rate`, `network_rate`, `devices`",
        default = "100m, 64MiB",
        example = {"cpu": 0.5, "memory": "128MiB", "devices": {"gpu": {"count": 2, "model": ["A100"]}, "fpga": 0.5}}
    )]
    pub resources: Resources,
    /// TCP ports.
    #[n(4)]
    #[field(
        read = ports_read,
        check = ports_check,
        schema = ports_schema,
        value = "`[http]`, `[{name: http, number: 8080}]`, `{http: auto, admin: 8081}`; fixed numbers from 1024",
        example = ["http", {"name": "admin", "number": 8081}]
    )]
    pub ports: Vec<PortSpec>,
    /// How the agent checks its health; absent: it is healthy while it runs.
    #[n(5)]
    #[field(
        read = health_read,
        check = health_check,
        schema = health_schema,
        value = "one of `http: {port, path}`, `tcp: {port}`, `command: [...]`, with `interval`, `timeout`, `failures`, \
                 `initial_grace`",
        default = "none: [healthy](#health) while it runs; 5s, 2s, 3, 10s",
        example = {"command": ["check"], "interval": "5s", "failures": 2}
    )]
    pub health: Option<HealthCheck>,
    /// The time between SIGTERM and SIGKILL.
    #[n(6)]
    #[field(
        file = "grace",
        kind = Delay::of(0, DELAY_MS_MAX),
        init = defaults::GRACE_MS,
        value = "time between SIGTERM and SIGKILL",
        default = "5s",
        example = "1m30s"
    )]
    pub grace_ms: u64,
    /// How its output is kept.
    #[n(7)]
    #[field(
        nested,
        value = "`file_bytes` of one file and `files` kept, per stream",
        default = "10MiB, 3",
        example = {"file_bytes": "1MiB", "files": 2}
    )]
    pub log: LogSpec,
    /// Its share of the traffic from a load balancer, relative to the other tasks of the job: 1–255.
    #[n(8)]
    #[field(
        kind = Whole::of(1, 255, "1 to 255"),
        init = defaults::WEIGHT,
        value = "share of traffic, 1 to 255",
        default = "1",
        example = 3
    )]
    pub weight: u32,
    /// Which devices are accepted, by kind. Only for kinds that `resources` requests.
    #[n(9)]
    #[cbor(default)]
    #[serde(default)]
    #[field(hidden, check = selectors_check)]
    pub device_selectors: BTreeMap<String, CardSelector>,
    /// The part of its node that it stays within; absent: the whole node.
    #[n(10)]
    #[serde(default)]
    #[field(
        kind = Words(&Within::NAMES),
        value = "`one_socket` or `one_numa_node`: placed only where one has room for all its processor time and memory, \
                 and kept on its processors",
        default = "anywhere",
        example = "one_numa_node"
    )]
    pub within: Option<Within>,
    /// Packages that it uses, each as `name/version`. The scheduler prefers nodes that have them.
    #[n(11)]
    #[cbor(default)]
    #[serde(default)]
    #[field(
        kind = TextList("a list of names and versions such as [web/1.4.2]"),
        check = packages_check,
        value = "what it uses, as names with versions: `[web/1.4.2]`. Nodes that have them are preferred, as by \
                 `prefer 50` for all of them and in part for some",
        example = ["web/1.4.2", "data/7"]
    )]
    pub packages: Vec<String>,
    /// Whether its processor time is whole cores, which no other task of the cell uses.
    #[n(12)]
    #[cbor(default)]
    #[serde(default)]
    #[field(
        kind = Truth,
        check = cores_of_task_check,
        value = "`true`: its `cpu` is whole cores that no other task of the cell's uses, of one NUMA node unless \
                 `within` says `one_socket`",
        default = "`false`"
    )]
    pub exclusive_cores: bool,
    /// Programs that run before, beside or after its command, in the same attempt.
    #[n(13)]
    #[cbor(default)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[field(
        read = helpers_read,
        check = helpers_check,
        schema = helpers_schema,
        value = "a list of at most 8 maps of `name`, `when` (`before`, `beside` or `after` the command), `command`, \
                 `environment` (over the task's), `cpu` and `memory` (what its node holds for it) and `deadline` (how \
                 long it may run, 1s to 1h; none `beside`)",
        default = "none; of a helper: 100m, 64MiB; 10m before, 30s after",
        example = [{"name": "migrate", "when": "before", "command": ["migrate"], "cpu": 1, "deadline": "2m"}]
    )]
    pub helpers: Vec<HelperSpec>,
    /// The signed tokens that it gets in files, by which others know who it is.
    #[n(14)]
    #[cbor(default)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[field(
        read = identities_read,
        check = identities_check,
        schema = identities_schema,
        value = "a list of at most 4 names, or maps of `name`, `audience` (who is to accept its tokens) and `ttl` \
                 (30s to 24h)",
        default = "none; of an identity: its name, 1h",
        example = [{"name": "vault", "audience": "https://vault.example.org", "ttl": "30m"}]
    )]
    pub identities: Vec<IdentitySpec>,
    /// The secrets that its node gives it. The spec has their places only.
    #[n(15)]
    #[cbor(default)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[field(
        read = secrets_read,
        check = secrets_check,
        schema = secrets_schema,
        value = "a list of at most 16 maps of `name` (a variable), `source` (where its node has it, below the secrets of \
                 the job's user) and `as` (`variable`: it has the secret; `file`: it has the path of a file)",
        default = "none; of a secret: `variable`",
        example = [{"name": "DB_PASSWORD", "source": "db/password", "as": "file"}]
    )]
    pub secrets: Vec<SecretReference>,
}

impl TaskSpec {
    /// The part of its node that it stays within. Cores of its own belong to one NUMA domain, unless the spec names
    /// another part.
    pub fn within_in_force(&self) -> Option<Within> {
        let own = || self.exclusive_cores.then_some(Within::OneNumaNode);
        self.within.or_else(own)
    }
}

/// Fields of a job that differ for single tasks.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct TaskOverride {
    /// Replaces the command of the job.
    #[n(0)]
    pub command: Option<Vec<String>>,
    /// Arguments that follow the command.
    #[n(1)]
    pub arguments: Vec<String>,
    /// Variables that are added to the environment of the job, or replace its own.
    #[n(2)]
    pub environment: BTreeMap<String, String>,
    /// Replaces the resources of the job.
    #[n(3)]
    pub resources: Option<Resources>,
    /// Replaces the weight of the job.
    #[n(4)]
    pub weight: Option<u32>,
}

/// A TCP port that a task listens on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct PortSpec {
    /// Its name, for the endpoint and for `PORT_<NAME>`.
    #[n(0)]
    pub name: Name,
    /// A fixed number; absent: the scheduler assigns one from the range of the node.
    #[n(1)]
    pub number: Option<u16>,
}

/// How an agent checks the health of a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct HealthCheck {
    #[n(0)]
    pub probe: Probe,
    #[n(1)]
    pub interval_ms: u64,
    /// A probe that takes longer fails.
    #[n(2)]
    pub timeout_ms: u64,
    /// After so many failures in a row a healthy task is unhealthy, and the agent restarts it.
    #[n(3)]
    pub failures_max: u32,
    /// Failures in the first so many milliseconds do not count.
    #[n(4)]
    pub initial_grace_ms: u64,
}

/// What a health check does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// A GET over HTTP/1.1. The task is healthy if the status is 200–399.
    #[n(0)]
    #[serde(alias = "Http")]
    Http {
        /// The name of the port.
        #[n(0)]
        port: Name,
        /// The path with its query.
        #[n(1)]
        path: String,
    },
    /// The task is healthy if a TCP connection opens.
    #[n(1)]
    #[serde(alias = "Tcp")]
    Tcp {
        /// The name of the port.
        #[n(0)]
        port: Name,
    },
    /// The task is healthy if a command in its environment exits with 0.
    #[n(2)]
    #[serde(alias = "Command")]
    Command {
        /// Program and arguments.
        #[n(0)]
        command: Vec<String>,
    },
}

/// How the output of a task is kept: in files of whole lines. The agent removes the oldest file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize, FileMessage)]
pub struct LogSpec {
    /// A line that begins beyond this size goes into a new file.
    #[n(0)]
    #[field(
        file = "file_bytes",
        kind = AmountOfBytes { least: 4 << 10, most: 1 << 30, accepted: "4KiB to 1GiB" },
        default = "10MiB"
    )]
    pub file_bytes_max: u64,
    /// Files kept per stream.
    #[n(1)]
    #[field(file = "files", kind = Whole::of(1, 100, "1 to 100"), default = "3")]
    pub files_max: u32,
}
