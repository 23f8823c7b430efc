//! The shim's program: selects the mode. Errors go to standard error, which the agent redirects to a file.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use borough_shim::{exec, guard, run};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let path = arguments.next().map(PathBuf::from);
    // What a caller of `task exec` reads begins as every error of the program does.
    let speaker = if mode == "exec" { "error" } else { "borough-shim" };
    match dispatch(mode.to_str().unwrap_or_default(), path.as_deref(), arguments.collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody else can be notified.
            let _ = writeln!(io::stderr(), "{speaker}: {error}");
            match error.kind() {
                // As a shell ends if it may not execute a command, and if it finds none.
                io::ErrorKind::PermissionDenied if mode == "exec" => ExitCode::from(126),
                _ if mode == "exec" => ExitCode::from(127),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn dispatch(mode: &str, path: Option<&Path>, rest: Vec<OsString>) -> io::Result<()> {
    let wrong = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
    let rest: Result<Vec<String>, OsString> = rest.into_iter().map(OsString::into_string).collect();
    let rest = rest.map_err(|_| wrong("an argument is not UTF-8"))?;
    match (mode, path, rest.as_slice()) {
        ("run", Some(attempt), []) => run::attempt_run(attempt),
        ("child", None, []) => run::child_become(),
        ("helper", Some(at), []) => {
            let at =
                at.to_str().and_then(|at| at.parse().ok()).ok_or_else(|| wrong("no number of a helper"))?;
            run::helper_become(at)
        }
        ("clean", Some(attempt), []) => run::attempt_clean(attempt),
        ("exec", Some(attempt), [mode, command @ ..]) => exec::exec_become(attempt, mode, command),
        ("guard", Some(records), []) => guard::guard_wait(records),
        _ => Err(wrong(
            "usage: borough-shim run|clean <attempt> | exec <attempt> plain|terminal <command> | guard <directory>; \
             started by the agent",
        )),
    }
}
