//! The state of a running agent, and how events change it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1;
use borough_shim::cgroup::{CgroupUsage, Leaf};
use tokio::task::AbortHandle;

use super::own_record::OwnRecord;
use super::sample::{self, TimedSample};
use super::{confine, identity, order};
use crate::attempt::AttemptId;
use crate::config::AgentConfig;
use crate::decide::load::{LoadReading, MachineLoad, OwnTasks};
use crate::decide::resize::assignment_resized;
use crate::decide::{self, AgentState, Desired, Sent, ShimState, report_next};
use crate::disk::StateLock;
use crate::event::{Event, OrderDone, ProbedHealth};
use crate::machine::{Machine, MeasurePlace};
use crate::outbox::Outbox;
use crate::serve::Serving;
use crate::session::{SessionCredential, SessionSettings};
use crate::shim::Starter;

/// The interval of reports until the gateway has set one.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct Agent {
    pub(super) config: AgentConfig,
    pub(super) starter: Starter,
    pub(super) machine: Arc<dyn Machine>,
    pub(super) hello: v1::Hello,
    pub(super) state: AgentState,
    pub(super) desired: Desired,
    pub(super) local: BTreeMap<AttemptId, Local>,
    pub(super) own_record: OwnRecord,
    /// The cores that attempts were confined to.
    pub(super) placed: BTreeMap<AttemptId, Vec<u32>>,
    /// Attempts are being moved to other cores.
    pub(super) confining: bool,
    /// Not part of the state directory, since starts in progress keep that alive longer than the agent.
    _lock: Option<StateLock>,
    /// Whether the node belongs to another agent, as far as is known. Running attempts continue, and none is started.
    refused: bool,
    sent: Sent,
    session: Option<GatewaySession>,
    serving: Serving,
}

/// What runs for an attempt in this process. It is no part of the state.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub(super) leaf: Leaf,
    pub(super) probe: Option<AbortHandle>,
    pub(super) sampled: Option<TimedSample>,
}

struct GatewaySession {
    outbox: Outbox,
    interval: Duration,
}

impl Agent {
    pub(super) fn new(
        config: AgentConfig,
        starter: Starter,
        machine: Arc<dyn Machine>,
        hello: v1::Hello,
        mut state: AgentState,
        lock: Option<StateLock>,
    ) -> Self {
        state.load = MachineLoad::new(hello.capacity.as_ref());
        let serving = Serving::new(starter.clone(), Arc::clone(&machine), Arc::clone(&config.clock));
        Self {
            config,
            starter,
            machine,
            hello,
            state,
            desired: Desired::default(),
            local: BTreeMap::new(),
            own_record: OwnRecord::default(),
            placed: BTreeMap::new(),
            confining: false,
            _lock: lock,
            refused: false,
            sent: Sent::default(),
            session: None,
            serving,
        }
    }

    /// The settings of a session.
    pub(super) fn session_settings(&self) -> SessionSettings {
        SessionSettings {
            gateways: self.config.gateways.clone(),
            connector: self.config.connector.clone(),
            credential: SessionCredential::of(&self.config),
            hello: self.hello.clone(),
            intervals: self.config.intervals,
            rng: self.config.rng.clone(),
            clock: self.config.clock.clone(),
        }
    }

    /// Records an event. [`Self::step`] acts on it.
    pub(super) fn event(&mut self, event: Event) {
        match event {
            Event::Opened { outbox } => {
                self.serving.end();
                self.desired.opened();
                self.state.identities.opened();
                self.sent = Sent::default();
                self.session = Some(GatewaySession { outbox, interval: REPORT_INTERVAL });
            }
            Event::Closed => {
                self.serving.end();
                self.session = None;
            }
            Event::Refused => self.refused = true,
            Event::Message(message) => self.message(*message),
            Event::Changed(id) => self.record_look(&id),
            Event::ShimEnded(id) => self.shim_ended(&id),
            Event::Done(id, done) => self.done(&id, done),
            Event::Health(id, probed) => self.health(&id, probed),
            Event::TokensUnwritten(id) => {
                self.state.identities.again(&id, self.config.clock.monotonic());
            }
            Event::Sampled(samples) => self.sampled(&samples),
            Event::Confined(moved) => confine::confined(self, moved),
            Event::Read(reading, load, packages) => {
                self.own_record.make_again();
                self.state.pressure = self.state.pressure.next(&reading, &self.config.pressure);
                self.load_read(&load);
                self.state.packages = packages;
            }
        }
    }

    fn message(&mut self, message: v1::GatewayMessage) {
        use v1::gateway_message::Message;
        let Some(message) = message.message else { return };
        match message {
            Message::Welcome(welcome) => {
                self.refused = false;
                self.interval_set(welcome.report_interval_ms);
                self.state.identities.welcomed(welcome.signs_identities);
            }
            Message::Desired(desired) => {
                for refused in self.desired.apply(desired) {
                    tracing::warn!(refused, "an item of the desired state was set aside");
                }
            }
            Message::ReportApplied(applied) => {
                self.sent.applied(applied.revision);
                self.interval_set(applied.report_interval_ms);
            }
            Message::Identities(answer) => identity::answered(self, answer),
            other => {
                if let Some(session) = &self.session {
                    self.serving.message(other, &self.state, &session.outbox);
                }
            }
        }
    }

    /// Sets the interval of reports in this session. 0: it stays, as with gateways that do not tell it.
    fn interval_set(&mut self, ms: u64) {
        if let Some(session) = &mut self.session
            && ms > 0
        {
            session.interval = Duration::from_millis(ms);
        }
    }

    /// Reads the record that an attempt's shim has written.
    fn record_look(&mut self, id: &AttemptId) {
        let Some(attempt) = self.state.attempts.get_mut(id) else { return };
        if let Some(record) = self.machine.record(id) {
            attempt.record = record;
        }
    }

    /// Handles the end of a shim. It may be a second shim that found the first one at work: an agent that dies during a
    /// start leaves no record of whether the shim runs.
    fn shim_ended(&mut self, id: &AttemptId) {
        self.record_look(id);
        let Some(attempt) = self.state.attempts.get_mut(id) else { return };
        let other = attempt.record.shim.filter(|_| attempt.record.released_ms.is_none());
        let adopted = other.is_some_and(|shim| self.machine.adopt(shim, id));
        attempt.shim = if adopted { ShimState::Alive } else { ShimState::Gone };
    }

    /// Reads the record of every attempt that is not over, in case a change was not announced.
    pub(super) fn look(&mut self) {
        let open = self
            .state
            .attempts
            .iter()
            .filter(|(_, attempt)| attempt.record.released_ms.is_none() && !attempt.busy);
        for id in open.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.record_look(&id);
        }
    }

    fn done(&mut self, id: &AttemptId, done: OrderDone) {
        let Some(attempt) = self.state.attempts.get_mut(id) else { return };
        attempt.busy = false;
        match done {
            OrderDone::Started(leaf) => {
                attempt.shim = ShimState::Alive;
                self.local.entry(id.clone()).or_default().leaf = *leaf;
                self.record_look(id);
            }
            OrderDone::NotStarted(refused) => {
                tracing::warn!(attempt = %id, reason = refused.reason, "not started");
                order::attempt_end(self, id, Some(refused));
            }
            OrderDone::Stop(order) => attempt.stop = Some(order),
            OrderDone::Resized(record) => {
                attempt.resize = *record;
                let resized = attempt.assignment.as_ref().map(|of| assignment_resized(of, &attempt.resize));
                attempt.assignment = resized;
            }
            OrderDone::Clean => self.shim_ended(id),
            OrderDone::Forget(Ok(())) => {
                self.state.attempts.remove(id);
                self.local.remove(id);
                self.desired.forgotten(id);
            }
            OrderDone::Forget(Err(error)) => {
                tracing::warn!(attempt = %id, %error, "the files of an attempt cannot be moved aside yet")
            }
        }
    }

    fn health(&mut self, id: &AttemptId, probed: ProbedHealth) {
        let ProbedHealth { health, failure } = probed;
        let Some(attempt) = self.state.attempts.get_mut(id) else { return };
        if attempt.probed {
            attempt.health = health;
            attempt.probe_failure = failure;
            // Written only so that a restarted agent need not probe again. If it is lost, the agent probes.
            self.machine.health_write(id, health);
        }
    }

    fn load_read(&mut self, reading: &LoadReading) {
        let own = OwnTasks::of(&self.state);
        let now = self.config.clock.monotonic();
        let (cores, load) = (&self.state.cores, std::mem::take(&mut self.state.load));
        self.state.load = load.next(reading, &own, |millis| cores.reference_millis(millis), now);
    }

    /// Begins to measure the use of attempts and the free resources of the machine.
    pub(super) fn sample_begin(&self) {
        let running = self.state.attempts.iter().filter(|(_, attempt)| attempt.record.exit.is_none());
        let places: Vec<MeasurePlace> = running
            .filter_map(|(id, attempt)| {
                let leaf = self.local.get(id)?.leaf.clone();
                Some(MeasurePlace { id: id.clone(), leaf, shim: attempt.record.shim.map(|shim| shim.pid) })
            })
            .collect();
        self.machine.measure(places);
    }

    fn sampled(&mut self, samples: &BTreeMap<AttemptId, CgroupUsage>) {
        let now = self.config.clock.monotonic();
        let at_ms = self.config.clock.wall_ms();
        for (id, sample) in samples {
            let (Some(attempt), Some(local)) = (self.state.attempts.get_mut(id), self.local.get_mut(id))
            else {
                continue;
            };
            let peak = attempt.usage.map_or(0, |usage| usage.memory_peak_bytes);
            let taken = TimedSample { usage: *sample, at: now };
            let usage = sample::usage(local.sampled.replace(taken), taken, peak, at_ms);
            // As it was requested: in time of the reference core.
            let cpu_millis = self.state.cores.reference_millis(usage.cpu_millis);
            attempt.usage = Some(v1::Usage { cpu_millis, ..usage });
        }
    }

    /// Begins to remove logs beyond retention.
    pub(super) fn retention_begin(&self) {
        self.machine.retention(self.config.retention, self.config.clock.wall_ms());
    }

    /// Carries out the due actions and reports.
    pub(super) fn step(&mut self) {
        let parked = decide::parked(&self.state, &self.desired);
        for (id, attempt) in &mut self.state.attempts {
            let now = parked.contains(id);
            if now && !attempt.parked {
                tracing::warn!(attempt = %id, "an attempt runs that the control plane does not know: the agent parks it");
            }
            attempt.parked = now;
        }
        let now_ms = self.config.clock.wall_ms();
        let kept_ms = self.config.retention.age_ms;
        for effect in decide::reconcile(&self.state, &self.desired, &self.sent, now_ms, kept_ms) {
            if !(self.refused && matches!(effect, decide::Effect::Start(..))) {
                order::perform(self, effect);
            }
        }
        confine::confine_begin(self);
        identity::ask(self);
        self.acknowledge();
        self.report();
    }

    /// When [`Self::step`] is due although nothing happens: the changes since the last report have been gathered.
    pub(super) fn step_due(&self) -> Option<Duration> {
        self.session.as_ref()?;
        self.sent.gathers_for(self.config.clock.monotonic())
    }

    /// The way to the gateway of the open session.
    pub(super) fn outbox(&self) -> Option<&Outbox> {
        self.session.as_ref().map(|session| &session.outbox)
    }

    /// Acknowledges the applied chunks. If the channel is full, a later acknowledgement covers them.
    fn acknowledge(&mut self) {
        let Some(session) = &self.session else { return };
        let Ok(permit) = session.outbox.control.try_reserve() else { return };
        if let Some(applied) = self.desired.acknowledgement() {
            let message = v1::agent_message::Message::DesiredApplied(applied);
            permit.send(v1::AgentMessage { message: Some(message) });
        }
    }

    fn report(&mut self) {
        let Some(session) = &self.session else { return };
        let now = self.config.clock.monotonic();
        // If the channel is full nothing is lost: the next report contains it.
        while self.sent.gathers_for(now).is_none()
            && let Ok(permit) = session.outbox.control.try_reserve()
        {
            let (interval, repeat) = (session.interval, self.config.intervals.repeat);
            let report = report_next(&self.state, &mut self.sent, now, interval, repeat);
            let Some(report) = report else { return };
            permit.send(v1::AgentMessage { message: Some(v1::agent_message::Message::Report(report)) });
        }
    }

    /// Ends the agent's work in this process; its tasks keep running.
    pub(super) fn close(&mut self) {
        self.serving.end();
        for probe in self.local.values_mut().filter_map(|local| local.probe.take()) {
            probe.abort();
        }
        if self.state.attempts.values().any(|attempt| attempt.record.released_ms.is_none()) {
            // Tasks keep running. The guard's record must still lead to the cgroups that they share.
            return;
        }
        if self.machine.close() {
            self.own_record.remove();
        }
    }

    pub(super) fn clock(&self) -> Arc<dyn borough_kv::env::Clock> {
        self.config.clock.clone()
    }
}
