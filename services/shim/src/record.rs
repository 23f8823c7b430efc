//! What a shim remembers of its attempt: `state.json`, replaced at each step and kept until the agent drops it. And the
//! small files by which a test's guard finds every process that was started.
//!
//! The files of an attempt are read by other versions than the one that wrote them. Fields are added with a default and
//! never changed; unknown ones are passed over.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file::{Durability, json_write};
use crate::process::{self, ProcessId};

/// The file that holds a [`AttemptRecord`].
pub const STATE_FILE: &str = "state.json";

/// How far an attempt has come. What is written is never taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptRecord {
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
#[serde(default)]
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
pub enum ProcessKind {
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
    pub kind: ProcessKind,
    /// Which one it is.
    pub process: ProcessId,
    /// The boot it ran in.
    pub boot_id: String,
    /// Its cgroup's directories.
    pub cgroups: Vec<PathBuf>,
    /// The directory that the record was written into: in a copy of that it is no order to end anything. `None`: of an
    /// older version.
    #[serde(default)]
    pub directory: Option<DirectoryId>,
}

/// Which directory of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryId {
    device: u64,
    inode: u64,
}

impl DirectoryId {
    /// That of `path`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn of(path: &Path) -> io::Result<Self> {
        let known = fs::metadata(path)?;
        Ok(Self { device: known.dev(), inode: known.ino() })
    }
}

/// Writes a record of `process` into `dir`; the answer is the file, to be removed when the process has ended.
///
/// # Errors
/// Those of the file system.
pub fn process_record(
    dir: &Path,
    kind: ProcessKind,
    process: ProcessId,
    cgroups: Vec<PathBuf>,
) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let name = format!("{}-{}.json", process.pid, process.start_ticks);
    let directory = Some(DirectoryId::of(dir)?);
    let record = ProcessRecord { kind, process, boot_id: process::boot_id()?, cgroups, directory };
    json_write(dir, &name, &record, Durability::Process)?;
    Ok(dir.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What versions before this one have written: it must be readable forever.
    #[test]
    fn records_of_every_version_are_read() {
        let first = r#"{"boot_id":"b","shim":{"pid":7,"start_ticks":8},"task":null,"started_ms":null,
            "exit":{"code":null,"signal":9,"start_error":null,"oom_kills":1,"stopped":false,"message":"m","at_ms":5},
            "released_ms":6}"#;
        let exit = ExitRecord {
            signal: Some(9),
            oom_kills: 1,
            message: "m".to_owned(),
            at_ms: 5,
            ..ExitRecord::default()
        };
        let expect = AttemptRecord {
            boot_id: "b".to_owned(),
            shim: Some(ProcessId { pid: 7, start_ticks: 8 }),
            exit: Some(exit),
            released_ms: Some(6),
            ..AttemptRecord::default()
        };
        assert_eq!(serde_json::from_str::<AttemptRecord>(first).unwrap(), expect);
    }

    #[test]
    fn fields_that_are_missing_or_unknown_do_no_harm() {
        let record =
            serde_json::from_str::<AttemptRecord>(r#"{"boot_id":"b","exit":{"code":3},"later":[1]}"#)
                .unwrap();
        assert_eq!((record.boot_id.as_str(), record.exit.unwrap().code), ("b", Some(3)));
    }
}
