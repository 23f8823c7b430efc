//! The machine that the agent runs on: real shims, files and cgroups.

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

use super::resize::resize_apply;
use super::{order, sample};
use crate::attempt::AttemptId;
use crate::decide::retention::{Retention, excess};
use crate::disk::{
    AttemptFiles, HEALTH_FILE, SIGNALS_FILE, attempt_begin, attempt_end_write, attempt_load, record_read,
};
use crate::event::{Event, OrderDone};
use crate::machine::{
    AttemptResize, AttemptStart, Machine, MeasurePlace, ProbeTarget, SignalSent, TaskToken,
};
use crate::shim::{RETRY_PAUSE, Starter, shim_adopt};
use crate::{facts, probe};

/// How often the agent looks for the first record of a new shim.
const SHIM_LOOKS: u32 = 400;
const SHIM_PAUSE: Duration = Duration::from_millis(5);

/// The machine that the agent runs on.
pub(super) struct RealMachine {
    /// Starts shims; knows the state directory.
    pub(super) starter: Starter,
    /// Where the kernel shows the free resources of the machine.
    pub(super) proc: std::path::PathBuf,
    /// Where packages are installed.
    pub(super) packages: Option<std::path::PathBuf>,
}

impl Machine for RealMachine {
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

    fn start(&self, id: AttemptId, start: AttemptStart) {
        tokio::spawn(self.starter.clone().start(id, start));
    }

    fn tokens_replace(&self, id: AttemptId, tokens: Vec<TaskToken>) {
        let starter = self.starter.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = starter.tokens_replace(&id, tokens) {
                tracing::warn!(attempt = %id, %error, "the tokens of an attempt cannot be replaced yet");
                starter.events.send(Event::TokensUnwritten(id)).ok();
            }
        });
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

    fn resize(&self, id: AttemptId, resize: AttemptResize) {
        let (directory, events) = (self.starter.state.attempt(&id), self.starter.events.clone());
        let context = Arc::clone(&self.starter.context);
        tokio::task::spawn_blocking(move || {
            let record = resize_apply(resize, &context.cores, &directory);
            events.send(Event::Done(id, OrderDone::Resized(Box::new(record))))
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

    fn measure(&self, places: Vec<MeasurePlace>) {
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
            for id in excess(ended, limits, now_ms) {
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
