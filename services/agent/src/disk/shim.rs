//! The shim's program: embedded in the agent, and written where it can be executed.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The program, built for this target by the build script.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/borough-shim.bin"));

/// Where [`shim_install`] puts the program.
pub(crate) fn shim_path(directory: &Path) -> PathBuf {
    directory.join(concat!("borough-shim-", env!("BOROUGH_SHIM_HASH")))
}

/// Writes the shim's program into `directory`, unless it is there, and returns its path. The name contains a hash of
/// the program, so a new version does not replace a running one.
///
/// # Errors
/// Those of the file system.
pub fn shim_install(directory: &Path) -> io::Result<PathBuf> {
    let path = shim_path(directory);
    let whole =
        |found: &fs::Metadata| usize::try_from(found.len()).is_ok_and(|length| length == PROGRAM.len());
    if fs::metadata(&path).is_ok_and(|found| whole(&found)) {
        return Ok(path);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let temporary = directory.join(format!(".shim.{}.new", std::process::id()));
    let installed = program_write(&temporary).and_then(|()| fs::rename(&temporary, &path));
    if installed.is_err() {
        // A partial file would take space that others wait for.
        let _ = fs::remove_file(&temporary);
    }
    installed.map(|()| path)
}

fn program_write(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(path)?;
    file.write_all(PROGRAM)?;
    file.sync_all()
}
