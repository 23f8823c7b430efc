//! Ends everything that a directory of process records names: agents first, so that they start nothing again, then what
//! they started, then the cgroups. A test holds the other end of the guard's standard input. When the test ends, in any
//! way, the guard begins.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Signal, getppid, setsid};

use crate::cgroup::Leaf;
use crate::file::json_read;
use crate::process::boot_id;
use crate::record::{DirectoryId, ProcessKind, ProcessRecord};

/// The number of rounds: a later round finds what was being started during an earlier one.
const ROUNDS: u32 = 200;
/// So many rounds in a row must find nothing: a process that was just being recorded in one shows in the next.
const QUIET_ROUNDS: u32 = 2;
/// The same if an agent was killed that its supervisor may start again, which takes a moment.
const QUIET_ROUNDS_AGENT: u32 = 25;
/// Pause between two rounds.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until standard input closes, then ends everything recorded in `records`.
///
/// # Errors
/// Something is left at the end.
pub fn guard_wait(records: &Path) -> io::Result<()> {
    // An agent may run inside the test's own process, which the guard must not end.
    let test = getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
    // Out of reach of signals to the test's session.
    let _ = setsid();
    let mut scratch = [0; 64];
    while matches!(io::stdin().read(&mut scratch), Ok(length) if length > 0) {}
    recorded_end(records, test)
}

/// Ends everything recorded in `records` except the process `spared`, and removes the records and the cgroups that they
/// name.
///
/// # Errors
/// `TimedOut` if something is left at the end.
pub fn recorded_end(records: &Path, spared: Option<u32>) -> io::Result<()> {
    let (mut quiet, mut enough) = (0, QUIET_ROUNDS);
    for _ in 0..ROUNDS {
        let GuardRound { busy, agent_killed } = round(records, spared)?;
        if agent_killed {
            enough = QUIET_ROUNDS_AGENT;
        }
        quiet = if busy { 0 } else { quiet + 1 };
        if quiet >= enough {
            return Ok(());
        }
        sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("still there: {}", records.display())))
}

/// The result of one round.
struct GuardRound {
    /// Something is left.
    busy: bool,
    /// An agent was killed, and its supervisor may start it again.
    agent_killed: bool,
}

fn round(records: &Path, spared: Option<u32>) -> io::Result<GuardRound> {
    let boot = boot_id()?;
    let mut found = records_read(records);
    found.sort_by_key(|(_, record)| record.kind != ProcessKind::Agent);
    let (mut busy, mut agent_killed) = (false, false);
    let others = found.iter().any(|(_, record)| record.kind != ProcessKind::Agent);
    for (file, record) in found {
        if record.boot_id == boot && Some(record.process.pid) != spared && record.process.alive() {
            let _ = record.process.signal(Signal::KILL);
            agent_killed |= record.kind == ProcessKind::Agent;
            busy = true;
            continue;
        }
        if record.kind != ProcessKind::Agent && !cgroups_end(&record.cgroups) {
            busy = true;
            continue;
        }
        if record.kind == ProcessKind::Agent {
            // The agent's cgroups contain those of its shims: they are removed last.
            let removed = !others && {
                parents_remove(&record.cgroups);
                record.cgroups.iter().all(|path| !path.exists())
            };
            if !removed {
                busy = true;
                continue;
            }
        }
        let _ = fs::remove_file(file);
    }
    Ok(GuardRound { busy, agent_killed })
}

/// The records that were written here: those of a copied directory name processes of the original.
fn records_read(records: &Path) -> Vec<(PathBuf, ProcessRecord)> {
    let own = DirectoryId::of(records).ok();
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str().filter(|name| name.ends_with(".json") && !name.starts_with('.'))?;
        let record = json_read::<ProcessRecord>(records, name).ok().flatten()?;
        let is_copy = record.directory.is_some_and(|directory| Some(directory) != own);
        (!is_copy).then(|| (records.join(name), record))
    };
    fs::read_dir(records).into_iter().flatten().flatten().filter_map(read).collect()
}

/// Kills the processes in cgroups and removes them, with the directories above that were only for them. Returns true
/// when that is done.
fn cgroups_end(cgroups: &[PathBuf]) -> bool {
    let v1 = cgroups.iter().map(|path| (path.display().to_string(), path.clone())).collect();
    let leaf = Leaf { v1, ..Leaf::default() };
    for path in cgroups {
        Leaf { unified: Some(path.clone()), ..Leaf::default() }.kill();
    }
    if leaf.remove().is_err() {
        return false;
    }
    for path in cgroups {
        parents_remove(path.parent().map(Path::to_path_buf).as_slice());
    }
    true
}

/// Removes directories and their ancestors while they are empty.
fn parents_remove(cgroups: &[PathBuf]) {
    for path in cgroups {
        for directory in path.ancestors().take_while(|directory| fs::metadata(directory).is_ok()) {
            if fs::remove_dir(directory).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::process::ProcessId;
    use crate::record::process_record;

    #[test]
    fn a_copy_of_the_records_ends_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (original, copy) = (root.path().join("records"), root.path().join("copy"));
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let process = ProcessId::find(child.id()).unwrap();
        let file = process_record(&original, ProcessKind::Task, process, Vec::new()).unwrap();
        fs::create_dir(&copy).unwrap();
        fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
        recorded_end(&copy, None).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "ended by a copy");
        let ended = std::thread::spawn(move || child.wait().unwrap());
        recorded_end(&original, None).unwrap();
        assert!(!ended.join().unwrap().success());
    }
}
