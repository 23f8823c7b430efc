//! An agent's report of an attempt, and its consequences for the task's row: pure.

use borough_model::job::JobSpec;
use borough_model::task::{
    Attempt, EndReason, Exit, Health, HelperStatus, ResizeRefused, TaskEvent, TaskRow, TaskRules, TaskState,
    TransitionRefused,
};
use borough_model::{Incarnation, NodeId, TaskId};

/// One attempt as its agent knows it. Reports are absolute and repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    pub task: TaskId,
    pub incarnation: Incarnation,
    /// How far it is.
    pub phase: ReportPhase,
    /// Process id and wall time of its start (milliseconds since 1970), if it was started.
    pub process: Option<(u32, i64)>,
    /// The cores pinned to it, if any.
    pub cores: Vec<u32>,
    /// The result of its probes; ignored if the task has no health check.
    pub health: Health,
    /// How it ended, if it did and that is known.
    pub exit: Option<Exit>,
    /// The last order to resize it that the agent has carried out or refused.
    pub resize: Option<ResizeReport>,
    /// Its helpers; empty if it has none.
    pub helpers: Vec<HelperStatus>,
}

/// The result of an order to resize an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeReport {
    /// Names the order.
    pub order: u64,
    /// Absent: what was granted is in force.
    pub refused: Option<ResizeRefused>,
}

/// The phase of an attempt on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportPhase {
    /// Recorded there, not started.
    Accepted,
    Starting,
    Running,
    Stopping,
    /// The process has exited; parts of the attempt may be left.
    Exited,
    /// Only its logs are left.
    Released,
    /// The agent's full report lacks it, though the store has it as accepted: its record is gone.
    Missing,
}

impl ReportPhase {
    /// Returns true if the attempt has, or soon will have, a process.
    pub fn is_alive(self) -> bool {
        match self {
            Self::Accepted | Self::Starting | Self::Running | Self::Stopping => true,
            Self::Exited | Self::Released | Self::Missing => false,
        }
    }
}

/// The gateway's answer to an applied report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportAnswer {
    /// The store has the reported state, or a later one. Nothing to do.
    Applied,
    /// The attempt is over in the store: order the agent to end it.
    Stop,
    /// The attempt is over on both sides: the agent may drop its record.
    Forget,
    /// The store has never given that attempt to that node (it was restored from an older copy): the agent parks it.
    Park,
    /// The report contradicts the row. Nothing has changed; log it.
    Refused(TransitionRefused),
}

/// The events that bring `row` to the state that `node` reports, in order. `spec` is that of the attempt, and `rules`
/// say what follows its end.
pub(super) fn report_events(
    report: &TaskReport,
    row: &TaskRow,
    spec: &JobSpec,
    rules: TaskRules,
    node: NodeId,
    now_ms: i64,
) -> Vec<TaskEvent> {
    let attempt = Attempt { node, incarnation: report.incarnation };
    let health = health_of(report, spec);
    let started = |health| {
        let cores = report.cores.clone();
        let of = |(pid, started_ms)| TaskEvent::ProcessStarted { attempt, pid, started_ms, health, cores };
        report.process.map(of)
    };
    let mut events = Vec::new();
    if !report.helpers.is_empty() {
        // Before the end: a row whose attempt is over takes no more of it.
        events.push(TaskEvent::HelpersReported { attempt, helpers: report.helpers.clone() });
    }
    match report.phase {
        ReportPhase::Accepted | ReportPhase::Starting => events.push(TaskEvent::AgentAccepted { attempt }),
        ReportPhase::Running => match started(health) {
            Some(started) => {
                events.extend([started, TaskEvent::HealthChanged { attempt, health }]);
                // An unhealthy attempt is stopped by now.
                events.extend(report.resize.clone().map(|ResizeReport { order, refused }| {
                    TaskEvent::ResizeSettled { attempt, order, refused }
                }));
            }
            None => events.push(TaskEvent::AgentAccepted { attempt }),
        },
        ReportPhase::Stopping => {
            events.push(started(Health::Unknown).unwrap_or(TaskEvent::AgentAccepted { attempt }));
        }
        ReportPhase::Exited | ReportPhase::Released => {
            // Its running time decides its back-off, so an unreported start comes first.
            let unseen = matches!(row.state, TaskState::Assigned | TaskState::Starting);
            events.extend(started(Health::Unknown).filter(|_| unseen));
            events.push(ended(report, attempt, rules));
        }
        ReportPhase::Missing => events.extend(missing(row, attempt, rules, now_ms)),
    }
    events
}

/// A task without a health check is healthy once its agent has seen it run for a while, and never unhealthy.
pub(super) fn health_of(report: &TaskReport, spec: &JobSpec) -> Health {
    match report.health {
        Health::Unhealthy if spec.task.health.is_none() => Health::Unknown,
        health => health,
    }
}

fn ended(report: &TaskReport, attempt: Attempt, rules: TaskRules) -> TaskEvent {
    let released = report.phase == ReportPhase::Released;
    match &report.exit {
        Some(exit) if released && exit.reason == EndReason::StartFailed && report.process.is_none() => {
            let (message, failure) = (exit.message.clone(), exit.start_failure);
            TaskEvent::StartFailed { attempt, message, failure, rules }
        }
        Some(exit) => TaskEvent::ProcessExited { attempt, exit: exit.clone(), released, rules },
        None => TaskEvent::ReleaseConfirmed { attempt },
    }
}

/// An attempt whose record is gone has ended with its boot. An attempt that the agent never had is sent to it again.
fn missing(row: &TaskRow, attempt: Attempt, rules: TaskRules, now_ms: i64) -> Option<TaskEvent> {
    let exit = Exit {
        reason: EndReason::NodeRebooted,
        code: None,
        signal: None,
        message: "its node has no record of it any more".to_owned(),
        at_ms: now_ms,
        incarnation: attempt.incarnation,
        node: Some(attempt.node),
        start_failure: None,
    };
    match row.state {
        TaskState::Starting | TaskState::Running => {
            Some(TaskEvent::ProcessExited { attempt, exit, released: true, rules })
        }
        TaskState::Stopping | TaskState::Releasing | TaskState::Lost => {
            Some(TaskEvent::ReleaseConfirmed { attempt })
        }
        TaskState::Pending | TaskState::Held | TaskState::Assigned | TaskState::Dead => None,
    }
}

/// The answer to a report after its events. `row` is the row after them, `refused` an error of one of them.
pub(super) fn report_answer(
    report: &TaskReport,
    row: &TaskRow,
    refused: Option<TransitionRefused>,
) -> ReportAnswer {
    let gone = match report.phase {
        ReportPhase::Released | ReportPhase::Missing => Some(ReportAnswer::Forget),
        ReportPhase::Exited => Some(ReportAnswer::Applied),
        ReportPhase::Accepted | ReportPhase::Starting | ReportPhase::Running | ReportPhase::Stopping => None,
    };
    match refused {
        None => {
            let over = row.incarnation > report.incarnation
                || matches!(row.state, TaskState::Pending | TaskState::Dead);
            gone.filter(|_| over).unwrap_or(ReportAnswer::Applied)
        }
        Some(TransitionRefused::Stale { .. }) => gone.unwrap_or(ReportAnswer::Stop),
        Some(TransitionRefused::UnknownAttempt { .. }) => gone.unwrap_or(ReportAnswer::Park),
        Some(refused @ (TransitionRefused::NodeReturnFirst | TransitionRefused::Illegal { .. })) => {
            ReportAnswer::Refused(refused)
        }
    }
}
