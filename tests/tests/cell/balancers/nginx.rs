//! nginx, over DNS or with a file of upstreams.

use std::fs;
use std::path::{Path, PathBuf};

use borough_testkit::HeldProgram;

/// Starts it with these directives of `http`. Its files are in `folder`.
pub(super) fn start(program: &Path, folder: &Path, http: &str) -> HeldProgram {
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let own: String = folders.iter().map(|kind| format!("    {kind}_temp_path tmp;\n")).collect();
    fs::create_dir_all(folder).unwrap();
    let text = format!(
        "worker_processes 1;\npid nginx.pid;\nerror_log stderr warn;\ndaemon off;\nevents {{}}\nhttp {{\n    \
         access_log off;\n{own}{http}\n}}\n"
    );
    fs::write(folder.join("nginx.conf"), text).unwrap();
    HeldProgram::start(program, &arguments(folder), folder.join("log"))
}

/// The arguments that name the files of an nginx in `folder`.
pub(super) fn arguments(folder: &Path) -> Vec<PathBuf> {
    ["-p".into(), folder.to_owned(), "-c".into(), folder.join("nginx.conf")].into()
}
