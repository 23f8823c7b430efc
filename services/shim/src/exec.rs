//! A command in a task's environment. It joins the task's cgroup, takes the terminal if it has one, becomes the task's
//! user, and executes the command.
//!
//! It reads the attempt's spec and takes the command from its arguments. It writes nothing, so probes keep working on a
//! full disk.

use std::io;
use std::path::Path;

use rustix::process::{ioctl_tiocsctty, setsid};

use crate::file::json_read;
use crate::run::{inherited_reset, program_execute, user_assume};
use crate::spec::{SPEC_FILE, Spec};

/// Whether a command runs on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecMode {
    Plain,
    /// Standard input becomes the controlling terminal.
    Terminal,
}

impl ExecMode {
    /// The argument of the shim's program that means this mode.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Terminal => "terminal",
        }
    }
}

/// The `TERM` of a command if the task's environment sets none.
const TERMINAL_KIND: &str = "xterm-256color";

/// Becomes a command in the environment of the attempt with this directory. Returns only on failure.
///
/// # Errors
/// Why the command could not be executed.
pub fn exec_become(attempt: &Path, mode: &str, command: &[String]) -> io::Result<()> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the task has no spec");
    let Spec { mut environment, working_directory, cgroup, pinned, user, .. } =
        json_read(attempt, SPEC_FILE)?.ok_or_else(missing)?;
    cgroup.join()?;
    pinned.apply()?;
    setsid()?;
    if mode == ExecMode::Terminal.argument() {
        ioctl_tiocsctty(rustix::stdio::stdin())?;
        environment.entry("TERM".to_owned()).or_insert_with(|| TERMINAL_KIND.to_owned());
    }
    inherited_reset();
    user_assume(user)?;
    Err(io::Error::other(program_execute(command, &environment, &working_directory)))
}
