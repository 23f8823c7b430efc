//! A guard for processes that start agents and tasks and must leave none behind: whatever happens to the process, the
//! guard ends them.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::shim_install;

/// Ends everything recorded in its directory when it is dropped, or when the process that holds it has ended in any
/// way. A separate watcher process waits for that.
#[derive(Debug)]
pub struct ProcessGuard {
    records: PathBuf,
    watcher: Child,
}

impl ProcessGuard {
    /// A guard over `directory/records`; give that to agents as their `record_dir`.
    ///
    /// # Errors
    /// The watcher cannot be started.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let (program, records) = (program_install(directory)?, records_make(directory)?);
        let start = || {
            let mut command = Command::new(&program);
            command.arg("guard").arg(&records).env_clear().current_dir("/");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
        };
        // Another thread that forks at this moment may still hold the program open for writing.
        let mut watcher = start();
        for _ in 0..100 {
            match &watcher {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    watcher = start();
                }
                _ => break,
            }
        }
        Ok(Self { records, watcher: watcher? })
    }

    /// Writes what a guard over `directory/records` needs: its program, and the directory of records. A guard that
    /// begins later then needs no more space on the disk.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn prepare(directory: &Path) -> io::Result<()> {
        program_install(directory)?;
        records_make(directory).map(drop)
    }

    /// Ends everything that is recorded, and waits for it.
    ///
    /// # Errors
    /// A process is left, or the watcher cannot be waited for.
    pub fn end(mut self) -> io::Result<()> {
        drop(self.watcher.stdin.take());
        if !self.watcher.wait()?.success() {
            return Err(io::Error::other(format!(
                "something named in {} still runs",
                self.records.display()
            )));
        }
        Ok(())
    }

    pub fn records(&self) -> &Path {
        &self.records
    }
}

fn program_install(directory: &Path) -> io::Result<PathBuf> {
    shim_install(&directory.join("bin"))
}

fn records_make(directory: &Path) -> io::Result<PathBuf> {
    let records = directory.join("records");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&records)?;
    Ok(records)
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        // The watcher itself reports what it could not end.
        let _ = self.watcher.wait();
    }
}
