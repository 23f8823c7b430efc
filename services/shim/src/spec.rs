//! What the agent tells a shim: `spec.json` once, before it starts, and `stop.json` when the attempt is to end. The
//! rules of [`crate::record`] for reading what other versions have written hold here too.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::cgroup::Leaf;
use crate::user::TaskUser;

/// The file that holds a [`Spec`].
pub const SPEC_FILE: &str = "spec.json";
/// The file that holds a [`StopOrder`].
pub const STOP_FILE: &str = "stop.json";
/// The task's own directory, inside that of its attempt.
pub const WORK_DIR: &str = "work";

/// One attempt of a task, as its shim needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Names the attempt, for people: `<job>.<index>.<incarnation>`.
    pub attempt: String,
    /// The boot it is meant for: in another one it is over before it began.
    pub boot_id: String,
    /// Program and arguments; what stands in them is final.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub working_directory: PathBuf,
    /// Where its output goes, and how much of it is kept.
    pub log: LogLimits,
    /// How it is ended where no order could be written: a full disk must not keep a task running.
    pub stop: StopOrder,
    /// Its cgroup; empty where the host has none.
    pub cgroup: Leaf,
    /// Where the shim itself belongs: not in the cgroup of its agent, with which it is not to end.
    pub shim_cgroup: Leaf,
    /// Where it stays on the machine.
    pub pinned: Pinned,
    /// As whom it runs; absent: as the shim itself.
    pub user: Option<TaskUser>,
    /// Where processes are recorded for a guard that ends them all; tests set it.
    pub record_dir: Option<PathBuf>,
}

/// The processors an attempt stays on. Nothing: all there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pinned {
    /// Their numbers.
    pub cpus: Vec<u32>,
}

impl Pinned {
    /// Keeps the calling process, and all it starts, on these processors.
    ///
    /// # Errors
    /// Where the machine has none of them, or has them not for this process.
    pub fn apply(&self) -> io::Result<()> {
        self.set(None)
    }

    /// Keeps a thread, and all it starts from now on, on these processors.
    ///
    /// # Errors
    /// Where there is none of them, or no such thread.
    pub fn apply_to(&self, thread: u32) -> io::Result<()> {
        let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
        self.set(Some(thread.ok_or(io::ErrorKind::InvalidInput)?))
    }

    fn set(&self, thread: Option<Pid>) -> io::Result<()> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        let mut set = CpuSet::new();
        for &cpu in &self.cpus {
            let cpu = usize::try_from(cpu).unwrap_or(usize::MAX);
            // The kernel's mask here is of so many.
            if cpu < CpuSet::MAX_CPU {
                set.set(cpu);
            }
        }
        Ok(sched_setaffinity(thread, &set)?)
    }
}

/// How output is kept: files of whole lines, the oldest removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogLimits {
    /// Bytes of a file before the next line goes into a new one.
    pub file_bytes_max: u64,
    /// Files kept per stream; at least 1.
    pub files_max: u32,
}

/// How an attempt is to be ended. Times count from when the shim first sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopOrder {
    /// Milliseconds before SIGTERM.
    pub drain_delay_ms: u64,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub grace_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What versions before this one have written: it must be readable forever.
    #[test]
    fn specs_of_every_version_are_read() {
        let first = r#"{"attempt":"l","boot_id":"b","command":["a"],"environment":{"K":"v"},"working_directory":"/w",
            "log":{"file_bytes_max":10,"files_max":2},"stop":{"drain_delay_ms":1,"grace_ms":2},
            "cgroup":{"unified":"/u","v1":{"cpu":"/c"},"limits":{"cpu_millis":1,"memory_bytes":2,"processes_max":3}},
            "shim_cgroup":{"unified":null,"v1":{},"limits":{"cpu_millis":0,"memory_bytes":0,"processes_max":0}},
            "record_dir":null}"#;
        let spec: Spec = serde_json::from_str(first).unwrap();
        assert_eq!((spec.attempt.as_str(), spec.boot_id.as_str(), spec.command.len()), ("l", "b", 1));
        assert_eq!(spec.cgroup.v1["cpu"], PathBuf::from("/c"));
        assert_eq!((spec.stop.grace_ms, spec.log.files_max, spec.cgroup.limits.memory_bytes), (2, 2, 2));
        assert_eq!(serde_json::from_str::<Spec>("{}").unwrap(), Spec::default());
    }
}
