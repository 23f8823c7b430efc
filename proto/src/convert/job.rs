//! Jobs and their specs.

use borough_model::job::{
    HealthCheck, JobKind, JobOutcome, JobState, Probe, Rollout, RolloutState, TaskSpec,
};
use borough_model::{JobRow, JobSpec, Name};

use super::wire::{Wire, WirePath};
use super::{FieldRefused, name_from_text};
use crate::v1;

/// A job of `cell`, with what its spec says and what its tasks are doing. A job whose spec is not known counts as a
/// service.
pub fn job_to_message(
    cell: &Name,
    row: &JobRow,
    spec: Option<&JobSpec>,
    mut tasks: v1::TaskCounts,
) -> v1::Job {
    tasks.succeeded = row.succeeded;
    tasks.failed = row.failed;
    v1::Job {
        id: row.id.to_string(),
        cell: cell.to_string(),
        user: row.user.to_string(),
        name: row.name.to_string(),
        state: job_state_to_message(row.state).into(),
        count: row.wanted_count(),
        priority: row.priority,
        spec_version: row.spec_version,
        submitted_ms: row.submitted_ms,
        changed_ms: row.changed_ms,
        tasks: Some(tasks),
        kind: Wire::of(&spec.map_or(JobKind::Service, |spec| spec.kind)),
        revision: row.revision,
        labels: spec.map(|spec| spec.labels.clone()).unwrap_or_default(),
        description: spec.and_then(|spec| spec.description.clone()).unwrap_or_default(),
        usage: None,
        rollout: row.rollout.as_deref().map(rollout_to_message),
        changed_revision: row.changes.as_ref().map_or(0, |changes| changes.revision),
        changed_by: row.changes.as_ref().map(|changes| changes.by.clone()).unwrap_or_default(),
        daemon: row.daemon.as_deref().map(|daemon| v1::DaemonStatus {
            looked: daemon.steps > 0,
            indexes: row.count,
            unadmitted: daemon.unadmitted,
            left: daemon.left,
        }),
        surge: row.surge(),
        alloc_jobs: Vec::new(),
    }
}

fn rollout_to_message(rollout: &Rollout) -> v1::Rollout {
    let state = match rollout.state {
        RolloutState::Rolling => v1::RolloutState::Rolling,
        RolloutState::Paused => v1::RolloutState::Paused,
        RolloutState::Done => v1::RolloutState::Done,
        RolloutState::Failed => v1::RolloutState::Failed,
    };
    v1::Rollout {
        state: state.into(),
        version: rollout.version,
        begun_ms: rollout.begun_ms,
        by: rollout.by.clone(),
        reverts: rollout.reverts.unwrap_or(0),
        failure: rollout.failure.map(|failure| failure.to_string()).unwrap_or_default(),
        versions: rollout.stable.clone(),
        progress: None,
        surge: rollout.surge,
        canaries: rollout.canaries,
        canaries_healthy_ms: rollout.canaries_healthy_ms,
        disruptions: rollout.disruptions,
        skipped: rollout.skipped,
        untried: rollout.untried,
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
    Wire::of(spec)
}

/// A spec from a message. Only its form is checked here; whether it makes sense is for `JobSpec::validate`.
pub fn job_spec_from_message(message: &v1::JobSpec) -> Result<JobSpec, FieldRefused> {
    let spec: JobSpec = message.read(&WirePath::Root)?;
    Ok(match spec.min_member {
        0 => JobSpec { min_member: spec.min_member_default().max(1), ..spec },
        _ => spec,
    })
}

/// What a task runs, as a message.
pub fn task_spec_to_message(spec: &TaskSpec) -> v1::TaskSpec {
    Wire::of(spec)
}

pub(super) fn health_check_to_message(check: &HealthCheck) -> v1::HealthCheck {
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

pub(super) fn health_check_from_message(message: &v1::HealthCheck) -> Result<HealthCheck, FieldRefused> {
    let probe = match &message.probe {
        Some(v1::health_check::Probe::Http(http)) => Probe::Http {
            port: name_from_text("task.health.http.port", &http.port)?,
            path: http.path.clone(),
        },
        Some(v1::health_check::Probe::Tcp(tcp)) => {
            Probe::Tcp { port: name_from_text("task.health.tcp.port", &tcp.port)? }
        }
        Some(v1::health_check::Probe::Command(command)) => {
            Probe::Command { command: command.command.clone() }
        }
        None => return Err(FieldRefused::new("task.health", "", "one of http, tcp, command")),
    };
    Ok(HealthCheck {
        probe,
        interval_ms: message.interval_ms,
        timeout_ms: message.timeout_ms,
        failures_max: message.failures_max,
        initial_grace_ms: message.initial_grace_ms,
    })
}

#[cfg(test)]
mod tests {
    use borough_model::job::file::{FieldInfo, TreeNode, fields_flat};
    use serde_json::{Value, json};

    use super::*;

    fn examples(fields: &'static [FieldInfo]) -> Value {
        let fields = fields_flat(fields);
        let examples = fields.iter().filter_map(|field| Some((field.file.to_owned(), field.example?())));
        Value::Object(examples.collect())
    }

    fn spec_of(file: &Value) -> JobSpec {
        JobSpec::from_file(&TreeNode::from(file), &Name::new("ada").unwrap()).unwrap().0
    }

    #[test]
    fn every_field_arrives_as_it_was_sent() {
        let mut file = examples(JobSpec::file_fields());
        let task = JobSpec::file_fields().iter().find(|field| field.file == "task").unwrap();
        file["task"] = examples(task.inner.unwrap());
        // A job in an alloc set has no say in where it runs.
        let set = file.as_object_mut().and_then(|file| file.remove("alloc_set"));
        let member = json!({"name": "web", "alloc_set": set, "task": {"command": ["a"]}});
        let roles = json!([{"name": "server", "count": 3}, {"name": "worker", "arguments": ["-w"]}]);
        let mut gang = file.clone();
        gang["gang_topology"] = json!({"attribute": "rack", "exactly": 2});
        gang["roles"] = roles;
        for file in [file, gang, member] {
            let spec = spec_of(&file);
            assert_eq!(job_spec_from_message(&job_spec_to_message(&spec)), Ok(spec));
        }
    }

    #[test]
    fn a_refusal_names_the_field_and_what_is_accepted() {
        let file =
            json!({"name": "web", "task": {"command": ["a"], "ports": ["http", "admin"]}, "after": ["b"]});
        let good = job_spec_to_message(&spec_of(&file));
        let refused = |change: fn(&mut v1::JobSpec)| {
            let mut message = good.clone();
            change(&mut message);
            job_spec_from_message(&message).unwrap_err().to_string()
        };
        let port = |message: &mut v1::JobSpec| {
            message.task.get_or_insert_default().ports[1].number = Some(70_000);
        };
        assert_eq!(refused(port), "task.ports[1].number: \"70000\"; accepted: 1024 to 65535");
        assert_eq!(
            refused(|message| message.kind = 9),
            "kind: \"9\"; accepted: service, batch, daemon or alloc_set"
        );
        assert_eq!(refused(|message| message.task = None), "task: \"\"; accepted: what each task runs");
        assert!(
            refused(|message| message.after[0].job = "B".to_owned())
                .starts_with("after[0].job: the name \"B\" has")
        );
        assert!(
            refused(|message| message.scheduler = "B".to_owned())
                .starts_with("scheduler: the name \"B\" has")
        );
    }
}
