//! Starts shims, and waits for their end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use borough_model::job::identity_file_name;
use borough_proto::v1;
use borough_shim::file::{json_read, own_open};
use borough_shim::process::ProcessId;
use borough_shim::record::StartCause;
use borough_shim::spec::{SPEC_FILE, Spec};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::watch::DirectoryWatch;
use crate::attempt::AttemptId;
use crate::decide::TaskToken;
use crate::decide::alloc::alloc_of;
use crate::decide::secret::{secrets_add, secrets_resolve};
use crate::decide::spec::{NodeContext, PlacedTask, shim_spec};
use crate::disk::{StateDir, attempt_begin, secret_read, shim_install, task_file_write};
use crate::event::{Event, OrderDone, StartRefused};
use crate::listener::{holder, in_the_way};
use crate::machine::AttemptStart;
use crate::ready::ready;

/// Tries to execute a program that a child of another thread still holds open for writing, and the pause between them.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(2);
/// Pause before a failed action is tried again.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Starts attempts.
#[derive(Clone, Debug)]
pub(crate) struct Starter {
    pub state: std::sync::Arc<StateDir>,
    pub program: PathBuf,
    /// The settings that all attempts share.
    pub context: std::sync::Arc<NodeContext>,
    pub watch: DirectoryWatch,
    pub events: mpsc::UnboundedSender<Event>,
}

/// What an attempt begins with.
struct PreparedAttempt {
    spec: Spec,
    /// Names and contents of files for its directory.
    files: Vec<(String, Vec<u8>)>,
}

impl Starter {
    /// Makes the attempt's directory and starts its shim Reports its end as
    /// [`Event::ShimEnded`].
    pub(crate) async fn start(self, id: AttemptId, start: AttemptStart) {
        let directory = self.state.attempt(&id);
        let starter = self.clone();
        let of = id.clone();
        let begun = tokio::task::spawn_blocking(move || starter.begin(&of, start)).await;
        let begun = begun.unwrap_or_else(|error| Err(format!("the start was broken off: {error}").into()));
        match begun {
            Ok((spec, child)) => {
                let _ = self.events.send(Event::Done(id.clone(), OrderDone::Started(Box::new(spec.cgroup))));
                shim_await(child, &id, &directory, &self.events).await;
            }
            Err(refused) => {
                let _ = self.events.send(Event::Done(id, OrderDone::NotStarted(refused)));
            }
        }
    }

    fn begin(&self, id: &AttemptId, start: AttemptStart) -> Result<(Spec, Child), StartRefused> {
        let AttemptStart { assignment, cpus, tokens } = start;
        let assignment = &*assignment;
        let directory = self.state.attempt(id);
        let context = &self.context;
        let user = context.users.of(&context.task_dir, &assignment.cell, &assignment.user);
        let user = user.map_err(|error| format!("cannot give its owner a user: {error}"))?;
        let work = self.state.work(id);
        let alloc_work = alloc_of(assignment).map(|alloc| self.state.work(&alloc));
        let placed = PlacedTask { cpus: &cpus, work: &work, alloc_work: alloc_work.as_deref(), user };
        let (spec, files) = match self.prepare(id, assignment, placed) {
            Ok(PreparedAttempt { spec, files }) => (Ok(spec), files),
            Err(problem) => (Err(problem), Vec::new()),
        };
        // An existing directory was made by an agent that died before its shim had written anything.
        let fresh = !directory.join(SPEC_FILE).exists();
        if fresh {
            attempt_begin(&self.state, id, assignment, spec.as_ref().ok())
                .map_err(|error| node_refused(&format!("cannot write {}", directory.display()), &error))?;
        }
        let spec = spec?;
        let tokens = tokens.into_iter().map(|of| (identity_file_name(&of.name), of.token.into_bytes()));
        for (name, content) in tokens.chain(files) {
            task_file_write(&work, &name, &content, spec.user)
                .map_err(|error| format!("cannot write {name} into its directory: {error}"))?;
        }
        // An existing attempt may have started, and have its ports itself.
        if fresh {
            ports_check(&self.context.host, assignment)?;
        }
        // The program exists, unless the disk was full when the agent started.
        if let Some(bin) = self.program.parent() {
            shim_install(bin).map_err(|error| node_refused("cannot write the shim's program", &error))?;
        }
        self.watch.add(id, &directory);
        let child = shim_spawn(&self.program, "run", &directory)
            .map_err(|error| node_refused("cannot start its shim", &error))?;
        Ok((spec, child))
    }

    /// The spec of an attempt with its secrets, and the files that its directory gets.
    fn prepare(
        &self,
        id: &AttemptId,
        assignment: &v1::Assignment,
        placed: PlacedTask<'_>,
    ) -> Result<PreparedAttempt, StartRefused> {
        let mut spec = shim_spec(id, assignment, &self.context, placed)?;
        let Some(task) = assignment.spec.as_ref().filter(|task| !task.secrets.is_empty()) else {
            return Ok(PreparedAttempt { spec, files: Vec::new() });
        };
        let directory = self.context.secrets.as_deref();
        let unusable = |reason| StartRefused { reason, cause: Some(StartCause::SecretUnusable) };
        let without =
            || unusable("it has secrets, and its node has none: its agent has no --secrets-dir".to_owned());
        let directory = directory.ok_or_else(without)?;
        let read = |place: &str| {
            secret_read(directory, &assignment.user, place)
                .map_err(|error| error.described(directory, &assignment.user, place))
        };
        let secrets = secrets_resolve(task, &self.context.node, read).map_err(unusable)?;
        secrets_add(&mut spec, &secrets);
        Ok(PreparedAttempt { spec, files: secrets.files })
    }

    /// Replaces the tokens of an attempt that runs.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn tokens_replace(&self, id: &AttemptId, tokens: Vec<TaskToken>) -> io::Result<()> {
        // The user that it was started as.
        let spec: Option<Spec> = json_read(&self.state.attempt(id), SPEC_FILE)?;
        let Some(spec) = spec else { return Ok(()) };
        for TaskToken { name, token } in tokens {
            task_file_write(&self.state.work(id), &identity_file_name(&name), token.as_bytes(), spec.user)?;
        }
        Ok(())
    }

    /// Ends the processes that a dead shim has left.
    pub(crate) async fn clean(self, id: AttemptId) {
        let directory = self.state.attempt(&id);
        match shim_spawn(&self.program, "clean", &directory) {
            Ok(mut child) => match child.wait().await {
                Ok(status) if status.success() => {}
                other => self.clean_failed(&id, &format!("{other:?}; see shim.log")).await,
            },
            Err(error) => self.clean_failed(&id, &error.to_string()).await,
        }
        let _ = self.events.send(Event::Done(id, OrderDone::Clean));
    }

    async fn clean_failed(&self, id: &AttemptId, reason: &str) {
        tracing::error!(attempt = %id, reason, "the processes of an attempt cannot be ended; the agent tries again");
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Refuses a task if another process has one of its ports: the task would crash again and again, or others would answer
/// for it.
fn ports_check(host: &str, assignment: &v1::Assignment) -> Result<(), StartRefused> {
    for port in &assignment.ports {
        let Ok(number) = u16::try_from(port.number) else { continue };
        // A listener that the kernel does not show prevents no start.
        let Ok(Some(other)) = in_the_way(host, number) else { continue };
        let (name, address, holder) = (&port.name, other.address, holder(other.inode));
        let reason = format!("its port {name} ({number}) is in use: {holder} listens on {address}");
        return Err(StartRefused { reason, cause: Some(StartCause::PortInUse) });
    }
    Ok(())
}

/// Starts the shim's program in a session of its own. Its errors go to a file of the attempt.
fn shim_spawn(program: &Path, mode: &str, attempt: &Path) -> io::Result<Child> {
    let log = shim_log_open(attempt)?;
    let mut tries = 0;
    loop {
        let mut command = Command::new(program);
        command.arg(mode).arg(attempt).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.try_clone()?);
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tries += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            other => return other,
        }
    }
}

/// Why the node could not take an attempt. The cell does not hold a full disk against the task. Its own directory
/// may be full by its own limit, so what is written there is none of this.
fn node_refused(what: &str, error: &io::Error) -> StartRefused {
    match error.kind() {
        io::ErrorKind::StorageFull => StartRefused {
            reason: format!("the disk of its node is full: {what}"),
            cause: Some(StartCause::NodeFull),
        },
        _ => format!("{what}: {error}").into(),
    }
}

/// The file of the shim's own errors. If a task has put something else there, it is replaced: it must not keep an
/// attempt from ending.
fn shim_log_open(attempt: &Path) -> io::Result<File> {
    let path = attempt.join("shim.log");
    let open = || own_open(&path, OpenOptions::new().append(true).create(true).mode(0o600));
    match open() {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            std::fs::remove_file(&path)?;
            open()
        }
        other => other,
    }
}

async fn shim_await(
    mut child: Child,
    id: &AttemptId,
    directory: &Path,
    events: &mpsc::UnboundedSender<Event>,
) {
    match child.wait().await {
        Ok(status) if status.success() => {}
        Ok(status) => {
            tracing::warn!(attempt = %id, %status, path = %directory.display(), "shim ended; see shim.log")
        }
        Err(error) => tracing::warn!(attempt = %id, %error, "cannot wait for a shim"),
    }
    let _ = events.send(Event::ShimEnded(id.clone()));
}

/// Waits for the end of a shim that another agent has started. `false` if it has already ended.
pub(crate) fn shim_adopt(shim: ProcessId, id: &AttemptId, events: &mpsc::UnboundedSender<Event>) -> bool {
    let Some(pid) = i32::try_from(shim.pid).ok().and_then(Pid::from_raw) else { return false };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::NONBLOCK) else { return false };
    if !shim.alive() {
        return false;
    }
    tokio::spawn(handle_await(handle, shim, id.clone(), events.clone()));
    true
}

async fn handle_await(handle: OwnedFd, shim: ProcessId, id: AttemptId, events: mpsc::UnboundedSender<Event>) {
    match ready(handle) {
        Ok(handle) => drop(handle.readable().await),
        // No more handles: poll instead.
        Err(_) => {
            while shim.alive() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
    let _ = events.send(Event::ShimEnded(id));
}
