//! A command beside a task: joins the task's cgroup, takes the terminal where there is one, and becomes the command.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{ioctl_tiocsctty, setsid};

use crate::file::json_read;
use crate::run::{inherited_reset, program_execute};
use crate::spec::ExecSpec;

/// Becomes the command that `file` describes; the file is removed first, since it holds the environment. Returns only
/// where that failed.
///
/// # Errors
/// Why the command could not be executed.
pub fn exec_become(file: &Path) -> io::Result<()> {
    let (Some(dir), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file"));
    };
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no such command file");
    let spec: ExecSpec = json_read(dir, name)?.ok_or_else(missing)?;
    fs::remove_file(file)?;
    spec.cgroup.join()?;
    setsid()?;
    if spec.terminal {
        ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    inherited_reset();
    Err(io::Error::other(program_execute(&spec.command, &spec.environment, &spec.working_directory)))
}
