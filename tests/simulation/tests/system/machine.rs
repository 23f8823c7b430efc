//! A machine without hardware: its disk outlives the agent and reboots, its processes outlive only the agent. It
//! replaces shims and the file system; the agent above it is the production one.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use borough_agent::machine::{
    AttemptFiles, AttemptResize, AttemptStart, AttemptState, Machine, MachineEvents, MeasurePlace,
    ProbeTarget, ResizeRecord, ResizeRefusal, ShimState,
};
use borough_agent::{AttemptId, Credential, Retention};
use borough_kv::env::Rng;
use borough_model::node::AgentKey;
use borough_proto::v1;
use borough_shim::cgroup::Leaf;
use borough_shim::process::ProcessId;
use borough_shim::record::{AttemptRecord, ExitRecord};
use borough_shim::spec::StopOrder;
use borough_testkit::below;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::Signal;

use crate::jobs::CRASHES;
use crate::processes::Processes;
use crate::trace::Trace;

const SIGTERM: i32 = 15;
/// Milliseconds after which a stopped process has ended, or is killed.
const STOP_MAX_MS: u64 = 800;
/// One process group in so many takes a while to end after its process has exited.
const RELEASED_LATE: u64 = 8;
const RELEASED_LATE_MS: u64 = 1_500;
/// Milliseconds after which a crashing version has ended. It is healthy only after a second.
const CRASH_MAX_MS: u64 = 800;
/// Milliseconds after the trouble for which crashing versions still crash, so that rollouts fail in the calm too. After
/// that they run: a job whose rollout was paused, or does not go back, comes to rest.
const CRASH_CALM_MS: u64 = 15_000;
/// Milliseconds after which the agent gets the report that files could not be set aside.
const FORGET_AGAIN_MS: u64 = 1_000;

/// The content of a disk.
#[derive(Clone, Default)]
struct Disk {
    /// The id of the agent's state directory.
    durable: u128,
    attempts: BTreeMap<AttemptId, File>,
    ended: BTreeMap<AttemptId, AttemptRecord>,
    /// Nothing can be written.
    full: bool,
}

#[derive(Clone, Default)]
struct File {
    assignment: Option<Arc<v1::Assignment>>,
    record: AttemptRecord,
    stop: Option<StopOrder>,
    resize: ResizeRecord,
    health: v1::Health,
    boot_id: String,
}

/// The next step of a process, with its time.
#[derive(Clone, Debug)]
enum Due {
    Started,
    Exit(i32),
    Stopped,
    /// Its group has ended, and its files record that.
    Released,
    /// Its shim was gone: the agent has cleaned up.
    Cleaned,
    /// Its files could not be set aside.
    Kept,
}

struct State {
    disk: Disk,
    boot: u64,
    due: BTreeMap<(u64, u64), (AttemptId, Due)>,
    sequence: u64,
    events: Option<MachineEvents>,
    now_ms: u64,
    /// From then on only batch processes and crashing ones end by themselves.
    calm_ms: Option<u64>,
}

/// One machine. Clones share it.
#[derive(Clone)]
pub(crate) struct SimMachine {
    name: Arc<str>,
    state: Arc<Mutex<State>>,
    processes: Processes,
    rng: Arc<dyn Rng>,
    trace: Trace,
}

impl SimMachine {
    /// A new machine with an empty disk.
    pub(crate) fn new(name: &str, processes: &Processes, rng: Arc<dyn Rng>, trace: &Trace) -> Self {
        let durable = (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64());
        let state = State {
            disk: Disk { durable, ..Disk::default() },
            boot: 1,
            due: BTreeMap::new(),
            sequence: 0,
            events: None,
            now_ms: 0,
            calm_ms: None,
        };
        Self {
            name: name.into(),
            state: Arc::new(Mutex::new(state)),
            processes: processes.clone(),
            rng,
            trace: trace.clone(),
        }
    }

    /// Another machine with a copy of this one's disk and nothing running, as from an image of it.
    pub(crate) fn cloned(&self, name: &str, rng: Arc<dyn Rng>) -> Self {
        let other = Self::new(name, &self.processes, rng, &self.trace);
        {
            let (state, mut copy) = (self.state.lock(), other.state.lock());
            copy.disk = state.disk.clone();
            copy.boot = state.boot + 1_000;
            copy.now_ms = state.now_ms;
        }
        other
    }

    /// Its agent's proof of identity: by its disk, which a copy of the machine shares, and by the machine, which is
    /// unique.
    pub(crate) fn credential(&self) -> Credential {
        let key = AgentKey(self.state.lock().disk.durable);
        Credential { key, machine: format!("machine-of-{}", self.name) }
    }

    pub(crate) fn boot_id(&self) -> String {
        format!("boot-{:08x}", self.state.lock().boot)
    }

    /// Its agent. Later events are reported to `events`.
    pub(crate) fn agent(&self, events: MachineEvents) -> Arc<dyn Machine> {
        self.state.lock().events = Some(events);
        Arc::new(self.clone())
    }

    /// The agent has died; processes continue.
    pub(crate) fn agent_gone(&self) {
        self.state.lock().events = None;
    }

    /// Its disk is full from now on, or has space again.
    pub(crate) fn disk_full(&self, full: bool) {
        self.state.lock().disk.full = full;
    }

    /// From now on services run for good.
    pub(crate) fn calm(&self) {
        let mut state = self.state.lock();
        state.calm_ms = Some(state.now_ms);
    }

    /// Loses its processes and its agent, and begins again; the disk stays.
    pub(crate) fn reboot(&self) {
        let mut state = self.state.lock();
        state.boot += 1;
        state.due.clear();
        state.events = None;
        let attempts: Vec<AttemptId> = state.disk.attempts.keys().cloned().collect();
        drop(state);
        attempts.iter().for_each(|id| self.processes.ended(id, &self.name));
    }

    /// Whether a process of this attempt runs here.
    pub(crate) fn runs(&self, id: &AttemptId) -> bool {
        let boot = self.boot_id();
        let state = self.state.lock();
        state.disk.attempts.get(id).is_some_and(|file| {
            let record = &file.record;
            record.boot_id == boot && record.started_ms.is_some() && record.exit.is_none()
        })
    }

    /// Carries out what is due up to `now_ms`.
    pub(crate) fn step(&self, now_ms: u64, wall_ms: i64) {
        loop {
            let (id, due) = {
                let mut state = self.state.lock();
                state.now_ms = now_ms;
                match state.due.first_entry() {
                    Some(entry) if entry.key().0 <= now_ms => entry.remove(),
                    _ => return,
                }
            };
            self.happen(&id, due, wall_ms);
        }
    }

    fn later(&self, state: &mut State, wait_ms: u64, id: &AttemptId, due: Due) {
        state.sequence += 1;
        let key = (state.now_ms + wait_ms, state.sequence);
        state.due.insert(key, (id.clone(), due));
    }

    fn happen(&self, id: &AttemptId, due: Due, wall_ms: i64) {
        let name = &self.name;
        self.trace.note(format_args!("{name} process {id} {due:?}"));
        let boot_id = self.boot_id();
        let mut state = self.state.lock();
        let calm = state.calm_ms.is_some();
        let crash = state.calm_ms.is_none_or(|calm_ms| state.now_ms < calm_ms + CRASH_CALM_MS);
        if matches!(due, Due::Kept) {
            let events = state.events.clone();
            drop(state);
            return events
                .into_iter()
                .for_each(|events| events.forgotten(id.clone(), Err(io::ErrorKind::StorageFull.into())));
        }
        let Some(file) = state.disk.attempts.get_mut(id) else { return };
        let over = file.record.exit.is_some();
        let crashes = crash && commands(file, CRASHES);
        match due {
            Due::Started if over => return,
            Due::Started => {
                let pid = u32::try_from(2 + below(&*self.rng, 1_000_000)).unwrap();
                file.record.task = Some(ProcessId { pid, start_ticks: 1 });
                file.record.started_ms = Some(wall_ms);
                let batch = is_batch(file);
                let chance = below(&*self.rng, 10);
                self.processes.begun(id, name);
                if crashes {
                    let wait_ms = 100 + below(&*self.rng, CRASH_MAX_MS - 100);
                    self.later(&mut state, wait_ms, id, Due::Exit(1));
                } else if batch || (chance < 4 && !calm) {
                    let code = i32::from(!calm && chance < 2);
                    let wait_ms = 300 + below(&*self.rng, 6_000);
                    self.later(&mut state, wait_ms, id, Due::Exit(code));
                }
            }
            Due::Exit(_) | Due::Stopped if over => return,
            Due::Exit(_) if calm && !crashes && file.stop.is_none() && !is_batch(file) => return,
            Due::Exit(code) => {
                file.end(ExitRecord { code: Some(code), at_ms: wall_ms, ..ExitRecord::default() })
            }
            Due::Stopped => {
                let signal = Some(SIGTERM);
                file.end(ExitRecord { signal, stopped: true, at_ms: wall_ms, ..ExitRecord::default() });
            }
            Due::Kept => return,
            Due::Released => {
                file.record.released_ms.get_or_insert(wall_ms);
            }
            Due::Cleaned => file.clean(wall_ms, boot_id),
        }
        if matches!(due, Due::Exit(_) | Due::Stopped) {
            let wait_ms = if below(&*self.rng, RELEASED_LATE) == 0 { RELEASED_LATE_MS } else { 5 };
            self.later(&mut state, wait_ms, id, Due::Released);
        }
        let (ended, cleaned) = (
            state.disk.attempts.get(id).is_some_and(|file| file.record.released_ms.is_some()),
            matches!(due, Due::Cleaned),
        );
        let events = state.events.clone();
        drop(state);
        if ended {
            self.processes.ended(id, name);
        }
        let Some(events) = events else { return };
        events.changed(id.clone());
        if cleaned {
            events.cleaned(id.clone());
        } else if ended {
            events.shim_ended(id.clone());
        }
    }

    fn full(&self) -> io::Result<()> {
        match self.state.lock().disk.full {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

fn is_batch(file: &File) -> bool {
    commands(file, "batch")
}

/// Whether the command of an attempt has this part.
fn commands(file: &File, part: &str) -> bool {
    let spec = file.assignment.as_ref().and_then(|of| of.spec.as_ref());
    spec.is_some_and(|spec| spec.command.iter().any(|own| own == part))
}

impl File {
    /// Ends the remaining processes after the shim is gone.
    fn clean(&mut self, wall_ms: i64, boot_id: String) {
        let message = "its shim was gone".to_owned();
        let exit = ExitRecord { message, at_ms: wall_ms, ..ExitRecord::default() };
        self.record.exit.get_or_insert(exit);
        self.record.released_ms.get_or_insert(wall_ms);
        self.record.boot_id = boot_id;
    }

    /// It has exited. The rest of its group ends later.
    fn end(&mut self, exit: ExitRecord) {
        self.record.exit = Some(exit);
    }
}

impl Machine for SimMachine {
    fn attempts(&self) -> io::Result<Vec<AttemptId>> {
        Ok(self.state.lock().disk.attempts.keys().cloned().collect())
    }

    fn load(&self, id: &AttemptId) -> AttemptFiles {
        let file = self.state.lock().disk.attempts.get(id).cloned().unwrap_or_default();
        let shim = if file.record.boot_id.is_empty() { ShimState::None } else { ShimState::Gone };
        let attempt = AttemptState {
            assignment: file.assignment,
            record: file.record,
            shim,
            stop: file.stop,
            health: file.health,
            resize: file.resize,
            ..AttemptState::default()
        };
        AttemptFiles { attempt, boot_id: Some(file.boot_id).filter(|id| !id.is_empty()) }
    }

    fn leaf(&self, _: &AttemptId) -> Leaf {
        Leaf::default()
    }

    fn record(&self, id: &AttemptId) -> Option<AttemptRecord> {
        let state = self.state.lock();
        let record = state.disk.attempts.get(id).map(|file| file.record.clone());
        record.filter(|record| !record.boot_id.is_empty())
    }

    fn recall(&self, id: &AttemptId) -> bool {
        let mut state = self.state.lock();
        let Some(record) = state.disk.ended.remove(id) else { return false };
        let file = File { record, ..File::default() };
        state.disk.attempts.insert(id.clone(), file);
        true
    }

    fn decline(&self, id: &AttemptId) -> io::Result<()> {
        self.full()?;
        self.state.lock().disk.attempts.insert(id.clone(), File::default());
        Ok(())
    }

    fn end_write(&self, id: &AttemptId, record: &mut AttemptRecord, exit: ExitRecord) -> io::Result<()> {
        let at_ms = exit.at_ms;
        record.exit.get_or_insert(exit);
        record.released_ms = Some(at_ms);
        self.full()?;
        if let Some(file) = self.state.lock().disk.attempts.get_mut(id) {
            file.record = record.clone();
        }
        Ok(())
    }

    fn health_write(&self, id: &AttemptId, health: v1::Health) {
        if self.full().is_ok()
            && let Some(file) = self.state.lock().disk.attempts.get_mut(id)
        {
            file.health = health;
        }
    }

    fn adopt(&self, _: ProcessId, id: &AttemptId) -> bool {
        let boot = self.boot_id();
        let state = self.state.lock();
        let record = state.disk.attempts.get(id).map(|file| &file.record);
        record.is_some_and(|record| record.boot_id == boot && record.released_ms.is_none())
    }

    fn start(&self, id: AttemptId, AttemptStart { assignment, .. }: AttemptStart) {
        let boot_id = self.boot_id();
        let full = self.full();
        let wait_ms = 5 + below(&*self.rng, 250);
        let mut state = self.state.lock();
        let Some(events) = state.events.clone() else { return };
        if let Err(error) = full {
            drop(state);
            return events.not_started(id, format!("cannot write its directory: {error}").into());
        }
        let pid = u32::try_from(2 + below(&*self.rng, 1_000_000)).unwrap();
        let shim = Some(ProcessId { pid, start_ticks: 1 });
        let record = AttemptRecord { boot_id: boot_id.clone(), shim, ..AttemptRecord::default() };
        let file = File { assignment: Some(assignment), record, boot_id, ..File::default() };
        state.disk.attempts.insert(id.clone(), file);
        self.later(&mut state, wait_ms, &id, Due::Started);
        drop(state);
        events.started(id, Leaf::default());
    }

    fn stop(&self, id: AttemptId, _: Option<ProcessId>, order: StopOrder) {
        let wait_ms = order.drain_delay_ms + 5 + below(&*self.rng, STOP_MAX_MS.min(order.grace_ms.max(10)));
        let mut state = self.state.lock();
        let full = state.disk.full;
        if let Some(file) = state.disk.attempts.get_mut(&id)
            && !full
        {
            file.stop = Some(order);
        }
        self.later(&mut state, wait_ms, &id, Due::Stopped);
        let events = state.events.clone();
        drop(state);
        if let Some(events) = events {
            events.stop_written(id, order);
        }
    }

    fn resize(&self, id: AttemptId, resize: AttemptResize) {
        let AttemptResize { order, record, after, .. } = resize;
        // Now and then the memory is in use, or the kernel refuses.
        let refused = match below(&*self.rng, 8) {
            0 => Some(ResizeRefusal::MemoryInUse {
                used_bytes: after.memory_bytes + 1,
                asked_bytes: after.memory_bytes,
            }),
            1 => Some(ResizeRefusal::Failed("the kernel refused it".to_owned())),
            _ => None,
        };
        let mut state = self.state.lock();
        let full = state.disk.full;
        let record = record.after(order, after, refused);
        if let Some(file) = state.disk.attempts.get_mut(&id)
            && !full
        {
            file.resize = record.clone();
        }
        let events = state.events.clone();
        drop(state);
        if let Some(events) = events {
            events.resized(id, record);
        }
    }

    fn clean(&self, id: AttemptId) {
        let mut state = self.state.lock();
        self.later(&mut state, 5, &id, Due::Cleaned);
    }

    fn forget(&self, id: AttemptId) {
        let mut state = self.state.lock();
        if state.disk.full {
            return self.later(&mut state, FORGET_AGAIN_MS, &id, Due::Kept);
        }
        if let Some(file) = state.disk.attempts.remove(&id) {
            state.disk.ended.insert(id.clone(), file.record);
        }
        let events = state.events.clone();
        drop(state);
        if let Some(events) = events {
            events.forgotten(id, Ok(()));
        }
    }

    fn ask<'a>(&'a self, target: &'a ProbeTarget) -> BoxFuture<'a, Result<(), String>> {
        let answers = self.runs(&target.id) && below(&*self.rng, 50) > 0;
        Box::pin(std::future::ready(if answers { Ok(()) } else { Err("it does not answer".to_owned()) }))
    }

    fn signal(&self, _: ProcessId, _: Signal) -> io::Result<()> {
        Ok(())
    }

    fn measure(&self, _: Vec<MeasurePlace>) {}

    fn retention(&self, _: Retention, _: i64) {}

    fn close(&self) -> bool {
        true
    }
}
