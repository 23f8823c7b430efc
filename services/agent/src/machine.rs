//! The interface between an agent and its machine: it starts, stops and finds shims, and keeps files. A simulation of a
//! whole system brings another machine than the agent's own, and everything above stays the same.
//!
//! No method blocks. Slow actions report their result through [`MachineEvents`].

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use borough_proto::v1;
use borough_shim::cgroup::Leaf;
use borough_shim::process::ProcessId;
use borough_shim::record::{AttemptRecord, ExitRecord};
use borough_shim::spec::StopOrder;
use futures::future::BoxFuture;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::attempt::AttemptId;
pub use crate::decide::resize::ResizedAmounts;
use crate::decide::retention::Retention;
pub use crate::decide::{AttemptState, ResizeRecord, ResizeRefusal, ShimState, TaskToken};
pub use crate::disk::AttemptFiles;
pub use crate::event::StartRefused;
use crate::event::{Event, OrderDone};
use crate::listener::{KnownSocket, Owner};

/// The machine of one agent.
pub trait Machine: Send + Sync {
    /// Attempts whose files are on the disk and were not set aside.
    ///
    /// # Errors
    /// The disk cannot be read; the agent does not start.
    fn attempts(&self) -> io::Result<Vec<AttemptId>>;
    /// The stored state of an attempt. The machine reports changes of its record from now on.
    fn load(&self, id: &AttemptId) -> AttemptFiles;
    /// The cgroup that the attempt was started in.
    fn leaf(&self, id: &AttemptId) -> Leaf;
    /// The record that the attempt's shim has written; absent before the first.
    fn record(&self, id: &AttemptId) -> Option<AttemptRecord>;
    /// Restores the files of an attempt that were set aside. Returns true if there were any.
    fn recall(&self, id: &AttemptId) -> bool;
    /// Makes the files of an attempt that never starts here.
    ///
    /// # Errors
    /// The disk cannot be written.
    fn decline(&self, id: &AttemptId) -> io::Result<()>;
    /// Completes the record of an attempt without a shim.
    ///
    /// # Errors
    /// The disk cannot be written; `record` is complete anyway.
    fn end_write(&self, id: &AttemptId, record: &mut AttemptRecord, exit: ExitRecord) -> io::Result<()>;
    /// Stores the result of probes. A lost value costs one more probe after a restart.
    fn health_write(&self, id: &AttemptId, health: v1::Health);
    /// Waits for the end of a shim that an earlier agent has started. Returns false if it has ended.
    fn adopt(&self, shim: ProcessId, id: &AttemptId) -> bool;
    /// Starts a shim. Reports `started` or `not_started`, later `shim_ended`.
    fn start(&self, id: AttemptId, start: AttemptStart);
    /// Replaces the tokens of an attempt that runs. A machine without a disk has none.
    fn tokens_replace(&self, _id: AttemptId, _tokens: Vec<TaskToken>) {}
    /// Orders a shim to end its attempt, in a form that survives a restart of the agent. Reports `stop_written`.
    fn stop(&self, id: AttemptId, shim: Option<ProcessId>, order: StopOrder);
    /// Gives a running attempt other amounts, and records the result. Reports `resized`.
    fn resize(&self, id: AttemptId, resize: AttemptResize);
    /// Ends the processes that a dead shim has left. Reports `cleaned`.
    fn clean(&self, id: AttemptId);
    /// Sets the files of an attempt aside. Reports `forgotten`.
    fn forget(&self, id: AttemptId);
    /// Probes a task once.
    fn ask<'a>(&'a self, target: &'a ProbeTarget) -> BoxFuture<'a, Result<(), String>>;
    /// Sends a signal to a task's own process.
    ///
    /// # Errors
    /// It has ended, or the kernel refuses.
    fn signal(&self, task: ProcessId, signal: Signal) -> io::Result<()>;
    /// The signals that were sent to an attempt for requests, as [`Machine::signals_write`] has stored them. A machine
    /// without a disk has none.
    fn signals_read(&self, _id: &AttemptId) -> Vec<SignalSent> {
        Vec::new()
    }
    /// Stores the signals of an attempt, so that a restarted agent knows them. They must survive the agent, but need
    /// not survive the machine.
    ///
    /// # Errors
    /// The disk cannot be written.
    fn signals_write(&self, _id: &AttemptId, _sent: &[SignalSent]) -> io::Result<()> {
        Ok(())
    }
    /// Begins to measure attempts and the machine.
    fn measure(&self, places: Vec<MeasurePlace>);
    /// Begins to remove logs beyond retention at `now_ms`.
    fn retention(&self, limits: Retention, now_ms: i64);
    /// Removes the agent's own files and cgroups, once nothing runs. Returns true on success.
    fn close(&self) -> bool;
}

/// The channel from a machine to its agent. Reports after the agent's end are lost.
#[derive(Clone, Debug)]
pub struct MachineEvents(mpsc::UnboundedSender<Event>);

impl MachineEvents {
    pub(crate) fn new(events: mpsc::UnboundedSender<Event>) -> Self {
        Self(events)
    }

    fn send(&self, event: Event) {
        // The agent ends: nobody needs the event.
        let _ = self.0.send(event);
    }

    /// Reports that the record of an attempt may have changed.
    pub fn changed(&self, id: AttemptId) {
        self.send(Event::Changed(id));
    }

    /// Reports that the shim of an attempt has ended.
    pub fn shim_ended(&self, id: AttemptId) {
        self.send(Event::ShimEnded(id));
    }

    /// Reports that the shim of an attempt runs, in this cgroup.
    pub fn started(&self, id: AttemptId, leaf: Leaf) {
        self.send(Event::Done(id, OrderDone::Started(Box::new(leaf))));
    }

    /// Reports that an attempt could not be started.
    pub fn not_started(&self, id: AttemptId, refused: StartRefused) {
        self.send(Event::Done(id, OrderDone::NotStarted(refused)));
    }

    /// Reports that the order to stop is on the disk.
    pub fn stop_written(&self, id: AttemptId, order: StopOrder) {
        self.send(Event::Done(id, OrderDone::Stop(order)));
    }

    /// Reports that an order to resize an attempt was carried out or refused, and is recorded.
    pub fn resized(&self, id: AttemptId, record: ResizeRecord) {
        self.send(Event::Done(id, OrderDone::Resized(Box::new(record))));
    }

    /// Reports that the processes of a dead shim were ended, if that was possible.
    pub fn cleaned(&self, id: AttemptId) {
        self.send(Event::Done(id, OrderDone::Clean));
    }

    /// Reports that the files of an attempt are set aside, or could not be.
    pub fn forgotten(&self, id: AttemptId, outcome: io::Result<()>) {
        self.send(Event::Done(id, OrderDone::Forget(outcome)));
    }
}

/// What an attempt is started with.
#[derive(Clone, Debug)]
pub struct AttemptStart {
    pub assignment: Arc<v1::Assignment>,
    /// Its cores; empty: any.
    pub cpus: Vec<u32>,
    /// A token for each identity that it asks for.
    pub tokens: Vec<TaskToken>,
}

/// An order to resize one attempt, and what the machine needs for it.
#[derive(Clone, Debug)]
pub struct AttemptResize {
    /// Names the order.
    pub order: u64,
    /// The orders before.
    pub record: ResizeRecord,
    /// What it has.
    pub before: ResizedAmounts,
    /// What it is to have.
    pub after: ResizedAmounts,
    pub place: MeasurePlace,
    /// Its own process, and the number of the signal that it gets afterwards.
    pub signal: Option<(ProcessId, i32)>,
}

/// Where to measure one attempt.
#[derive(Clone, Debug)]
pub struct MeasurePlace {
    pub id: AttemptId,
    pub leaf: Leaf,
    /// Its shim's process number, for hosts without cgroups.
    pub shim: Option<u32>,
}

/// A task to probe.
#[derive(Clone, Debug)]
pub struct ProbeTarget {
    pub id: AttemptId,
    /// The health check. Without one, the probe only verifies that no other process listens on the task's ports.
    pub check: v1::HealthCheck,
    /// Its processes. One of them must be the one that answers.
    pub owner: Owner,
    /// The listener that earlier probes found.
    pub known: Arc<KnownSocket>,
    /// How long it must run before it is healthy; 0: `HEALTHY_AFTER_MS`.
    pub healthy_after_ms: u64,
    pub ports: Vec<v1::Port>,
    pub host: String,
    pub directory: PathBuf,
    /// The shim's program, for commands.
    pub program: PathBuf,
    /// Its last known health.
    pub health: v1::Health,
    /// When it started: wall time, milliseconds since 1970.
    pub started_ms: i64,
}

/// A signal that was sent, or tried, for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalSent {
    pub request_id: String,
    pub signal: i32,
    /// Why it was not sent; empty if it was.
    pub error: String,
}

/// What an agent reports of its machine. A simulation supplies it; otherwise the agent finds it.
#[derive(Clone, Debug, Default)]
pub struct MachineFacts {
    pub boot_id: String,
    /// Its capacity for tasks.
    pub capacity: v1::Resources,
    pub attributes: BTreeMap<String, String>,
}
