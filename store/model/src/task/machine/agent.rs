//! Events that an agent reports. It reports its full state, so any of them may be the first of an attempt, and all of
//! them repeat.

use super::event::{EndpointEffect, StartedProcess, TaskRules, TransitionRefused};
use super::operate::running_stop;
use super::step::{Decided, TransitionDraft, illegal, stale, unchanged};
use crate::task::helper::helpers_bounded;
use crate::task::{EndReason, Exit, Health, HelperStatus, StartFailure, StopReason, TaskRow, TaskState};

const HELD: &str = "nothing starts while held";

/// Whether an exited attempt is released on its node: its cgroup is gone, and its ports are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    Confirmed,
    Awaited,
}

pub(super) fn agent_accepted(row: &TaskRow, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Assigned => TransitionDraft::new(row, now_ms).state(TaskState::Starting).done(),
        TaskState::Starting | TaskState::Running | TaskState::Stopping | TaskState::Releasing => {
            unchanged(row)
        }
        TaskState::Held => illegal(row, "agent_accepted", HELD),
        TaskState::Lost => Err(TransitionRefused::NodeReturnFirst),
        TaskState::Pending | TaskState::Dead => stale(row),
    }
}

pub(super) fn process_started(
    row: &TaskRow,
    process: StartedProcess,
    health: Health,
    now_ms: i64,
) -> Decided {
    match row.state {
        TaskState::Assigned | TaskState::Starting => {
            running(TransitionDraft::new(row, now_ms), process, health).done()
        }
        TaskState::Running | TaskState::Stopping if process_known(row, process) => unchanged(row),
        // It was started before the stop reached the agent.
        TaskState::Stopping if row.pid.is_none() => {
            TransitionDraft::new(row, now_ms).with(|row| process_set(row, process)).done()
        }
        TaskState::Running | TaskState::Stopping => {
            illegal(row, "process_started", "an attempt has one process")
        }
        TaskState::Releasing => unchanged(row),
        TaskState::Held => illegal(row, "process_started", HELD),
        TaskState::Lost => Err(TransitionRefused::NodeReturnFirst),
        TaskState::Pending | TaskState::Dead => stale(row),
    }
}

fn process_known(row: &TaskRow, process: StartedProcess) -> bool {
    row.pid == Some(process.pid) && row.started_ms == Some(process.started_ms)
}

fn process_set(row: &mut TaskRow, process: StartedProcess) {
    row.pid = Some(process.pid);
    row.started_ms = Some(process.started_ms);
}

/// The attempt runs, and is published if it is healthy.
fn running(step: TransitionDraft<'_>, process: StartedProcess, health: Health) -> TransitionDraft<'_> {
    let step = step.with(|row| process_set(row, process)).state(TaskState::Running);
    match health {
        Health::Unknown => step.with(|row| row.health = Health::Unknown),
        Health::Healthy => step.healthy().endpoint(EndpointEffect::Publish),
        Health::Unhealthy => running_stop(step, StopReason::Unhealthy),
    }
}

pub(super) fn health_changed(row: &TaskRow, health: Health, now_ms: i64) -> Decided {
    let step = TransitionDraft::new(row, now_ms);
    match row.state {
        TaskState::Running => match health {
            Health::Healthy if row.health == Health::Healthy => unchanged(row),
            Health::Healthy => step.healthy().endpoint(EndpointEffect::Publish).done(),
            // A restarted agent has not probed yet: unknown health is no news.
            Health::Unknown => unchanged(row),
            Health::Unhealthy => running_stop(step, StopReason::Unhealthy).done(),
        },
        TaskState::Stopping | TaskState::Releasing => unchanged(row),
        TaskState::Assigned | TaskState::Starting => {
            illegal(row, "health_changed", "its process has not been reported yet")
        }
        TaskState::Held => illegal(row, "health_changed", HELD),
        TaskState::Lost => Err(TransitionRefused::NodeReturnFirst),
        TaskState::Pending | TaskState::Dead => stale(row),
    }
}

pub(super) fn process_exited(
    row: &TaskRow,
    exit: &Exit,
    release: Release,
    rules: &TaskRules,
    now_ms: i64,
) -> Decided {
    let step = TransitionDraft::new(row, now_ms);
    match row.state {
        TaskState::Assigned | TaskState::Starting | TaskState::Stopping => {
            exited(step.exit(exit.clone(), rules), release).done()
        }
        TaskState::Running => {
            let step = step.exit(exit.clone(), rules).endpoint(EndpointEffect::Withdraw);
            exited(step, release).done()
        }
        TaskState::Releasing if release == Release::Confirmed => step.attempt_end().done(),
        // It ended while its node was away: its result counts. What is left of it has its share of the node again.
        TaskState::Lost => {
            let step = step.exit(exit.clone(), rules).endpoint(EndpointEffect::Withdraw);
            match release {
                Release::Confirmed => step.attempt_end().done(),
                Release::Awaited => step.take().state(TaskState::Releasing).done(),
            }
        }
        TaskState::Pending | TaskState::Releasing | TaskState::Dead => unchanged(row),
        TaskState::Held => illegal(row, "process_exited", HELD),
    }
}

fn exited(step: TransitionDraft<'_>, release: Release) -> TransitionDraft<'_> {
    match release {
        Release::Confirmed => step.attempt_end(),
        Release::Awaited => step.state(TaskState::Releasing),
    }
}

pub(super) fn start_failed(row: &TaskRow, exit: Exit, rules: &TaskRules, now_ms: i64) -> Decided {
    let step = TransitionDraft::new(row, now_ms);
    match row.state {
        TaskState::Assigned | TaskState::Starting | TaskState::Stopping => {
            step.exit(exit, rules).attempt_end().done()
        }
        TaskState::Lost => step.exit(exit, rules).endpoint(EndpointEffect::Withdraw).attempt_end().done(),
        // A report before has had its end, and not yet its release.
        TaskState::Releasing => step.attempt_end().done(),
        TaskState::Pending | TaskState::Dead => unchanged(row),
        TaskState::Running => illegal(row, "start_failed", "its process was reported as started"),
        TaskState::Held => illegal(row, "start_failed", HELD),
    }
}

/// The end of an attempt that never started.
pub(super) fn start_failure(
    row: &TaskRow,
    message: &str,
    failure: Option<StartFailure>,
    now_ms: i64,
) -> Exit {
    Exit {
        reason: EndReason::StartFailed,
        code: None,
        signal: None,
        message: message.to_owned(),
        at_ms: now_ms,
        incarnation: row.incarnation,
        node: row.node,
        start_failure: failure,
    }
}

/// What an agent says of helpers changes nothing else. What it says after the attempt is over comes too late.
pub(super) fn helpers_reported(row: &TaskRow, helpers: &[HelperStatus], now_ms: i64) -> Decided {
    match row.state {
        TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost => {
            let helpers = Some(Box::new(helpers_bounded(helpers))).filter(|helpers| !helpers.is_empty());
            if row.helpers == helpers {
                return unchanged(row);
            }
            TransitionDraft::new(row, now_ms).with(|row| row.helpers = helpers).done()
        }
        TaskState::Held => illegal(row, "helpers_reported", HELD),
        TaskState::Pending | TaskState::Dead => unchanged(row),
    }
}

pub(super) fn release_confirmed(row: &TaskRow, now_ms: i64) -> Decided {
    let step = TransitionDraft::new(row, now_ms);
    match row.state {
        TaskState::Releasing => step.attempt_end().done(),
        // It was stopped before it started, or its record is gone.
        TaskState::Stopping => step.exit_unseen(EndReason::Stopped).attempt_end().done(),
        TaskState::Lost => {
            step.endpoint(EndpointEffect::Withdraw).exit_unseen(EndReason::NodeLost).attempt_end().done()
        }
        TaskState::Pending | TaskState::Dead => unchanged(row),
        TaskState::Assigned | TaskState::Starting | TaskState::Running => {
            illegal(row, "release_confirmed", "how it ended comes first")
        }
        TaskState::Held => illegal(row, "release_confirmed", HELD),
    }
}

pub(super) fn node_returned(
    row: &TaskRow,
    process: Option<StartedProcess>,
    health: Health,
    now_ms: i64,
) -> Decided {
    let step = TransitionDraft::new(row, now_ms);
    match row.state {
        // Its endpoint may still exist, demoted: only the same process may continue under it.
        TaskState::Lost
            if row.pid.is_some() && !process.is_some_and(|process| process_known(row, process)) =>
        {
            illegal(row, "node_returned", "an attempt has one process; how it ended comes first")
        }
        TaskState::Lost => {
            let step = step.state(TaskState::Assigned).take();
            match (row.stop, process) {
                (Some(_), Some(process)) => {
                    step.with(|row| process_set(row, process)).state(TaskState::Stopping).done()
                }
                (Some(_), None) => step.state(TaskState::Stopping).done(),
                (None, Some(process)) => running(step, process, health).done(),
                (None, None) => step.done(),
            }
        }
        TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing => unchanged(row),
        TaskState::Held => illegal(row, "node_returned", HELD),
        TaskState::Pending | TaskState::Dead => stale(row),
    }
}
