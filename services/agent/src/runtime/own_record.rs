//! The agent's own record for a guard. The guard ends the agent when the guard's holder has ended.

use std::path::PathBuf;

use borough_shim::process::ProcessId;
use borough_shim::record::{ProcessKind, process_record};

/// A record that is written once the disk accepts it.
#[derive(Debug, Default)]
pub(super) struct OwnRecord {
    wanted: Option<WantedRecord>,
    made: Option<PathBuf>,
}

#[derive(Debug)]
struct WantedRecord {
    directory: PathBuf,
    process: ProcessId,
    cgroups: Vec<PathBuf>,
}

impl OwnRecord {
    /// The record of this process in `directory`, with its cgroups' directories. It is written at once if the disk
    /// accepts it. `None`: no guard needs one.
    pub(super) fn make(directory: Option<PathBuf>, cgroups: Vec<PathBuf>) -> Self {
        let process = ProcessId::find(std::process::id());
        let wanted = directory.zip(process);
        let wanted = wanted.map(|(directory, process)| WantedRecord { directory, process, cgroups });
        let mut own = Self { wanted, made: None };
        own.make_again();
        own
    }

    /// Tries again to write the record: a full disk may have space again.
    pub(super) fn make_again(&mut self) {
        let Some(WantedRecord { directory, process, cgroups }) = &self.wanted else { return };
        match process_record(directory, ProcessKind::Agent, *process, cgroups.clone()) {
            Ok(made) => (self.made, self.wanted) = (Some(made), None),
            Err(error) => {
                tracing::warn!(%error, "the guard has no record of this agent yet: if the guard ends now, the agent goes on");
            }
        }
    }

    /// Removes it, or stops trying to write it.
    pub(super) fn remove(&mut self) {
        self.wanted = None;
        if let Some(made) = self.made.take() {
            let _ = std::fs::remove_file(made);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_made_once_the_disk_takes_it() {
        let root = tempfile::tempdir().unwrap();
        let (directory, in_the_way) = (root.path().join("records"), root.path().join("records"));
        std::fs::write(&in_the_way, "no directory").unwrap();
        let mut own = OwnRecord::make(Some(directory.clone()), Vec::new());
        own.make_again();
        std::fs::remove_file(in_the_way).unwrap();
        assert!(!directory.exists());
        own.make_again();
        let records = || std::fs::read_dir(&directory).unwrap().count();
        assert_eq!(records(), 1);
        own.make_again();
        assert_eq!(records(), 1);
        own.remove();
        assert_eq!(records(), 0);
        own.make_again();
        assert_eq!(records(), 0, "not after it was removed");
    }
}
