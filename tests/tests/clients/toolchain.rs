//! The languages of the clients, and whether this machine has what they need.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A language whose client has a runner.
pub(crate) struct Toolchain {
    pub(crate) name: &'static str,
    /// The folder of the client, below `services`.
    folder: &'static str,
    /// Programs that it needs, each with the argument that prints its version.
    programs: &'static [(&'static str, &'static str)],
}

pub(crate) const PYTHON: Toolchain =
    Toolchain { name: "python", folder: "client-python", programs: &[("python3", "--version")] };
pub(crate) const GO: Toolchain =
    Toolchain { name: "go", folder: "client-go", programs: &[("go", "version")] };
pub(crate) const TYPESCRIPT: Toolchain = Toolchain {
    name: "typescript",
    folder: "client-typescript",
    programs: &[("node", "--version"), ("npm", "--version")],
};

impl Toolchain {
    /// The program that carries the scenarios out.
    pub(crate) fn runner(&self) -> PathBuf {
        let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("../services");
        services.join(self.folder).join("conformance/run")
    }

    /// # Errors
    /// A program that is missing.
    pub(crate) fn found(&self) -> Result<(), String> {
        let missing =
            |(program, version): &&(&str, &str)| Command::new(program).arg(version).output().is_err();
        self.programs.iter().find(missing).map_or(Ok(()), |(program, _)| Err((*program).to_owned()))
    }
}
