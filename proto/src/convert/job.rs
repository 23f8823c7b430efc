//! Jobs and their specs.

use borough_model::job::{
    After, AfterCondition, HealthCheck, JobKind, JobOutcome, JobState, PreemptionSpec, Probe, RestartMode,
    RestartSpec, TaskOverride, TaskSpec,
};
use borough_model::{JobRow, JobSpec, Name};

use super::card::selector_to_message;
use super::gang::{gang_from_message, gang_topology_to_message, role_to_message};
use super::placement::{
    affinity_from_message, affinity_to_message, constraint_from_message, constraint_to_message,
    spread_from_message, spread_to_message,
};
use super::taint::{toleration_from_message, toleration_to_message};
use super::topology::within_to_message;
use super::{
    FieldRefused, capacity_from_message, name_from_text, resources_to_message, task_spec_from_message,
};
use crate::v1;

/// A job of `cell`, with what its tasks are doing.
pub fn job_to_message(cell: &Name, row: &JobRow, kind: JobKind, mut tasks: v1::TaskCounts) -> v1::Job {
    tasks.succeeded = row.succeeded;
    tasks.failed = row.failed;
    v1::Job {
        id: row.id.to_string(),
        cell: cell.to_string(),
        user: row.user.to_string(),
        name: row.name.to_string(),
        state: job_state_to_message(row.state).into(),
        count: row.count,
        priority: row.priority,
        spec_version: row.spec_version,
        submitted_ms: row.submitted_ms,
        changed_ms: row.changed_ms,
        tasks: Some(tasks),
        kind: kind_to_message(kind).into(),
        revision: row.revision,
    }
}

/// A job's state.
pub fn job_state_to_message(state: JobState) -> v1::JobState {
    match state {
        JobState::Waiting => v1::JobState::Waiting,
        JobState::Running => v1::JobState::Running,
        JobState::Stopping => v1::JobState::Stopping,
        JobState::Ended { outcome: JobOutcome::Succeeded } => v1::JobState::Succeeded,
        JobState::Ended { outcome: JobOutcome::Failed } => v1::JobState::Failed,
        JobState::Ended { outcome: JobOutcome::Stopped } => v1::JobState::Stopped,
        JobState::Ended { outcome: JobOutcome::DependencyFailed } => v1::JobState::DependencyFailed,
    }
}

/// A spec as a message.
pub fn job_spec_to_message(spec: &JobSpec) -> v1::JobSpec {
    v1::JobSpec {
        user: spec.user.to_string(),
        name: spec.name.to_string(),
        kind: kind_to_message(spec.kind).into(),
        priority: spec.priority,
        count: spec.count,
        min_member: spec.min_member,
        after: spec.after.iter().map(after_to_message).collect(),
        constraints: spec.constraints.iter().map(constraint_to_message).collect(),
        spread: spec.spread.iter().map(spread_to_message).collect(),
        task: Some(task_spec_to_message(&spec.task)),
        overrides: spec.overrides.iter().map(|(index, over)| (*index, override_to_message(over))).collect(),
        restart: Some(restart_to_message(spec.restart)),
        drain_delay_ms: spec.drain_delay_ms,
        lost_after_ms: spec.lost_after_ms,
        labels: spec.labels.clone(),
        affinity: spec.affinity.iter().map(affinity_to_message).collect(),
        tolerations: spec.tolerations.iter().map(toleration_to_message).collect(),
        scheduler: spec.scheduler.as_ref().map(ToString::to_string).unwrap_or_default(),
        profile: spec.profile.clone().unwrap_or_default(),
        gang_topology: spec.gang_topology().map(gang_topology_to_message),
        roles: spec.roles().iter().map(role_to_message).collect(),
        queue: spec.queue.clone().unwrap_or_default(),
        preemption: spec.preemption.map(preemption_to_message),
    }
}

/// A spec from a message. Only its form is checked here; whether it makes sense is for `JobSpec::validate`.
pub fn job_spec_from_message(message: &v1::JobSpec) -> Result<JobSpec, FieldRefused> {
    let task = message.task.as_ref().ok_or_else(|| FieldRefused::new("task", "", "what each task runs"))?;
    let constraints = message
        .constraints
        .iter()
        .enumerate()
        .map(|(index, message)| constraint_from_message(&format!("constraints[{index}]"), message));
    let spec = JobSpec {
        user: name_from_text("user", &message.user)?,
        name: name_from_text("name", &message.name)?,
        kind: match v1::JobKind::try_from(message.kind) {
            Ok(v1::JobKind::Service) => JobKind::Service,
            Ok(v1::JobKind::Batch) => JobKind::Batch,
            Ok(v1::JobKind::Unspecified) | Err(_) => {
                return Err(FieldRefused::new("kind", message.kind.to_string(), "service or batch"));
            }
        },
        priority: message.priority,
        count: message.count,
        min_member: message.min_member,
        after: message.after.iter().enumerate().map(after_from_message).collect::<Result<_, _>>()?,
        constraints: constraints.collect::<Result<_, _>>()?,
        spread: message.spread.iter().map(spread_from_message).collect(),
        task: task_spec_from_message(task).map_err(|refused| refused.within("task"))?,
        overrides: message
            .overrides
            .iter()
            .map(|(index, over)| Ok((*index, override_from_message(over)?)))
            .collect::<Result<_, FieldRefused>>()?,
        restart: restart_from_message(message.restart.as_ref())?,
        drain_delay_ms: message.drain_delay_ms,
        lost_after_ms: message.lost_after_ms,
        labels: message.labels.clone(),
        affinity: message.affinity.iter().enumerate().map(affinity_from_message).collect::<Result<_, _>>()?,
        tolerations: message
            .tolerations
            .iter()
            .enumerate()
            .map(toleration_from_message)
            .collect::<Result<_, _>>()?,
        scheduler: match message.scheduler.as_str() {
            "" => None,
            named => Some(name_from_text("scheduler", named)?),
        },
        profile: (!message.profile.is_empty()).then(|| message.profile.clone()),
        queue: (!message.queue.is_empty()).then(|| message.queue.clone()),
        preemption: message.preemption.as_ref().map(preemption_from_message),
        gang: gang_from_message(message)?,
    };
    Ok(match spec.min_member {
        0 => JobSpec { min_member: spec.min_member_default().max(1), ..spec },
        _ => spec,
    })
}

fn preemption_to_message(spec: PreemptionSpec) -> v1::Preemption {
    let PreemptionSpec { never, notice_max_ms, down_max } = spec;
    v1::Preemption { never, notice_max_ms, down_max }
}

fn preemption_from_message(message: &v1::Preemption) -> PreemptionSpec {
    let v1::Preemption { never, notice_max_ms, down_max } = *message;
    PreemptionSpec { never, notice_max_ms, down_max }
}

/// What a task runs, as a message.
pub fn task_spec_to_message(spec: &TaskSpec) -> v1::TaskSpec {
    v1::TaskSpec {
        command: spec.command.clone(),
        environment: spec.environment.clone(),
        working_directory: spec.working_directory.clone(),
        resources: Some(resources_to_message(&spec.resources)),
        ports: spec
            .ports
            .iter()
            .map(|port| v1::PortSpec { name: port.name.to_string(), number: port.number.map(u32::from) })
            .collect(),
        health: spec.health.as_ref().map(health_check_to_message),
        grace_ms: spec.grace_ms,
        log: Some(v1::LogSpec { file_bytes_max: spec.log.file_bytes_max, files_max: spec.log.files_max }),
        weight: spec.weight,
        within: within_to_message(spec.within).into(),
        packages: spec.packages.clone(),
        exclusive_cores: spec.exclusive_cores,
        device_selectors: spec
            .device_selectors
            .iter()
            .map(|(kind, selector)| (kind.clone(), selector_to_message(selector)))
            .collect(),
    }
}

fn kind_to_message(kind: JobKind) -> v1::JobKind {
    match kind {
        JobKind::Service => v1::JobKind::Service,
        JobKind::Batch => v1::JobKind::Batch,
    }
}

fn after_to_message(after: &After) -> v1::After {
    let condition = match after.condition {
        AfterCondition::Finished => v1::after::Condition::Finished,
        AfterCondition::Succeeded => v1::after::Condition::Succeeded,
    };
    v1::After { job: after.job.to_string(), condition: condition.into() }
}

fn after_from_message((index, message): (usize, &v1::After)) -> Result<After, FieldRefused> {
    let condition = match v1::after::Condition::try_from(message.condition) {
        Ok(v1::after::Condition::Finished) => AfterCondition::Finished,
        Ok(v1::after::Condition::Succeeded | v1::after::Condition::Unspecified) => AfterCondition::Succeeded,
        Err(_) => {
            let field = format!("after[{index}].condition");
            return Err(FieldRefused::new(field, message.condition.to_string(), "finished or succeeded"));
        }
    };
    Ok(After { job: name_from_text(&format!("after[{index}].job"), &message.job)?, condition })
}

pub(super) fn override_to_message(over: &TaskOverride) -> v1::TaskOverride {
    v1::TaskOverride {
        command: over.command.clone().unwrap_or_default(),
        arguments: over.arguments.clone(),
        environment: over.environment.clone(),
        resources: over.resources.as_ref().map(resources_to_message),
        weight: over.weight,
    }
}

pub(super) fn override_from_message(message: &v1::TaskOverride) -> Result<TaskOverride, FieldRefused> {
    let resources = message.resources.as_ref().map(|resources| capacity_from_message(Some(resources)));
    Ok(TaskOverride {
        command: Some(message.command.clone()).filter(|command| !command.is_empty()),
        arguments: message.arguments.clone(),
        environment: message.environment.clone(),
        resources: resources.transpose()?,
        weight: message.weight,
    })
}

fn health_check_to_message(check: &HealthCheck) -> v1::HealthCheck {
    let probe = match &check.probe {
        Probe::Http { port, path } => {
            v1::health_check::Probe::Http(v1::HttpProbe { port: port.to_string(), path: path.clone() })
        }
        Probe::Tcp { port } => v1::health_check::Probe::Tcp(v1::TcpProbe { port: port.to_string() }),
        Probe::Command { command } => {
            v1::health_check::Probe::Command(v1::CommandProbe { command: command.clone() })
        }
    };
    v1::HealthCheck {
        probe: Some(probe),
        interval_ms: check.interval_ms,
        timeout_ms: check.timeout_ms,
        failures_max: check.failures_max,
        initial_grace_ms: check.initial_grace_ms,
    }
}

fn restart_to_message(restart: RestartSpec) -> v1::RestartSpec {
    let mode = match restart.mode {
        RestartMode::Always => v1::restart_spec::Mode::Always,
        RestartMode::OnFailure => v1::restart_spec::Mode::OnFailure,
        RestartMode::Never => v1::restart_spec::Mode::Never,
    };
    v1::RestartSpec {
        mode: mode.into(),
        attempts_max: restart.attempts_max,
        backoff_initial_ms: restart.backoff_initial_ms,
        backoff_max_ms: restart.backoff_max_ms,
        reset_after_ms: restart.reset_after_ms,
    }
}

fn restart_from_message(message: Option<&v1::RestartSpec>) -> Result<RestartSpec, FieldRefused> {
    let message = message.ok_or_else(|| FieldRefused::new("restart", "", "mode and back-off"))?;
    let mode = match v1::restart_spec::Mode::try_from(message.mode) {
        Ok(v1::restart_spec::Mode::Always) => RestartMode::Always,
        Ok(v1::restart_spec::Mode::OnFailure) => RestartMode::OnFailure,
        Ok(v1::restart_spec::Mode::Never) => RestartMode::Never,
        Ok(v1::restart_spec::Mode::Unspecified) | Err(_) => {
            return Err(FieldRefused::new(
                "restart.mode",
                message.mode.to_string(),
                "always, on_failure or never",
            ));
        }
    };
    Ok(RestartSpec {
        mode,
        attempts_max: message.attempts_max,
        backoff_initial_ms: message.backoff_initial_ms,
        backoff_max_ms: message.backoff_max_ms,
        reset_after_ms: message.reset_after_ms,
    })
}
