//! The step between shim and task. This process joins the task's cgroup before it executes the program, so that nothing
//! of the task ever runs outside it. Standard input is a pipe to the shim: the kernel closes it when the program runs,
//! or this process writes the reason why it does not.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid, umask};

use crate::file::json_read;
use crate::spec::{SPEC_FILE, Spec};
use crate::user::TaskUser;

/// The first descriptor behind the standard streams.
const FIRST_OWN_FILE: i32 = 3;

/// Becomes the task of the attempt in the current directory. Returns only on failure.
///
/// # Errors
/// Those of writing to the shim. Its own failures are written there and not returned.
pub fn child_become() -> io::Result<()> {
    let status = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = OpenOptions::new().read(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    let reason = become_task();
    File::from(status).write_all(reason.as_bytes())
}

/// Why the task could not be started.
fn become_task() -> String {
    let spec = match json_read::<Spec>(Path::new("."), SPEC_FILE) {
        Ok(Some(spec)) => spec,
        Ok(None) => return "its spec has vanished".to_owned(),
        Err(error) => return format!("its spec cannot be read: {error}"),
    };
    if let Err(error) = spec.cgroup.join() {
        return format!("cannot join its cgroup: {error}");
    }
    // A session of its own gives it a process group of its own, which SIGTERM goes to.
    if let Err(error) = setsid() {
        return format!("cannot start a session: {error}");
    }
    if let Err(error) = spec.pinned.apply() {
        return format!("cannot stay on processors {:?}: {error}", spec.pinned.cpus);
    }
    inherited_reset();
    if let Err(error) = user_assume(spec.user) {
        return error.to_string();
    }
    program_execute(&spec.command, &spec.environment, &spec.working_directory)
}

/// Resets what a task must not inherit from its agent: protection from the kernel's out-of-memory killer, core dumps, a
/// file mode mask.
pub(crate) fn inherited_reset() {
    // Lowering needs privileges. An agent without them has 0 already.
    let _ = fs::write("/proc/self/oom_score_adj", "0");
    let core = getrlimit(Resource::Core);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: core.maximum });
    umask(rustix::fs::Mode::from_raw_mode(0o022));
}

/// Becomes the task's user, if it has one of its own: the last step with the shim's rights.
///
/// # Errors
/// The kernel refuses. No part of the task may then be executed.
pub(crate) fn user_assume(user: Option<TaskUser>) -> io::Result<()> {
    let Some(user) = user else { return Ok(()) };
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot become user {}:{}: {error}", user.uid, user.gid))
    };
    user.assume().map_err(named)
}

/// Executes the program in place of this process, with the three standard streams and no other open file. Returns why
/// it could not.
pub(crate) fn program_execute(
    command: &[String],
    environment: &BTreeMap<String, String>,
    directory: &Path,
) -> String {
    let Some((program, arguments)) = command.split_first() else { return "the command is empty".to_owned() };
    // The process that started the agent may have left files open that an execution does not close.
    close_fds::set_fds_cloexec(FIRST_OWN_FILE, &[]);
    if let Err(error) = std::env::set_current_dir(directory) {
        return format!("cannot use the working directory {}: {error}", directory.display());
    }
    let error = Command::new(program).args(arguments).env_clear().envs(environment).exec();
    let error = match error.kind() {
        io::ErrorKind::PermissionDenied if !program.contains('/') => {
            search_error(program, environment, error)
        }
        _ => error,
    };
    let hint = match error.kind() {
        io::ErrorKind::NotFound if !program.contains('/') => {
            format!(" in PATH ({})", environment.get("PATH").map_or("unset", String::as_str))
        }
        io::ErrorKind::NotFound if Path::new(program).exists() => {
            " (it is there; its interpreter is not)".to_owned()
        }
        _ => String::new(),
    };
    let error = error.to_string();
    let reason = error.split(" (os error ").next().unwrap_or_default();
    format!("cannot execute {program:?}{hint}: {reason}")
}

/// The error of a search in `PATH` that met a refusal. The kernel's refusal of a closed directory outlasts that nothing
/// was found in the others, so it says nothing about the program.
fn search_error(program: &str, environment: &BTreeMap<String, String>, refused: io::Error) -> io::Error {
    let path = environment.get("PATH").map_or("", String::as_str);
    let mut closed = Vec::new();
    for directory in path.split(':') {
        match fs::metadata(Path::new(directory).join(program)) {
            // The program is there, and may not be executed.
            Ok(found) if found.is_file() => return refused,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => closed.push(directory),
            _ => {}
        }
    }
    let mut text = "No such file or directory".to_owned();
    if !closed.is_empty() {
        text = format!("{text}; closed to the task's user: {}", closed.join(", "));
    }
    io::Error::new(io::ErrorKind::NotFound, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn searched(path: &[&Path]) -> io::Error {
        let path: Vec<String> = path.iter().map(|each| each.display().to_string()).collect();
        let environment = BTreeMap::from([("PATH".to_owned(), path.join(":"))]);
        search_error("tool", &environment, io::ErrorKind::PermissionDenied.into())
    }

    #[test]
    fn a_program_that_no_directory_has_is_missing_and_not_forbidden() {
        let root = tempfile::tempdir().unwrap();
        let (empty, with_file) = (root.path().join("empty"), root.path().join("file"));
        fs::create_dir(&empty).unwrap();
        fs::create_dir_all(&with_file).unwrap();
        let missing = searched(&[&empty]);
        assert_eq!(
            (missing.kind(), missing.to_string().as_str()),
            (io::ErrorKind::NotFound, "No such file or directory")
        );
        fs::create_dir(empty.join("tool")).unwrap();
        assert_eq!(searched(&[&empty]).kind(), io::ErrorKind::NotFound, "a directory is no program");
        fs::write(with_file.join("tool"), "").unwrap();
        assert_eq!(searched(&[&empty, &with_file]).kind(), io::ErrorKind::PermissionDenied);
        let closed = root.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0)).unwrap();
        // Root may look into any directory.
        if fs::metadata(closed.join("tool"))
            .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        {
            let missing = searched(&[&closed, &empty]).to_string();
            assert!(
                missing.ends_with(&format!("closed to the task's user: {}", closed.display())),
                "{missing}"
            );
        }
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
