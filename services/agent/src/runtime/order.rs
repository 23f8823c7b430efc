//! Having effects done. No choices here: [`crate::decide`] has made them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1;
use borough_shim::cgroup::{Base, Limits};
use borough_shim::file::{Durability, json_write};
use borough_shim::process::ProcessId;
use borough_shim::record::ExitRecord;
use borough_shim::spec::{STOP_FILE, StopOrder};
use rustix::process::Signal;

use super::Event;
use super::agent::Agent;
use super::event::Done;
use super::start::RETRY_PAUSE;
use crate::decide::cores::{assignment_settled, cores_shared, cores_taken};
use crate::decide::spec::SHIMS_LEAF;
use crate::decide::{Effect, Life, Shim};
use crate::disk::{life_begin, life_end_write, record_read};
use crate::life::LifeId;
use crate::probe;

/// Cgroups of ours above the lives': the node's, the cell's and `borough`.
const CGROUP_LEVELS: usize = 3;

/// So often, and with this pause, is a new shim's first word waited for.
const SHIM_LOOKS: u32 = 400;
const SHIM_PAUSE: Duration = Duration::from_millis(5);

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
            tokio::spawn(agent.starter().clean(id));
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
    if agent.starter.state.recall(&id) {
        // It ran here and was over; who wants it started is behind, and is told.
        life.record = record_read(&agent.starter.state.life(&id)).unwrap_or_default();
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
    tokio::spawn(agent.starter().start(id, assignment, cpus));
}

/// Remembers that a life is over that was never started, so that a start that comes late finds it over: it was stopped
/// before, or cannot be started for this reason.
fn decline(agent: &mut Agent, id: &LifeId, reason: Option<String>) {
    if agent.state.lives.get(id).is_none_or(|life| life.shim == Shim::None) {
        let nothing = v1::Assignment::default();
        if let Err(error) = life_begin(&agent.starter.state, id, &nothing, None) {
            tracing::warn!(life = %id, %error, "cannot write down that it was stopped before it was started");
        }
        agent.state.lives.insert(id.clone(), Life::default());
    }
    life_end(agent, id, reason);
}

/// Ends the record of a life that has no shim: with `start_error`, or as stopped before its start.
pub(super) fn life_end(agent: &mut Agent, id: &LifeId, start_error: Option<String>) {
    let directory = agent.starter.state.life(id);
    let boot_id = agent.state.boot_id.clone();
    let at_ms = agent.config.clock.wall_ms();
    let Some(life) = agent.state.lives.get_mut(id) else { return };
    let stopped = start_error.is_none();
    let message = if stopped { "stopped before it was started here".to_owned() } else { String::new() };
    let exit = ExitRecord { start_error, stopped, message, at_ms, ..ExitRecord::default() };
    life.record.boot_id = boot_id;
    life.shim = Shim::Gone;
    // What cannot be written is known until this agent ends, and told before that.
    if let Err(error) = life_end_write(&directory, &mut life.record, exit) {
        tracing::warn!(life = %id, %error, "cannot write down its end");
    }
}

fn stop(agent: &mut Agent, id: LifeId, order: StopOrder) {
    let directory = agent.starter.state.life(&id);
    let Some(life) = agent.state.lives.get_mut(&id) else { return };
    life.busy = true;
    let shim = life.record.shim;
    let events = agent.starter.events.clone();
    tokio::task::spawn_blocking(move || {
        let written = json_write(&directory, STOP_FILE, &order, Durability::Process);
        let signal = match written {
            Ok(()) => Signal::USR1,
            Err(error) => {
                tracing::warn!(life = %id, %error, "cannot write how it is to stop: it stops as its spec says");
                Signal::USR2
            }
        };
        // It looks by itself too, if rarely; and where it has ended, that is seen.
        if let Some(shim) = shim.or_else(|| shim_await(&directory)) {
            let _ = shim.signal(signal);
        }
        events.send(Event::Done(id, Done::Stop(order)))
    });
}

/// The shim of a life that was just started and has not written yet who it is.
fn shim_await(directory: &Path) -> Option<ProcessId> {
    for _ in 0..SHIM_LOOKS {
        if let Some(shim) = record_read(directory).and_then(|record| record.shim) {
            return Some(shim);
        }
        std::thread::sleep(SHIM_PAUSE);
    }
    None
}

fn forget(agent: &mut Agent, id: LifeId) {
    let Some(life) = agent.state.lives.get_mut(&id) else { return };
    life.busy = true;
    agent.starter.watch.remove(&id);
    let (state, events) = (agent.starter.state.clone(), agent.starter.events.clone());
    tokio::task::spawn_blocking(move || {
        let forgotten = state.forget(&id);
        if forgotten.is_err() {
            std::thread::sleep(RETRY_PAUSE);
        }
        events.send(Event::Done(id, Done::Forget(forgotten)))
    });
}

fn probe_begin(agent: &mut Agent, id: &LifeId) {
    let clock = agent.clock();
    let Some(life) = agent.state.lives.get_mut(id) else { return };
    let (Some(check), Some(assignment)) = (life.check().cloned(), life.assignment.clone()) else { return };
    life.probed = true;
    let target = probe::Target {
        id: id.clone(),
        check,
        ports: assignment.ports.clone(),
        host: agent.starter.ground.host.clone(),
        directory: agent.starter.state.life(id),
        program: agent.starter.program.clone(),
        health: life.health,
        started_ms: life.record.started_ms.unwrap_or(0),
    };
    let task = tokio::spawn(probe::run(target, clock, agent.starter.events.clone()));
    agent.local.entry(id.clone()).or_default().probe = Some(task.abort_handle());
}

/// Removes the node's own cgroups, once nothing of ours is left in them; whether that was so.
pub(super) fn cgroups_remove(base: &Base) -> bool {
    // In use by a shim that is just ending: the next agent, or a guard, removes it.
    let removed = base.leaf(SHIMS_LEAF, Limits::default()).remove().is_ok();
    base.remove(CGROUP_LEVELS);
    removed
}
