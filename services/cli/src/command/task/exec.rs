//! `task exec`: runs a command inside a running task's environment, with the caller's terminal if there is one.

use std::io::{IsTerminal as _, Read as _};

use borough_client::Client;
use borough_proto::v1::exec_request::Message as Input;
use borough_proto::v1::exec_response::Message as Output;
use borough_proto::v1::{ExecExit, ExecResponse};
use futures::StreamExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::terminal::{RawTerminal, size};
use crate::args::ExecArguments;
use crate::exit::{Code, Failure};
use crate::output::{Printer, end_when_stuck};

/// The most messages that wait to be sent. A terminal types slower; a file waits.
const INPUT_QUEUE: usize = 32;

pub(super) async fn exec(
    client: &Client,
    arguments: ExecArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    if arguments.command.first().is_some_and(String::is_empty) {
        let code = Code::Command(Code::Usage.number());
        return Err(Failure::new(code, "COMMAND: \"\"; accepted: a program and its arguments")
            .with_hint("borough task exec --help"));
    }
    let task = arguments.target.resolve(client.user());
    let terminals = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let terminal = if arguments.no_tty || !terminals { None } else { size() };
    let with_terminal = terminal.is_some();
    let (sender, receiver) = mpsc::channel(INPUT_QUEUE);
    let opened = client.task_exec(&task, arguments.command, terminal, ReceiverStream::new(receiver)).await;
    let mut output = opened?;
    // Raw mode begins only after the command has started.
    let raw = if with_terminal {
        Some(RawTerminal::enter().map_err(|error| broken(&format!("the terminal: {error}")))?)
    } else {
        None
    };
    forward_input(sender.clone());
    if with_terminal {
        tokio::spawn(forward_window(sender));
    }
    let mut ending = signals()?;
    // A terminal in raw mode sends no signals, and would be left so.
    if !with_terminal {
        end_when_stuck();
    }
    loop {
        let message = tokio::select! {
            message = output.next() => message,
            signal = ending.received() => {
                drop(raw);
                let code = Code::Command(128_u8.saturating_add(signal));
                return Err(Failure::new(code, "interrupted by a signal"));
            }
        };
        let Some(message) = message else {
            return Err(broken("the connection ended before the command did"));
        };
        if let Some(code) = shown(message?, printer)? {
            return Ok(code);
        }
    }
}

fn broken(what: &str) -> Failure {
    Failure::new(Code::Failed, what)
}

/// Shows a part of the output. Returns the code once the command has ended.
fn shown(message: ExecResponse, printer: &Printer) -> Result<Option<Code>, Failure> {
    match message.message {
        Some(Output::Stdout(bytes)) => printer.bytes(&bytes)?,
        Some(Output::Stderr(bytes)) => printer.error_bytes(&bytes)?,
        Some(Output::Exit(exit)) => return Ok(Some(code(&exit))),
        None => {}
    }
    Ok(None)
}

/// The command's own code, or 128 and its signal, as in shells.
fn code(exit: &ExecExit) -> Code {
    let number = match (exit.code, exit.signal) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128_i32.saturating_add(signal),
        (None, None) => 255,
    };
    Code::Command(u8::try_from(number).unwrap_or(u8::MAX))
}

/// Sends standard input from a separate thread: a read of it cannot be cancelled, and the thread is abandoned at the
/// end.
fn forward_input(sender: mpsc::Sender<Input>) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 8 << 10];
        loop {
            let message = match std::io::stdin().lock().read(&mut buffer) {
                Ok(0) | Err(_) => Input::StdinClosed(true),
                Ok(length) => Input::Stdin(buffer.get(..length).unwrap_or_default().to_vec().into()),
            };
            let last = matches!(message, Input::StdinClosed(_));
            if sender.blocking_send(message).is_err() || last {
                return;
            }
        }
    });
}

/// Sends the terminal's size whenever it changes.
async fn forward_window(sender: mpsc::Sender<Input>) {
    let Ok(mut changes) = signal(SignalKind::window_change()) else { return };
    while changes.recv().await.is_some() {
        let Some(size) = size() else { return };
        if sender.send(Input::Window(size)).await.is_err() {
            return;
        }
    }
}

/// The signals that would end this process with the terminal left in raw mode.
struct TerminalSignals {
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

fn signals() -> Result<TerminalSignals, Failure> {
    let listen = |kind| signal(kind).map_err(|error| broken(&format!("cannot listen for signals: {error}")));
    Ok(TerminalSignals {
        terminate: listen(SignalKind::terminate())?,
        hang_up: listen(SignalKind::hangup())?,
        interrupt: listen(SignalKind::interrupt())?,
    })
}

impl TerminalSignals {
    /// The number of the signal that comes.
    async fn received(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.hang_up.recv() => 1,
            _ = self.interrupt.recv() => 2,
        }
    }
}
