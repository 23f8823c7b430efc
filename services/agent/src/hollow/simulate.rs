//! Replaces shims and processes: an effect takes a random time, and then changes the record of its attempt.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1;
use borough_shim::process::ProcessId;
use borough_shim::record::ExitRecord;

use super::{ENDED_MAX, Hollow, HollowEvent, HollowHealth};
use crate::attempt::AttemptId;
use crate::decide::health::HEALTHY_AFTER_MS;
use crate::decide::resize::ResizedAmounts;
use crate::decide::{AttemptState, Effect, ShimState};

const SIGTERM: i32 = 15;

/// What happens to an attempt at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum SimulatedEnd {
    /// Its process runs.
    Started,
    /// Its probe passes, and it has run for long enough.
    Healthy,
    /// It ends by itself, with this code.
    Exit(i32),
    /// It ends after an order to stop.
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

    fn later(&mut self, at: Duration, id: AttemptId, due: SimulatedEnd) {
        self.sequence = self.sequence.wrapping_add(1);
        self.due.insert((at, self.sequence), (id, due));
    }

    /// Carries out an effect.
    pub(super) fn perform(
        &mut self,
        effect: Effect,
        now: Duration,
        wall_ms: i64,
        events: &mut Vec<HollowEvent>,
    ) {
        match effect {
            Effect::Start(id, assignment) => self.start(id, assignment, now, wall_ms, events),
            // A hollow agent does not say that it knows identities, so no task with one comes.
            Effect::Identify(_) => {}
            Effect::Decline(id) => {
                self.state.attempts.entry(id.clone()).or_default();
                self.end(&id, stopped("stopped before it was started here", None, wall_ms), events);
            }
            Effect::Stop(id, order) => {
                if let Some(attempt) = self.state.attempts.get_mut(&id) {
                    attempt.stop = Some(order);
                }
                let range = self.times.stop_ms.clone();
                let wait = Duration::from_millis(order.drain_delay_ms).saturating_add(self.drawn(&range));
                self.later(now.saturating_add(wait), id, SimulatedEnd::Stopped);
            }
            Effect::Resize(id, order) => {
                if let Some(attempt) = self.state.attempts.get_mut(&id) {
                    let asked = order.resources.as_ref().map(ResizedAmounts::of).unwrap_or_default();
                    attempt.resize = attempt.resize.after(order.order, asked, None);
                    events.push(HollowEvent::Resized(id, order.resources.unwrap_or_default()));
                }
            }
            Effect::Clean(id) => self.end(&id, stopped("its shim was gone", None, wall_ms), events),
            Effect::Forget(id) => self.forget(id),
            Effect::Probe(id) => self.probe(id, now),
            Effect::ProbeEnd(id) => {
                if let Some(attempt) = self.state.attempts.get_mut(&id) {
                    attempt.probed = false;
                }
            }
        }
    }

    fn start(
        &mut self,
        id: AttemptId,
        assignment: Arc<v1::Assignment>,
        now: Duration,
        wall_ms: i64,
        events: &mut Vec<HollowEvent>,
    ) {
        if self.ended.contains(&id) {
            events.push(HollowEvent::Late(id.clone()));
            let attempt = self.state.attempts.entry(id).or_default();
            attempt.record.exit = Some(stopped("it was over before", None, wall_ms));
            attempt.record.released_ms = Some(wall_ms);
            attempt.shim = ShimState::Gone;
            return;
        }
        events.push(HollowEvent::Begun(id.clone(), Arc::clone(&assignment)));
        let attempt =
            AttemptState { assignment: Some(assignment), shim: ShimState::Alive, ..AttemptState::default() };
        self.state.attempts.insert(id.clone(), attempt);
        let range = self.times.start_ms.clone();
        let wait = self.drawn(&range);
        if wait.is_zero() {
            self.due_done(&id, SimulatedEnd::Started, now, wall_ms, events);
        } else {
            self.later(now.saturating_add(wait), id, SimulatedEnd::Started);
        }
    }

    /// Begins to probe an attempt, which has just started.
    fn probe(&mut self, id: AttemptId, now: Duration) {
        let Some(attempt) = self.state.attempts.get_mut(&id) else { return };
        attempt.probed = true;
        let assigned_ms = attempt.assignment.as_ref().map_or(0, |assignment| assignment.healthy_after_ms);
        match (self.times.health, assigned_ms) {
            (HollowHealth::AtOnce, _) => attempt.health = v1::Health::Healthy,
            (HollowHealth::AsAssigned, 0) => self.healthy_later(id, now, HEALTHY_AFTER_MS),
            (HollowHealth::AsAssigned, ms) => self.healthy_later(id, now, ms),
        }
    }

    fn healthy_later(&mut self, id: AttemptId, now: Duration, after_ms: u64) {
        self.later(now.saturating_add(Duration::from_millis(after_ms)), id, SimulatedEnd::Healthy);
    }

    fn forget(&mut self, id: AttemptId) {
        self.state.attempts.remove(&id);
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

    /// Carries out the steps that are due.
    pub(super) fn due_done(
        &mut self,
        id: &AttemptId,
        due: SimulatedEnd,
        now: Duration,
        wall_ms: i64,
        events: &mut Vec<HollowEvent>,
    ) {
        let over = |attempt: &AttemptState| attempt.record.exit.is_some();
        if self.state.attempts.get(id).is_none_or(over) {
            return;
        }
        match due {
            SimulatedEnd::Started => self.started(id, now, wall_ms, events),
            SimulatedEnd::Healthy => {
                if let Some(attempt) = self.state.attempts.get_mut(id).filter(|attempt| attempt.probed) {
                    attempt.health = v1::Health::Healthy;
                }
            }
            SimulatedEnd::Exit(code) => {
                let exit = ExitRecord { code: Some(code), at_ms: wall_ms, ..ExitRecord::default() };
                self.end(id, exit, events);
            }
            SimulatedEnd::Stopped => self.end(id, stopped("", Some(SIGTERM), wall_ms), events),
        }
    }

    fn started(&mut self, id: &AttemptId, now: Duration, wall_ms: i64, events: &mut Vec<HollowEvent>) {
        // Process numbers only have to differ.
        let pid = u32::try_from(self.sequence % 4_000_000).unwrap_or(0).saturating_add(2);
        let Some(attempt) = self.state.attempts.get_mut(id) else { return };
        attempt.record.boot_id.clone_from(&self.state.boot_id);
        attempt.record.task = Some(ProcessId { pid, start_ticks: 1 });
        attempt.record.started_ms = Some(wall_ms);
        events.push(HollowEvent::Running(id.clone()));
        let Some(run_ms) = self.times.run_ms.clone() else { return };
        let wait = self.drawn(&run_ms);
        let failed = self.random() % 100 < self.times.failed_percent;
        self.later(now.saturating_add(wait), id.clone(), SimulatedEnd::Exit(i32::from(failed)));
    }

    fn end(&mut self, id: &AttemptId, exit: ExitRecord, events: &mut Vec<HollowEvent>) {
        let Some(attempt) = self.state.attempts.get_mut(id) else { return };
        attempt.shim = ShimState::Gone;
        attempt.record.released_ms = Some(exit.at_ms);
        attempt.record.exit = Some(exit);
        events.push(HollowEvent::Released(id.clone()));
    }
}

fn stopped(message: &str, signal: Option<i32>, at_ms: i64) -> ExitRecord {
    ExitRecord { signal, stopped: true, message: message.to_owned(), at_ms, ..ExitRecord::default() }
}
