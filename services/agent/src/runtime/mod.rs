//! The main task of the agent. It owns the state, takes events, asks [`crate::decide`] for actions, starts these, and
//! reports to the gateway.

mod agent;
mod confine;
mod identity;
mod open;
mod order;
mod own_record;
mod real_machine;
mod resize;
mod sample;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::config::AgentConfig;
use crate::error::AgentError;
use crate::event::Event;
use crate::machine::{Machine, MachineEvents, MachineFacts};
use crate::session;
pub use open::tasks_home;

/// Interval of checks for due reports.
const REPORT_LOOK: Duration = Duration::from_millis(500);
/// Interval of checks for logs to remove.
const RETENTION_LOOK: Duration = Duration::from_secs(60);

/// Runs a node's agent until `shutdown`. Tasks keep running afterwards.
///
/// # Errors
/// It cannot start: see [`AgentError`]. Once it runs, it continues whatever happens around it.
pub async fn run(config: AgentConfig, shutdown: CancellationToken) -> Result<(), AgentError> {
    let (events, received) = mpsc::unbounded_channel();
    let agent = open::agent_open(config, events.clone())?;
    serve(agent, events, received, shutdown).await;
    Ok(())
}

/// Runs a node's agent on a simulated machine until `shutdown`: the same agent, but it touches nothing of the real
/// computer. Logs and commands are not simulated.
///
/// # Errors
/// As [`run`].
pub async fn run_on(
    config: AgentConfig,
    facts: MachineFacts,
    machine: impl FnOnce(MachineEvents) -> Arc<dyn Machine>,
    shutdown: CancellationToken,
) -> Result<(), AgentError> {
    let (events, received) = mpsc::unbounded_channel();
    let machine = machine(MachineEvents::new(events.clone()));
    let agent = open::agent_simulated(config, facts, machine, events.clone())?;
    serve(agent, events, received, shutdown).await;
    Ok(())
}

/// Boxed, so that it is compiled here and not again in each program.
fn serve(
    agent: agent::Agent,
    events: mpsc::UnboundedSender<Event>,
    received: mpsc::UnboundedReceiver<Event>,
    shutdown: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(events_serve(agent, events, received, shutdown))
}

async fn events_serve(
    mut agent: agent::Agent,
    events: mpsc::UnboundedSender<Event>,
    mut received: mpsc::UnboundedReceiver<Event>,
    shutdown: CancellationToken,
) {
    let session = tokio::spawn(session::run(agent.session_settings(), events, shutdown.clone()));
    let intervals = agent.config.intervals;
    let mut sample = interval(intervals.sample);
    let mut look = interval(intervals.look);
    let mut report = interval(REPORT_LOOK);
    let mut retention = interval(RETENTION_LOOK);
    for timer in [&mut sample, &mut look, &mut report, &mut retention] {
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        let due = agent.step_due();
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = tokio::time::sleep(due.unwrap_or_default()), if due.is_some() => {}
            event = received.recv() => {
                // This task holds a sender itself, so the channel never closes.
                let Some(event) = event else { break };
                agent.event(event);
            }
            _ = sample.tick() => agent.sample_begin(),
            _ = look.tick() => agent.look(),
            _ = report.tick() => {}
            _ = retention.tick() => agent.retention_begin(),
        }
        while let Ok(event) = received.try_recv() {
            agent.event(event);
        }
        agent.step();
    }
    agent.close();
    session.abort();
}
