//! The step between shim and task. This process joins the task's cgroup before it executes the program, so that nothing
//! of the task ever runs outside it. Standard input is a pipe to the shim: the kernel closes it when the program runs,
//! or this process writes the reason why it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid, umask};

use super::helper::EXIT_VARIABLES;
use crate::file::{error_text, json_read};
use crate::spec::{HelperCommand, SPEC_FILE, Spec};
use crate::user::TaskUser;

/// The first descriptor behind the standard streams.
const FIRST_OWN_FILE: i32 = 3;

/// Becomes the task of the attempt in the current directory. Returns only on failure.
///
/// # Errors
/// Those of writing to the shim. Its own failures are written there and not returned.
pub fn child_become() -> io::Result<()> {
    program_become(None)
}

/// Becomes the helper at this place of the spec. Returns only on failure.
///
/// # Errors
/// As for [`child_become`].
pub fn helper_become(at: usize) -> io::Result<()> {
    program_become(Some(at))
}

fn program_become(helper: Option<usize>) -> io::Result<()> {
    let status = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = OpenOptions::new().read(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    let reason = become_task(helper);
    File::from(status).write_all(reason.as_bytes())
}

/// Why the task, or its helper, could not be started.
fn become_task(helper: Option<usize>) -> String {
    let mut spec = match json_read::<Spec>(Path::new("."), SPEC_FILE) {
        Ok(Some(spec)) => spec,
        Ok(None) => return "its spec has vanished".to_owned(),
        Err(error) => return format!("its spec cannot be read: {error}"),
    };
    if let Some(at) = helper {
        if at >= spec.helpers.len() {
            return "its spec has no such helper".to_owned();
        }
        let HelperCommand { command, environment, .. } = spec.helpers.swap_remove(at);
        (spec.command, spec.environment) = (command, environment);
        // How the command of the task ended, from its shim.
        spec.environment.extend(std::env::vars().filter(|(name, _)| EXIT_VARIABLES.contains(&name.as_str())));
    }
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
    program_execute(&spec.command, &spec.environment, &spec.working_directory).to_string()
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
) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::other("the command is empty");
    };
    // The process that started the agent may have left files open that an execution does not close.
    close_fds::set_fds_cloexec(FIRST_OWN_FILE, &[]);
    if let Err(error) = std::env::set_current_dir(directory) {
        let text =
            format!("cannot use the working directory {}: {}", directory.display(), error_text(&error));
        return io::Error::new(error.kind(), text);
    }
    let error = Command::new(program).args(arguments).env_clear().envs(environment).exec();
    let search = PathSearch { program, path: environment.get("PATH").map(String::as_str) };
    let refused = error.kind() == io::ErrorKind::PermissionDenied;
    let error = if refused && search.is_missing() { Errno::NOENT.into() } else { error };
    io::Error::new(error.kind(), not_executed(program, &search, &error))
}

/// Why a program was not executed, in words for the job's author.
fn not_executed(program: &str, search: &PathSearch<'_>, error: &io::Error) -> String {
    let reason = match error.kind() {
        io::ErrorKind::NotFound if !program.contains('/') => search.described(),
        io::ErrorKind::NotFound if Path::new(program).exists() => {
            "it is there; its interpreter is not".to_owned()
        }
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied if Path::new(program).is_dir() => "it is a directory".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "its mode, or that of a directory above it, does not let the user of the task execute it"
                .to_owned()
        }
        _ => error_text(error),
    };
    format!("cannot execute {program:?}: {reason}")
}

/// The search for a program without a slash.
struct PathSearch<'a> {
    program: &'a str,
    path: Option<&'a str>,
}

impl PathSearch<'_> {
    /// Each directory, and whether it has the program. The error says whether it is closed.
    fn found(&self) -> impl Iterator<Item = (&str, io::Result<fs::Metadata>)> {
        let directories = self.path.unwrap_or_default().split(':').filter(|directory| !directory.is_empty());
        directories.map(|directory| (directory, fs::metadata(Path::new(directory).join(self.program))))
    }

    /// Returns true if no directory that can be looked into has the program. The kernel then refuses with the error of
    /// a closed directory, which says nothing about the program.
    fn is_missing(&self) -> bool {
        let is_file = |found: io::Result<fs::Metadata>| found.is_ok_and(|found| found.is_file());
        !self.program.contains('/') && !self.found().any(|(_, found)| is_file(found))
    }

    /// Why the program was not found. One closed directory is named: the environment of a task shows all.
    fn described(&self) -> String {
        if self.path.is_none() {
            return "the task has no PATH; give the program with its directory".to_owned();
        }
        let is_closed = |found: &io::Result<fs::Metadata>| {
            found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        let closed: BTreeSet<&str> =
            self.found().filter(|(_, found)| is_closed(found)).map(|(directory, _)| directory).collect();
        let others = match closed.len() {
            0 | 1 => String::new(),
            closed => format!(" and {} more", closed - 1),
        };
        let closed =
            closed.first().map(|directory| format!(", and its user cannot look into {directory}{others}"));
        format!("no directory of its PATH has it{}", closed.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn is_missing(path: &[&Path]) -> (bool, String) {
        let path: Vec<String> = path.iter().map(|each| each.display().to_string()).collect();
        let path = path.join(":");
        let search = PathSearch { program: "tool", path: Some(&path) };
        (search.is_missing(), search.described())
    }

    #[test]
    fn a_program_that_no_directory_has_is_missing_and_not_forbidden() {
        let root = tempfile::tempdir().unwrap();
        let (empty, with_file) = (root.path().join("empty"), root.path().join("file"));
        fs::create_dir(&empty).unwrap();
        fs::create_dir(&with_file).unwrap();
        assert_eq!(is_missing(&[&empty]), (true, "no directory of its PATH has it".to_owned()));
        fs::create_dir(empty.join("tool")).unwrap();
        assert!(is_missing(&[&empty]).0, "a directory is no program");
        fs::write(with_file.join("tool"), "").unwrap();
        assert!(!is_missing(&[&empty, &with_file]).0);
        let closed = root.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let (missing, described) = is_missing(&[&closed, &empty]);
        assert!(missing);
        // Root may look into any directory.
        if !rustix::process::geteuid().is_root() {
            let named = format!("has it, and its user cannot look into {}", closed.display());
            assert!(described.contains(&named), "{described}");
        }
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// The message goes to the task's row and to every answer about it.
    #[test]
    fn a_missing_program_is_named_without_the_path_and_the_words_of_the_system() {
        let environment = BTreeMap::from([("PATH".to_owned(), "/nowhere:/nowhere".to_owned())]);
        let run = |program: &str, environment: &BTreeMap<String, String>| {
            let search = PathSearch { program, path: environment.get("PATH").map(String::as_str) };
            not_executed(program, &search, &Errno::NOENT.into())
        };
        let none = "cannot execute \"nosuch\": no directory of its PATH has it";
        assert_eq!(run("nosuch", &environment), none);
        let unset = "cannot execute \"nosuch\": the task has no PATH; give the program with its directory";
        assert_eq!(run("nosuch", &BTreeMap::new()), unset);
        let file = "cannot execute \"/nowhere/it\": there is no such file";
        assert_eq!(run("/nowhere/it", &environment), file);
    }
}
