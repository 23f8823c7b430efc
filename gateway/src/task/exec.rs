//! Runs a command inside a running task's environment. Forwards the caller's input to the agent and the agent's output
//! to the caller.

use std::pin::Pin;
use std::sync::Arc;

use borough_proto::bounds::{EXEC_ARGUMENTS_MAX, EXEC_COMMAND_BYTES_MAX, STREAM_DATA_BYTES_MAX, stream_cost};
use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use borough_proto::v1::exec_input::Input;
use borough_proto::v1::exec_request::Message as FromCaller;
use borough_proto::v1::exec_response::Message as ToCaller;
use borough_proto::v1::gateway_message::Message as ToAgent;
use futures::Stream;
use tokio::sync::Semaphore;
use tonic::{Status, Streaming};

use super::session::FoundAttempt;
use super::slot::{STREAM_WINDOW, StreamSlot};
use crate::session::message::attempt_to_message;
use crate::session::registry::{AgentAnswer, RegisteredSession};
use crate::status::{status_from_field, status_refused, status_unavailable};

/// A stream of output.
pub(super) type ExecStream = Pin<Box<dyn Stream<Item = Result<v1::ExecResponse, Status>> + Send>>;

/// Refuses a command that is longer than any message can be.
pub(super) fn command_check(open: &v1::ExecOpen) -> Result<(), Status> {
    let bytes: usize = open.command.iter().map(String::len).sum();
    let (count, most) = (open.command.len(), format!("at most {EXEC_ARGUMENTS_MAX} arguments"));
    if count > EXEC_ARGUMENTS_MAX {
        let refused = FieldRefused::new("command", format!("{count} arguments"), most);
        return Err(status_from_field(&refused));
    }
    if bytes > EXEC_COMMAND_BYTES_MAX {
        let most = format!("at most {EXEC_COMMAND_BYTES_MAX} bytes; give more as its input");
        return Err(status_from_field(&FieldRefused::new("command", format!("{bytes} bytes"), most)));
    }
    Ok(())
}

/// Starts the command and connects both sides, each as fast as the other reads. The command ends with the caller. The
/// stream holds its `slot` to its end.
pub(super) async fn exec_start(
    found: FoundAttempt,
    open: v1::ExecOpen,
    inbound: Streaming<v1::ExecRequest>,
    slot: StreamSlot,
) -> Result<ExecStream, Status> {
    let mut answers = found.session.request();
    let id = answers.id;
    let start = v1::ExecStart {
        id,
        attempt: Some(attempt_to_message(found.attempt)),
        command: open.command,
        terminal: open.terminal,
        window_bytes: STREAM_WINDOW,
    };
    if !found.session.send(ToAgent::ExecStart(start)).await {
        return Err(found.agent.away().await);
    }
    let input = tokio::spawn(input_forward(Arc::clone(&found.session), answers.input(), id, inbound));
    let (agent, session) = (found.agent, Arc::clone(&found.session));
    let guard = Cancel { session: found.session, id, input };
    Ok(Box::pin(async_stream::stream! {
        let _held = (guard, slot);
        loop {
            let Some(answer) = agent.answer(&session, &mut answers).await else { return };
            let output = match answer {
                AgentAnswer::Exec(output) => output.output,
                AgentAnswer::Gone => {
                    yield Err(agent.away().await);
                    return;
                }
                AgentAnswer::Broken(why) => {
                    yield Err(status_unavailable("EXEC_BROKEN", why));
                    return;
                }
                AgentAnswer::Log(_) | AgentAnswer::Result(_) => continue,
            };
            let (message, last) = match output {
                Some(v1::exec_output::Output::Stdout(data)) => (ToCaller::Stdout(data), false),
                Some(v1::exec_output::Output::Stderr(data)) => (ToCaller::Stderr(data), false),
                Some(v1::exec_output::Output::Exit(exit)) => (ToCaller::Exit(exit), true),
                Some(v1::exec_output::Output::Error(error)) => {
                    yield Err(status_refused("EXEC_REFUSED", error));
                    return;
                }
                None => continue,
            };
            yield Ok(v1::ExecResponse { message: Some(message) });
            if last {
                return;
            }
        }
    }))
}

/// The caller's messages for the gateway that can start the command, the opening one first. A caller that disconnects
/// ends the stream there, as here.
pub(super) fn exec_again(
    open: v1::ExecOpen,
    mut inbound: Streaming<v1::ExecRequest>,
) -> impl Stream<Item = v1::ExecRequest> + Send + 'static {
    async_stream::stream! {
        yield v1::ExecRequest { message: Some(FromCaller::Open(open)) };
        while let Ok(Some(message)) = inbound.message().await {
            yield message;
        }
    }
}

/// Sends the caller's input to the agent in pieces, as fast as the command reads it. It reads no more from the caller
/// before that.
async fn input_forward(
    session: Arc<RegisteredSession>,
    credit: Arc<Semaphore>,
    id: u64,
    mut inbound: Streaming<v1::ExecRequest>,
) {
    loop {
        let input = match inbound.message().await {
            Ok(Some(message)) => match message.message {
                Some(FromCaller::Stdin(data)) => Input::Stdin(data),
                Some(FromCaller::StdinClosed(_)) => Input::StdinClosed(true),
                Some(FromCaller::Window(window)) => Input::Window(window),
                Some(FromCaller::Open(_)) | None => continue,
            },
            Ok(None) => Input::StdinClosed(true),
            Err(_) => Input::Cancelled(true),
        };
        let over = matches!(input, Input::StdinClosed(_) | Input::Cancelled(_));
        let sent = match input {
            Input::Stdin(data) => stdin_send(&session, &credit, id, data).await,
            Input::Window(_) => input_send(&session, &credit, id, input, stream_cost(0)).await,
            Input::StdinClosed(_) | Input::Cancelled(_) => input_send(&session, &credit, id, input, 0).await,
        };
        if over || !sent {
            return;
        }
    }
}

async fn stdin_send(
    session: &RegisteredSession,
    credit: &Semaphore,
    id: u64,
    mut data: bytes::Bytes,
) -> bool {
    while !data.is_empty() {
        let piece = data.split_to(data.len().min(STREAM_DATA_BYTES_MAX));
        let cost = stream_cost(piece.len());
        if !input_send(session, credit, id, Input::Stdin(piece), cost).await {
            return false;
        }
    }
    true
}

/// Sends one piece of input once credit allows; `false` if the session or the command is over.
async fn input_send(
    session: &RegisteredSession,
    credit: &Semaphore,
    id: u64,
    input: Input,
    cost: usize,
) -> bool {
    let Ok(permits) = credit.acquire_many(u32::try_from(cost).unwrap_or(u32::MAX)).await else {
        return false;
    };
    permits.forget();
    session.send(ToAgent::ExecInput(v1::ExecInput { id, input: Some(input) })).await
}

/// Ends the command when the caller is gone.
struct Cancel {
    session: Arc<RegisteredSession>,
    id: u64,
    input: tokio::task::JoinHandle<()>,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.input.abort();
        let (session, id) = (Arc::clone(&self.session), self.id);
        tokio::spawn(async move {
            let input = Some(Input::Cancelled(true));
            session.send(ToAgent::ExecInput(v1::ExecInput { id, input })).await;
        });
    }
}
