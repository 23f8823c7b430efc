//! The rows of tasks and endpoints. An absent task row is a task that is pending and was never placed.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::{GangId, Incarnation, Name, NodeId, TaskId};
use crate::resource::Resources;

/// Where a task is in its attempt.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Wants a node. Charged to nobody's node.
    #[n(0)]
    Pending,
    /// Has capacity on a node and must not start yet: victims still run there, or its gang is not complete.
    #[n(1)]
    Held,
    /// Has a node, ports and an incarnation; its agent has not answered yet.
    #[n(2)]
    Assigned,
    /// Its agent prepares and starts it.
    #[n(3)]
    Starting,
    /// Its process runs.
    #[n(4)]
    Running,
    /// Its endpoint is withdrawn; drain delay, SIGTERM, grace, SIGKILL.
    #[n(5)]
    Stopping,
    /// Its process has exited; what it left on the node (cgroup, children) is being removed. Still charged.
    #[n(6)]
    Releasing,
    /// Its node was declared lost; no longer charged, waits for its turn to be placed elsewhere.
    #[n(7)]
    Lost,
    /// Over for good.
    #[n(8)]
    Dead,
}

/// What is stored of a task, and what its journal delta carries.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct TaskRow {
    /// The task.
    #[n(0)]
    pub id: TaskId,
    /// Where it is in its attempt.
    #[n(1)]
    pub state: TaskState,
    /// The node that is charged (or, when `Lost` or over, was last used).
    #[n(2)]
    pub node: Option<NodeId>,
    /// The current or last attempt; 0 before the first.
    #[n(3)]
    pub incarnation: Incarnation,
    /// Ports of this attempt.
    #[n(4)]
    pub ports: Vec<PortAssignment>,
    /// What this attempt charges, and to whom.
    #[n(5)]
    pub charge: Charge,
    /// The spec version this attempt runs.
    #[n(6)]
    pub spec_version: u32,
    /// What its probes say.
    #[n(7)]
    pub health: Health,
    /// Why it is being stopped, and so what follows.
    #[n(8)]
    pub stop: Option<StopReason>,
    /// How the last attempt ended.
    #[n(9)]
    pub exit: Option<Exit>,
    /// Failures in a row, for the back-off.
    #[n(10)]
    pub failures: u32,
    /// Not before this wall time (milliseconds since 1970) may it be placed again.
    #[n(11)]
    pub not_before_ms: i64,
    /// The gang it is a member of, where its job is a gang.
    #[n(12)]
    pub gang: Option<GangId>,
    /// Counts every change of this row; an older revision never overwrites a newer one.
    #[n(13)]
    pub revision: u64,
    /// Wall time of the last change of state, milliseconds since 1970.
    #[n(14)]
    pub changed_ms: i64,
    /// Wall time at which the process of this attempt started, milliseconds since 1970.
    #[n(15)]
    pub started_ms: Option<i64>,
    /// Restarts in all, for people.
    #[n(16)]
    pub restarts: u32,
    /// The process id on its node, for people.
    #[n(17)]
    pub pid: Option<u32>,
    /// The node the last failed attempt was on, so that the pair is not repeated for ever.
    #[n(18)]
    pub crashed_on: Option<NodeId>,
    /// Failed attempts in a row on `crashed_on`.
    #[n(19)]
    #[cbor(default)]
    #[serde(default)]
    pub crashes_there: u32,
    /// What follows the exit of this attempt, decided when its exit was reported. `Some` while releasing and when dead.
    #[n(20)]
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// The gang's epoch at which this attempt took its hold; a hold of an older epoch is void.
    #[n(21)]
    #[cbor(default)]
    #[serde(default)]
    pub gang_epoch: u64,
    /// While held: its share is promised from what victims give back, not taken yet.
    #[n(22)]
    #[cbor(default)]
    #[serde(default)]
    pub promised: bool,
    /// For whom it had to give way: while the attempt that is evicted ends, and until the next one begins.
    #[n(25)]
    #[serde(default)]
    pub evicted: Option<Evicted>,
    /// The cores that are this attempt's own, where it has any, for people.
    #[n(26)]
    #[cbor(default)]
    #[serde(default)]
    pub cores: Vec<u32>,
}

/// An eviction: a task gives way to one of higher priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct Evicted {
    /// The task that it gives way to.
    #[n(0)]
    pub by: TaskId,
    /// Most milliseconds between SIGTERM and SIGKILL, whatever its own grace: what the preemptor waits at most.
    #[n(1)]
    pub notice_max_ms: Option<u64>,
    /// The attempt of that task that waits for it: no other one does.
    #[n(2)]
    #[cbor(default)]
    #[serde(default)]
    pub attempt: Incarnation,
}

impl TaskRow {
    /// The row of a task that has none yet: pending, never placed, charged to its job's unplaced remainder.
    pub fn never_placed(id: TaskId) -> Self {
        Self {
            id,
            state: TaskState::Pending,
            node: None,
            incarnation: Incarnation(0),
            ports: Vec::new(),
            charge: Charge::default(),
            spec_version: 0,
            health: Health::Unknown,
            stop: None,
            exit: None,
            failures: 0,
            not_before_ms: 0,
            gang: None,
            revision: 0,
            changed_ms: 0,
            started_ms: None,
            restarts: 0,
            pid: None,
            crashed_on: None,
            crashes_there: 0,
            verdict: None,
            gang_epoch: 0,
            promised: false,
            evicted: None,
            cores: Vec::new(),
        }
    }

    /// The node whose commitment this row is part of (its share is taken or promised, its ports are given); `None`
    /// while it is part of none.
    pub fn charged_node(&self) -> Option<NodeId> {
        if self.state.is_charged() { self.node } else { None }
    }

    /// Whether it ends, or has ended, only because its job had shrunk: a job that grows over its index wants it again.
    pub fn is_shrunk_away(&self) -> bool {
        self.stop == Some(StopReason::JobShrunk)
            && match self.state {
                TaskState::Stopping => true,
                TaskState::Releasing | TaskState::Dead => self.verdict == Some(Verdict::Stopped),
                TaskState::Pending
                | TaskState::Held
                | TaskState::Assigned
                | TaskState::Starting
                | TaskState::Running
                | TaskState::Lost => false,
            }
    }

    /// Whether it has ended only because its job had shrunk. Below its job's count it counts as never placed: the job
    /// owns its charge, and the controller revives it.
    pub fn is_spared(&self) -> bool {
        self.state == TaskState::Dead && self.is_shrunk_away()
    }

    /// The numbers of this attempt's ports.
    pub fn port_numbers(&self) -> Vec<u16> {
        self.ports.iter().map(|port| port.number).collect()
    }
}

impl TaskState {
    /// Every state, in the order of an attempt.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Held,
        Self::Assigned,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Releasing,
        Self::Lost,
        Self::Dead,
    ];

    /// Whether a task in this state is part of its node's commitment.
    pub fn is_charged(self) -> bool {
        match self {
            Self::Held
            | Self::Assigned
            | Self::Starting
            | Self::Running
            | Self::Stopping
            | Self::Releasing => true,
            Self::Pending | Self::Lost | Self::Dead => false,
        }
    }
}

/// What follows the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The task is placed again, after its pause.
    #[n(0)]
    Again,
    /// It is over, and did what it was to do.
    #[n(1)]
    Succeeded,
    /// It is over, and failed.
    #[n(2)]
    Failed,
    /// It is over, since its job was stopped or shrank.
    #[n(3)]
    Stopped,
}

/// A port of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct PortAssignment {
    /// Its name in the spec.
    #[n(0)]
    pub name: Name,
    /// Its number on the node.
    #[n(1)]
    pub number: u16,
}

/// What a task charges. It has one owner at any time; only the owner's terminal transition releases it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct Charge {
    /// Who holds it.
    #[n(0)]
    pub owner: ChargeOwner,
    /// How much of the node this attempt takes; what is given back is exactly this.
    #[n(1)]
    pub resources: Resources,
}

/// Who holds a task's charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ChargeOwner {
    /// The job's unplaced remainder: the task has never been placed.
    #[default]
    #[n(0)]
    Job,
    /// The task's own row.
    #[n(1)]
    Task,
    /// Nobody: released.
    #[n(2)]
    Released,
}

/// What probes say of a running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// No probe has answered in this attempt.
    #[default]
    #[n(0)]
    Unknown,
    /// The last probes passed (or there are none, and it runs).
    #[n(1)]
    Healthy,
    /// Too many failed in a row.
    #[n(2)]
    Unhealthy,
}

/// Why a task is being stopped. It decides what follows its exit.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Its job is stopped: dead.
    #[n(0)]
    JobStopped,
    /// Its job shrank below its index: dead.
    #[n(1)]
    JobShrunk,
    /// Its owner restarts it: pending.
    #[n(2)]
    Restart,
    /// Its probes failed: pending, counted as a failure.
    #[n(3)]
    Unhealthy,
    /// Its node is drained: pending.
    #[n(4)]
    Drained,
    /// A task of higher priority takes its place: pending.
    #[n(5)]
    Preempted,
    /// Its spec changed: pending.
    #[n(6)]
    Updated,
    /// Its node has a taint that it does not tolerate, or no longer: pending.
    #[n(7)]
    Tainted,
    /// Whoever runs the cell shuts it down: pending, until it is started again.
    #[n(8)]
    Shutdown,
}

impl StopReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::JobStopped,
        Self::JobShrunk,
        Self::Restart,
        Self::Unhealthy,
        Self::Drained,
        Self::Preempted,
        Self::Updated,
        Self::Tainted,
        Self::Shutdown,
    ];

    /// Whether the task is dead after this stop; otherwise it is pending.
    pub fn is_final(self) -> bool {
        match self {
            Self::JobStopped | Self::JobShrunk => true,
            Self::Restart
            | Self::Unhealthy
            | Self::Drained
            | Self::Preempted
            | Self::Updated
            | Self::Tainted
            | Self::Shutdown => false,
        }
    }

    /// Why the attempt was ended, for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::JobStopped => "its job was stopped",
            Self::JobShrunk => "its job was scaled down",
            Self::Restart => "it was to be restarted",
            Self::Unhealthy => "its health check failed",
            Self::Drained => "its node was drained",
            Self::Preempted => "a task of higher priority took its place",
            Self::Updated => "its spec was changed",
            Self::Tainted => "its node has a taint that it does not tolerate",
            Self::Shutdown => "its cell was shut down",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Exit {
    /// Why.
    #[n(0)]
    pub reason: EndReason,
    /// Exit code, where it exited.
    #[n(1)]
    pub code: Option<i32>,
    /// Signal number, where it was ended by one.
    #[n(2)]
    pub signal: Option<i32>,
    /// For people: what could not be started, and why.
    #[n(3)]
    pub message: String,
    /// Wall time, milliseconds since 1970.
    #[n(4)]
    pub at_ms: i64,
    /// The attempt that ended.
    #[n(5)]
    pub incarnation: Incarnation,
    /// The node it ended on.
    #[n(6)]
    pub node: Option<NodeId>,
}

/// Why an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// By itself, with a code.
    #[n(0)]
    Exited,
    /// By a signal nobody here sent.
    #[n(1)]
    Signaled,
    /// By the kernel, over its memory limit.
    #[n(2)]
    OutOfMemory,
    /// It never started: the program is not there, or may not be run.
    #[n(3)]
    StartFailed,
    /// Stopped by us, for the row's stop reason: SIGTERM or SIGKILL was sent before it exited, whatever its code.
    #[n(4)]
    Stopped,
    /// Its node was declared lost.
    #[n(5)]
    NodeLost,
    /// Its node was rebooted, or lost its record.
    #[n(6)]
    NodeRebooted,
}

/// An endpoint as load balancers see it: the value of a name key.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Endpoint {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// Whose job it is.
    #[n(1)]
    pub user: Name,
    /// The job.
    #[n(2)]
    pub job: Name,
    /// The attempt that serves. Once withdrawn it is never published again.
    #[n(3)]
    pub incarnation: Incarnation,
    /// IP address or host name.
    #[n(4)]
    pub host: String,
    /// Named ports.
    #[n(5)]
    pub ports: Vec<EndpointPort>,
    /// What its probes say.
    #[n(6)]
    pub health: Health,
    /// Share of traffic relative to its siblings.
    #[n(7)]
    pub weight: u32,
    /// The node it is on.
    #[n(8)]
    pub node: Name,
}

/// A named port of an endpoint.
pub type EndpointPort = PortAssignment;
