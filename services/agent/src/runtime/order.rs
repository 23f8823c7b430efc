//! Carries out the actions that [`crate::decide`] has chosen.

use std::sync::Arc;

use borough_proto::v1;
use borough_shim::cgroup::{CgroupLimits, CgroupRoot};
use borough_shim::record::ExitRecord;
use borough_shim::spec::StopOrder;

use super::agent::Agent;
use crate::attempt::AttemptId;
use crate::decide::cores::{assignment_settled, cores_shared, cores_taken};
use crate::decide::spec::SHIMS_LEAF;
use crate::decide::{AttemptState, Effect, ShimState};
use crate::event::StartRefused;
use crate::listener::Owner;
use crate::machine::{AttemptResize, AttemptStart, MeasurePlace, ProbeTarget, ResizedAmounts};
use crate::probe;

/// The agent's own cgroups above the attempts': the node's, the cell's and `borough`.
const CGROUP_LEVELS: usize = 3;

/// Carries out an action. Slow ones come back as [`crate::event::Event::Done`].
pub(super) fn perform(agent: &mut Agent, effect: Effect) {
    match effect {
        Effect::Identify(id) => agent.state.identities.want(id),
        Effect::Start(id, assignment) => start(agent, id, assignment),
        Effect::Decline(id) => decline(agent, &id, None),
        Effect::Stop(id, order) => stop(agent, id, order),
        Effect::Resize(id, order) => resize(agent, id, &order),
        Effect::Clean(id) => {
            let Some(attempt) = agent.state.attempts.get_mut(&id) else { return };
            attempt.busy = true;
            tracing::warn!(attempt = %id, "the shim is gone; the agent ends the attempt's processes");
            agent.machine.clean(id);
        }
        Effect::Forget(id) => forget(agent, id),
        Effect::Probe(id) => probe_begin(agent, &id),
        Effect::ProbeEnd(id) => {
            if let Some(attempt) = agent.state.attempts.get_mut(&id) {
                attempt.probed = false;
            }
            if let Some(probe) = agent.local.get_mut(&id).and_then(|local| local.probe.take()) {
                probe.abort();
            }
        }
    }
}

fn start(agent: &mut Agent, id: AttemptId, assignment: Arc<v1::Assignment>) {
    let attempt = agent.state.attempts.entry(id.clone()).or_default();
    if agent.machine.recall(&id) {
        // It has run here and ended. The gateway that wants it started is behind, and gets a report.
        attempt.record = agent.machine.record(&id).unwrap_or_default();
        attempt.shim = ShimState::Gone;
        return;
    }
    let assignment = match assignment_settled(&agent.state, assignment) {
        Ok(assignment) => assignment,
        Err(reason) => return decline(agent, &id, Some(reason.into())),
    };
    let taken = cores_taken(&agent.state);
    let Some(attempt) = agent.state.attempts.get_mut(&id) else { return };
    attempt.busy = true;
    attempt.assignment = Some(assignment.clone());
    let cpus = if assignment.exclusive_cores {
        assignment.cpus.clone()
    } else {
        cores_shared(&assignment, &agent.state.cores.all, &taken)
    };
    if !cpus.is_empty() {
        agent.placed.insert(id.clone(), cpus.clone());
    }
    let tokens = agent.state.identities.tokens(&id);
    agent.machine.start(id, AttemptStart { assignment, cpus, tokens });
}

/// Records an attempt as over that never started: it was stopped before, or is `refused`. A start that
/// arrives late then finds it over.
fn decline(agent: &mut Agent, id: &AttemptId, refused: Option<StartRefused>) {
    if agent.state.attempts.get(id).is_none_or(|attempt| attempt.shim == ShimState::None) {
        if let Err(error) = agent.machine.decline(id) {
            tracing::warn!(attempt = %id, %error, "the stop of an attempt before its start cannot be recorded");
        }
        agent.state.attempts.insert(id.clone(), AttemptState::default());
    }
    attempt_end(agent, id, refused);
}

/// Ends the record of an attempt without a shim: as `refused`, or as stopped before its start.
pub(super) fn attempt_end(agent: &mut Agent, id: &AttemptId, refused: Option<StartRefused>) {
    let boot_id = agent.state.boot_id.clone();
    let at_ms = agent.config.clock.wall_ms();
    let Some(attempt) = agent.state.attempts.get_mut(id) else { return };
    let stopped = refused.is_none();
    let message = if stopped { "stopped before it was started here".to_owned() } else { String::new() };
    let start_cause = refused.as_ref().and_then(|refused| refused.cause);
    let start_error = refused.map(|refused| refused.reason);
    let exit = ExitRecord { start_error, start_cause, stopped, message, at_ms, ..ExitRecord::default() };
    attempt.record.boot_id = boot_id;
    attempt.shim = ShimState::Gone;
    // A record that cannot be written is kept in memory until this agent ends, and is reported before that.
    if let Err(error) = agent.machine.end_write(id, &mut attempt.record, exit) {
        tracing::warn!(attempt = %id, %error, "the end of an attempt cannot be recorded");
    }
}

fn stop(agent: &mut Agent, id: AttemptId, order: StopOrder) {
    let Some(attempt) = agent.state.attempts.get_mut(&id) else { return };
    attempt.busy = true;
    agent.machine.stop(id, attempt.record.shim, order);
}

fn resize(agent: &mut Agent, id: AttemptId, order: &v1::ResizeOrder) {
    let leaf = agent.local.get(&id).map(|local| local.leaf.clone()).unwrap_or_default();
    let Some(attempt) = agent.state.attempts.get_mut(&id) else { return };
    attempt.busy = true;
    let present = attempt.assignment.as_ref().and_then(|of| of.spec.as_ref()?.resources.as_ref());
    let task = attempt.record.task.filter(|_| order.signal > 0);
    let resize = AttemptResize {
        order: order.order,
        record: attempt.resize.clone(),
        before: present.map(ResizedAmounts::of).unwrap_or_default(),
        after: order.resources.as_ref().map(ResizedAmounts::of).unwrap_or_default(),
        place: MeasurePlace { id: id.clone(), leaf, shim: attempt.record.shim.map(|shim| shim.pid) },
        signal: task.map(|task| (task, order.signal)),
    };
    tracing::info!(attempt = %id, order = order.order, "resized in place");
    agent.machine.resize(id, resize);
}

fn forget(agent: &mut Agent, id: AttemptId) {
    let Some(attempt) = agent.state.attempts.get_mut(&id) else { return };
    attempt.busy = true;
    agent.machine.forget(id);
}

fn probe_begin(agent: &mut Agent, id: &AttemptId) {
    let clock = agent.clock();
    let Some(attempt) = agent.state.attempts.get_mut(id) else { return };
    let (check, Some(assignment)) = (attempt.check().cloned(), attempt.assignment.clone()) else { return };
    let leaf = agent.local.get(id).map(|local| local.leaf.clone()).unwrap_or_default();
    attempt.probed = true;
    let target = ProbeTarget {
        id: id.clone(),
        check: check.unwrap_or_default(),
        owner: Owner { leaf, shim: attempt.record.shim.map(|shim| shim.pid) },
        known: Arc::default(),
        healthy_after_ms: assignment.healthy_after_ms,
        // What is in an alloc listens on its ports.
        ports: if assignment.is_alloc { Vec::new() } else { assignment.ports.clone() },
        host: agent.starter.context.host.clone(),
        directory: agent.starter.state.attempt(id),
        program: agent.starter.program.clone(),
        health: attempt.health,
        started_ms: attempt.record.started_ms.unwrap_or(0),
    };
    let task =
        tokio::spawn(probe::run(target, clock, Arc::clone(&agent.machine), agent.starter.events.clone()));
    agent.local.entry(id.clone()).or_default().probe = Some(task.abort_handle());
}

/// Removes the node's own cgroups, once nothing is left in them. Returns true on success.
pub(super) fn cgroups_remove(base: &CgroupRoot) -> bool {
    // A shim that is just ending uses it: the next agent, or a guard, removes it.
    let removed = base.leaf(SHIMS_LEAF, CgroupLimits::default()).remove().is_ok();
    base.remove(CGROUP_LEVELS);
    removed
}
