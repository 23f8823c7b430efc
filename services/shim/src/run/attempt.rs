//! The shim's loop: one thread, one poll over the task's output, its start and the shim's signals.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitStatus, getpid, kill_process_group, set_child_subreaper, setsid};

use super::helper::{Helper, Helpers};
use super::helper_step::{HelperStep, MainStage, StartWish};
use super::leftover::{children_reap, leftover_kill};
use super::output::Output;
use super::termination::{Termination, TerminationStep};
use crate::cgroup::{Leaf, oom_text};
use crate::clock;
use crate::file::{file_sync, json_begin, json_read, json_rewrite, reserve_release};
use crate::log::OutputStream;
use crate::process::{ProcessId, boot_id};
use crate::record::{AttemptRecord, ExitRecord, ProcessKind, STATE_FILE, process_record};
use crate::spec::{SPEC_FILE, STOP_FILE, Spec, StopOrder};

/// Signals that only wake the loop. They include those that would end a shim: it ends only with its task.
const WAKING: [Signal; 6] =
    [Signal::CHILD, Signal::USR1, Signal::USR2, Signal::TERM, Signal::INT, Signal::HUP];
/// The loop checks at least this often whether the attempt's directory still exists, or a stop was ordered without a
/// signal.
const LOOK: Duration = Duration::from_secs(5);
/// Time between checks for an event that sends no signal; at first, and at most.
const SOON: Duration = Duration::from_millis(5);
const ENDING_MAX: Duration = Duration::from_millis(500);

/// Runs the attempt in this directory until it is released.
///
/// # Errors
/// The attempt cannot be begun: no spec, a spec that was run before, no pipes. A task that cannot be started is not an
/// error but a recorded exit.
pub fn attempt_run(attempt: &Path) -> io::Result<()> {
    // Fails only if the shim leads a session already.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    // The kernel's out-of-memory killer should end tasks, not shims. Without privileges this is refused, which does no
    // harm.
    let _ = fs::write("/proc/self/oom_score_adj", "-999");
    std::env::set_current_dir(attempt)?;
    // Relative from here on: the agent's state directory may be moved, and its orders must still be found.
    let attempt = Path::new(".");
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no spec.json");
    let spec: Spec = json_read(attempt, SPEC_FILE)?.ok_or_else(missing)?;
    // Held until this process ends: an agent that does not know whether it has started a shim starts another.
    let lock = File::open(attempt)?;
    let first = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    if !first || attempt.join(STATE_FILE).exists() || spec.boot_id != boot_id()? {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this attempt was begun before"));
    }
    // Signals are caught before the record names this process. The flag is set before the loop wakes, so the loop finds
    // it set.
    let stop_now = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(Signal::USR2.as_raw(), stop_now.clone())?;
    let signals = signals_open()?;
    let mut shim = Shim::begin(attempt, &spec, stop_now)?;
    shim.task_start(&spec);
    let mut moved = false;
    while !shim.over {
        shim.step(&signals)?;
        if !moved && shim.start.is_none() {
            // After the start, which must not wait for it.
            moved = true;
            if let Err(error) = spec.shim_cgroup.join() {
                note(&format!("stays in its agent's cgroup: {error}"));
            }
        }
    }
    for file in shim.recorded.iter().flatten() {
        let _ = fs::remove_file(file);
    }
    Ok(())
}

fn signals_open() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for signal in WAKING {
        signal_hook::low_level::pipe::register(signal.as_raw(), theirs.try_clone()?)?;
    }
    Ok(ours)
}

/// Whether the pipes of a task may hold more than was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PendingOutput {
    None,
    Some,
}

/// One attempt while it runs.
struct Shim {
    attempt: PathBuf,
    cgroup: Leaf,
    record_dir: Option<PathBuf>,
    record: AttemptRecord,
    /// The record has changed and is not written yet.
    unwritten: bool,
    task: Option<Pid>,
    /// The same, so that it can be recorded even if it ends at once.
    task_id: Option<ProcessId>,
    /// Open until the program is executed.
    start: Option<OwnedFd>,
    start_error: Vec<u8>,
    outputs: [Output; 2],
    theirs: Option<(OwnedFd, OwnedFd)>,
    termination: Termination,
    /// Set by SIGUSR2.
    stop_now: Arc<AtomicBool>,
    stop_default: StopOrder,
    recorded: [Option<PathBuf>; 2],
    helpers: Helpers,
    /// Checks for remaining processes since the task's own process has ended.
    ending_steps: u32,
    over: bool,
}

impl Shim {
    fn begin(attempt: &Path, spec: &Spec, stop_now: Arc<AtomicBool>) -> io::Result<Self> {
        let own = ProcessId::find(std::process::id());
        let helpers = Helpers::new(attempt, spec)?;
        let record = AttemptRecord {
            boot_id: boot_id()?,
            shim: own,
            helpers: helpers.records(),
            ..AttemptRecord::default()
        };
        json_begin(attempt, STATE_FILE, &record)?;
        let (stdout, out) = Output::new(attempt, OutputStream::Stdout, spec.log)?;
        let (stderr, err) = Output::new(attempt, OutputStream::Stderr, spec.log)?;
        let mut shim = Self {
            attempt: attempt.to_owned(),
            cgroup: spec.cgroup.clone(),
            record_dir: spec.record_dir.clone(),
            record,
            unwritten: false,
            task: None,
            task_id: None,
            start: None,
            start_error: Vec::new(),
            outputs: [stdout, stderr],
            theirs: Some((out, err)),
            termination: Termination::default(),
            stop_now,
            stop_default: spec.stop,
            recorded: [None, None],
            helpers,
            ending_steps: 0,
            over: false,
        };
        shim.recorded[0] = own.and_then(|own| shim.process_note(ProcessKind::Shim, own));
        Ok(shim)
    }

    /// For a guard, if there is one. The task must not fail because a test's guard cannot find it.
    fn process_note(&self, kind: ProcessKind, process: ProcessId) -> Option<PathBuf> {
        let cgroups = self.cgroup.directories().into_iter().map(Path::to_path_buf).collect();
        process_record(self.record_dir.as_deref()?, kind, process, cgroups).ok()
    }

    fn task_start(&mut self, spec: &Spec) {
        match spec.cgroup.create() {
            Ok(()) => self.helpers_step(),
            Err(error) => self.start_fail(format!("cannot prepare the start: {error}")),
        }
    }

    /// Records that the task's own command was not started.
    fn start_fail(&mut self, reason: String) {
        self.exit_note(ExitRecord { start_error: Some(reason), ..ExitRecord::default() });
    }

    /// How far the task's own command is.
    fn main_stage(&self) -> MainStage {
        if self.record.exit.is_some() {
            let executed = self.record.started_ms.is_some();
            MainStage::Ended { executed, kill_at: self.helpers.kill_at, swept: self.helpers.swept }
        } else if self.task.is_some() {
            MainStage::Running
        } else {
            let wish = if self.termination.order.is_some() { StartWish::Dropped } else { StartWish::Wanted };
            MainStage::NotStarted(wish)
        }
    }

    /// Carries out what is due for the helpers, and starts the task's own command after those before it.
    fn helpers_step(&mut self) {
        loop {
            let now = clock::monotonic();
            match self.helpers.due(self.main_stage(), now) {
                HelperStep::Wait(_) | HelperStep::Done => break,
                HelperStep::Start(at) => {
                    self.helpers.start(at, self.record.exit.as_ref(), now);
                    let process = self.helpers.all.get(at).and_then(|helper| helper.record.process);
                    let recorded = process.and_then(|process| self.process_note(ProcessKind::Task, process));
                    if let Some(helper) = self.helpers.all.get_mut(at) {
                        helper.recorded = recorded;
                    }
                }
                HelperStep::Terminate(at) => self.helpers.terminate(at),
                HelperStep::Kill(at) => self.helpers.kill(at, now),
                HelperStep::MainStart => {
                    if let Err(error) = self.child_spawn() {
                        self.start_fail(format!("cannot prepare the start: {error}"));
                    }
                }
                HelperStep::MainSkip => {
                    let message = "stopped before its command was started".to_owned();
                    self.exit_note(ExitRecord { stopped: true, message, ..ExitRecord::default() });
                }
                HelperStep::MainFail(at) => {
                    let reason = self.helpers.all.get(at).map(Helper::failure).unwrap_or_default();
                    self.start_fail(reason);
                }
                // What the task's command has left ends before those after it begin.
                HelperStep::Sweep if self.helpers.all.is_empty() || !leftover_kill(&self.cgroup) => {
                    self.helpers.swept = true;
                }
                HelperStep::Sweep => break,
            }
        }
        let records = self.helpers.records();
        if self.record.helpers != records {
            self.record.helpers = records;
            self.unwritten = true;
        }
    }

    fn child_spawn(&mut self) -> io::Result<()> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&ours, true)?;
        let Some((out, err)) = self.theirs.take() else { return Ok(()) };
        let child = Command::new("/proc/self/exe")
            .arg("child")
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(out))
            .stderr(Stdio::from(err))
            .spawn()?;
        self.task = Some(Pid::from_child(&child));
        self.task_id = ProcessId::of_child(child.id());
        self.start = Some(ours);
        Ok(())
    }

    fn step(&mut self, signals: &UnixStream) -> io::Result<()> {
        self.wait(signals)?;
        let mut scratch = [0; 64];
        while matches!(read(signals, &mut scratch), Ok(length) if length > 0) {}
        self.start_look();
        self.helpers.start_look();
        let pending = self.outputs_take();
        self.children_look();
        if self.record.exit.is_none() {
            self.stop_look();
            self.termination_step();
        }
        self.helpers_step();
        if self.record.exit.is_some() {
            self.ending_step(pending);
        }
        if self.unwritten && !self.over {
            self.record_write();
        }
        // Only if it is certainly gone: a failing disk must not end a task.
        if matches!(self.attempt.join(SPEC_FILE).try_exists(), Ok(false)) {
            // Nobody will ever ask for this attempt again.
            while leftover_kill(&self.cgroup) {
                std::thread::sleep(SOON);
                children_reap(|_, _| {});
            }
            let _ = self.cgroup.remove();
            self.over = true;
        }
        Ok(())
    }

    /// Waits until something happens or is due.
    fn wait(&self, signals: &UnixStream) -> io::Result<()> {
        let until = self.pause();
        let mut polled = vec![PollFd::new(signals, PollFlags::IN)];
        let helpers = self.helpers.all.iter();
        let outputs = self.outputs.iter().chain(helpers.clone().flat_map(|helper| &helper.outputs));
        let starts = self.start.iter().chain(helpers.filter_map(|helper| helper.start.as_ref()));
        let pipes = outputs.filter_map(|output| output.pipe.as_ref()).chain(starts);
        polled.extend(pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let timeout = Timespec {
            tv_sec: i64::try_from(until.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(until.subsec_nanos()),
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How long to wait if nothing happens.
    fn pause(&self) -> Duration {
        let now = clock::monotonic();
        let helpers = match self.helpers.due(self.main_stage(), now) {
            HelperStep::Wait(at) => at.map_or(LOOK, |at| at.saturating_sub(now).min(LOOK)),
            HelperStep::Sweep | HelperStep::Done => {
                // A process that does not end (in an endless system call) is checked less and less often.
                return SOON.saturating_mul(1 + self.ending_steps / 20).min(ENDING_MAX);
            }
            _ => Duration::ZERO,
        };
        if self.record.exit.is_some() {
            return if self.unwritten { helpers.min(Duration::from_secs(1)) } else { helpers };
        }
        let own = match self.termination.due(now) {
            TerminationStep::Wait(Some(at)) => at.saturating_sub(now).min(LOOK),
            TerminationStep::Wait(None) if self.unwritten => Duration::from_secs(1),
            TerminationStep::Wait(None) => LOOK,
            TerminationStep::Terminate | TerminationStep::Kill => Duration::ZERO,
        };
        own.min(helpers)
    }

    /// Reads what every pipe holds, up to a bound.
    fn outputs_take(&mut self) -> PendingOutput {
        let of_helpers = self.helpers.all.iter_mut().flat_map(|helper| &mut helper.outputs);
        let outputs = self.outputs.iter_mut().chain(of_helpers);
        let pending = outputs.map(Output::take).filter(|more| *more).count();
        if pending == 0 { PendingOutput::None } else { PendingOutput::Some }
    }

    /// Checks whether the program runs by now: its execution closes the pipe, or the pipe contains the reason of the
    /// failure.
    fn start_look(&mut self) {
        let Some(pipe) = &self.start else { return };
        let mut chunk = [0; 1024];
        match read(pipe, &mut chunk) {
            Ok(0) => {
                self.start = None;
                if self.start_error.is_empty() {
                    self.started_note();
                }
            }
            Ok(length) => self.start_error.extend(chunk.iter().take(length)),
            Err(_) => {}
        }
    }

    fn started_note(&mut self) {
        self.record.task = self.task_id;
        self.record.started_ms = Some(clock::wall_ms());
        self.recorded[1] = self.record.task.and_then(|task| self.process_note(ProcessKind::Task, task));
        self.unwritten = true;
    }

    fn children_look(&mut self) {
        let (task, helpers, now) = (self.task, &mut self.helpers, clock::monotonic());
        let mut ended = None;
        children_reap(|pid, status| {
            if Some(pid) == task {
                ended = Some(status);
            } else {
                helpers.exited(pid, status, now);
            }
        });
        if let Some(status) = ended {
            self.task = None;
            // Its death has closed the pipe, so this is the final result of the start.
            while self.start.is_some() {
                self.start_look();
            }
            self.exit_note(self.exit_of(status));
        }
    }

    fn exit_of(&self, status: WaitStatus) -> ExitRecord {
        let oom_kills = self.cgroup.oom_kills();
        let start_error =
            (!self.start_error.is_empty()).then(|| String::from_utf8_lossy(&self.start_error).into_owned());
        let message = match oom_kills {
            0 => String::new(),
            kills => oom_text(kills, self.cgroup.memory_max()),
        };
        ExitRecord {
            code: status.exit_status(),
            signal: status.terminating_signal(),
            start_error,
            start_cause: None,
            oom_kills,
            stopped: self.termination.terminated,
            message,
            at_ms: 0,
        }
    }

    fn exit_note(&mut self, exit: ExitRecord) {
        self.record.exit = Some(ExitRecord { at_ms: clock::wall_ms(), ..exit });
        let grace = Duration::from_millis(self.stop_default.grace_ms);
        let by_itself = clock::monotonic().saturating_add(grace);
        self.helpers.kill_at = self.termination.kill_at().unwrap_or(by_itself);
        self.unwritten = true;
    }

    /// After the exit: repeats until only files are left.
    fn ending_step(&mut self, pending: PendingOutput) {
        match self.helpers.due(self.main_stage(), clock::monotonic()) {
            HelperStep::Done => self.ending_steps = self.ending_steps.saturating_add(1),
            HelperStep::Sweep => {
                self.ending_steps = self.ending_steps.saturating_add(1);
                return;
            }
            _ => return,
        }
        if leftover_kill(&self.cgroup) || pending == PendingOutput::Some || self.cgroup.remove().is_err() {
            return;
        }
        while self.outputs_take() == PendingOutput::Some {}
        self.helpers.close();
        self.record.helpers = self.helpers.records();
        self.record.released_ms = Some(clock::wall_ms());
        self.record_write();
        // While the record cannot be written (a full disk) the shim stays, so that the exit is not lost.
        self.over = !self.unwritten;
        if self.over {
            reserve_release(&self.attempt);
        } else {
            self.record.released_ms = None;
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn stop_look(&mut self) {
        match json_read::<StopOrder>(&self.attempt, STOP_FILE) {
            Ok(Some(order)) => self.termination.ordered(order, clock::monotonic()),
            Ok(None) if self.stop_now.load(Ordering::Relaxed) => {
                self.termination.ordered(self.stop_default, clock::monotonic());
            }
            Ok(None) => {}
            Err(error) => note(&format!("stop.json: {error}")),
        }
    }

    fn termination_step(&mut self) {
        let now = clock::monotonic();
        match self.termination.due(now) {
            TerminationStep::Wait(_) => {}
            TerminationStep::Terminate => {
                self.termination.terminated = true;
                if let Some(task) = self.task {
                    // The group is the task's own after it leads a session; until then it is alone.
                    if kill_process_group(task, Signal::TERM).is_err() {
                        let _ = rustix::process::kill_process(task, Signal::TERM);
                    }
                } else {
                    self.helpers.terminate_running();
                }
            }
            TerminationStep::Kill => {
                self.termination.killed = Some(now);
                leftover_kill(&self.cgroup);
                // This also reaches a task that has left its cgroup. Other processes that have left it are ended once
                // the task is gone.
                if let Some(task) = self.task {
                    let _ = kill_process_group(task, Signal::KILL);
                    let _ = rustix::process::kill_process(task, Signal::KILL);
                }
            }
        }
    }

    fn record_write(&mut self) {
        // The agent sees a start before it would survive a loss of power, which would end the task anyway.
        if self.record.exit.is_none() && json_begin(&self.attempt, STATE_FILE, &self.record).is_ok() {
            self.unwritten = false;
            if let Err(error) = file_sync(&self.attempt, STATE_FILE) {
                note(&format!("state.json: {error}"));
            }
            return;
        }
        match json_rewrite(&self.attempt, STATE_FILE, &self.record) {
            Ok(()) => self.unwritten = false,
            Err(error) => note(&format!("state.json: {error}")),
        }
    }
}

/// To standard error, which is a file of the attempt.
fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
