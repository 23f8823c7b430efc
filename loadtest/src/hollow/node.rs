//! One simulated node: its agent's session with a gateway, again and again, with an agent's back-off.

use std::sync::Arc;
use std::time::Duration;

use borough_agent::Intervals;
use borough_agent::hollow::{Hollow, HollowEvent, HollowStep};
use borough_proto::bounds::SESSION_MESSAGE_BYTES_MAX;
use borough_proto::v1;
use borough_proto::v1::agent_message::Message;
use borough_proto::v1::agent_service_client::AgentServiceClient;
use borough_proto::v1::gateway_message::Message as FromGateway;
use futures::FutureExt as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};

use super::check::Ledger;
use super::fleet::{Counters, FleetShared};
use super::tally::{SessionSteps, Stage};

/// Messages that wait for the gateway.
const OUTBOX: usize = 16;
/// Messages that are handled before the node acts on them.
const MESSAGES_MAX: usize = 64;

struct HollowNode {
    shared: Arc<FleetShared>,
    number: usize,
    hollow: Hollow,
    ledger: Ledger,
    /// The last report and when it was sent, until it is answered.
    waiting: Option<(u64, Duration)>,
    /// The generation of connections that the session belongs to.
    generation: u64,
    /// The revision of the full report of the session.
    full: Option<u64>,
    steps: SessionSteps,
    /// The stage that the session is counted in.
    stage: Stage,
}

/// Keeps the node's session open until the end.
pub(super) async fn node_run(shared: Arc<FleetShared>, number: usize) {
    let hello = &shared.options.hellos[number];
    let seed = shared.options.rng.next_u64();
    let hollow = Hollow::new(&hello.node, &hello.boot_id, shared.options.times.clone(), seed);
    let capacity = hello.capacity.clone().unwrap_or_default();
    let ledger = Ledger::new(Arc::clone(&shared.checker), number, capacity);
    let cancelled = shared.cancelled.clone();
    let mut node = HollowNode {
        shared,
        number,
        hollow,
        ledger,
        waiting: None,
        generation: 0,
        full: None,
        steps: SessionSteps::default(),
        stage: Stage::Opening,
    };
    tokio::select! {
        () = node.sessions() => {}
        () = cancelled.cancelled() => {}
    }
}

impl HollowNode {
    async fn sessions(&mut self) {
        let intervals = Intervals::default();
        let mut generation = self.shared.generation.subscribe();
        let mut pause = intervals.reconnect_first;
        loop {
            self.generation = *generation.borrow_and_update();
            let ended = tokio::select! {
                ended = self.session() => ended,
                _ = generation.changed() => Ok(()),
            };
            self.ledger.away(self.shared.options.clock.monotonic());
            if ended.is_err() {
                Counters::add(&self.shared.counters.broken);
            }
            if self.stage >= Stage::Connected {
                pause = intervals.reconnect_first;
            }
            (self.full, self.steps) = (None, SessionSteps::default());
            self.stage_set();
            // At least half of the pause, as in an agent.
            let half = u64::try_from(pause.as_micros() / 2).unwrap_or(1).max(1);
            let jitter = Duration::from_micros(self.shared.options.rng.next_u64() % half);
            tokio::time::sleep(pause / 2 + jitter).await;
            pause = pause.saturating_mul(2).min(intervals.reconnect_max);
        }
    }

    /// One session, to its end.
    async fn session(&mut self) -> Result<(), Status> {
        let unavailable = || Status::unavailable("no connection");
        let channel = self.shared.channel(self.number).ok_or_else(unavailable)?;
        let (outbox, sent) = mpsc::channel(OUTBOX);
        let hello = Message::Hello(self.shared.options.hellos[self.number].clone());
        outbox.try_send(v1::AgentMessage { message: Some(hello) }).map_err(|_| unavailable())?;
        let mut request = Request::new(ReceiverStream::new(sent));
        if let Some(value) = &self.shared.authorization {
            request.metadata_mut().insert("authorization", value.clone());
        }
        self.hollow.opened();
        self.waiting = None;
        // Before the answer, as in an agent.
        self.step(&outbox);
        Counters::add(&self.shared.counters.opened);
        let mut client = AgentServiceClient::new(channel)
            .max_decoding_message_size(SESSION_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(SESSION_MESSAGE_BYTES_MAX);
        let mut received = client.session(request).await?.into_inner();
        self.ledger.connected(self.shared.options.clock.monotonic());
        loop {
            let wait = self.hollow.wait(self.shared.options.clock.monotonic());
            tokio::select! {
                message = received.message() => {
                    self.message(message?.ok_or_else(|| Status::unavailable("closed"))?);
                    self.messages_ready(&mut received)?;
                }
                () = tokio::time::sleep(wait) => {}
            }
            self.step(&outbox);
        }
    }

    /// Handles the messages that have already arrived.
    fn messages_ready(&mut self, received: &mut Streaming<v1::GatewayMessage>) -> Result<(), Status> {
        for _ in 0..MESSAGES_MAX {
            match received.message().now_or_never() {
                Some(message) => self.message(message?.ok_or_else(|| Status::unavailable("closed"))?),
                None => break,
            }
        }
        Ok(())
    }

    fn message(&mut self, message: v1::GatewayMessage) {
        Counters::add(&self.shared.counters.messages);
        self.shared.received.note(&message);
        match &message.message {
            Some(FromGateway::ReportApplied(applied)) => self.applied(applied.revision),
            Some(FromGateway::Desired(desired)) => self.steps.desired |= desired.full_end,
            _ => {}
        }
        self.stage_set();
        let step = self.hollow.message(message);
        self.note(&step);
    }

    fn applied(&mut self, revision: u64) {
        if let Some((_, at)) = self.waiting.take_if(|(sent, _)| *sent <= revision) {
            let took = self.shared.options.clock.monotonic().saturating_sub(at);
            let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
            self.shared.applied_us.lock().saturating_record(us);
        }
        self.steps.reported |= self.full.is_some_and(|full| revision >= full);
    }

    /// Counts the session at its present stage.
    fn stage_set(&mut self) {
        let stage = self.steps.stage();
        if stage != self.stage {
            let now = self.shared.options.clock.monotonic();
            self.shared.tally.lock().moved(self.generation, self.stage, stage, now);
            self.stage = stage;
        }
    }

    /// Does what is due and sends the reports.
    fn step(&mut self, outbox: &mpsc::Sender<v1::AgentMessage>) {
        let clock = &self.shared.options.clock;
        let (now, wall_ms) = (clock.monotonic(), clock.wall_ms());
        let mut step = self.hollow.step(now, wall_ms, outbox.capacity());
        self.note(&step);
        for message in step.messages.drain(..) {
            if let Message::Report(report) = &message {
                if !report.tasks.is_empty() {
                    self.waiting.get_or_insert((report.revision, now));
                }
                if report.full_end {
                    self.full = Some(report.revision);
                }
                Counters::add(&self.shared.counters.reports);
            }
            let message = v1::AgentMessage { message: Some(message) };
            self.shared.sent.note(&message);
            // The channel has room, since nobody else sends. The end of a session shows in the received stream.
            outbox.try_send(message).ok();
        }
    }

    fn note(&mut self, step: &HollowStep) {
        let now = self.shared.options.clock.monotonic();
        for event in &step.events {
            let counters = &self.shared.counters;
            match event {
                HollowEvent::Begun(id, assignment) => {
                    self.ledger.begun(id, assignment, now);
                    Counters::add(&counters.begun);
                }
                HollowEvent::Running(id) => {
                    Counters::add(&counters.running);
                    if let Some(starts) = self.shared.starts.lock().as_mut() {
                        starts.running(&id.job_id, now);
                    }
                }
                HollowEvent::Resized(id, resources) => {
                    self.ledger.resized(id, resources);
                    Counters::add(&counters.resized);
                }
                HollowEvent::Released(id) => {
                    self.ledger.released(id);
                    Counters::add(&counters.released);
                }
                HollowEvent::Late(_) => Counters::add(&counters.late),
                HollowEvent::Refused(_) => Counters::add(&counters.refused),
            }
        }
    }
}
