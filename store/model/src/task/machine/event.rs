//! The events of a task, the effects of a transition besides the row, and the reasons for refusals.

use crate::id::{GangId, Incarnation, NodeId};
use crate::job::{JobKind, JobRow, JobSpec, RestartMode, RestartSpec, TaskEnd};
use crate::node::CapacityEffect;
use crate::resource::Resources;
use crate::task::{
    Evicted, Exit, Health, HelperStatus, InAlloc, PortAssignment, ResizeRefused, StartFailure, StopReason,
    TaskState, Verdict,
};

/// One attempt of a task on one node, as an agent names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub node: NodeId,
    pub incarnation: Incarnation,
}

/// The process of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedProcess {
    /// Its process id on the node.
    pub pid: u32,
    /// Wall time of its start, milliseconds since 1970.
    pub started_ms: i64,
}

/// Where and how a task is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub node: NodeId,
    /// The new attempt: always the one after the row's.
    pub incarnation: Incarnation,
    /// A number for every port of the spec.
    pub ports: Vec<PortAssignment>,
    /// What the attempt takes of the node. Exactly this is released.
    pub resources: Resources,
    pub spec_version: u32,
    /// The gang that it belongs to and the gang's epoch, if its job is a gang.
    pub gang: Option<(GangId, u64)>,
    /// Its place in an alloc, if its job is in an alloc set. It then takes no resources of the node.
    pub alloc: Option<Box<InAlloc>>,
}

/// An order to give a running attempt other amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeOrder {
    /// The version of the spec that asks for them.
    pub version: u32,
    /// What the attempt is to have.
    pub granted: Resources,
    /// What it has.
    pub in_force: Resources,
    /// Why nothing is ordered: only the refusal is recorded then.
    pub refused: Option<ResizeRefused>,
}

/// The parts of a job's spec that decide what follows an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRules {
    /// Until stopped, or until done.
    pub kind: JobKind,
    /// After which exits, how often, with which pauses.
    pub restart: RestartSpec,
}

impl From<&JobSpec> for TaskRules {
    fn from(spec: &JobSpec) -> Self {
        Self { kind: spec.kind, restart: spec.restart }
    }
}

impl TaskRules {
    /// The rules for an attempt with this spec, which is that of `version`. Until a rollout of a service is over, it
    /// decides how many failures are too many, and none is for good. Otherwise a version that fails would end task
    /// after task, and nothing were left for the way back. An attempt of the new version that ends by itself has
    /// failed.
    pub fn of_attempt(spec: &JobSpec, version: u32, job: &JobRow) -> Self {
        let rules = Self::from(spec);
        let open = job.rollout.as_deref().filter(|rollout| rollout.state.is_open());
        let Some(rollout) = open.filter(|_| rules.kind != JobKind::Batch) else { return rules };
        let mode = match rules.restart.mode {
            _ if version >= rollout.version => RestartMode::Always,
            RestartMode::Never | RestartMode::OnFailure => RestartMode::OnFailure,
            RestartMode::Always => RestartMode::Always,
        };
        // An attempt that proves itself for less has not: one that fails each time just before would never be too many.
        let proven_ms = spec.update.unwrap_or_default().healthy_after_ms;
        let least_ms = proven_ms.max(spec.progress_deadline_in_force());
        let reset_after_ms = rules.restart.reset_after_ms.max(least_ms);
        let restart = RestartSpec { mode, attempts_max: None, reset_after_ms, ..rules.restart };
        Self { restart, ..rules }
    }
}

/// An event of a task, or a request about it.
///
/// Events with an [`Attempt`] come from an agent or concern one attempt; they are refused if that attempt is not the
/// row's. Agents repeat their reports, so an event whose result is already in the row changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// Capacity is taken, but nothing may start: victims still run there, or the gang is not complete.
    Hold(Placement),
    /// As [`TaskEvent::Hold`], but its share is not free yet: stopping victims will release it. It is promised to the
    /// task and taken when the hold is confirmed.
    HoldPromised(Placement),
    /// Capacity is taken and the agent may start it.
    Place(Placement),
    /// The victims have exited, or the gang was committed: the hold is a placement.
    HoldConfirmed { attempt: Attempt },
    /// The victims have exited, but other members of its gang still wait: the promised share is taken, and the task
    /// stays held.
    HoldFulfilled { attempt: Attempt },
    /// The hold has expired or was given up.
    HoldExpired { attempt: Attempt },
    /// The agent has it on disk and prepares it.
    AgentAccepted { attempt: Attempt },
    ProcessStarted {
        attempt: Attempt,
        /// Its process id on the node.
        pid: u32,
        /// Wall time of its start, milliseconds since 1970.
        started_ms: i64,
        /// [`Health::Healthy`] if the task has no health check, otherwise the result of the probes.
        health: Health,
        /// The cores pinned to it, if any.
        cores: Vec<u32>,
    },
    /// The health has changed. `Unhealthy` stops the attempt, to be placed again.
    HealthChanged { attempt: Attempt, health: Health },
    /// A request to end the attempt, or the task.
    StopRequested {
        /// The reason, which decides what follows.
        reason: StopReason,
    },
    /// The owner ends the attempt and wants the next one elsewhere: as a stop for [`StopReason::Restart`], and its node
    /// counts as one on which the task crashed too often.
    MoveRequested,
    /// A task of higher priority preempts it: as a stop for [`StopReason::Preempted`], with the preemptor.
    Evict(Evicted),
    /// The process has exited.
    ProcessExited {
        attempt: Attempt,
        exit: Exit,
        /// Whether it is released on the node (cgroup empty and removed, ports closed).
        released: bool,
        rules: TaskRules,
    },
    /// It could not be started, and is released on the node.
    StartFailed {
        attempt: Attempt,
        /// For people: what could not be started, and why.
        message: String,
        /// Absent: it is the task's own fault, as far as the agent knows.
        failure: Option<StartFailure>,
        rules: TaskRules,
    },
    /// The attempt is released on its node.
    ReleaseConfirmed { attempt: Attempt },
    /// A rollout wants the attempt to have other amounts.
    ResizeOrdered { attempt: Attempt, order: Box<ResizeOrder> },
    /// The agent has carried out an order, or has refused it.
    ResizeSettled {
        attempt: Attempt,
        /// Names the order.
        order: u64,
        /// Absent: what was granted is in force.
        refused: Option<ResizeRefused>,
    },
    /// The version in force runs the attempt as it runs: it has that version from now on.
    VersionAdopted { attempt: Attempt, version: u32 },
    /// The helpers of the attempt, as they are now.
    HelpersReported { attempt: Attempt, helpers: Vec<HelperStatus> },
    /// The node was silent for longer than its tolerance.
    NodeDeclaredLost { node: NodeId },
    /// The node is back and still runs this attempt.
    NodeReturned {
        attempt: Attempt,
        /// The process, if it runs already.
        process: Option<StartedProcess>,
        /// As with [`TaskEvent::ProcessStarted`].
        health: Health,
    },
    /// The lost attempt is given up: the task is to be placed elsewhere.
    RescheduleLost,
    /// The job has grown above the task's index again.
    JobGrown,
    /// The daemon job of the task serves this node with it.
    NodeServed { node: NodeId },
    /// The task, which is over for good, is wanted again: by its owner, or with another version.
    Revived,
    /// Its failures in a row are over, and the pause after them: it is to be tried with another version, or once more.
    FailuresForgotten,
}

impl TaskEvent {
    /// The event's name, for refusals, histories and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hold(_) => "hold",
            Self::HoldPromised(_) => "hold_promised",
            Self::Place(_) => "place",
            Self::HoldConfirmed { .. } => "hold_confirmed",
            Self::HoldFulfilled { .. } => "hold_fulfilled",
            Self::HoldExpired { .. } => "hold_expired",
            Self::AgentAccepted { .. } => "agent_accepted",
            Self::ProcessStarted { .. } => "process_started",
            Self::HealthChanged { .. } => "health_changed",
            Self::StopRequested { .. } => "stop_requested",
            Self::MoveRequested => "move_requested",
            Self::Evict(_) => "evict",
            Self::ProcessExited { .. } => "process_exited",
            Self::StartFailed { .. } => "start_failed",
            Self::ReleaseConfirmed { .. } => "release_confirmed",
            Self::ResizeOrdered { .. } => "resize_ordered",
            Self::ResizeSettled { .. } => "resize_settled",
            Self::VersionAdopted { .. } => "version_adopted",
            Self::HelpersReported { .. } => "helpers_reported",
            Self::NodeDeclaredLost { .. } => "node_declared_lost",
            Self::NodeReturned { .. } => "node_returned",
            Self::RescheduleLost => "reschedule_lost",
            Self::JobGrown => "job_grown",
            Self::NodeServed { .. } => "node_served",
            Self::Revived => "revived",
            Self::FailuresForgotten => "failures_forgotten",
        }
    }

    /// The attempt that it concerns, if any.
    pub(super) fn attempt(&self) -> Option<Attempt> {
        match self {
            Self::HoldConfirmed { attempt }
            | Self::HoldFulfilled { attempt }
            | Self::HoldExpired { attempt }
            | Self::AgentAccepted { attempt }
            | Self::ProcessStarted { attempt, .. }
            | Self::HealthChanged { attempt, .. }
            | Self::ProcessExited { attempt, .. }
            | Self::StartFailed { attempt, .. }
            | Self::ReleaseConfirmed { attempt }
            | Self::ResizeOrdered { attempt, .. }
            | Self::ResizeSettled { attempt, .. }
            | Self::VersionAdopted { attempt, .. }
            | Self::HelpersReported { attempt, .. }
            | Self::NodeReturned { attempt, .. } => Some(*attempt),
            Self::Hold(_)
            | Self::HoldPromised(_)
            | Self::Place(_)
            | Self::StopRequested { .. }
            | Self::MoveRequested
            | Self::Evict(_)
            | Self::NodeDeclaredLost { .. }
            | Self::RescheduleLost
            | Self::JobGrown
            | Self::NodeServed { .. }
            | Self::Revived
            | Self::FailuresForgotten => None,
        }
    }
}

/// The effect on the task's endpoint key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum EndpointEffect {
    #[default]
    Keep,
    /// Write it from the new row (its node, incarnation, ports and health). Never follows a withdrawal of the same
    /// incarnation.
    Publish,
    /// Set its health to unknown if it exists; never create it.
    Demote,
    /// Clear it if it exists.
    Withdraw,
}

/// The effect on the owner of the task's charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OwnerEffect {
    #[default]
    Keep,
    /// From the job's unplaced remainder to the row: the job's remainder is one task smaller.
    ToTask,
    /// From nobody to the job's unplaced remainder, or to the share of a row that never had an attempt: admission has
    /// charged it with the job's growth.
    ToJob,
    /// From its owner to nobody: release it to the quota.
    Release,
}

impl Verdict {
    /// How the task ends by it; `None` if it is placed again.
    pub fn end(self) -> Option<TaskEnd> {
        match self {
            Self::Again => None,
            Self::Succeeded => Some(TaskEnd::Succeeded),
            Self::Failed => Some(TaskEnd::Failed),
            Self::Stopped => Some(TaskEnd::Stopped),
        }
    }
}

/// The effects of a transition besides the new row. All of them commit in the row's transaction, or none.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Effects {
    pub capacity: CapacityEffect,
    pub endpoint: EndpointEffect,
    pub owner: OwnerEffect,
    /// The task is over: count it in its job.
    pub ended: Option<TaskEnd>,
}

/// Why an event does not apply to a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransitionRefused {
    /// The attempt is over. An agent that still runs it must stop it; an agent that reports its end may forget it.
    #[error("attempt {reported} is over: the task is {state:?} in attempt {current}")]
    Stale {
        /// The attempt of the event.
        reported: Incarnation,
        current: Incarnation,
        state: TaskState,
    },
    /// The store has never given that attempt to that node: it was restored from an older copy. Leave the process
    /// running, and count nothing for it.
    #[error("attempt {reported} on {node} is not known: the task is {state:?} in attempt {current}")]
    UnknownAttempt {
        /// The attempt of the event.
        reported: Incarnation,
        /// The node of the event.
        node: NodeId,
        current: Incarnation,
        state: TaskState,
    },
    /// The node was declared lost in the meantime. Apply [`TaskEvent::NodeReturned`] first, then this one again.
    #[error("the node was declared lost; its return comes first")]
    NodeReturnFirst,
    /// It cannot happen in this state: a defect of the caller, or a race that its transaction should have detected.
    #[error("{event} is not possible while {state:?}: {why}")]
    Illegal { state: TaskState, event: &'static str, why: &'static str },
}
