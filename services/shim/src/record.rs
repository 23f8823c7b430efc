//! What a shim remembers of its life: `state.json`, replaced at each step and kept until the agent drops it. And the
//! small files by which a test's guard finds every process that was started.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file::{Durability, json_write};
use crate::process::{self, ProcessId};

/// The file that holds a [`LifeRecord`].
pub const STATE_FILE: &str = "state.json";

/// How far a life has come. What is written is never taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifeRecord {
    /// The boot in which it ran: in another one, none of its processes is left.
    pub boot_id: String,
    /// The shim.
    pub shim: Option<ProcessId>,
    /// The task's own process, once it executes the program.
    pub task: Option<ProcessId>,
    /// Wall time of the start, milliseconds since 1970.
    pub started_ms: Option<i64>,
    /// How the task's own process ended.
    pub exit: Option<ExitRecord>,
    /// Nothing of it is left but its files: wall time, milliseconds since 1970.
    pub released_ms: Option<i64>,
}

/// How a task's own process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Exit code, where it exited.
    pub code: Option<i32>,
    /// Signal number, where it was ended by one.
    pub signal: Option<i32>,
    /// Why it never started, where it did not.
    pub start_error: Option<String>,
    /// Processes of the task that the kernel killed for want of memory.
    pub oom_kills: u64,
    /// Whether we had signalled it.
    pub stopped: bool,
    /// For people.
    pub message: String,
    /// Wall time, milliseconds since 1970.
    pub at_ms: i64,
}

/// What a started process is to a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A node agent.
    Agent,
    /// A shim.
    Shim,
    /// A task's own process.
    Task,
    /// A command run beside a task.
    Exec,
}

/// A started process, as a guard finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// What it is.
    pub kind: Kind,
    /// Which one it is.
    pub process: ProcessId,
    /// The boot it ran in.
    pub boot_id: String,
    /// Its cgroup's directories.
    pub cgroups: Vec<PathBuf>,
}

/// Writes a record of `process` into `dir`; the answer is the file, to be removed when the process has ended.
///
/// # Errors
/// Those of the file system.
pub fn process_record(
    dir: &Path,
    kind: Kind,
    process: ProcessId,
    cgroups: Vec<PathBuf>,
) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let name = format!("{}-{}.json", process.pid, process.start_ticks);
    let record = ProcessRecord { kind, process, boot_id: process::boot_id()?, cgroups };
    json_write(dir, &name, &record, Durability::Process)?;
    Ok(dir.join(name))
}
