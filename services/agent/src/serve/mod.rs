//! Serves requests of gateways for their callers: logs, commands, signals.

mod credit;
mod exec;
mod logs;
mod signal;
mod tail;
mod terminal;
mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_kv::env::Clock;
use borough_proto::bounds::{STREAM_MESSAGE_COST, STREAM_WINDOW_BYTES, TEXT_BYTES_MAX, text_cut};
use borough_proto::v1;
use borough_proto::v1::agent_message::Message as Answer;
use borough_proto::v1::gateway_message::Message;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::decide::AgentState;
use crate::machine::Machine;
use crate::outbox::Outbox;
use crate::shim::Starter;
use credit::Credit;
use exec::Link;

/// Inputs of a command that may wait: as many as its input's credit allows, its end, and the caller's end.
const INPUTS: usize = STREAM_WINDOW_BYTES / STREAM_MESSAGE_COST + 2;

/// All requests that are served in this session.
pub(crate) struct Serving {
    starter: Starter,
    machine: Arc<dyn Machine>,
    clock: Arc<dyn Clock>,
    logs: BTreeMap<u64, LogServing>,
    commands: BTreeMap<u64, CommandServing>,
    signals: signal::AttemptSignals,
}

/// A log that is being sent.
struct LogServing {
    task: AbortHandle,
    credit: Credit,
}

struct CommandServing {
    inputs: mpsc::Sender<v1::exec_input::Input>,
    /// Credit of its output.
    credit: Credit,
    cancelled: CancellationToken,
}

impl Drop for CommandServing {
    fn drop(&mut self) {
        self.credit.close();
        self.cancelled.cancel();
    }
}

impl Serving {
    pub(crate) fn new(starter: Starter, machine: Arc<dyn Machine>, clock: Arc<dyn Clock>) -> Self {
        let (logs, commands) = (BTreeMap::new(), BTreeMap::new());
        Self { starter, machine, clock, logs, commands, signals: signal::AttemptSignals::default() }
    }

    pub(crate) fn message(&mut self, message: Message, state: &AgentState, outbox: &Outbox) {
        self.logs.retain(|_, log| !log.task.is_finished());
        self.commands.retain(|_, command| !command.inputs.is_closed());
        match message {
            Message::LogRequest(request) => {
                let (id, credit) = (request.id, Credit::new(request.window_bytes));
                let (state, data) = (self.starter.state.clone(), outbox.data.clone());
                let now_ms = self.clock.wall_ms();
                let task = tokio::spawn(logs::logs_serve(state, request, now_ms, credit.clone(), data));
                let serving = LogServing { task: task.abort_handle(), credit };
                if let Some(before) = self.logs.insert(id, serving) {
                    before.task.abort();
                }
            }
            Message::LogCancel(cancel) => {
                if let Some(log) = self.logs.remove(&cancel.id) {
                    log.task.abort();
                }
            }
            Message::ExecStart(start) => {
                let (inputs, received) = mpsc::channel(INPUTS);
                let (credit, cancelled) = (Credit::new(start.window_bytes), CancellationToken::new());
                let link = Link {
                    id: start.id,
                    outbox: outbox.clone(),
                    credit: credit.clone(),
                    cancelled: cancelled.clone(),
                };
                self.commands.insert(start.id, CommandServing { inputs, credit, cancelled });
                let place = exec::ExecPlace::find(&start, state, &self.starter);
                tokio::spawn(exec::exec_serve(start, place, received, link));
            }
            Message::Credit(credit) => {
                let log = self.logs.get(&credit.id).map(|log| &log.credit);
                let command = self.commands.get(&credit.id).map(|command| &command.credit);
                if let Some(of) = log.or(command) {
                    of.add(credit.bytes);
                }
            }
            Message::ExecInput(v1::ExecInput { id, input: Some(input) }) => self.input(id, input),
            Message::Signal(command) => {
                let mut error = self.signals.send(&command, state, &*self.machine).err().unwrap_or_default();
                text_cut(&mut error, TEXT_BYTES_MAX);
                let result = v1::CommandResult { id: command.id, error };
                let control = outbox.control.clone();
                tokio::spawn(async move { control.send(answer(Answer::Result(result))).await });
            }
            _ => tracing::warn!("the gateway has sent a message that this version does not know"),
        }
    }

    fn input(&mut self, id: u64, input: v1::exec_input::Input) {
        let Some(command) = self.commands.get(&id) else { return };
        // Input beyond its credit ends the command, as its caller's end does.
        if matches!(input, v1::exec_input::Input::Cancelled(_)) || command.inputs.try_send(input).is_err() {
            self.commands.remove(&id);
        }
    }

    /// Ends everything: the callers have gone.
    pub(crate) fn end(&mut self) {
        for (_, log) in std::mem::take(&mut self.logs) {
            log.task.abort();
        }
        self.commands.clear();
    }
}

fn answer(message: Answer) -> v1::AgentMessage {
    v1::AgentMessage { message: Some(message) }
}
