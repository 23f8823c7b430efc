//! What a task runs and needs, and what single tasks have otherwise.

use std::collections::BTreeMap;

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::defaults;
use super::file::kind::{AmountOfBytes, AnyText, Delay, TextList, TextMap, Truth, Whole, Words};
use super::file::read::{
    COMMAND, health_read, health_schema, ports_read, ports_schema, resources_read, resources_schema,
    selectors_read,
};
use super::validate::{
    command_of_task_check, cores_of_task_check, directory_check, environment_of_task_check, health_check,
    packages_check, ports_check, resources_of_task_check, selectors_check,
};
use crate::field_error::DELAY_MS_MAX;
use crate::id::Name;
use crate::node::{CardSelector, Within};
use crate::resource::Resources;

/// What a task runs, and what it needs.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize, FileMessage)]
#[message(rest = selectors_read)]
pub struct TaskSpec {
    /// Program and arguments. The program is searched in `PATH` where it has no slash.
    #[n(0)]
    #[field(
        given,
        kind = TextList(COMMAND),
        check = command_of_task_check,
        required = COMMAND,
        value = "the program and its arguments, a list",
        example = ["run", "--fast"]
    )]
    pub command: Vec<String>,
    /// Environment. The agent adds the `BOROUGH_*` variables and a `PORT_<NAME>` for each port.
    #[n(1)]
    #[field(kind = TextMap, check = environment_of_task_check, value = "a map of texts", example = {"A": "b"})]
    pub environment: BTreeMap<String, String>,
    /// Where it starts; absent: the task's own directory.
    #[n(2)]
    #[field(
        kind = AnyText,
        check = directory_check,
        value = "an absolute path",
        default = "the task's own directory",
        example = "/srv"
    )]
    pub working_directory: Option<String>,
    /// What it needs and may use.
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
    /// How its health is known; absent: healthy while it runs.
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
    /// Milliseconds between SIGTERM and SIGKILL.
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
    /// Share of traffic a load balancer should give it, relative to its siblings; 1–255.
    #[n(8)]
    #[field(
        kind = Whole::of(1, 255, "1 to 255"),
        init = defaults::WEIGHT,
        value = "share of traffic, 1 to 255",
        default = "1",
        example = 3
    )]
    pub weight: u32,
    /// Which devices will do, by kind: of those kinds that `resources` ask for.
    #[n(9)]
    #[cbor(default)]
    #[serde(default)]
    #[field(hidden, check = selectors_check)]
    pub device_selectors: BTreeMap<String, CardSelector>,
    /// Within what of its node it stays; absent: anywhere.
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
    /// Packages that it uses, each as `name/version`: nodes that have them are preferred.
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
    /// Whether the processor time it asks for is whole cores that nobody else of the cell's uses.
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
}

impl TaskSpec {
    /// Within what of its node it stays: cores of its own are of one NUMA domain, unless it says otherwise.
    pub fn within_in_force(&self) -> Option<Within> {
        let own = || self.exclusive_cores.then_some(Within::OneNumaNode);
        self.within.or_else(own)
    }
}

/// What single tasks have otherwise.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct TaskOverride {
    /// Instead of the job's command.
    #[n(0)]
    pub command: Option<Vec<String>>,
    /// Appended to the command.
    #[n(1)]
    pub arguments: Vec<String>,
    /// Over the job's environment.
    #[n(2)]
    pub environment: BTreeMap<String, String>,
    /// Instead of the job's resources.
    #[n(3)]
    pub resources: Option<Resources>,
    /// Instead of the job's weight.
    #[n(4)]
    pub weight: Option<u32>,
}

/// A TCP port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct PortSpec {
    /// Its name, for the endpoint and for `PORT_<NAME>`.
    #[n(0)]
    pub name: Name,
    /// A fixed number; absent: the scheduler hands one out from the node's range.
    #[n(1)]
    pub number: Option<u16>,
}

/// How health is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct HealthCheck {
    /// What is asked.
    #[n(0)]
    pub probe: Probe,
    /// Milliseconds between probes.
    #[n(1)]
    pub interval_ms: u64,
    /// Milliseconds a probe may take.
    #[n(2)]
    pub timeout_ms: u64,
    /// Failures in a row that make a healthy task unhealthy and restart it.
    #[n(3)]
    pub failures_max: u32,
    /// Milliseconds after the start in which failures are not counted.
    #[n(4)]
    pub initial_grace_ms: u64,
}

/// What a health check asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub enum Probe {
    /// GET over HTTP/1.1; 200–399 is healthy.
    #[n(0)]
    Http {
        /// The port's name.
        #[n(0)]
        port: Name,
        /// The path with its query.
        #[n(1)]
        path: String,
    },
    /// A TCP connection opens.
    #[n(1)]
    Tcp {
        /// The port's name.
        #[n(0)]
        port: Name,
    },
    /// A command in the task's environment exits with 0.
    #[n(2)]
    Command {
        /// Program and arguments.
        #[n(0)]
        command: Vec<String>,
    },
}

/// How output is kept: files of whole lines, the oldest removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize, FileMessage)]
pub struct LogSpec {
    /// AmountOfBytes of a file before the next line goes into a new one.
    #[n(0)]
    #[field(file = "file_bytes", kind = AmountOfBytes { least: 4 << 10, most: 1 << 30, accepted: "4KiB to 1GiB" })]
    pub file_bytes_max: u64,
    /// Files kept per stream.
    #[n(1)]
    #[field(file = "files", kind = Whole::of(1, 100, "1 to 100"))]
    pub files_max: u32,
}
