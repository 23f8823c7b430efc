//! The rows of tasks and endpoints. A task without a row is pending and was never placed.

use std::num::NonZeroU32;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::{GangId, Incarnation, Name, NodeId, TaskId};
use crate::resource::Resources;
use crate::task::{HelperStatus, InAlloc, Resize, StopReason};

/// The state of a task.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Needs a node. No node is charged.
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
    #[n(4)]
    Running,
    /// Its endpoint is withdrawn; drain delay, SIGTERM, grace, SIGKILL.
    #[n(5)]
    Stopping,
    /// Its process has exited; its remains on the node (cgroup, children) are being removed. Still charged.
    #[n(6)]
    Releasing,
    /// Its node was declared lost. It is no longer charged, and waits to be placed elsewhere.
    #[n(7)]
    Lost,
    /// Over for good.
    #[n(8)]
    Dead,
}

/// The stored row of a task, which its journal delta also carries. Mirrors have one per task, so rare parts are boxed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct TaskRow {
    #[n(0)]
    pub id: TaskId,
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
    /// The result of its probes.
    #[n(7)]
    pub health: Health,
    /// The reason of the stop, which decides what follows.
    #[n(8)]
    pub stop: Option<StopReason>,
    /// How the last attempt ended.
    #[n(9)]
    pub exit: Option<Box<Exit>>,
    /// Failures in a row, for the back-off.
    #[n(10)]
    pub failures: u32,
    /// Earliest wall time (milliseconds since 1970) of the next placement.
    #[n(11)]
    pub not_before_ms: i64,
    /// The gang that it is a member of, if its job is a gang.
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
    /// Restarts in all, for people. A move for the sake of the node or of another task is none.
    #[n(16)]
    pub restarts: u32,
    /// The process id on its node, for people.
    #[n(17)]
    pub pid: Option<u32>,
    /// The node of the last failed attempt, so that the pair is not repeated for ever. Also the node of an attempt that
    /// its owner stopped to move the task.
    #[n(18)]
    pub crashed_on: Option<NodeId>,
    /// Failed attempts in a row on `crashed_on`. A stop by the owner counts as many as make the scheduler avoid it.
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
    /// While held: its share is promised from what victims will release, and not taken yet.
    #[n(22)]
    #[cbor(default)]
    #[serde(default)]
    pub promised: bool,
    /// The preemptor: set while the evicted attempt ends, until the next one begins.
    #[n(25)]
    #[serde(default)]
    pub evicted: Option<Box<Evicted>>,
    /// The cores pinned to this attempt, if any, for people.
    #[n(26)]
    #[cbor(default)]
    #[serde(default)]
    pub cores: Vec<u32>,
    /// When this attempt became healthy last, by the time of the cell (milliseconds since 1970); 0: never.
    #[n(27)]
    #[cbor(default)]
    #[serde(default)]
    pub healthy_ms: i64,
    /// The node that it is for, if its job is a daemon job: it runs there or nowhere.
    #[n(28)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_node: Option<Box<NodeId>>,
    /// A resize of this attempt that is ordered or was refused; absent: its charge is in force.
    #[n(29)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<Box<Resize>>,
    /// The place of this attempt in an alloc, or of the last one; absent: it has a place of its own.
    #[n(30)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alloc: Option<Box<InAlloc>>,
    /// The helpers of this attempt, or of the last one, as its agent has reported them; absent: it has none.
    #[n(31)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[expect(clippy::box_collection, reason = "few tasks have helpers, and a row has few bytes for them")]
    pub helpers: Option<Box<Vec<HelperStatus>>>,
    /// The spec version of the first of its failures in a row, if versions that run the task alike have followed;
    /// absent: they are of its version.
    #[n(32)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<NonZeroU32>,
}

/// An eviction of a task for one of higher priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct Evicted {
    #[n(0)]
    pub by: TaskId,
    /// Most milliseconds between SIGTERM and SIGKILL, whatever its own grace: the longest wait of the preemptor.
    #[n(1)]
    pub notice_max_ms: Option<u64>,
    /// The preemptor's attempt that waits for it: no other one does.
    #[n(2)]
    #[cbor(default)]
    #[serde(default)]
    pub attempt: Incarnation,
}

impl TaskRow {
    /// Returns true if its attempt runs and its health check, if it has one, has passed.
    pub fn is_healthy(&self) -> bool {
        self.state == TaskState::Running && self.health == Health::Healthy
    }

    /// The versions of its job's spec that it names: that of its attempt, of its failures, and of a resize.
    pub fn versions_used(&self) -> impl Iterator<Item = u32> {
        let of_resize = self.resize.iter().map(|resize| resize.version);
        [self.spec_version, self.failing_version()].into_iter().chain(of_resize)
    }

    /// The spec version of the first of its failures in a row.
    pub fn failing_version(&self) -> u32 {
        self.failing_since.map_or(self.spec_version, NonZeroU32::get)
    }

    /// It has failed no more.
    pub(crate) fn failures_clear(&mut self) {
        (self.failures, self.failing_since) = (0, None);
    }

    /// What failed was another version: neither its failures nor the node that it failed on say anything of this one.
    pub(crate) fn failures_of_another(&mut self) {
        self.failures_clear();
        (self.crashed_on, self.crashes_there) = (None, 0);
    }

    /// Takes over the failures of `before`, whose version runs the task alike: the same has failed.
    pub fn failures_continue(&mut self, before: &Self) {
        (self.failures, self.crashed_on) = (before.failures, before.crashed_on);
        self.crashes_there = before.crashes_there;
        let is_earlier = before.failures > 0 && before.failing_version() != self.spec_version;
        self.failing_since = NonZeroU32::new(before.failing_version()).filter(|_| is_earlier);
    }

    /// The row of a task without one: pending, never placed, charged to its job's unplaced remainder.
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
            healthy_ms: 0,
            daemon_node: None,
            resize: None,
            alloc: None,
            helpers: None,
            failing_since: None,
        }
    }

    /// The place in an alloc that this attempt has now; `None`: it has none, or waits for one.
    pub fn in_alloc(&self) -> Option<&InAlloc> {
        self.alloc.as_deref().filter(|_| self.state.is_charged())
    }

    /// Returns true if it is an alloc that takes tasks, or has some, and is not leaving its node.
    pub fn holds_tasks(&self) -> bool {
        self.state == TaskState::Running
    }

    /// The node that it is for, if its job is a daemon job.
    pub fn node_served(&self) -> Option<NodeId> {
        self.daemon_node.as_deref().copied()
    }

    /// The node whose commitment includes this row (its share is taken or promised, its ports are assigned); `None` if
    /// none does.
    pub fn charged_node(&self) -> Option<NodeId> {
        if self.state.is_charged() { self.node } else { None }
    }

    /// Returns true if `incarnation` on `node` is over: its agent must end it. One that this row does not know yet is
    /// not: a restored store is older than its agents.
    pub fn is_over(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let own = self.state != TaskState::Dead && self.node == Some(node) && self.incarnation == incarnation;
        incarnation <= self.incarnation && !own
    }

    /// The numbers of this attempt's ports.
    pub fn port_numbers(&self) -> Vec<u16> {
        self.ports.iter().map(|port| port.number).collect()
    }
}

impl TaskState {
    /// Every state, in their usual order.
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

    /// Returns true if a task in this state is part of its node's commitment.
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
    /// It is over, and succeeded.
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

/// The charge of a task. It has one owner at any time; only the owner's terminal transition releases it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct Charge {
    #[n(0)]
    pub owner: ChargeOwner,
    /// What this attempt takes of the node. Exactly this is released.
    #[n(1)]
    pub resources: Resources,
}

/// The owner of a task's charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ChargeOwner {
    /// The job's unplaced remainder: the task was never placed.
    #[default]
    #[n(0)]
    Job,
    /// The task's own row.
    #[n(1)]
    Task,
    /// Nobody: it was released.
    #[n(2)]
    Released,
}

/// The result of probes of a running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// No probe has answered in this attempt.
    #[default]
    #[n(0)]
    Unknown,
    /// The last probes passed (or it has none, and it runs).
    #[n(1)]
    Healthy,
    /// Too many failed in a row.
    #[n(2)]
    Unhealthy,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Exit {
    #[n(0)]
    pub reason: EndReason,
    /// Exit code, if it exited.
    #[n(1)]
    pub code: Option<i32>,
    /// Number of the signal that ended it, if one did.
    #[n(2)]
    pub signal: Option<i32>,
    /// For people: what could not be started, and why.
    #[n(3)]
    pub message: String,
    /// Wall time, milliseconds since 1970.
    #[n(4)]
    pub at_ms: i64,
    #[n(5)]
    pub incarnation: Incarnation,
    #[n(6)]
    pub node: Option<NodeId>,
    /// What kept it from its start, where that matters: the message is for people only.
    #[n(7)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<StartFailure>,
}

/// What kept an attempt from its start, where it is more than its job file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum StartFailure {
    /// The disk of its node was full. It is no failure of the task.
    #[n(0)]
    NodeFull,
    /// Another process has one of its ports.
    #[n(1)]
    PortInUse,
    /// Its node lacks one of its secrets, or cannot give it to the task.
    #[n(2)]
    SecretUnusable,
}

/// Why an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// By itself, with a code.
    #[n(0)]
    Exited,
    /// By a signal that the agent did not send.
    #[n(1)]
    Signaled,
    /// By the kernel, over its memory limit.
    #[n(2)]
    OutOfMemory,
    /// It never started: the program is missing, or may not be run.
    #[n(3)]
    StartFailed,
    /// Stopped by its agent, for the row's stop reason: SIGTERM or SIGKILL was sent before it exited, whatever its code
    /// is.
    #[n(4)]
    Stopped,
    /// Its node was declared lost.
    #[n(5)]
    NodeLost,
    /// Its node was rebooted, or lost its record.
    #[n(6)]
    NodeRebooted,
}
