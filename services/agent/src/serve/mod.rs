//! What a gateway asks for on someone's behalf: logs, commands beside a task, signals.

mod exec;
mod logs;
mod signal;
mod tail;
mod terminal;

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_proto::v1;
use borough_proto::v1::agent_message::Message as Answer;
use borough_proto::v1::gateway_message::Message;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::decide::State;
use crate::runtime::{Machine, Starter};
pub(crate) use exec::exec_command;
pub use signal::SignalSent;

/// Inputs of a command that wait to be read by it; more than that means that it does not read.
const INPUTS: usize = 256;

/// Everything that is being served in this session.
pub(crate) struct Serving {
    starter: Starter,
    machine: Arc<dyn Machine>,
    logs: BTreeMap<u64, AbortHandle>,
    commands: BTreeMap<u64, mpsc::Sender<v1::exec_input::Input>>,
    signals: signal::Signals,
}

impl Serving {
    /// Serves nothing yet.
    pub fn new(starter: Starter, machine: Arc<dyn Machine>) -> Self {
        let (logs, commands) = (BTreeMap::new(), BTreeMap::new());
        Self { starter, machine, logs, commands, signals: signal::Signals::default() }
    }

    /// Takes a gateway's request.
    pub fn message(&mut self, message: Message, state: &State, outbox: &mpsc::Sender<v1::AgentMessage>) {
        self.logs.retain(|_, task| !task.is_finished());
        self.commands.retain(|_, inputs| !inputs.is_closed());
        match message {
            Message::LogRequest(request) => {
                let id = request.id;
                let task =
                    tokio::spawn(logs::logs_serve(self.starter.state.clone(), request, outbox.clone()));
                if let Some(before) = self.logs.insert(id, task.abort_handle()) {
                    before.abort();
                }
            }
            Message::LogCancel(cancel) => {
                if let Some(task) = self.logs.remove(&cancel.id) {
                    task.abort();
                }
            }
            Message::ExecStart(start) => {
                let (inputs, received) = mpsc::channel(INPUTS);
                self.commands.insert(start.id, inputs);
                let place = exec::Place::find(&start, state, &self.starter);
                tokio::spawn(exec::exec_serve(start, place, received, outbox.clone()));
            }
            Message::ExecInput(v1::ExecInput { id, input: Some(input) }) => self.input(id, input),
            Message::Signal(command) => {
                let error = self.signals.send(&command, state, &*self.machine).err().unwrap_or_default();
                let result = v1::CommandResult { id: command.id, error };
                let outbox = outbox.clone();
                tokio::spawn(async move { outbox.send(answer(Answer::Result(result))).await });
            }
            _ => tracing::warn!("a message of the gateway that this version does not know"),
        }
    }

    fn input(&mut self, id: u64, input: v1::exec_input::Input) {
        let Some(inputs) = self.commands.get(&id) else { return };
        if inputs.try_send(input).is_err() {
            // Closing the channel ends the command: it must not hold up everything else.
            self.commands.remove(&id);
        }
    }

    /// Ends everything: whoever asked has gone.
    pub fn end(&mut self) {
        for (_, task) in std::mem::take(&mut self.logs) {
            task.abort();
        }
        self.commands.clear();
    }
}

fn answer(message: Answer) -> v1::AgentMessage {
    v1::AgentMessage { message: Some(message) }
}
