//! A command in a task's environment. It joins the task's cgroup, takes the terminal if it has one, becomes the task's
//! user, and executes the command.
//!
//! It reads the attempt's spec and takes the command from its arguments. It writes nothing, so probes keep working on a
//! full disk.

use std::collections::BTreeMap;
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

/// Why a command was not executed, with the task and its node, and the command that shows where it was searched for.
fn failed_text(failed: &str, command: &[String], environment: &BTreeMap<String, String>) -> String {
    let Some((task, node)) = task_named(environment) else { return failed.to_owned() };
    let is_searched = command.first().is_some_and(|program| !program.contains('/'));
    let hint = if is_searched { format!("\nhint: borough task exec {task} -- env") } else { String::new() };
    format!("task {task} on {node}: {failed}{hint}")
}

/// The task and its node, as the environment of the task names them.
fn task_named(environment: &BTreeMap<String, String>) -> Option<(String, &str)> {
    let of = |name: &str| environment.get(name).map(String::as_str);
    let task = format!("{}/{}/{}", of("BOROUGH_USER")?, of("BOROUGH_JOB")?, of("BOROUGH_INDEX")?);
    Some((task, of("BOROUGH_NODE")?))
}

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
    let failed = program_execute(command, &environment, &working_directory);
    Err(io::Error::new(failed.kind(), failed_text(&failed.to_string(), command, &environment)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_executed_names_its_task_and_where_to_look() {
        let command = |program: &str| vec![program.to_owned(), "-x".to_owned()];
        let of =
            [("BOROUGH_USER", "ann"), ("BOROUGH_JOB", "web"), ("BOROUGH_INDEX", "2"), ("BOROUGH_NODE", "n1")];
        let environment = of.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(
            failed_text("cannot", &command("nosuch"), &environment),
            "task ann/web/2 on n1: cannot\nhint: borough task exec ann/web/2 -- env"
        );
        assert_eq!(failed_text("cannot", &command("/nosuch"), &environment), "task ann/web/2 on n1: cannot");
        assert_eq!(failed_text("cannot", &command("nosuch"), &BTreeMap::new()), "cannot");
    }
}
