//! Roles of the system that the program can run. `dev` runs every control role in one process. `gateway`, `scheduler`,
//! `controller` and `names` run one each over a shared store. Node agents are always separate processes.

pub(crate) mod agent;
pub(crate) mod authority;
mod control;
pub(crate) mod descriptors;
pub(crate) mod dev;
mod federation;
pub(crate) mod issuer;
mod issuer_keys;
mod log;
pub(crate) mod names;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod token;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use borough_kv::{Database, EngineState, ErrorCode, KvError};
use borough_store::error_chain;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Code, Failure};

/// Restricts all files that this process creates from now on to their owner: files 0600, directories 0700. Every role
/// and every verb on a store begins with it. Shims restore the usual mask for tasks.
pub(crate) fn files_private() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Interval of checks of files that a role reads again.
const LOOK: Duration = Duration::from_secs(2);

/// Calls `changed` whenever one of the files has changed, for ever.
async fn files_follow(paths: Vec<PathBuf>, mut changed: impl FnMut()) {
    // The mode counts as a change: an operator who is asked to restrict a file changes nothing else.
    let look = || -> Vec<_> {
        let found = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len(), found.mode()))
        };
        paths.iter().map(found).collect()
    };
    let mut known = look();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = look();
        if now != known {
            known = now;
            changed();
        }
    }
}

/// The signals that end a role. No signal between two waits is lost.
struct RoleSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    /// The end of the terminal; absent: the role does not look for it.
    hang_up: Option<Signal>,
}

/// Returns true if the process was started so that the end of its terminal does not end it, as `nohup` does.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The first signal is SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}

impl RoleSignals {
    /// Catches the signals from now on. Needs a runtime.
    fn catch() -> Self {
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            hang_up: None,
        }
    }

    /// Also catches the end of the terminal, unless the process is to outlive it.
    fn with_hang_up(self) -> Self {
        let hang_up = if is_hang_up_ignored() { None } else { signal(SignalKind::hangup()).ok() };
        Self { hang_up, ..self }
    }

    /// Waits for the next one, and names it.
    async fn next(&mut self) -> &'static str {
        let Self { interrupt, terminate, hang_up } = self;
        tokio::select! {
            () = caught(interrupt) => "interrupted",
            () = caught(terminate) => "terminated",
            () = caught(hang_up) => "the terminal was closed",
        }
    }

    /// The same for an end that is under way. The terminal may be closed meanwhile, and nothing is hurried by that.
    async fn again(&mut self) -> &'static str {
        let Self { interrupt, terminate, .. } = self;
        tokio::select! {
            () = caught(interrupt) => "interrupted",
            () = caught(terminate) => "terminated",
        }
    }
}

async fn caught(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// Why a role ends.
enum RoleEnd {
    /// A signal.
    Signal(&'static str),
    /// Its store has stopped for good: nothing that this process does can be stored any more.
    Store(KvError),
}

/// Waits for the end of a role over `db`: a `signal`, or the end of the store.
async fn role_end(db: &Database, signal: impl Future<Output = &'static str>) -> RoleEnd {
    tokio::select! {
        signal = signal => RoleEnd::Signal(signal),
        error = db.engine_stopped() => RoleEnd::Store(error),
    }
}

/// The failure of a role whose store has stopped. Its supervisor starts it again.
fn store_stopped(error: &KvError) -> Failure {
    let failure = Failure::new(Code::StoreFailed, format!("the store has stopped: {}", error_chain(error)));
    let hint = match error.code {
        ErrorCode::FileNotFound => {
            "put the store's directory back, or restore its backup; what was committed is where its files went"
        }
        _ => "look at the disk (`dmesg`), then start the role again; what was acknowledged is kept",
    };
    failure.with_hint(hint)
}

/// A failure of a start. If the store has stopped meanwhile, that is the failure.
fn start_failed(db: &Database, error: &(dyn std::error::Error + 'static)) -> Failure {
    match db.engine_state() {
        EngineState::Stopped(error) => store_stopped(&error),
        _ => failed("cannot start", error),
    }
}

/// Refuses to write over a file.
fn there_already(path: &Path) -> Failure {
    Failure::new(Code::Refused, format!("{} is there already", path.display()))
        .with_hint("name another file: the program never writes over a key or a token")
}

/// A failure of a role, with its causes on one line.
fn failed(what: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(Code::Failed, format!("{what}: {}", error_chain(error)))
}
