//! Running a command beside a task: in its cgroup, its environment and its directory, with or without a terminal.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use borough_proto::v1;
use borough_proto::v1::agent_message::Message as Answer;
use borough_proto::v1::exec_input::Input;
use borough_proto::v1::exec_output::Output;
use borough_proto::v1::task_status::Phase;
use borough_shim::exec::{PLAIN, TERMINAL};
use borough_shim::process::ProcessId;
use borough_shim::record::{Kind, process_record};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::answer;
use super::terminal::Terminal;
use crate::decide::State;
use crate::life::LifeId;
use crate::runtime::Starter;

/// Bytes of one message.
const CHUNK_BYTES: usize = 16 * 1024;
/// After the command has ended, others may hold its output open; so long is waited for more of it.
const OUTPUT_WAIT: Duration = Duration::from_millis(500);

/// Where a command runs.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
    program: PathBuf,
    record_dir: Option<PathBuf>,
}

impl Place {
    /// The life a request names.
    ///
    /// # Errors
    /// Why there is nothing to run a command beside, for people.
    pub fn find(start: &v1::ExecStart, state: &State, starter: &Starter) -> Result<Self, String> {
        let id = LifeId::of(start.life.as_ref()).map_err(|error| error.to_string())?;
        let life = state.lives.get(&id).ok_or("this life is not on this node")?;
        if !matches!(life.phase(), Phase::Running | Phase::Stopping) || life.record.task.is_none() {
            return Err("the task is not running".to_owned());
        }
        Ok(Self {
            directory: starter.state.life(&id),
            program: starter.program.clone(),
            record_dir: starter.ground.record_dir.clone(),
        })
    }
}

/// The program that becomes a command beside the task of a life.
///
/// # Errors
/// Why it cannot be run, for people.
pub fn exec_command(
    program: &Path,
    life: &Path,
    terminal: bool,
    command: &[String],
) -> Result<Command, String> {
    if command.first().is_none_or(String::is_empty) || command.iter().any(|part| part.contains('\0')) {
        return Err("the command is empty, or holds a NUL".to_owned());
    }
    let mut start = Command::new(program);
    start.arg("exec").arg(life).arg(if terminal { TERMINAL } else { PLAIN }).args(command);
    start.env_clear().current_dir("/").kill_on_drop(true);
    Ok(start)
}

/// Runs a command until it ends or whoever asked has gone.
pub async fn exec_serve(
    start: v1::ExecStart,
    place: Result<Place, String>,
    inputs: mpsc::Receiver<Input>,
    outbox: mpsc::Sender<v1::AgentMessage>,
) {
    let id = start.id;
    let ended = match place {
        Ok(place) => serve(&start, &place, inputs, &outbox).await,
        Err(error) => Err(error),
    };
    let last = match ended {
        Ok(status) => {
            use std::os::unix::process::ExitStatusExt;
            Output::Exit(v1::ExecExit { code: status.code(), signal: status.signal() })
        }
        Err(error) => Output::Error(error),
    };
    send(&outbox, id, last).await;
}

async fn send(outbox: &mpsc::Sender<v1::AgentMessage>, id: u64, output: Output) -> bool {
    let message = v1::ExecOutput { id, output: Some(output) };
    outbox.send(answer(Answer::ExecOutput(message))).await.is_ok()
}

async fn serve(
    start: &v1::ExecStart,
    place: &Place,
    inputs: mpsc::Receiver<Input>,
    outbox: &mpsc::Sender<v1::AgentMessage>,
) -> Result<ExitStatus, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut command =
        exec_command(&place.program, &place.directory, start.terminal.is_some(), &start.command)?;
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
    // The command holds our end of the terminal open otherwise, and its end would never be seen.
    drop(command);
    let running = Running::new(&child, place);
    let id = start.id;
    let mut reading = tokio::task::JoinSet::new();
    let writer: Feed = if let Some(terminal) = terminal {
        let terminal = std::sync::Arc::new(terminal);
        let (reader, to) = (terminal.clone(), outbox.clone());
        reading.spawn(async move {
            while let Some(data) = reader.read().await {
                if !send(&to, id, Output::Stdout(data)).await {
                    return;
                }
            }
        });
        Feed::Terminal(terminal)
    } else {
        if let Some(stdout) = child.stdout.take() {
            reading.spawn(forward(stdout, outbox.clone(), id, Output::Stdout));
        }
        if let Some(stderr) = child.stderr.take() {
            reading.spawn(forward(stderr, outbox.clone(), id, Output::Stderr));
        }
        Feed::Pipe(child.stdin.take().map(|stdin| Box::new(stdin) as _))
    };
    let feeding = tokio::spawn(feed(inputs, writer, running.group));
    let status = child.wait().await.map_err(text);
    let drained = async { while reading.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(OUTPUT_WAIT, drained).await;
    feeding.abort();
    status
}

/// Where a command's input goes.
enum Feed {
    Terminal(std::sync::Arc<Terminal>),
    Pipe(Option<Box<dyn AsyncWrite + Send + Unpin>>),
}

/// A command that runs: recorded for a guard, where there is one, as long as it does.
struct Running {
    group: Option<Pid>,
    record: Option<PathBuf>,
}

impl Running {
    fn new(child: &Child, place: &Place) -> Self {
        let process = child.id().and_then(ProcessId::find);
        let record = place.record_dir.as_deref().zip(process);
        Self {
            // It leads a session, so its number is that of its group.
            group: child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)),
            record: record
                .and_then(|(dir, process)| process_record(dir, Kind::Exec, process, Vec::new()).ok()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(file) = &self.record {
            let _ = std::fs::remove_file(file);
        }
    }
}

async fn forward(
    mut from: impl AsyncRead + Unpin,
    to: mpsc::Sender<v1::AgentMessage>,
    id: u64,
    wrap: fn(bytes::Bytes) -> Output,
) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let data = bytes::Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
        if !send(&to, id, wrap(data)).await {
            return;
        }
    }
}

/// Feeds a command until nobody feeds it any more; then it is killed.
async fn feed(mut inputs: mpsc::Receiver<Input>, mut to: Feed, group: Option<Pid>) {
    while let Some(input) = inputs.recv().await {
        match (input, &mut to) {
            (Input::Stdin(data), Feed::Terminal(terminal)) => terminal.write(&data).await,
            (Input::StdinClosed(_), Feed::Terminal(terminal)) => terminal.write(b"\x04").await,
            (Input::Window(size), Feed::Terminal(terminal)) => terminal.resize(size),
            (Input::Stdin(data), Feed::Pipe(Some(pipe))) => {
                let taken = pipe.write_all(&data).await.is_ok() && pipe.flush().await.is_ok();
                // It may have closed its input and go on.
                to = if taken { to } else { Feed::Pipe(None) };
            }
            (Input::StdinClosed(_), Feed::Pipe(_)) => to = Feed::Pipe(None),
            (Input::Cancelled(_), _) => break,
            _ => {}
        }
    }
    if let Some(group) = group {
        // It may have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
