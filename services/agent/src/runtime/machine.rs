//! The interface between an agent and its machine: it starts, stops and finds shims, and keeps files. The agent's own
//! machine is [`Real`]. A simulation of a whole system brings another one, and everything above stays the same.
//!
//! No method blocks. Slow actions report their result through [`MachineEvents`].

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1;
use borough_shim::cgroup::Leaf;
use borough_shim::file::{Durability, json_read, json_write};
use borough_shim::process::ProcessId;
use borough_shim::record::{AttemptRecord, ExitRecord};
use borough_shim::spec::{SPEC_FILE, STOP_FILE, Spec, StopOrder};
use futures::future::BoxFuture;
use rustix::process::Signal;
use tokio::sync::mpsc;

use super::event::OrderDone;
use super::sample::{self, SamplePlace};
use super::start::{RETRY_PAUSE, Starter, shim_adopt};
use super::{Event, order};
use crate::attempt::AttemptId;
use crate::config::Retention;
use crate::decide;
use crate::disk::{
    AttemptFiles, HEALTH_FILE, SIGNALS_FILE, attempt_begin, attempt_end_write, attempt_load, record_read,
};
use crate::facts;
use crate::probe::{self, ProbeTarget};
use crate::serve::SignalSent;

/// How often the agent looks for the first record of a new shim.
const SHIM_LOOKS: u32 = 400;
const SHIM_PAUSE: Duration = Duration::from_millis(5);

/// The machine of one agent.
pub trait Machine: Send + Sync {
    /// Attempts whose files are on the disk and were not set aside.
    ///
    /// # Errors
    /// The disk cannot be read; the agent does not start.
    fn attempts(&self) -> io::Result<Vec<AttemptId>>;
    /// The stored state of an attempt. From here on, changes of its record are reported.
    fn load(&self, id: &AttemptId) -> AttemptFiles;
    /// The cgroup that the attempt was started in.
    fn leaf(&self, id: &AttemptId) -> Leaf;
    /// The record that the attempt's shim has written; absent before the first.
    fn record(&self, id: &AttemptId) -> Option<AttemptRecord>;
    /// Restores the files of an attempt that were set aside. Returns true if there were any.
    fn recall(&self, id: &AttemptId) -> bool;
    /// Makes the files of an attempt that is over before its start.
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
    /// Starts a shim on the cores `cpus` (none: anywhere). Reports `started` or `not_started`, later `shim_ended`.
    fn start(&self, id: AttemptId, assignment: Arc<v1::Assignment>, cpus: Vec<u32>);
    /// Orders a shim to end its attempt, in a form that survives a restart of the agent. Reports `stop_written`.
    fn stop(&self, id: AttemptId, shim: Option<ProcessId>, order: StopOrder);
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
    fn measure(&self, places: Vec<SamplePlace>);
    /// Begins to remove logs beyond retention at `now_ms`.
    fn retention(&self, limits: Retention, now_ms: i64);
    /// Removes the agent's own files and cgroups, once nothing runs. Returns true on success.
    fn close(&self) -> bool;
}

/// Reports from a machine to its agent. Clones report to the same agent. After its end, reports are lost.
#[derive(Clone, Debug)]
pub struct MachineEvents(pub(super) mpsc::UnboundedSender<Event>);

impl MachineEvents {
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

    /// Reports that an attempt could not be started; the reason is for people.
    pub fn not_started(&self, id: AttemptId, reason: String) {
        self.send(Event::Done(id, OrderDone::NotStarted(reason)));
    }

    /// Reports that the order to stop is on the disk.
    pub fn stop_written(&self, id: AttemptId, order: StopOrder) {
        self.send(Event::Done(id, OrderDone::Stop(order)));
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

/// The machine that the agent runs on.
pub(super) struct Real {
    /// Starts shims; knows the state directory.
    pub(super) starter: Starter,
    /// Where the kernel shows the free resources of the machine.
    pub(super) proc: std::path::PathBuf,
    /// Where packages are installed.
    pub(super) packages: Option<std::path::PathBuf>,
}

impl Machine for Real {
    fn attempts(&self) -> io::Result<Vec<AttemptId>> {
        self.starter.state.attempts()
    }

    fn load(&self, id: &AttemptId) -> AttemptFiles {
        let directory = self.starter.state.attempt(id);
        let mut files = attempt_load(&directory);
        // Watches before reading, so that no change is missed in between. Every change leads to another read.
        self.starter.watch.add(id, &directory);
        if let Some(record) = record_read(&directory) {
            files.attempt.record = record;
        }
        files
    }

    fn leaf(&self, id: &AttemptId) -> Leaf {
        let spec = json_read::<Spec>(&self.starter.state.attempt(id), SPEC_FILE).unwrap_or_default();
        spec.map(|spec| spec.cgroup).unwrap_or_default()
    }

    fn record(&self, id: &AttemptId) -> Option<AttemptRecord> {
        record_read(&self.starter.state.attempt(id))
    }

    fn recall(&self, id: &AttemptId) -> bool {
        self.starter.state.recall(id)
    }

    fn decline(&self, id: &AttemptId) -> io::Result<()> {
        attempt_begin(&self.starter.state, id, &v1::Assignment::default(), None)
    }

    fn end_write(&self, id: &AttemptId, record: &mut AttemptRecord, exit: ExitRecord) -> io::Result<()> {
        attempt_end_write(&self.starter.state.attempt(id), record, exit)
    }

    fn health_write(&self, id: &AttemptId, health: v1::Health) {
        let directory = self.starter.state.attempt(id);
        let _ = json_write(&directory, HEALTH_FILE, &i32::from(health), Durability::Process);
    }

    fn adopt(&self, shim: ProcessId, id: &AttemptId) -> bool {
        shim_adopt(shim, id, &self.starter.events)
    }

    fn start(&self, id: AttemptId, assignment: Arc<v1::Assignment>, cpus: Vec<u32>) {
        tokio::spawn(self.starter.clone().start(id, assignment, cpus));
    }

    fn stop(&self, id: AttemptId, shim: Option<ProcessId>, order: StopOrder) {
        let (directory, events) = (self.starter.state.attempt(&id), self.starter.events.clone());
        tokio::task::spawn_blocking(move || {
            let written = json_write(&directory, STOP_FILE, &order, Durability::Process);
            let signal = match written {
                Ok(()) => Signal::USR1,
                Err(error) => {
                    tracing::warn!(attempt = %id, %error, "the order to stop cannot be written: the attempt stops by its spec");
                    Signal::USR2
                }
            };
            // The shim also reads the order by itself, if rarely. If it has ended, that is noticed.
            if let Some(shim) = shim.or_else(|| shim_await(&directory)) {
                let _ = shim.signal(signal);
            }
            events.send(Event::Done(id, OrderDone::Stop(order)))
        });
    }

    fn clean(&self, id: AttemptId) {
        tokio::spawn(self.starter.clone().clean(id));
    }

    fn forget(&self, id: AttemptId) {
        self.starter.watch.remove(&id);
        let (state, events) = (self.starter.state.clone(), self.starter.events.clone());
        tokio::task::spawn_blocking(move || {
            let forgotten = state.forget(&id);
            if forgotten.is_err() {
                std::thread::sleep(RETRY_PAUSE);
            }
            events.send(Event::Done(id, OrderDone::Forget(forgotten)))
        });
    }

    fn ask<'a>(&'a self, target: &'a ProbeTarget) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(probe::ask(target))
    }

    fn signal(&self, task: ProcessId, signal: Signal) -> io::Result<()> {
        task.signal(signal)
    }

    fn signals_read(&self, id: &AttemptId) -> Vec<SignalSent> {
        json_read(&self.starter.state.attempt(id), SIGNALS_FILE).ok().flatten().unwrap_or_default()
    }

    fn signals_write(&self, id: &AttemptId, sent: &[SignalSent]) -> io::Result<()> {
        json_write(&self.starter.state.attempt(id), SIGNALS_FILE, &sent, Durability::Process)
    }

    fn measure(&self, places: Vec<SamplePlace>) {
        let events = self.starter.events.clone();
        let (proc, state_dir) = (self.proc.clone(), self.starter.state.root.clone());
        let packages = self.packages.clone();
        tokio::task::spawn_blocking(move || {
            let packages = packages.as_deref().map(facts::packages).unwrap_or_default();
            // Without a receiver the agent is ending.
            let (left, load) = (facts::reading(&proc, &state_dir), Box::new(facts::load_reading(&proc)));
            events.send(Event::Read(left, load, packages)).ok();
            if !places.is_empty() {
                events.send(Event::Sampled(sample::measure(places))).ok();
            }
        });
    }

    fn retention(&self, limits: Retention, now_ms: i64) {
        let state = self.starter.state.clone();
        tokio::task::spawn_blocking(move || {
            let ended = state.ended_list().unwrap_or_default();
            for id in decide::retention::excess(ended, limits, now_ms) {
                if let Err(error) = state.ended_remove(&id) {
                    tracing::warn!(attempt = %id, %error, "the logs of an attempt cannot be removed");
                }
            }
        });
    }

    fn close(&self) -> bool {
        order::cgroups_remove(&self.starter.context.base)
    }
}

/// The shim of an attempt that was just started and has not written its first record.
fn shim_await(directory: &std::path::Path) -> Option<ProcessId> {
    for _ in 0..SHIM_LOOKS {
        if let Some(shim) = record_read(directory).and_then(|record| record.shim) {
            return Some(shim);
        }
        std::thread::sleep(SHIM_PAUSE);
    }
    None
}

/// The facts of a simulated machine, which the agent would otherwise find by itself.
#[derive(Clone, Debug, Default)]
pub struct MachineFacts {
    pub boot_id: String,
    /// Its capacity for tasks.
    pub capacity: v1::Resources,
    pub attributes: BTreeMap<String, String>,
}
