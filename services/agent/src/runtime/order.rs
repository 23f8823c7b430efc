//! Having effects done. No choices here: [`crate::decide`] has made them.

use std::sync::Arc;

use borough_proto::v1;
use borough_shim::cgroup::{Base, Limits};
use borough_shim::record::ExitRecord;
use borough_shim::spec::StopOrder;

use super::agent::Agent;
use crate::decide::cores::{assignment_settled, cores_shared, cores_taken};
use crate::decide::spec::SHIMS_LEAF;
use crate::decide::{Effect, Life, Shim};
use crate::life::LifeId;
use crate::probe;
use crate::probe::listener::Owner;

/// Cgroups of ours above the lives': the node's, the cell's and `borough`.
const CGROUP_LEVELS: usize = 3;

/// Has an effect done; what takes time comes back as [`Event::Done`].
pub(super) fn perform(agent: &mut Agent, effect: Effect) {
    match effect {
        Effect::Start(id, assignment) => start(agent, id, assignment),
        Effect::Decline(id) => decline(agent, &id, None),
        Effect::Stop(id, order) => stop(agent, id, order),
        Effect::Clean(id) => {
            let Some(life) = agent.state.lives.get_mut(&id) else { return };
            life.busy = true;
            tracing::warn!(life = %id, "its shim is gone; ending what is left of it");
            agent.machine.clean(id);
        }
        Effect::Forget(id) => forget(agent, id),
        Effect::Probe(id) => probe_begin(agent, &id),
        Effect::ProbeEnd(id) => {
            if let Some(life) = agent.state.lives.get_mut(&id) {
                life.probed = false;
            }
            if let Some(probe) = agent.local.get_mut(&id).and_then(|local| local.probe.take()) {
                probe.abort();
            }
        }
    }
}

fn start(agent: &mut Agent, id: LifeId, assignment: Arc<v1::Assignment>) {
    let life = agent.state.lives.entry(id.clone()).or_default();
    if agent.machine.recall(&id) {
        // It ran here and was over; who wants it started is behind, and is told.
        life.record = agent.machine.record(&id).unwrap_or_default();
        life.shim = Shim::Gone;
        return;
    }
    let assignment = match assignment_settled(&agent.state, assignment) {
        Ok(assignment) => assignment,
        Err(reason) => return decline(agent, &id, Some(reason)),
    };
    let taken = cores_taken(&agent.state);
    let Some(life) = agent.state.lives.get_mut(&id) else { return };
    life.busy = true;
    life.assignment = Some(assignment.clone());
    let cpus = match assignment.exclusive_cores {
        true => assignment.cpus.clone(),
        false => cores_shared(&assignment, &agent.state.cores.all, &taken),
    };
    if !cpus.is_empty() {
        agent.placed.insert(id.clone(), cpus.clone());
    }
    agent.machine.start(id, assignment, cpus);
}

/// Remembers that a life is over that was never started, so that a start that comes late finds it over: it was stopped
/// before, or cannot be started for this reason.
fn decline(agent: &mut Agent, id: &LifeId, reason: Option<String>) {
    if agent.state.lives.get(id).is_none_or(|life| life.shim == Shim::None) {
        if let Err(error) = agent.machine.decline(id) {
            tracing::warn!(life = %id, %error, "cannot write down that it was stopped before it was started");
        }
        agent.state.lives.insert(id.clone(), Life::default());
    }
    life_end(agent, id, reason);
}

/// Ends the record of a life that has no shim: with `start_error`, or as stopped before its start.
pub(super) fn life_end(agent: &mut Agent, id: &LifeId, start_error: Option<String>) {
    let boot_id = agent.state.boot_id.clone();
    let at_ms = agent.config.clock.wall_ms();
    let Some(life) = agent.state.lives.get_mut(id) else { return };
    let stopped = start_error.is_none();
    let message = if stopped { "stopped before it was started here".to_owned() } else { String::new() };
    let exit = ExitRecord { start_error, stopped, message, at_ms, ..ExitRecord::default() };
    life.record.boot_id = boot_id;
    life.shim = Shim::Gone;
    // What cannot be written is known until this agent ends, and told before that.
    if let Err(error) = agent.machine.end_write(id, &mut life.record, exit) {
        tracing::warn!(life = %id, %error, "cannot write down its end");
    }
}

fn stop(agent: &mut Agent, id: LifeId, order: StopOrder) {
    let Some(life) = agent.state.lives.get_mut(&id) else { return };
    life.busy = true;
    agent.machine.stop(id, life.record.shim, order);
}

fn forget(agent: &mut Agent, id: LifeId) {
    let Some(life) = agent.state.lives.get_mut(&id) else { return };
    life.busy = true;
    agent.machine.forget(id);
}

fn probe_begin(agent: &mut Agent, id: &LifeId) {
    let clock = agent.clock();
    let Some(life) = agent.state.lives.get_mut(id) else { return };
    let (check, Some(assignment)) = (life.check().cloned(), life.assignment.clone()) else { return };
    let leaf = agent.local.get(id).map(|local| local.leaf.clone()).unwrap_or_default();
    life.probed = true;
    let target = probe::Target {
        id: id.clone(),
        check: check.unwrap_or_default(),
        owner: Owner { leaf, shim: life.record.shim.map(|shim| shim.pid) },
        known: Arc::default(),
        healthy_after_ms: assignment.healthy_after_ms,
        ports: assignment.ports.clone(),
        host: agent.starter.ground.host.clone(),
        directory: agent.starter.state.life(id),
        program: agent.starter.program.clone(),
        health: life.health,
        started_ms: life.record.started_ms.unwrap_or(0),
    };
    let task =
        tokio::spawn(probe::run(target, clock, Arc::clone(&agent.machine), agent.starter.events.clone()));
    agent.local.entry(id.clone()).or_default().probe = Some(task.abort_handle());
}

/// Removes the node's own cgroups, once nothing of ours is left in them; whether that was so.
pub(super) fn cgroups_remove(base: &Base) -> bool {
    // In use by a shim that is just ending: the next agent, or a guard, removes it.
    let removed = base.leaf(SHIMS_LEAF, Limits::default()).remove().is_ok();
    base.remove(CGROUP_LEVELS);
    removed
}
