//! What can happen to a task, what a transition asks the store to do besides, and why a transition is refused.

use crate::id::{GangId, Incarnation, NodeId};
use crate::job::{JobKind, JobSpec, RestartSpec};
use crate::resource::Resources;
use crate::task::{Evicted, Exit, Health, PortAssignment, StopReason, TaskState, Verdict};

/// One attempt of a task on one node: what an agent speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The node it is on.
    pub node: NodeId,
    /// Its number.
    pub incarnation: Incarnation,
}

/// Where and how a task is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node.
    pub node: NodeId,
    /// The new attempt: always the one after the row's.
    pub incarnation: Incarnation,
    /// A number for every port of the spec.
    pub ports: Vec<PortAssignment>,
    /// What the attempt takes of the node; exactly this is given back.
    pub resources: Resources,
    /// The spec version it runs.
    pub spec_version: u32,
    /// The gang it belongs to and the gang's epoch, where its job is a gang.
    pub gang: Option<(GangId, u64)>,
}

/// What of a job's spec decides what follows an exit.
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

/// Something that happened to a task or is asked of it.
///
/// Events that carry a [`Attempt`] come from an agent or speak of one attempt; they are refused where that attempt is
/// not the row's. Agents repeat their reports, so an event whose result is already in the row changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// Capacity is taken, but nothing may start: victims still run there, or the gang is not complete.
    Hold(Placement),
    /// As [`TaskEvent::Hold`], but its share is not free yet: victims that stop there will give it back. It is promised
    /// to the task and taken when the hold is confirmed.
    HoldPromised(Placement),
    /// Capacity is taken and the agent may start it.
    Place(Placement),
    /// The victims are gone, or the gang was committed: the hold is a placement.
    HoldConfirmed {
        /// The attempt that holds.
        attempt: Attempt,
    },
    /// The victims are gone, but others of its gang still wait: what was promised is taken, and the task stays held.
    HoldFulfilled {
        /// The attempt that holds.
        attempt: Attempt,
    },
    /// The hold has expired or was given up.
    HoldExpired {
        /// The attempt that holds.
        attempt: Attempt,
    },
    /// The agent has it on disk and prepares it.
    AgentAccepted {
        /// The attempt it accepted.
        attempt: Attempt,
    },
    /// The process runs.
    ProcessStarted {
        /// The attempt it is of.
        attempt: Attempt,
        /// Its process id on the node.
        pid: u32,
        /// Wall time of its start, milliseconds since 1970.
        started_ms: i64,
        /// [`Health::Healthy`] where the task has no health check, otherwise what the probes say.
        health: Health,
        /// The cores that are its own, where it has any.
        cores: Vec<u32>,
    },
    /// The probes say something. `Unhealthy` stops the attempt, to be placed again.
    HealthChanged {
        /// The attempt that was probed.
        attempt: Attempt,
        /// What they say.
        health: Health,
    },
    /// Somebody wants the attempt, or the task, to end.
    StopRequested {
        /// Why, and so what follows.
        reason: StopReason,
    },
    /// A task of higher priority takes its place: as a stop for [`StopReason::Preempted`], and for whom.
    Evict(Evicted),
    /// The process has exited.
    ProcessExited {
        /// The attempt it was of.
        attempt: Attempt,
        /// How.
        exit: Exit,
        /// Whether nothing of it is left on the node (cgroup empty and removed, ports closed).
        released: bool,
        /// What follows.
        rules: TaskRules,
    },
    /// It could not be started; nothing of it is left on the node.
    StartFailed {
        /// The attempt that never ran.
        attempt: Attempt,
        /// For people: what could not be started, and why.
        message: String,
        /// What follows.
        rules: TaskRules,
    },
    /// Nothing of the attempt is left on its node.
    ReleaseConfirmed {
        /// The attempt that is gone.
        attempt: Attempt,
    },
    /// The node was silent for longer than its tolerance.
    NodeDeclaredLost {
        /// The node.
        node: NodeId,
    },
    /// The node is back and still runs this attempt.
    NodeReturned {
        /// The attempt it runs.
        attempt: Attempt,
        /// The process id and wall time of start (milliseconds since 1970), where the process runs already.
        process: Option<(u32, i64)>,
        /// As with [`TaskEvent::ProcessStarted`].
        health: Health,
    },
    /// It is the lost task's turn to be placed elsewhere.
    RescheduleLost,
    /// The job has grown above the task's index again.
    JobGrown,
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
            Self::Evict(_) => "evict",
            Self::ProcessExited { .. } => "process_exited",
            Self::StartFailed { .. } => "start_failed",
            Self::ReleaseConfirmed { .. } => "release_confirmed",
            Self::NodeDeclaredLost { .. } => "node_declared_lost",
            Self::NodeReturned { .. } => "node_returned",
            Self::RescheduleLost => "reschedule_lost",
            Self::JobGrown => "job_grown",
        }
    }

    /// The attempt it speaks of, where it speaks of one.
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
            | Self::NodeReturned { attempt, .. } => Some(*attempt),
            Self::Hold(_)
            | Self::HoldPromised(_)
            | Self::Place(_)
            | Self::StopRequested { .. }
            | Self::Evict(_)
            | Self::NodeDeclaredLost { .. }
            | Self::RescheduleLost
            | Self::JobGrown => None,
        }
    }
}

/// What an attempt takes of a node, or gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityShare {
    /// The node.
    pub node: NodeId,
    /// How much of it.
    pub resources: Resources,
    /// The numbers of its ports.
    pub ports: Vec<u16>,
}

/// What happens to the node's commitment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CapacityEffect {
    /// Nothing.
    #[default]
    Keep,
    /// The attempt takes this of the node: see [`crate::node::NodeAlloc`].
    Take(CapacityShare),
    /// The attempt gives this back.
    Release {
        /// What.
        share: CapacityShare,
        /// Wall time (milliseconds since 1970) until which its ports cool down; absent: nothing ever used them.
        ports_cool_until_ms: Option<i64>,
    },
    /// The share is promised to the attempt; its ports are given.
    Promise(CapacityShare),
    /// What was promised is taken. Refused by the node while victims are still there: the hold is not confirmed then.
    Fulfil(CapacityShare),
    /// What was promised is no longer wanted; its ports were never used.
    Forgo(CapacityShare),
}

impl CapacityEffect {
    /// What it is about; `None` where there is nothing.
    pub fn share(&self) -> Option<&CapacityShare> {
        match self {
            Self::Keep => None,
            Self::Take(share)
            | Self::Release { share, .. }
            | Self::Promise(share)
            | Self::Fulfil(share)
            | Self::Forgo(share) => Some(share),
        }
    }

    /// Whether the attempt is no longer part of the node's commitment afterwards.
    pub fn is_leaving(&self) -> bool {
        match self {
            Self::Release { .. } | Self::Forgo(_) => true,
            Self::Keep | Self::Take(_) | Self::Promise(_) | Self::Fulfil(_) => false,
        }
    }
}

/// What happens to the task's endpoint key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum EndpointEffect {
    /// Nothing.
    #[default]
    Keep,
    /// Write it from the new row (its node, incarnation, ports and health). Never follows a withdrawal of the same
    /// incarnation.
    Publish,
    /// Set its health to unknown where it is there; never create it.
    Demote,
    /// Clear it where it is there.
    Withdraw,
}

/// What happens to the owner of the task's charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OwnerEffect {
    /// Nothing.
    #[default]
    Keep,
    /// From the job's unplaced remainder to the row: the job's remainder is one task smaller.
    ToTask,
    /// From nobody to the job's unplaced remainder: admission has charged it with the job's growth.
    ToJob,
    /// From its owner to nobody: give it back to the quota.
    Release,
}

/// How a task ended for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskEnd {
    /// It did what it was to do.
    Succeeded,
    /// It failed, and is not tried again.
    Failed,
    /// Its job was stopped or shrank.
    Stopped,
}

impl Verdict {
    /// How the task ends by it; `None` where it is placed again.
    pub fn end(self) -> Option<TaskEnd> {
        match self {
            Self::Again => None,
            Self::Succeeded => Some(TaskEnd::Succeeded),
            Self::Failed => Some(TaskEnd::Failed),
            Self::Stopped => Some(TaskEnd::Stopped),
        }
    }
}

/// What a transition asks for besides the new row. All of it commits in the row's transaction, or none.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Effects {
    /// Of the node's commitment.
    pub capacity: CapacityEffect,
    /// Of the endpoint key.
    pub endpoint: EndpointEffect,
    /// Of the charge's owner.
    pub owner: OwnerEffect,
    /// The task is over: count it in its job.
    pub ended: Option<TaskEnd>,
}

/// Why an event does not apply to a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransitionRefused {
    /// The attempt is over. An agent that still runs it must stop it; one that reports its end may forget it.
    #[error("attempt {reported} is over: the task is {state:?} in attempt {current}")]
    Stale {
        /// The attempt the event speaks of.
        reported: Incarnation,
        /// The row's.
        current: Incarnation,
        /// The row's state.
        state: TaskState,
    },
    /// The store has never given that attempt to that node (it was restored from an older copy). Park the process for
    /// adoption; do not end it.
    #[error("attempt {reported} on {node} is not known: the task is {state:?} in attempt {current}")]
    UnknownAttempt {
        /// The attempt the event speaks of.
        reported: Incarnation,
        /// The node that speaks.
        node: NodeId,
        /// The row's.
        current: Incarnation,
        /// The row's state.
        state: TaskState,
    },
    /// The node was declared lost in the meantime. Apply [`TaskEvent::NodeReturned`] first, then this one again.
    #[error("the node was declared lost; its return comes first")]
    NodeReturnFirst,
    /// It cannot happen in this state: a defect of the caller, or a race its transaction should have caught.
    #[error("{event} is not possible while {state:?}: {why}")]
    Illegal {
        /// The row's state.
        state: TaskState,
        /// The event's name.
        event: &'static str,
        /// Why not.
        why: &'static str,
    },
}
