//! The records of a shim about its attempt: `state.json`, replaced at each step and kept until the agent removes it.
//! Also the small files by which a test's guard finds every started process.
//!
//! Other versions than the writer read the files of an attempt. Fields are added with a default and never changed;
//! unknown ones are skipped.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file::{Durability, json_write};
use crate::process::{self, ProcessId};
use crate::spec::HelperWhen;

/// The file that holds an [`AttemptRecord`].
pub const STATE_FILE: &str = "state.json";

/// The progress of an attempt. A recorded step is never withdrawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptRecord {
    /// The boot in which it ran: in another one, none of its processes is left.
    pub boot_id: String,
    pub shim: Option<ProcessId>,
    /// The task's own process, once it executes the program.
    pub task: Option<ProcessId>,
    /// Wall time of the start, milliseconds since 1970.
    pub started_ms: Option<i64>,
    /// How the task's own process ended.
    pub exit: Option<ExitRecord>,
    /// Only its files are left since then: wall time, milliseconds since 1970.
    pub released_ms: Option<i64>,
    /// Its helpers, in the order of its spec.
    pub helpers: Vec<HelperRecord>,
}

/// A helper of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HelperRecord {
    pub name: String,
    pub when: HelperWhen,
    pub state: HelperProgress,
    /// How often it was started again.
    pub restarts: u32,
    /// Its process while it runs.
    pub process: Option<ProcessId>,
    /// How it ended last.
    pub exit: Option<HelperExitRecord>,
}

/// What a helper does at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelperProgress {
    /// Its turn has not come, or it pauses before it starts again.
    #[default]
    Waiting,
    Running,
    /// It does not start again.
    Ended,
}

/// How a helper ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HelperExitRecord {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// For people: why it was not started, or who ended it.
    pub message: String,
    /// Wall time, milliseconds since 1970.
    pub at_ms: i64,
}

/// What kept an attempt from its start, where programs act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartCause {
    NodeFull,
    PortInUse,
    SecretUnusable,
    /// A newer version wrote it.
    #[serde(other)]
    Unknown,
}

/// How a task's own process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExitRecord {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The number of the signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Why it never started, if it did not.
    pub start_error: Option<String>,
    /// What kept it from its start, where programs act on it.
    pub start_cause: Option<StartCause>,
    /// Processes of the task that the kernel killed for lack of memory.
    pub oom_kills: u64,
    /// Whether the shim had signalled it.
    pub stopped: bool,
    /// For people.
    pub message: String,
    /// Wall time, milliseconds since 1970.
    pub at_ms: i64,
}

/// The kind of a started process, for a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessKind {
    Agent,
    Shim,
    /// A task's own process.
    Task,
    /// A command in a task's environment.
    Exec,
}

/// The record of a started process, for a guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    pub kind: ProcessKind,
    pub process: ProcessId,
    /// The boot it ran in.
    pub boot_id: String,
    pub cgroups: Vec<PathBuf>,
    /// The directory that the record was written into. In a copy of that directory, the record is no order to end
    /// anything. `None`: an older version wrote it.
    #[serde(default)]
    pub directory: Option<DirectoryId>,
}

/// The identity of a directory on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryId {
    device: u64,
    inode: u64,
}

impl DirectoryId {
    /// The identity of `path`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn of(path: &Path) -> io::Result<Self> {
        let known = fs::metadata(path)?;
        Ok(Self { device: known.dev(), inode: known.ino() })
    }
}

/// Writes a record of `process` into `dir`. Returns the file, to be removed when the process has ended.
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

    /// Records of earlier versions must stay readable forever.
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
