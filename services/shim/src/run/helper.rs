//! The helpers of an attempt while it runs: their processes, output and records.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::{ioctl_fionbio, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitStatus, kill_process, kill_process_group};

use super::helper_step::{HelperEnd, HelperRun, HelperStage, HelperStep, MainStage, helper_step};
use super::output::Output;
use crate::clock;
use crate::log::OutputStream;
use crate::process::ProcessId;
use crate::record::{ExitRecord, HelperExitRecord, HelperProgress, HelperRecord};
use crate::spec::{HELPERS_DIR, HelperCommand, HelperWhen, LogLimits, Spec};

/// Variables of the attempt's end, for helpers after its command.
const EXIT_CODE: &str = "BOROUGH_EXIT_CODE";
const EXIT_SIGNAL: &str = "BOROUGH_EXIT_SIGNAL";
const EXIT_STOPPED: &str = "BOROUGH_EXIT_STOPPED";
pub(super) const EXIT_VARIABLES: [&str; 3] = [EXIT_CODE, EXIT_SIGNAL, EXIT_STOPPED];

/// One helper.
pub(super) struct Helper {
    command: HelperCommand,
    pub state: HelperRun,
    pub record: HelperRecord,
    pid: Option<Pid>,
    /// Open until the program is executed.
    pub start: Option<OwnedFd>,
    start_error: Vec<u8>,
    pub outputs: [Output; 2],
    /// The ends of its output for its processes. Kept open, since it may start again.
    theirs: (OwnedFd, OwnedFd),
    /// The record of its process for a guard.
    pub recorded: Option<PathBuf>,
}

impl Helper {
    fn new(attempt: &Path, command: &HelperCommand, log: LogLimits) -> io::Result<Self> {
        let directory = attempt.join(HELPERS_DIR).join(&command.name);
        fs::create_dir_all(&directory)?;
        let (stdout, out) = Output::new(&directory, OutputStream::Stdout, log)?;
        let (stderr, err) = Output::new(&directory, OutputStream::Stderr, log)?;
        let deadline = command.deadline_ms.map(Duration::from_millis);
        Ok(Self {
            command: command.clone(),
            state: HelperRun::new(command.when, deadline),
            record: HelperRecord {
                name: command.name.clone(),
                when: command.when,
                ..HelperRecord::default()
            },
            pid: None,
            start: None,
            start_error: Vec::new(),
            outputs: [stdout, stderr],
            theirs: (out, err),
            recorded: None,
        })
    }

    fn spawn(&mut self, at: usize, exit: Option<&ExitRecord>) -> io::Result<()> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&ours, true)?;
        let (out, err) = (self.theirs.0.try_clone()?, self.theirs.1.try_clone()?);
        let child = Command::new("/proc/self/exe")
            .args(["helper", &at.to_string()])
            .env_clear()
            .envs(exit.map(exit_variables).unwrap_or_default())
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(out))
            .stderr(Stdio::from(err))
            .spawn()?;
        self.pid = Some(Pid::from_child(&child));
        self.record.process = ProcessId::of_child(child.id());
        self.start = Some(ours);
        self.start_error.clear();
        Ok(())
    }

    /// Checks whether its program runs by now. Returns true if that is news.
    fn start_look(&mut self) -> bool {
        let Some(pipe) = &self.start else { return false };
        let mut chunk = [0; 1024];
        match read(pipe, &mut chunk) {
            Ok(0) => {
                self.start = None;
                if self.start_error.is_empty()
                    && let HelperStage::Running { executed, .. } = &mut self.state.stage
                {
                    *executed = true;
                }
                true
            }
            Ok(length) => {
                self.start_error.extend(chunk.iter().take(length));
                true
            }
            Err(_) => false,
        }
    }

    fn signal(&self, signal: Signal) {
        let Some(pid) = self.pid else { return };
        // Its group exists only once it leads a session.
        if kill_process_group(pid, signal).is_err() || signal == Signal::KILL {
            let _ = kill_process(pid, signal);
        }
    }

    fn ended(&mut self, end: HelperEnd, exit: HelperExitRecord, now: Duration) {
        self.state.ended(end, now);
        if let Some(file) = self.recorded.take() {
            let _ = fs::remove_file(file);
        }
        self.pid = None;
        self.record.process = None;
        // Only one beside the command starts again. After a failure before the command, the attempt itself ends.
        self.record.state = match self.record.when {
            HelperWhen::Beside => HelperProgress::Waiting,
            HelperWhen::Before | HelperWhen::After => HelperProgress::Ended,
        };
        self.record.exit = Some(HelperExitRecord { at_ms: clock::wall_ms(), ..exit });
    }

    /// Records the end of its process, whose exit status was collected.
    fn exited(&mut self, pid: Pid, status: WaitStatus, now: Duration) {
        // Its death has closed the pipe, so this is the final result of the start.
        while self.start_look() {}
        self.start = None;
        // What it has left in its group ends with it.
        let _ = kill_process_group(pid, Signal::KILL);
        let killed = matches!(self.state.stage, HelperStage::Running { killed: Some(_), .. });
        let message = if !self.start_error.is_empty() {
            String::from_utf8_lossy(&self.start_error).into_owned()
        } else if let (true, Some(ms)) = (killed, self.command.deadline_ms) {
            format!("it did not end within its deadline of {}", seconds(ms))
        } else {
            String::new()
        };
        let end = match status.exit_status() {
            _ if !self.start_error.is_empty() => HelperEnd::NotStarted,
            Some(0) => HelperEnd::Succeeded,
            _ => HelperEnd::Failed,
        };
        let started = end != HelperEnd::NotStarted;
        let code = status.exit_status().filter(|_| started);
        let signal = status.terminating_signal().filter(|_| started);
        self.ended(end, HelperExitRecord { code, signal, message, at_ms: 0 }, now);
    }

    /// Why the attempt fails by it, for people.
    pub(super) fn failure(&self) -> String {
        let HelperRecord { name, when, exit, .. } = &self.record;
        let exit = exit.clone().unwrap_or_default();
        let how = match (exit.message.as_str(), exit.code, exit.signal) {
            ("", Some(code), _) => format!("exit code {code}"),
            ("", None, Some(signal)) => format!("ended by signal {signal}"),
            (message, ..) => message.to_owned(),
        };
        format!("its helper {name:?} ({} its command) failed: {how}", when.name())
    }
}

fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1_000) { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
}

/// How the attempt's own command ended, as variables.
fn exit_variables(exit: &ExitRecord) -> Vec<(&'static str, String)> {
    let code = exit.code.map(|code| (EXIT_CODE, code.to_string()));
    let signal = exit.signal.map(|signal| (EXIT_SIGNAL, signal.to_string()));
    code.into_iter().chain(signal).chain([(EXIT_STOPPED, exit.stopped.to_string())]).collect()
}

/// The helpers of one attempt.
pub(super) struct Helpers {
    pub all: Vec<Helper>,
    /// Nothing that the command had started is left.
    pub swept: bool,
    /// The end of the grace period of those beside the command, once it has ended.
    pub kill_at: Duration,
}

impl Helpers {
    pub(super) fn new(attempt: &Path, spec: &Spec) -> io::Result<Self> {
        let new = |command| Helper::new(attempt, command, spec.log);
        let all = spec.helpers.iter().map(new).collect::<io::Result<_>>()?;
        Ok(Self { all, swept: false, kill_at: Duration::ZERO })
    }

    pub(super) fn records(&self) -> Vec<HelperRecord> {
        self.all.iter().map(|helper| helper.record.clone()).collect()
    }

    /// The next step.
    pub(super) fn due(&self, main: MainStage, now: Duration) -> HelperStep {
        let states: Vec<HelperRun> = self.all.iter().map(|helper| helper.state).collect();
        helper_step(&states, main, now)
    }

    /// Checks whether programs run by now. Returns true if there is news.
    pub(super) fn start_look(&mut self) -> bool {
        let news = self.all.iter_mut().map(Helper::start_look).filter(|news| *news).count();
        news > 0
    }

    /// Starts a helper. `exit` is how the attempt's own command ended.
    pub(super) fn start(&mut self, at: usize, exit: Option<&ExitRecord>, now: Duration) {
        let Some(helper) = self.all.get_mut(at) else { return };
        if helper.state.stage != HelperStage::Waiting {
            helper.record.restarts = helper.record.restarts.saturating_add(1);
        }
        helper.state.stage =
            HelperStage::Running { since: now, executed: false, terminated: false, killed: None };
        helper.record.state = HelperProgress::Running;
        if let Err(error) = helper.spawn(at, exit) {
            let message = format!("cannot prepare the start: {error}");
            helper.ended(HelperEnd::NotStarted, HelperExitRecord { message, ..Default::default() }, now);
        }
    }

    pub(super) fn terminate(&mut self, at: usize) {
        let Some(helper) = self.all.get_mut(at) else { return };
        if let HelperStage::Running { terminated, .. } = &mut helper.state.stage {
            *terminated = true;
        }
        helper.signal(Signal::TERM);
    }

    pub(super) fn kill(&mut self, at: usize, now: Duration) {
        let Some(helper) = self.all.get_mut(at) else { return };
        if let HelperStage::Running { killed, .. } = &mut helper.state.stage {
            *killed = Some(now);
        }
        helper.signal(Signal::KILL);
    }

    /// SIGTERM to those that run before the attempt's own command does.
    pub(super) fn terminate_running(&mut self) {
        for at in 0..self.all.len() {
            self.terminate(at);
        }
    }

    /// Records the end of a child. Returns true if it was a helper.
    pub(super) fn exited(&mut self, pid: Pid, status: WaitStatus, now: Duration) -> bool {
        let helper = self.all.iter_mut().find(|helper| helper.pid == Some(pid));
        helper.map(|helper| helper.exited(pid, status, now)).is_some()
    }

    /// No helper starts any more. Those that never ran say so by an end without an exit.
    pub(super) fn close(&mut self) {
        for helper in &mut self.all {
            helper.record.state = HelperProgress::Ended;
        }
    }
}
