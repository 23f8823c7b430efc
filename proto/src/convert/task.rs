//! Tasks, their exits and their endpoints.

use std::collections::BTreeMap;

use borough_model::job::{HelperPhase, helper_of_failure};
use borough_model::task::{
    EndReason, Endpoint, Exit, Health, HelperExit, HelperState, HelperStatus, PortAssignment, Resize,
    StartFailure, StopReason,
};
use borough_model::{Incarnation, JobRow, Name, NodeId, TaskRow, TaskState};

use super::{FieldRefused, name_from_text, resources_to_message};
use crate::v1;

/// What a task's row does not say itself.
#[derive(Clone, Debug, Default)]
pub struct TaskContext {
    /// Name of the row's node.
    pub node: String,
    /// Host of the row's node.
    pub host: String,
    /// Name of the node the last attempt ended on.
    pub exit_node: String,
    /// The last sample.
    pub usage: Option<v1::Usage>,
    /// The name of the alloc set that it is in.
    pub alloc_set: String,
    /// What is in it, if it is an alloc.
    pub inside: Vec<v1::TaskInside>,
}

/// A task.
pub fn task_to_message(job: &JobRow, row: &TaskRow, context: TaskContext) -> v1::Task {
    v1::Task {
        job_id: row.id.job.to_string(),
        user: job.user.to_string(),
        job: job.name.to_string(),
        index: row.id.index,
        state: task_state_to_message(row.state).into(),
        node: context.node,
        incarnation: row.incarnation.0,
        ports: ports_to_message(&row.ports),
        health: health_to_message(row.health).into(),
        stop: row.stop.map_or(v1::StopReason::Unspecified, stop_reason_to_message).into(),
        exit: row.exit.as_ref().map(|exit| exit_to_message(exit, context.exit_node)),
        failures: row.failures,
        not_before_ms: row.not_before_ms,
        spec_version: row.spec_version,
        revision: row.revision,
        changed_ms: row.changed_ms,
        started_ms: row.started_ms,
        restarts: row.restarts,
        pid: row.pid,
        cores: row.cores.clone(),
        usage: context.usage,
        host: context.host,
        surges: (job.owner_count()..job.count).contains(&row.id.index),
        resize: resize_shown(job, row).map(resize_to_message),
        alloc: row.in_alloc().map(|place| v1::TaskInAlloc {
            set: context.alloc_set,
            index: place.alloc.index,
            resources: Some(resources_to_message(&place.resources)),
        }),
        inside: context.inside,
        helpers: row.helpers.iter().flat_map(|helpers| helpers.iter()).map(helper_to_message).collect(),
        charge: row.charged_node().map(|_| resources_to_message(&row.charge.resources.without_cards())),
    }
}

/// The resize of a task that people see. What was refused to an earlier version is over: nobody asks for it any more.
fn resize_shown<'a>(job: &JobRow, row: &'a TaskRow) -> Option<&'a Resize> {
    let is_asked = |resize: &&Resize| resize.refused.is_none() || resize.version >= job.spec_version;
    row.resize.as_deref().filter(is_asked)
}

/// The status of a helper.
pub fn helper_to_message(helper: &HelperStatus) -> v1::HelperStatus {
    let state = match helper.state {
        HelperState::Waiting => v1::helper_status::State::Waiting,
        HelperState::Running => v1::helper_status::State::Running,
        HelperState::Ended => v1::helper_status::State::Ended,
    };
    let when = match helper.when {
        HelperPhase::Before => v1::HelperPhase::Before,
        HelperPhase::Beside => v1::HelperPhase::Beside,
        HelperPhase::After => v1::HelperPhase::After,
    };
    let exit = helper.exit.as_ref().map(|HelperExit { code, signal, message, at_ms }| v1::HelperExit {
        code: *code,
        signal: *signal,
        message: message.clone(),
        at_ms: *at_ms,
    });
    v1::HelperStatus {
        name: helper.name.to_string(),
        when: when.into(),
        state: state.into(),
        restarts: helper.restarts,
        exit,
    }
}

/// The status of a helper that an agent has reported.
///
/// # Errors
/// A name, a phase or a state that is none.
pub fn helper_from_message(helper: &v1::HelperStatus) -> Result<HelperStatus, FieldRefused> {
    let refuse =
        |field: &str, value: i32, accepted: &str| FieldRefused::new(field, value.to_string(), accepted);
    let when = match helper.when() {
        v1::HelperPhase::Before => HelperPhase::Before,
        v1::HelperPhase::Beside => HelperPhase::Beside,
        v1::HelperPhase::After => HelperPhase::After,
        v1::HelperPhase::Unspecified => {
            return Err(refuse("helpers.when", helper.when, "before, beside or after"));
        }
    };
    let state = match helper.state() {
        v1::helper_status::State::Waiting => HelperState::Waiting,
        v1::helper_status::State::Running => HelperState::Running,
        v1::helper_status::State::Ended => HelperState::Ended,
        v1::helper_status::State::Unspecified => {
            return Err(refuse("helpers.state", helper.state, "waiting, running or ended"));
        }
    };
    let exit = helper.exit.as_ref().map(|exit| HelperExit {
        code: exit.code,
        signal: exit.signal,
        message: exit.message.clone(),
        at_ms: exit.at_ms,
    });
    let name = name_from_text("helpers.name", &helper.name)?;
    Ok(HelperStatus { name, when, state, restarts: helper.restarts, exit })
}

fn resize_to_message(resize: &Resize) -> v1::TaskResize {
    v1::TaskResize {
        granted: Some(resources_to_message(&resize.granted.without_cards())),
        in_force: Some(resources_to_message(&resize.in_force.without_cards())),
        spec_version: resize.version,
        at_ms: resize.at_ms,
        refused: resize.refused.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

/// A task's state.
pub fn task_state_to_message(state: TaskState) -> v1::TaskState {
    match state {
        TaskState::Pending => v1::TaskState::Pending,
        TaskState::Held => v1::TaskState::Held,
        TaskState::Assigned => v1::TaskState::Assigned,
        TaskState::Starting => v1::TaskState::Starting,
        TaskState::Running => v1::TaskState::Running,
        TaskState::Stopping => v1::TaskState::Stopping,
        TaskState::Releasing => v1::TaskState::Releasing,
        TaskState::Lost => v1::TaskState::Lost,
        TaskState::Dead => v1::TaskState::Dead,
    }
}

/// Counts one task where it is in its attempt. Those that ended are counted by their job's row, not here.
pub fn task_counts_add(counts: &mut v1::TaskCounts, row: &TaskRow) {
    let count = match row.state {
        TaskState::Pending => &mut counts.pending,
        TaskState::Held => &mut counts.held,
        TaskState::Assigned => &mut counts.assigned,
        TaskState::Starting => &mut counts.starting,
        TaskState::Running => &mut counts.running,
        TaskState::Stopping => &mut counts.stopping,
        TaskState::Releasing => &mut counts.releasing,
        TaskState::Lost => &mut counts.lost,
        TaskState::Dead => return,
    };
    *count = count.saturating_add(1);
    if row.state == TaskState::Running && row.health == Health::Healthy {
        counts.healthy = counts.healthy.saturating_add(1);
    }
}

/// Named ports.
pub fn ports_to_message(ports: &[PortAssignment]) -> Vec<v1::Port> {
    let port =
        |port: &PortAssignment| v1::Port { name: port.name.to_string(), number: u32::from(port.number) };
    ports.iter().map(port).collect()
}

/// Health.
pub fn health_to_message(health: Health) -> v1::Health {
    match health {
        Health::Unknown => v1::Health::Unknown,
        Health::Healthy => v1::Health::Healthy,
        Health::Unhealthy => v1::Health::Unhealthy,
    }
}

/// Health; an unspecified one is unknown.
pub fn health_from_message(health: i32) -> Health {
    match v1::Health::try_from(health) {
        Ok(v1::Health::Healthy) => Health::Healthy,
        Ok(v1::Health::Unhealthy) => Health::Unhealthy,
        Ok(v1::Health::Unknown | v1::Health::Unspecified) | Err(_) => Health::Unknown,
    }
}

/// Why a task is stopped.
pub fn stop_reason_to_message(reason: StopReason) -> v1::StopReason {
    match reason {
        StopReason::JobStopped => v1::StopReason::JobStopped,
        StopReason::JobShrunk => v1::StopReason::JobShrunk,
        StopReason::Restart => v1::StopReason::Restart,
        StopReason::Unhealthy => v1::StopReason::Unhealthy,
        StopReason::Drained => v1::StopReason::Drained,
        StopReason::Preempted => v1::StopReason::Preempted,
        StopReason::Updated => v1::StopReason::Updated,
        StopReason::Tainted => v1::StopReason::Tainted,
        StopReason::Shutdown => v1::StopReason::Shutdown,
        StopReason::NodeLeft => v1::StopReason::NodeLeft,
        StopReason::AllocLeft => v1::StopReason::AllocLeft,
        StopReason::SurgeOver => v1::StopReason::SurgeOver,
    }
}

/// Why an attempt ended.
pub fn end_reason_to_message(reason: EndReason) -> v1::EndReason {
    match reason {
        EndReason::Exited => v1::EndReason::Exited,
        EndReason::Signaled => v1::EndReason::Signaled,
        EndReason::OutOfMemory => v1::EndReason::OutOfMemory,
        EndReason::StartFailed => v1::EndReason::StartFailed,
        EndReason::Stopped => v1::EndReason::Stopped,
        EndReason::NodeLost => v1::EndReason::NodeLost,
        EndReason::NodeRebooted => v1::EndReason::NodeRebooted,
    }
}

fn start_failure_to_message(failure: StartFailure) -> v1::StartFailure {
    match failure {
        StartFailure::NodeFull => v1::StartFailure::NodeFull,
        StartFailure::PortInUse => v1::StartFailure::PortInUse,
        StartFailure::SecretUnusable => v1::StartFailure::SecretUnusable,
    }
}

/// A cause that this gateway does not know is none: a newer agent then has its attempt judged as any other.
fn start_failure_from_message(failure: i32) -> Option<StartFailure> {
    match v1::StartFailure::try_from(failure) {
        Ok(v1::StartFailure::NodeFull) => Some(StartFailure::NodeFull),
        Ok(v1::StartFailure::PortInUse) => Some(StartFailure::PortInUse),
        Ok(v1::StartFailure::SecretUnusable) => Some(StartFailure::SecretUnusable),
        Ok(v1::StartFailure::Unspecified) | Err(_) => None,
    }
}

/// How an attempt ended; `node` is the name of the node it ended on.
pub fn exit_to_message(exit: &Exit, node: String) -> v1::Exit {
    v1::Exit {
        reason: end_reason_to_message(exit.reason).into(),
        code: exit.code,
        signal: exit.signal,
        message: exit.message.clone(),
        at_ms: exit.at_ms,
        incarnation: exit.incarnation.0,
        node,
        helper: helper_of_failure(&exit.message).unwrap_or_default().to_owned(),
        start_failure: exit.start_failure.map_or(0, |failure| start_failure_to_message(failure).into()),
    }
}

/// How an attempt ended, as the agent of `node` says.
pub fn exit_from_message(message: &v1::Exit, node: NodeId) -> Result<Exit, FieldRefused> {
    let reason = match v1::EndReason::try_from(message.reason) {
        Ok(v1::EndReason::Exited) => EndReason::Exited,
        Ok(v1::EndReason::Signaled) => EndReason::Signaled,
        Ok(v1::EndReason::OutOfMemory) => EndReason::OutOfMemory,
        Ok(v1::EndReason::StartFailed) => EndReason::StartFailed,
        Ok(v1::EndReason::Stopped) => EndReason::Stopped,
        Ok(v1::EndReason::NodeLost) => EndReason::NodeLost,
        Ok(v1::EndReason::NodeRebooted) => EndReason::NodeRebooted,
        Ok(v1::EndReason::Unspecified) | Err(_) => {
            return Err(FieldRefused::new(
                "exit.reason",
                message.reason.to_string(),
                "a reason from EndReason",
            ));
        }
    };
    Ok(Exit {
        reason,
        code: message.code,
        signal: message.signal,
        message: message.message.clone(),
        at_ms: message.at_ms,
        incarnation: Incarnation(message.incarnation),
        node: Some(node),
        start_failure: start_failure_from_message(message.start_failure),
    })
}

/// An endpoint of `cell`, without what its job and its node add to it.
pub fn endpoint_to_message(cell: &Name, endpoint: &Endpoint) -> v1::Endpoint {
    v1::Endpoint {
        name: format!("{}.{}.{}.{cell}", endpoint.task.index, endpoint.job, endpoint.user),
        user: endpoint.user.to_string(),
        job: endpoint.job.to_string(),
        index: endpoint.task.index,
        incarnation: endpoint.incarnation.0,
        host: endpoint.host.clone(),
        ports: ports_to_message(&endpoint.ports),
        health: health_to_message(endpoint.health).into(),
        weight: endpoint.weight,
        node: endpoint.node.to_string(),
        healthy_since_ms: endpoint.healthy_since_ms,
        domains: endpoint.domains.clone(),
        labels: BTreeMap::new(),
        draining: false,
    }
}
