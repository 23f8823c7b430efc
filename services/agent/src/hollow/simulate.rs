//! What takes the place of shims and processes: effects become times, and times become records.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1;
use borough_shim::process::ProcessId;
use borough_shim::record::ExitRecord;

use super::{ENDED_MAX, Hollow, HollowEvent};
use crate::decide::{Effect, Life, Shim};
use crate::life::LifeId;

/// SIGTERM.
const SIGTERM: i32 = 15;

/// What becomes of a life at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// Its process runs.
    Started,
    /// It ends by itself, with this code.
    Exit(i32),
    /// It ends because it was told to.
    Stopped,
}

impl Hollow {
    /// The next number of the generator (SplitMix64: Steele, Lea and Flood, 2014).
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn drawn(&mut self, range: &RangeInclusive<u64>) -> Duration {
        let span = range.end().saturating_sub(*range.start()).saturating_add(1);
        Duration::from_millis(range.start().saturating_add(self.random() % span))
    }

    fn later(&mut self, at: Duration, id: LifeId, due: Due) {
        self.sequence = self.sequence.wrapping_add(1);
        self.due.insert((at, self.sequence), (id, due));
    }

    /// Has an effect done.
    pub(super) fn perform(
        &mut self,
        effect: Effect,
        now: Duration,
        wall_ms: i64,
        events: &mut Vec<HollowEvent>,
    ) {
        match effect {
            Effect::Start(id, assignment) => self.start(id, assignment, now, wall_ms, events),
            Effect::Decline(id) => {
                self.state.lives.entry(id.clone()).or_default();
                self.end(&id, stopped("stopped before it was started here", None, wall_ms), events);
            }
            Effect::Stop(id, order) => {
                if let Some(life) = self.state.lives.get_mut(&id) {
                    life.stop = Some(order);
                }
                let range = self.times.stop_ms.clone();
                let wait = Duration::from_millis(order.drain_delay_ms).saturating_add(self.drawn(&range));
                self.later(now.saturating_add(wait), id, Due::Stopped);
            }
            Effect::Clean(id) => self.end(&id, stopped("its shim was gone", None, wall_ms), events),
            Effect::Forget(id) => self.forget(id),
            Effect::Probe(id) => self.probe(&id, true),
            Effect::ProbeEnd(id) => self.probe(&id, false),
        }
    }

    /// What is probed answers well.
    fn probe(&mut self, id: &LifeId, on: bool) {
        if let Some(life) = self.state.lives.get_mut(id) {
            life.probed = on;
            life.health = v1::Health::Healthy;
        }
    }

    fn start(
        &mut self,
        id: LifeId,
        assignment: Arc<v1::Assignment>,
        now: Duration,
        wall_ms: i64,
        events: &mut Vec<HollowEvent>,
    ) {
        if self.ended.contains(&id) {
            events.push(HollowEvent::Late(id.clone()));
            let life = self.state.lives.entry(id).or_default();
            life.record.exit = Some(stopped("it was over before", None, wall_ms));
            life.record.released_ms = Some(wall_ms);
            life.shim = Shim::Gone;
            return;
        }
        events.push(HollowEvent::Begun(id.clone(), Arc::clone(&assignment)));
        let life = Life { assignment: Some(assignment), shim: Shim::Alive, ..Life::default() };
        self.state.lives.insert(id.clone(), life);
        let range = self.times.start_ms.clone();
        let wait = self.drawn(&range);
        match wait.is_zero() {
            true => self.due_done(&id, Due::Started, now, wall_ms, events),
            false => self.later(now.saturating_add(wait), id, Due::Started),
        }
    }

    fn forget(&mut self, id: LifeId) {
        self.state.lives.remove(&id);
        self.desired.forgotten(&id);
        if self.ended.insert(id.clone()) {
            self.ended_order.push_back(id);
        }
        if self.ended_order.len() > ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    /// What was to come has come.
    pub(super) fn due_done(
        &mut self,
        id: &LifeId,
        due: Due,
        now: Duration,
        wall_ms: i64,
        events: &mut Vec<HollowEvent>,
    ) {
        let over = |life: &Life| life.record.exit.is_some();
        if self.state.lives.get(id).is_none_or(over) {
            return;
        }
        match due {
            Due::Started => self.started(id, now, wall_ms, events),
            Due::Exit(code) => {
                let exit = ExitRecord { code: Some(code), at_ms: wall_ms, ..ExitRecord::default() };
                self.end(id, exit, events);
            }
            Due::Stopped => self.end(id, stopped("", Some(SIGTERM), wall_ms), events),
        }
    }

    fn started(&mut self, id: &LifeId, now: Duration, wall_ms: i64, events: &mut Vec<HollowEvent>) {
        // Process numbers only have to differ.
        let pid = u32::try_from(self.sequence % 4_000_000).unwrap_or(0).saturating_add(2);
        let Some(life) = self.state.lives.get_mut(id) else { return };
        life.record.boot_id.clone_from(&self.state.boot_id);
        life.record.task = Some(ProcessId { pid, start_ticks: 1 });
        life.record.started_ms = Some(wall_ms);
        events.push(HollowEvent::Running(id.clone()));
        let Some(run_ms) = self.times.run_ms.clone() else { return };
        let wait = self.drawn(&run_ms);
        let failed = self.random() % 100 < self.times.failed_percent;
        self.later(now.saturating_add(wait), id.clone(), Due::Exit(i32::from(failed)));
    }

    fn end(&mut self, id: &LifeId, exit: ExitRecord, events: &mut Vec<HollowEvent>) {
        let Some(life) = self.state.lives.get_mut(id) else { return };
        life.shim = Shim::Gone;
        life.record.released_ms = Some(exit.at_ms);
        life.record.exit = Some(exit);
        events.push(HollowEvent::Released(id.clone()));
    }
}

fn stopped(message: &str, signal: Option<i32>, at_ms: i64) -> ExitRecord {
    ExitRecord { signal, stopped: true, message: message.to_owned(), at_ms, ..ExitRecord::default() }
}
