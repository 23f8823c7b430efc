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

/// The argument for a command on a terminal: standard input becomes the controlling one.
pub const TERMINAL: &str = "terminal";
/// The argument for a command without a terminal.
pub const PLAIN: &str = "plain";
/// The `TERM` of a command if the task's environment sets none.
const TERMINAL_KIND: &str = "xterm-256color";

/// Becomes a command in the environment of the attempt with this directory. Returns only on failure.
///
/// # Errors
/// Why the command could not be executed.
pub fn exec_become(attempt: &Path, kind: &str, command: &[String]) -> io::Result<()> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the task has no spec");
    let Spec { mut environment, working_directory, cgroup, pinned, user, .. } =
        json_read(attempt, SPEC_FILE)?.ok_or_else(missing)?;
    cgroup.join()?;
    pinned.apply()?;
    setsid()?;
    if kind == TERMINAL {
        ioctl_tiocsctty(rustix::stdio::stdin())?;
        environment.entry("TERM".to_owned()).or_insert_with(|| TERMINAL_KIND.to_owned());
    }
    inherited_reset();
    user_assume(user)?;
    Err(io::Error::other(program_execute(command, &environment, &working_directory)))
}
