//! Remaining processes of an attempt after its own process has ended: in its cgroup, and below the shim if processes
//! have left the cgroup or it has none.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, setsid, wait, waitid};

use crate::cgroup::Leaf;
use crate::clock;
use crate::file::{json_read, json_rewrite, reserve_release};
use crate::process::{self, ProcessId, descendants};
use crate::record::{AttemptRecord, ExitRecord, HelperProgress, STATE_FILE};
use crate::spec::{SPEC_FILE, Spec};

/// Sends SIGKILL to the remaining processes. Returns true if there were any. Processes outside the cgroup follow when
/// it is empty. Uncollected exit statuses count.
///
/// A search over every process of the machine comes last, since a thousand attempts that end at once would each need
/// it.
pub(crate) fn leftover_kill(leaf: &Leaf) -> bool {
    if !leaf.processes().is_empty() {
        leaf.kill();
        return true;
    }
    if !child_left() {
        return false;
    }
    for pid in descendants(std::process::id()) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended by itself. This process is its reaper, so its number is not reused before we collect
            // it.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    true
}

/// Returns true if this process has a child, even if only its exit status. Every remaining process is below one: a
/// process that loses its parent becomes the child of its shim.
fn child_left() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Collects the exit status of every child that has ended.
pub(crate) fn children_reap(mut ended: impl FnMut(Pid, rustix::process::WaitStatus)) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        ended(pid, status);
    }
}

/// Ends the remaining processes of a killed shim, and completes its record.
///
/// # Errors
/// The attempt's files cannot be read or written.
pub fn attempt_clean(attempt: &Path) -> io::Result<()> {
    // It may already lead a session.
    let _ = setsid();
    let lock = File::open(attempt)?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        // The shim still runs, but its agent cannot read its record: the end of its task makes it write that again.
        if json_read::<AttemptRecord>(attempt, STATE_FILE).is_err()
            && let Ok(Some(spec)) = json_read::<Spec>(attempt, SPEC_FILE)
        {
            spec.cgroup.kill();
        }
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "its shim is running"));
    }
    // A damaged file counts as missing; the attempt is ended anyway.
    let spec: Option<Spec> = json_read(attempt, SPEC_FILE).unwrap_or_default();
    let mut record: AttemptRecord = json_read(attempt, STATE_FILE).unwrap_or_default().unwrap_or_default();
    if record.released_ms.is_some() {
        return Ok(());
    }
    let leaf = spec.map(|spec| spec.cgroup).unwrap_or_default();
    let boot_id = process::boot_id()?;
    let same_boot = record.boot_id == boot_id || record.boot_id.is_empty();
    let mut pause = Duration::from_millis(1);
    while attempt_kill(&leaf, same_boot.then_some(&record)) {
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    let now = clock::wall_ms();
    if record.exit.is_none() {
        let message = "its shim ended before it did".to_owned();
        let signal = Some(Signal::KILL.as_raw());
        let oom_kills = leaf.oom_kills();
        record.exit = Some(ExitRecord { signal, message, oom_kills, at_ms: now, ..ExitRecord::default() });
    }
    while leaf.remove().is_err() {
        leaf.kill();
        sleep(Duration::from_millis(20));
    }
    if record.boot_id.is_empty() {
        record.boot_id = boot_id;
    }
    for helper in &mut record.helpers {
        helper.state = HelperProgress::Ended;
        helper.process = None;
    }
    record.released_ms = Some(now);
    json_rewrite(attempt, STATE_FILE, &record)?;
    reserve_release(attempt);
    Ok(())
}

/// Kills the remaining processes of an attempt whose shim is gone. Returns true if there were any.
fn attempt_kill(leaf: &Leaf, record: Option<&AttemptRecord>) -> bool {
    let inside = !leaf.processes().is_empty();
    if inside {
        leaf.kill();
    }
    let processes = record.iter().flat_map(|record| {
        record.task.into_iter().chain(record.helpers.iter().filter_map(|helper| helper.process))
    });
    let alive: Vec<ProcessId> = processes.filter(|process| process.alive()).collect();
    for process in &alive {
        for pid in descendants(process.pid) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let _ = process.signal(Signal::KILL);
    }
    inside || !alive.is_empty()
}
