//! An agent without a machine: the production decisions (`decide`) over simulated tasks. Shims and processes are
//! replaced by times. The production code decides everything that the control plane sees.
//!
//! Pure: time, seeds and messages are inputs, reports and events are outputs.

mod simulate;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1;
use borough_proto::v1::agent_message::Message as Outgoing;
use borough_proto::v1::gateway_message::Message;

use crate::attempt::AttemptId;
use crate::config::Intervals;
use crate::decide::retention::Retention;
use crate::decide::{AgentState, AttemptState, Desired, Sent, reconcile, report_next};
use simulate::SimulatedEnd;

/// The interval of reports until the gateway has set one.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// The interval of checks for due reports while an attempt is being started, as in a real agent.
const REPORT_LOOK: Duration = Duration::from_millis(500);
/// Attempts that are remembered as over after they were forgotten.
const ENDED_MAX: usize = 1_024;

/// The durations of simulated steps, in milliseconds. Each attempt draws its own from the range.
#[derive(Clone, Debug)]
pub struct HollowTimes {
    /// From the order to the process.
    pub start_ms: RangeInclusive<u64>,
    /// From the process to its own end; absent: it runs until it is stopped.
    pub run_ms: Option<RangeInclusive<u64>>,
    /// From SIGTERM to the end.
    pub stop_ms: RangeInclusive<u64>,
    /// The share of attempts that exit with 1 among those that end by themselves, in hundredths.
    pub failed_percent: u64,
    pub health: HollowHealth,
}

/// When an attempt passes the probe that makes it healthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HollowHealth {
    /// With its start: the attempt needs one report for both.
    #[default]
    AtOnce,
    /// When it has run for as long as its assignment says, as under a real agent.
    AsAssigned,
}

/// What happened on the node, in order.
#[derive(Clone, Debug)]
pub enum HollowEvent {
    /// An attempt was begun. It takes its resources and ports until its end.
    Begun(AttemptId, Arc<v1::Assignment>),
    /// Its process runs.
    Running(AttemptId),
    /// It has other amounts now, without a restart.
    Resized(AttemptId, v1::Resources),
    Released(AttemptId),
    /// It was assigned again after its end: the gateway was behind, and gets a report that it is over.
    Late(AttemptId),
    /// A message named something that is not an attempt.
    Refused(String),
}

/// The result of a step.
#[derive(Debug, Default)]
pub struct HollowStep {
    /// To be sent in this order, if a session is open.
    pub messages: Vec<Outgoing>,
    pub events: Vec<HollowEvent>,
}

/// A simulated agent.
#[derive(Debug)]
pub struct Hollow {
    state: AgentState,
    desired: Desired,
    sent: Sent,
    times: HollowTimes,
    /// The state of the generator of latencies.
    random: u64,
    due: BTreeMap<(Duration, u64), (AttemptId, SimulatedEnd)>,
    sequence: u64,
    ended: BTreeSet<AttemptId>,
    ended_order: VecDeque<AttemptId>,
    interval: Duration,
    changed: bool,
}

impl Hollow {
    /// An agent of `node` in `boot_id`, with latencies derived from `seed`.
    pub fn new(node: &str, boot_id: &str, times: HollowTimes, seed: u64) -> Self {
        let state =
            AgentState { node: node.to_owned(), boot_id: boot_id.to_owned(), ..AgentState::default() };
        Self {
            state,
            desired: Desired::default(),
            sent: Sent::default(),
            times,
            random: seed,
            due: BTreeMap::new(),
            sequence: 0,
            ended: BTreeSet::new(),
            ended_order: VecDeque::new(),
            interval: REPORT_INTERVAL,
            changed: true,
        }
    }

    /// Begins a session: the next step reports everything.
    pub fn opened(&mut self) {
        self.desired.opened();
        self.sent = Sent::default();
        self.changed = true;
    }

    /// Takes a message of the gateway. [`Self::step`] acts on it.
    pub fn message(&mut self, message: v1::GatewayMessage) -> HollowStep {
        let mut step = HollowStep::default();
        match message.message {
            Some(Message::Welcome(welcome)) => self.interval_set(welcome.report_interval_ms),
            Some(Message::Desired(desired)) => {
                step.events.extend(self.desired.apply(desired).into_iter().map(HollowEvent::Refused));
                self.changed = true;
            }
            Some(Message::ReportApplied(applied)) => {
                self.sent.applied(applied.revision);
                self.interval_set(applied.report_interval_ms);
            }
            // Logs, commands and signals need real processes.
            _ => {}
        }
        step
    }

    /// Sets the interval of reports. 0: it stays.
    fn interval_set(&mut self, ms: u64) {
        if ms > 0 {
            self.interval = Duration::from_millis(ms);
        }
    }

    /// Does what is due at `now` (monotonic) and what follows from the state. Reports it in at most `messages_max`
    /// messages; 0: no session is open, or its channel is full.
    pub fn step(&mut self, now: Duration, wall_ms: i64, messages_max: usize) -> HollowStep {
        let mut step = HollowStep::default();
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let (id, due) = entry.remove();
            self.due_done(&id, due, now, wall_ms, &mut step.events);
            self.changed = true;
        }
        if self.changed {
            let kept_ms = Retention::default().age_ms;
            // An effect may ask for another one: an order to stop what was just begun.
            for effect in reconcile(&self.state, &self.desired, &self.sent, wall_ms, kept_ms) {
                self.perform(effect, now, wall_ms, &mut step.events);
            }
        }
        self.changed = false;
        if messages_max > 0 {
            self.sample(now, wall_ms);
            step.messages.extend(self.desired.acknowledgement().map(Outgoing::DesiredApplied));
        }
        while step.messages.len() < messages_max {
            let Some(report) = self.report(now) else { break };
            step.messages.push(Outgoing::Report(report));
        }
        step
    }

    /// Simulates changing usage of attempts, about as often as a real agent measures.
    fn sample(&mut self, now: Duration, at_ms: i64) {
        if now.saturating_sub(self.sent.at) < self.interval {
            return;
        }
        let cpu_millis = self.random() % 100;
        let memory_bytes = (64 << 20) + self.random() % (64 << 20);
        let usage = v1::Usage { at_ms, cpu_millis, memory_bytes, memory_peak_bytes: 128 << 20, processes: 1 };
        let running = |attempt: &&mut AttemptState| {
            attempt.record.started_ms.is_some() && attempt.record.exit.is_none()
        };
        self.state.attempts.values_mut().filter(running).for_each(|attempt| attempt.usage = Some(usage));
    }

    fn report(&mut self, now: Duration) -> Option<v1::Report> {
        report_next(&self.state, &mut self.sent, now, self.interval, Intervals::default().repeat)
    }

    /// How long after `now` the next step is due at the latest, if no message comes before.
    pub fn wait(&self, now: Duration) -> Duration {
        if self.sent.goes_on() && !self.sent.is_full() {
            return Duration::ZERO;
        }
        let report = (self.sent.at + self.interval).saturating_sub(now);
        let due = self.due.first_key_value().map(|((at, _), _)| at.saturating_sub(now));
        let starting = self.state.attempts.values().any(|attempt| attempt.record.started_ms.is_none());
        let look = if starting { REPORT_LOOK } else { report };
        report.min(look).min(due.unwrap_or(report))
    }

    /// Counts the attempts that are not over.
    pub fn live(&self) -> usize {
        self.state.attempts.values().filter(|attempt| attempt.record.released_ms.is_none()).count()
    }
}
