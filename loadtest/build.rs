//! Records the commit that the program is built from, since the machine that runs it may have no checkout.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    if let Some(git) = git(&root, &["rev-parse", "--absolute-git-dir"]) {
        // Each commit, checkout and pull adds a line to the log of the head.
        for file in ["HEAD", "logs/HEAD"] {
            println!("cargo:rerun-if-changed={}", Path::new(&git).join(file).display());
        }
    }
    let commit = git(&root, &["rev-parse", "--short=12", "HEAD"]);
    println!("cargo:rustc-env=BOROUGH_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// The output of git; `None` without git or a checkout.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !printed.is_empty()).then_some(printed)
}
