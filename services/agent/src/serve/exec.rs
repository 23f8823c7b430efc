//! Runs a command in a task's cgroup, environment and directory, with or without a terminal.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use borough_proto::bounds::{STREAM_WINDOW_BYTES, TEXT_BYTES_MAX, stream_cost, text_cut};
use borough_proto::v1;
use borough_proto::v1::agent_message::Message as Answer;
use borough_proto::v1::exec_input::Input;
use borough_proto::v1::exec_output::Output;
use borough_proto::v1::task_status::Phase;
use borough_shim::exec::ExecMode;
use borough_shim::process::ProcessId;
use borough_shim::record::{ProcessKind, process_record};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answer;
use super::credit::Credit;
use super::terminal::Terminal;
use crate::attempt::AttemptId;
use crate::decide::AgentState;
use crate::outbox::Outbox;
use crate::shim::{Starter, exec_command};

/// Bytes of one message.
const CHUNK_BYTES: usize = 16 * 1024;
/// How long more output is awaited after the command has ended: other processes may hold its output open.
const OUTPUT_WAIT: Duration = Duration::from_millis(500);
/// The most bytes that the command itself can have left in a pipe when it ended. Later bytes come from other processes.
const LEFT_BYTES_MAX: usize = 1024 * 1024;

/// Where a command runs.
#[derive(Clone, Debug)]
pub(super) struct ExecPlace {
    directory: PathBuf,
    program: PathBuf,
    record_dir: Option<PathBuf>,
}

impl ExecPlace {
    /// The place of the attempt that a request names.
    ///
    /// # Errors
    /// Why no command can run there, for people.
    pub(super) fn find(start: &v1::ExecStart, state: &AgentState, starter: &Starter) -> Result<Self, String> {
        let id = AttemptId::of(start.attempt.as_ref()).map_err(|error| error.to_string())?;
        let attempt = state.attempts.get(&id).ok_or("this attempt is not on this node")?;
        if !matches!(attempt.phase(), Phase::Running | Phase::Stopping) || attempt.record.task.is_none() {
            return Err("the task is not running".to_owned());
        }
        Ok(Self {
            directory: starter.state.attempt(&id),
            program: starter.program.clone(),
            record_dir: starter.context.record_dir.clone(),
        })
    }
}

/// The channel between one command and its caller.
#[derive(Clone)]
pub(super) struct Link {
    /// The id of the request.
    pub id: u64,
    pub outbox: Outbox,
    /// Credit of its output: a slow reader slows the command, which waits at its pipe.
    pub credit: Credit,
    /// The caller has gone.
    pub cancelled: CancellationToken,
}

impl Link {
    /// Sends output once credit allows; `false` if the reader is gone.
    async fn output(&self, output: Output, bytes: usize) -> bool {
        self.credit.take(bytes).await && self.send(output).await
    }

    async fn send(&self, output: Output) -> bool {
        let message = v1::ExecOutput { id: self.id, output: Some(output) };
        self.outbox.data.send(answer(Answer::ExecOutput(message))).await.is_ok()
    }

    /// Lets the caller send more input.
    async fn input_taken(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let credit = Answer::Credit(v1::StreamCredit { id: self.id, bytes });
        // The session may be over.
        self.outbox.control.send(answer(credit)).await.ok();
    }
}

/// Runs a command until it ends or its caller has gone.
pub(super) async fn exec_serve(
    start: v1::ExecStart,
    place: Result<ExecPlace, String>,
    inputs: mpsc::Receiver<Input>,
    link: Link,
) {
    let ended = match place {
        Ok(place) => serve(&start, &place, inputs, &link).await,
        Err(error) => Err(error),
    };
    let last = match ended {
        Ok(status) => {
            use std::os::unix::process::ExitStatusExt;
            Output::Exit(v1::ExecExit { code: status.code(), signal: status.signal() })
        }
        Err(mut error) => {
            text_cut(&mut error, TEXT_BYTES_MAX);
            Output::Error(error)
        }
    };
    link.send(last).await;
}

async fn serve(
    start: &v1::ExecStart,
    place: &ExecPlace,
    inputs: mpsc::Receiver<Input>,
    link: &Link,
) -> Result<ExitStatus, String> {
    let text = |error: std::io::Error| error.to_string();
    let mode = if start.terminal.is_some() { ExecMode::Terminal } else { ExecMode::Plain };
    let mut command = exec_command(&place.program, &place.directory, mode, &start.command)?;
    let terminal = match start.terminal {
        Some(size) => {
            let (terminal, theirs) = Terminal::open(size).map_err(text)?;
            let other = || theirs.try_clone().map(Stdio::from);
            command.stdin(other().map_err(text)?).stdout(other().map_err(text)?).stderr(Stdio::from(theirs));
            Some(terminal)
        }
        None => {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            None
        }
    };
    let mut child = command.spawn().map_err(text)?;
    // Otherwise this process would hold the command's end of the terminal open, and its closing would never show.
    drop(command);
    let running = RunningCommand::new(&child, place);
    let ended = CancellationToken::new();
    let mut reading = tokio::task::JoinSet::new();
    let writer: ExecInput = if let Some(terminal) = terminal {
        let terminal = std::sync::Arc::new(terminal);
        let from = ExecOutput::Terminal(terminal.clone());
        reading.spawn(forward(from, link.clone(), Output::Stdout, ended.clone()));
        ExecInput::Terminal(terminal)
    } else {
        if let Some(stdout) = child.stdout.take() {
            let from = ExecOutput::Pipe(Box::new(stdout));
            reading.spawn(forward(from, link.clone(), Output::Stdout, ended.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            let from = ExecOutput::Pipe(Box::new(stderr));
            reading.spawn(forward(from, link.clone(), Output::Stderr, ended.clone()));
        }
        ExecInput::Pipe(child.stdin.take().map(|stdin| Box::new(stdin) as _))
    };
    let feeding = tokio::spawn(feed(inputs, writer, running.group, link.clone()));
    let status = child.wait().await.map_err(text);
    ended.cancel();
    while reading.join_next().await.is_some() {}
    feeding.abort();
    status
}

/// The input of a command.
enum ExecInput {
    Terminal(std::sync::Arc<Terminal>),
    Pipe(Option<Box<dyn AsyncWrite + Send + Unpin>>),
}

/// A running command, recorded for a guard if there is one.
struct RunningCommand {
    group: Option<Pid>,
    record: Option<PathBuf>,
}

impl RunningCommand {
    fn new(child: &Child, place: &ExecPlace) -> Self {
        let process = child.id().and_then(ProcessId::find);
        let record = place.record_dir.as_deref().zip(process);
        Self {
            // The command leads a session, so its number is that of its group.
            group: child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)),
            record: record
                .and_then(|(dir, process)| process_record(dir, ProcessKind::Exec, process, Vec::new()).ok()),
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if let Some(file) = &self.record {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The output of a command.
enum ExecOutput {
    Terminal(std::sync::Arc<Terminal>),
    Pipe(Box<dyn AsyncRead + Send + Unpin>),
}

impl ExecOutput {
    /// What the command has written; `None` once it has closed its end.
    async fn read(&mut self) -> Option<bytes::Bytes> {
        match self {
            Self::Terminal(terminal) => terminal.read().await,
            Self::Pipe(pipe) => {
                let mut buffer = vec![0; CHUNK_BYTES];
                let length = pipe.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
                buffer.truncate(length);
                Some(buffer.into())
            }
        }
    }
}

/// Forwards a command's output to its reader. After the end of the command, it sends the rest of the pipe, however slow
/// the reader is.
async fn forward(
    mut from: ExecOutput,
    link: Link,
    wrap: fn(bytes::Bytes) -> Output,
    ended: CancellationToken,
) {
    let quiet = async |ended: &CancellationToken| {
        ended.cancelled().await;
        tokio::time::sleep(OUTPUT_WAIT).await;
    };
    let mut left = LEFT_BYTES_MAX;
    while left > 0 {
        let data = tokio::select! {
            biased;
            data = from.read() => data,
            () = quiet(&ended) => return,
        };
        let Some(data) = data else { return };
        if ended.is_cancelled() {
            left = left.saturating_sub(data.len());
        }
        let bytes = data.len();
        if !link.output(wrap(data), bytes).await {
            return;
        }
    }
}

/// Feeds a command until its input ends; then kills it.
async fn feed(inputs: mpsc::Receiver<Input>, to: ExecInput, group: Option<Pid>, link: Link) {
    tokio::select! {
        () = feed_all(inputs, to, &link) => {}
        // A command that does not read must not hide that its caller has gone.
        () = link.cancelled.cancelled() => {}
    }
    if let Some(group) = group {
        // It may have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

async fn feed_all(mut inputs: mpsc::Receiver<Input>, mut to: ExecInput, link: &Link) {
    let mut taken = 0_usize;
    while let Some(input) = inputs.recv().await {
        taken = taken.saturating_add(match &input {
            Input::Stdin(data) => stream_cost(data.len()),
            Input::Window(_) => stream_cost(0),
            Input::StdinClosed(_) | Input::Cancelled(_) => 0,
        });
        match (input, &mut to) {
            (Input::Stdin(data), ExecInput::Terminal(terminal)) => terminal.write(&data).await,
            (Input::StdinClosed(_), ExecInput::Terminal(terminal)) => terminal.write(b"\x04").await,
            (Input::Window(size), ExecInput::Terminal(terminal)) => terminal.resize(size),
            (Input::Stdin(data), ExecInput::Pipe(Some(pipe))) => {
                let taken = pipe.write_all(&data).await.is_ok() && pipe.flush().await.is_ok();
                // It may have closed its input and keep running.
                to = if taken { to } else { ExecInput::Pipe(None) };
            }
            (Input::StdinClosed(_), ExecInput::Pipe(_)) => to = ExecInput::Pipe(None),
            (Input::Cancelled(_), _) => return,
            _ => {}
        }
        if taken >= STREAM_WINDOW_BYTES / 4 {
            link.input_taken(std::mem::take(&mut taken)).await;
        }
    }
}
