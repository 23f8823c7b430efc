//! Programs of others that a test runs: load balancers, and clients of the name service.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, ChildStdin, Command};

/// How long a program may take to end.
const END_WAIT: Duration = Duration::from_secs(30);
/// Lines of its output that a failed test shows.
const LINES_SHOWN: usize = 20;

/// Finds a program: among those that `tests/programs/install` has put into the cache of this user, or in `PATH`.
pub fn program_find(name: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let installed = cache.map(|cache| cache.join("borough/programs/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = installed.into_iter().chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// A Python with gRPC: the one that `BOROUGH_TEST_PYTHON` names, or that of this machine.
pub async fn python_with_grpc() -> Option<PathBuf> {
    let given = std::env::var_os("BOROUGH_TEST_PYTHON").map(PathBuf::from);
    let python = given.or_else(|| program_find("python3"))?;
    let asked = Command::new(&python).args(["-c", "import grpc"]).stderr(Stdio::null()).status().await;
    asked.is_ok_and(|status| status.success()).then_some(python)
}

/// A program that runs. It ends when this is dropped, and however this process ends: a shell that started it waits for
/// the end of a pipe.
#[derive(Debug)]
pub struct HeldProgram {
    shell: Child,
    pipe: Option<ChildStdin>,
    log: PathBuf,
}

impl HeldProgram {
    /// Starts a program. What it writes goes to `log`.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start<A: AsRef<OsStr>>(program: &Path, arguments: &[A], log: PathBuf) -> Self {
        Self::start_with(program, arguments, &[], log)
    }

    /// Starts a program with additional variables of its environment.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start_with<A: AsRef<OsStr>>(
        program: &Path,
        arguments: &[A],
        environment: &[(&str, &str)],
        log: PathBuf,
    ) -> Self {
        let hold = "\"$@\" </dev/null & held=$!; read -r _; kill $held; wait $held";
        let output = File::create(&log).unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", hold, "sh"]).arg(program).args(arguments);
        shell.envs(environment.iter().copied());
        shell.stdin(Stdio::piped()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut shell = shell.spawn().unwrap();
        let pipe = shell.stdin.take();
        Self { shell, pipe, log }
    }

    /// What it has written.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends SIGTERM to it, and waits for its end.
    ///
    /// # Panics
    /// It does not end.
    pub async fn end(mut self) {
        drop(self.pipe.take());
        let ended = tokio::time::timeout(END_WAIT, self.shell.wait()).await;
        assert!(ended.is_ok(), "{} does not end", self.log.display());
    }
}

impl Drop for HeldProgram {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = self.output();
            let lines: Vec<&str> = output.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
            eprintln!("--- the end of {}\n{last}", self.log.display());
        }
    }
}
