//! The spec of a job, as rendered from a job file: what is stored, shown and compared.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::{GangSpec, PreemptionSpec, Toleration};
use crate::id::Name;
use crate::node::{CardSelector, Within};
use crate::resource::Resources;

/// Everything its owner says of a job. It lives in one cell.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct JobSpec {
    /// Whose job it is.
    #[n(0)]
    pub user: Name,
    /// The job's name, unique for the user within the cell.
    #[n(1)]
    pub name: Name,
    /// Whether its tasks run until stopped or until done.
    #[n(2)]
    pub kind: JobKind,
    /// 0 to 399; the band follows from it. Higher goes first.
    #[n(3)]
    pub priority: u32,
    /// How many tasks; 0 is legal.
    #[n(4)]
    pub count: u32,
    /// How many must fit together before any is placed: 1 is no gang.
    #[n(5)]
    pub min_member: u32,
    /// Jobs of the same user that must have ended before this one starts.
    #[n(6)]
    pub after: Vec<After>,
    /// Where tasks may and should run.
    #[n(7)]
    pub constraints: Vec<Constraint>,
    /// Over which failure domains they spread.
    #[n(8)]
    pub spread: Vec<Spread>,
    /// What each task runs.
    #[n(9)]
    pub task: TaskSpec,
    /// Differences of single tasks, by index.
    #[n(10)]
    pub overrides: BTreeMap<u32, TaskOverride>,
    /// What happens when a task ends by itself.
    #[n(11)]
    pub restart: RestartSpec,
    /// Milliseconds between the withdrawal of an endpoint and SIGTERM.
    #[n(12)]
    pub drain_delay_ms: u64,
    /// Milliseconds a vanished node is waited for before its tasks are placed elsewhere; absent: the cell's.
    #[n(13)]
    pub lost_after_ms: Option<u64>,
    /// Free labels, for selection.
    #[n(14)]
    pub labels: BTreeMap<String, String>,
    /// Near which other tasks its tasks run, and from which they keep apart.
    #[n(15)]
    #[cbor(default)]
    #[serde(default)]
    pub affinity: Vec<Affinity>,
    /// Taints of nodes that do not keep its tasks away.
    #[n(16)]
    #[cbor(default)]
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
    /// Which of the cell's schedulers decides over it; none: `default`. Of a job that is admitted, what the cell's
    /// rules chose where it named none.
    #[n(20)]
    #[serde(default)]
    pub scheduler: Option<Name>,
    /// By which scoring profile nodes are scored for its tasks; none: the cell's. What is no profile is refused at
    /// admission.
    #[n(21)]
    #[cbor(default)]
    #[serde(default)]
    pub profile: Option<String>,
    /// How its tasks belong together beyond `min_member`; absent: no more than that.
    #[n(24)]
    #[serde(default)]
    pub gang: Option<GangSpec>,
    /// In which of the cell's queues it waits, by its path; none: the one called after its user, or `default`.
    #[n(22)]
    #[cbor(default)]
    #[serde(default)]
    pub queue: Option<String>,
    /// Whether its tasks take the places of others, and how its own give way; none: the defaults.
    #[n(28)]
    #[serde(default)]
    pub preemption: Option<PreemptionSpec>,
}

/// Whether tasks run until stopped or until done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// Until stopped; an exit of any kind is a failure or a restart.
    #[n(0)]
    Service,
    /// Until done; exit code 0 ends a task for good.
    #[n(1)]
    Batch,
}

/// The four bands of priority, in order. Monitoring 300–399, production 200–299, batch 100–199, best effort 0–99.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// 0–99: unlimited in quota, the first to go.
    #[n(0)]
    BestEffort,
    /// 100–199.
    #[n(1)]
    Batch,
    /// 200–299: never preempted by its own band.
    #[n(2)]
    Production,
    /// 300–399.
    #[n(3)]
    Monitoring,
}

/// A job that must have ended first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct After {
    /// Its name; the user is the same.
    #[n(0)]
    pub job: Name,
    /// How it must have ended.
    #[n(1)]
    pub condition: AfterCondition,
}

/// How a job waited for must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum AfterCondition {
    /// In any way.
    #[n(0)]
    Finished,
    /// With every task at exit code 0.
    #[default]
    #[n(1)]
    Succeeded,
}

/// A condition on a node attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Constraint {
    /// The attribute's or label's key; `node.name` is the node's name.
    #[n(0)]
    pub attribute: String,
    /// How it is compared.
    #[n(1)]
    pub operator: ConstraintOperator,
    /// With what. `Exists` and `Absent` take none; the numeric ones take one.
    #[n(2)]
    pub values: Vec<String>,
    /// Absent: hard, a node that does not meet it is not used. Otherwise the weight (1–100) of a preference.
    #[n(3)]
    pub preference: Option<u32>,
}

/// How an attribute is compared.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintOperator {
    /// Its value is one of the values.
    #[n(0)]
    In,
    /// Its value is none of the values, or it is absent.
    #[n(1)]
    NotIn,
    /// It is there.
    #[n(2)]
    Exists,
    /// It is not there.
    #[n(3)]
    Absent,
    /// It is a number greater than the value.
    #[n(4)]
    GreaterThan,
    /// It is a number less than the value.
    #[n(5)]
    LessThan,
}

/// Where tasks run with regard to the tasks of other jobs, or of their own: only looked at when a task is placed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Affinity {
    /// Near them or apart from them.
    #[n(0)]
    pub kind: AffinityKind,
    /// The attribute whose value two nodes share where they are near: `node.name`, `rack`, `zone` or any other. A node
    /// without it is near nothing and apart from everything; no hard affinity is met there.
    #[n(1)]
    pub attribute: String,
    /// Whose tasks: jobs of which all of these are true. They speak of a job's labels, of `job.name` and of `job.user`;
    /// where none speaks of `job.user`, only jobs of the same user are meant.
    #[n(2)]
    pub jobs: Vec<Constraint>,
    /// Absent: hard. Otherwise the weight (1–100) of a preference.
    #[n(3)]
    pub preference: Option<u32>,
}

/// Near or apart.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum AffinityKind {
    /// Where at least one of those tasks runs. Where there is none in the whole cell, and the job's own tasks are meant
    /// too, its first task may run anywhere.
    #[n(0)]
    Near,
    /// Where none of those tasks runs. It holds both ways: while a task of this job runs, none of those tasks is placed
    /// near it.
    #[n(1)]
    Apart,
}

/// Spread over the values of a node attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Spread {
    /// The attribute that names the domain: `node.name`, `rack`, `power`, `zone` or any other.
    #[n(0)]
    pub attribute: String,
    /// Weight (1–100) of the preference for the emptiest domain.
    #[n(1)]
    pub weight: u32,
    /// By how many tasks a domain may have more than the emptiest one that could take a task. Absent: the spread is a
    /// preference.
    #[n(2)]
    #[serde(default)]
    pub max_skew: Option<u32>,
    /// How many of the job's tasks a domain may have.
    #[n(3)]
    #[serde(default)]
    pub tasks_max: Option<u32>,
    /// How many per cent (1–100) of the job's desired tasks a domain may have, rounded up to a whole task.
    #[n(4)]
    #[serde(default)]
    pub percent_max: Option<u32>,
}

impl Spread {
    /// A preference alone.
    pub fn preferred(attribute: String, weight: u32) -> Self {
        Self { attribute, weight, max_skew: None, tasks_max: None, percent_max: None }
    }

    /// How many of the job's tasks a domain may have, of so many desired; absent where there is no cap.
    pub fn cap(&self, count: u32) -> Option<u32> {
        let of_percent = self.percent_max.map(|percent| {
            let tasks = (u64::from(count) * u64::from(percent)).div_ceil(100);
            u32::try_from(tasks).unwrap_or(u32::MAX)
        });
        self.tasks_max.into_iter().chain(of_percent).min()
    }

    /// Whether it refuses any node, and is more than a preference.
    pub fn is_hard(&self) -> bool {
        self.max_skew.is_some() || self.tasks_max.is_some() || self.percent_max.is_some()
    }
}

/// What a task runs, and what it needs.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Program and arguments. The program is searched in `PATH` where it has no slash.
    #[n(0)]
    pub command: Vec<String>,
    /// Environment. The agent adds the `BOROUGH_*` variables and a `PORT_<NAME>` for each port.
    #[n(1)]
    pub environment: BTreeMap<String, String>,
    /// Where it starts; absent: the task's own directory.
    #[n(2)]
    pub working_directory: Option<String>,
    /// What it needs and may use.
    #[n(3)]
    pub resources: Resources,
    /// TCP ports.
    #[n(4)]
    pub ports: Vec<PortSpec>,
    /// How its health is known; absent: healthy while it runs.
    #[n(5)]
    pub health: Option<HealthCheck>,
    /// Milliseconds between SIGTERM and SIGKILL.
    #[n(6)]
    pub grace_ms: u64,
    /// How its output is kept.
    #[n(7)]
    pub log: LogSpec,
    /// Share of traffic a load balancer should give it, relative to its siblings; 1–255.
    #[n(8)]
    pub weight: u32,
    /// Which devices will do, by kind: of those kinds that `resources` ask for.
    #[n(9)]
    #[cbor(default)]
    #[serde(default)]
    pub device_selectors: BTreeMap<String, CardSelector>,
    /// Within what of its node it stays; absent: anywhere.
    #[n(10)]
    #[serde(default)]
    pub within: Option<Within>,
    /// Packages that it uses, each as `name/version`: nodes that have them are preferred.
    #[n(11)]
    #[cbor(default)]
    #[serde(default)]
    pub packages: Vec<String>,
    /// Whether the processor time it asks for is whole cores that nobody else of the cell's uses.
    #[n(12)]
    #[cbor(default)]
    #[serde(default)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct LogSpec {
    /// Bytes of a file before the next line goes into a new one.
    #[n(0)]
    pub file_bytes_max: u64,
    /// Files kept per stream.
    #[n(1)]
    pub files_max: u32,
}

/// What happens when a task ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct RestartSpec {
    /// After which exits.
    #[n(0)]
    pub mode: RestartMode,
    /// Restarts in a row before the task is dead; absent: no limit.
    #[n(1)]
    pub attempts_max: Option<u32>,
    /// Pause before the first restart, in milliseconds; doubled each time.
    #[n(2)]
    pub backoff_initial_ms: u64,
    /// Longest pause, in milliseconds.
    #[n(3)]
    pub backoff_max_ms: u64,
    /// An attempt of so many milliseconds makes the next failure the first in a row.
    #[n(4)]
    pub reset_after_ms: u64,
}

/// After which exits a task starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum RestartMode {
    /// After every one.
    #[n(0)]
    Always,
    /// After those that failed.
    #[n(1)]
    OnFailure,
    /// After none.
    #[n(2)]
    Never,
}
