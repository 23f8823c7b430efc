//! The agent's orders to a shim: `spec.json` once, before it starts, and `stop.json` when the attempt must end. The
//! rules of [`crate::record`] for files of other versions apply here too.

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
/// The directory of the helpers' output, inside that of the attempt: one directory for each, with its name.
pub const HELPERS_DIR: &str = "helpers";

/// One attempt of a task, as its shim needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Names the attempt, for people: `<job>.<index>.<incarnation>`.
    pub attempt: String,
    /// The boot that it is for. After a reboot the attempt is over, even if it never started.
    pub boot_id: String,
    /// Program and arguments, with all variables expanded.
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub working_directory: PathBuf,
    pub log: LogLimits,
    /// How to end it if no order could be written: a full disk must not keep a task running.
    pub stop: StopOrder,
    /// Its cgroup; empty if the host has none.
    pub cgroup: Leaf,
    /// The cgroup of the shim itself: not that of its agent, since the shim must outlive the agent.
    pub shim_cgroup: Leaf,
    pub pinned: Pinned,
    /// The user that it runs as; absent: that of the shim.
    pub user: Option<TaskUser>,
    /// Where processes are recorded for a guard that ends them; tests set it.
    pub record_dir: Option<PathBuf>,
    /// The helpers, in the order of the job file.
    pub helpers: Vec<HelperCommand>,
}

/// A helper of an attempt, with all variables expanded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HelperCommand {
    pub name: String,
    pub when: HelperWhen,
    pub command: Vec<String>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Milliseconds that it may run; absent: no bound.
    pub deadline_ms: Option<u64>,
}

/// When a helper runs, as seen from the attempt's own command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelperWhen {
    Before,
    #[default]
    Beside,
    After,
}

impl HelperWhen {
    /// Its name in job files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Beside => "beside",
            Self::After => "after",
        }
    }
}

/// The processors of an attempt. Empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pinned {
    pub cpus: Vec<u32>,
}

impl Pinned {
    /// Confines the calling process, and all that it starts, to these processors.
    ///
    /// # Errors
    /// The machine has none of them, or this process may not use them.
    pub fn apply(&self) -> io::Result<()> {
        self.set(None)
    }

    /// Confines a thread, and all that it starts from now on, to these processors.
    ///
    /// # Errors
    /// The processors or the thread do not exist.
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
            // `CpuSet` has no place for others.
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

/// How to end an attempt. Times count from when the shim first sees the order.
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

    /// Files of earlier versions must stay readable forever.
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
