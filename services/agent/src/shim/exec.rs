//! Makes the shim's program run a command in the place of an attempt.

use std::path::Path;

use borough_shim::exec::ExecMode;
use tokio::process::Command;

/// The program that becomes a command in the place of an attempt.
///
/// # Errors
/// Why it cannot be run, for people.
pub(crate) fn exec_command(
    program: &Path,
    attempt: &Path,
    mode: ExecMode,
    command: &[String],
) -> Result<Command, String> {
    if command.first().is_none_or(String::is_empty) {
        return Err("the command is empty; accepted: a program and its arguments".to_owned());
    }
    if let Some(at) = command.iter().position(|part| part.contains('\0')) {
        return Err(format!("command[{at}] has a NUL, which no argument of a program can have"));
    }
    let mut start = Command::new(program);
    start.arg("exec").arg(attempt).arg(mode.argument()).args(command);
    start.env_clear().current_dir("/").kill_on_drop(true);
    Ok(start)
}
