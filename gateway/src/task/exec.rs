//! A command inside a running task's environment: the caller's input to the agent, the agent's output to the caller.

use std::pin::Pin;
use std::sync::Arc;

use borough_proto::v1;
use borough_proto::v1::exec_input::Input;
use borough_proto::v1::exec_request::Message as FromCaller;
use borough_proto::v1::exec_response::Message as ToCaller;
use borough_proto::v1::gateway_message::Message as ToAgent;
use futures::Stream;
use tonic::{Status, Streaming};

use super::session::Found;
use crate::session::message::life_to_message;
use crate::session::registry::{Answer, Session};
use crate::status::{status_refused, status_unavailable};

/// A stream of output.
pub type ExecStream = Pin<Box<dyn Stream<Item = Result<v1::ExecResponse, Status>> + Send>>;

/// Starts the command and connects both sides. The command ends with the caller.
pub async fn exec_start(
    found: Found,
    open: v1::ExecOpen,
    inbound: Streaming<v1::ExecRequest>,
) -> Result<ExecStream, Status> {
    let mut answers = found.session.request();
    let id = answers.id;
    let start = v1::ExecStart {
        id,
        life: Some(life_to_message(found.life)),
        command: open.command,
        terminal: open.terminal,
    };
    if !found.session.send(ToAgent::ExecStart(start)).await {
        return Err(status_unavailable("AGENT_AWAY", "the node's agent has just disconnected; try again"));
    }
    let input = tokio::spawn(input_forward(Arc::clone(&found.session), id, inbound));
    let guard = Cancel { session: found.session, id, input };
    Ok(Box::pin(async_stream::stream! {
        let _guard = guard;
        while let Some(answer) = answers.next().await {
            let output = match answer {
                Answer::Exec(output) => output.output,
                Answer::Broken(why) => {
                    yield Err(status_unavailable("EXEC_BROKEN", why));
                    return;
                }
                Answer::Log(_) | Answer::Result(_) => continue,
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

/// The caller's messages once more, for the gateway that can start the command. A caller that breaks off ends it there
/// as here: by ending the stream.
pub fn exec_again(
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

async fn input_forward(session: Arc<Session>, id: u64, mut inbound: Streaming<v1::ExecRequest>) {
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
        let sent = session.send(ToAgent::ExecInput(v1::ExecInput { id, input: Some(input) })).await;
        if over || !sent {
            return;
        }
    }
}

/// Ends the command when the caller no longer listens.
struct Cancel {
    session: Arc<Session>,
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
