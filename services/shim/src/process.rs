//! Processes as the kernel names them. A pid alone is reused; with its start time and the boot it is unique.

use std::fs;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process of one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// When it started, in clock ticks since the boot.
    pub start_ticks: u64,
}

impl ProcessId {
    /// The process that has this number now; `None` if it does not exist, or only its exit status is left.
    pub fn find(pid: u32) -> Option<Self> {
        let stat = stat_read(pid).ok()?;
        (stat.state != 'Z' && stat.state != 'X').then_some(Self { pid, start_ticks: stat.start_ticks })
    }

    /// A child of ours, which may have ended already: its number stays its own until we collect its exit status.
    pub fn of_child(pid: u32) -> Option<Self> {
        stat_read(pid).ok().map(|stat| Self { pid, start_ticks: stat.start_ticks })
    }

    /// Returns true if it still runs.
    pub fn alive(self) -> bool {
        Self::find(self.pid) == Some(self)
    }

    /// Signals it, and never another process that has its number by now.
    ///
    /// # Errors
    /// `NotFound` if it has ended; otherwise the kernel's refusal.
    pub fn signal(self, signal: Signal) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone())?;
        // The handle was opened before the check: if the check succeeds, the handle is of this very process.
        if !self.alive() {
            return Err(gone());
        }
        Ok(pidfd_send_signal(&handle, signal)?)
    }
}

/// The content of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// State letter, `Z` for a zombie.
    pub state: char,
    /// The parent's number.
    pub parent: u32,
    /// Time used, in clock ticks, by it and by the kernel for it.
    pub cpu_ticks: u64,
    /// When it started, in clock ticks since the boot.
    pub start_ticks: u64,
    /// Resident memory, in pages.
    pub resident_pages: u64,
}

/// Reads `/proc/<pid>/stat`.
///
/// # Errors
/// `NotFound` if the process does not exist.
pub fn stat_read(pid: u32) -> io::Result<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    stat_parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc stat"))
}

/// Parses a stat file. The name in it may contain any character, so fields count from the last `)`.
fn stat_parse(text: &str) -> Option<Stat> {
    let rest = text.get(text.rfind(')')?.checked_add(1)?..)?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field.checked_sub(3)?)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: u32::try_from(number(4)?).ok()?,
        cpu_ticks: number(14)?.saturating_add(number(15)?),
        start_ticks: number(22)?,
        resident_pages: number(24)?,
    })
}

/// The id of this boot.
///
/// # Errors
/// Those of reading `/proc`.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Every live process below `root` (not `root` itself), in no particular order.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Ok(stat) = stat_read(pid)
            && stat.state != 'Z'
            && stat.state != 'X'
        {
            parents.push((pid, stat.parent));
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.remove(0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_count_from_the_last_bracket() {
        let text = "7 (a) b) R 3 1 1 0 -1 4 9 0 0 0 11 22 0 0 20 0 1 0 5555 1 77 18446744073709551615";
        let stat = stat_parse(text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.cpu_ticks), ('R', 3, 33));
        assert_eq!((stat.start_ticks, stat.resident_pages), (5555, 77));
        assert_eq!(stat_parse("7 (x"), None);
    }

    #[test]
    fn a_process_is_itself_and_no_other_with_its_number() {
        let own = ProcessId::find(std::process::id()).unwrap();
        assert!(own.alive());
        let other = ProcessId { start_ticks: own.start_ticks + 1, ..own };
        assert!(!other.alive());
        assert_eq!(other.signal(Signal::KILL).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_child_that_has_ended_is_known_until_it_is_waited_for() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let known = ProcessId::of_child(child.id());
        while stat_read(child.id()).unwrap().state != 'Z' {
            std::thread::yield_now();
        }
        assert!(known.is_some() && ProcessId::of_child(child.id()) == known);
        assert_eq!(ProcessId::find(child.id()), None);
        child.wait().unwrap();
        assert!(!known.unwrap().alive());
    }

    #[test]
    fn descendants_are_found_and_the_dead_are_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(descendants(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(std::process::id()).contains(&child.id()));
    }
}
