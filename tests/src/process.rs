//! Processes of a test's cell, as its agents record them.

use std::fs;
use std::path::Path;
use std::process::{Child, ExitStatus};

use borough_shim::file::json_read;
use borough_shim::process::{descendants, stat_read};
use borough_shim::record::ProcessRecord;
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::until;

/// Every running process that is recorded in `records`.
pub fn recorded(records: &Path) -> Vec<ProcessRecord> {
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str().filter(|name| name.ends_with(".json") && !name.starts_with('.'))?;
        json_read::<ProcessRecord>(records, name).ok().flatten()
    };
    let found = fs::read_dir(records).into_iter().flatten().flatten().filter_map(read);
    found.filter(|record| record.process.alive()).collect()
}

/// Sends SIGTERM to a child of the test, and waits for its end.
///
/// # Panics
/// It does not end.
pub async fn child_terminated(child: Child) -> ExitStatus {
    kill_process(Pid::from_child(&child), Signal::TERM).expect("signalled");
    let child = parking_lot::Mutex::new(child);
    until("the end of a process", || async { child.lock().try_wait().expect("waited for") }).await
}

/// Every live process below this one.
pub fn descendants_of(pid: u32) -> Vec<u32> {
    descendants(pid)
}

/// Returns true if SIGSTOP has stopped it.
pub fn is_stopped(pid: u32) -> bool {
    stat_read(pid).is_ok_and(|stat| stat.state == 'T')
}
