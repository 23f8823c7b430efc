//! What the agent tells a shim: `spec.json` once, before it starts, and `stop.json` when the life is to end.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cgroup::Leaf;

/// The file that holds a [`Spec`].
pub const SPEC_FILE: &str = "spec.json";
/// The file that holds a [`StopOrder`].
pub const STOP_FILE: &str = "stop.json";
/// The task's own directory, inside that of its life.
pub const WORK_DIR: &str = "work";

/// One life of a task, as its shim needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Names the life, for people: `<job>.<index>.<incarnation>`.
    pub life: String,
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
    /// Where processes are recorded for a guard that ends them all; tests set it.
    pub record_dir: Option<PathBuf>,
}

/// How output is kept: files of whole lines, the oldest removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// Bytes of a file before the next line goes into a new one.
    pub file_bytes_max: u64,
    /// Files kept per stream; at least 1.
    pub files_max: u32,
}

/// How a life is to be ended. Times count from when the shim first sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOrder {
    /// Milliseconds before SIGTERM.
    pub drain_delay_ms: u64,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub grace_ms: u64,
}

/// A command to be run inside a task's cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSpec {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub working_directory: PathBuf,
    /// The task's cgroup.
    pub cgroup: Leaf,
    /// Whether standard input is a terminal that becomes the controlling one.
    pub terminal: bool,
}
