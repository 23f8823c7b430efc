//! The cgroup of one attempt, in every hierarchy at once: limits, joining, counting, killing, removal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::host::{directory_create, weight_set};

/// The limits of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupLimits {
    /// Its share of scarce cores, in thousandths of a core; 0: the smallest share.
    pub cpu_millis: u64,
    /// Bytes, swap included; 0: no limit.
    pub memory_bytes: u64,
    /// Processes and threads; 0: no limit.
    pub processes_max: u64,
    /// Its processors, in the kernel's format (`0-3,8`); empty: all.
    pub cpus: String,
    /// Its memory domains, in the same format.
    pub memory_domains: String,
}

/// One attempt's cgroup. Empty if the host has none; every method then does nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Leaf {
    /// Its directory in version 2.
    pub unified: Option<PathBuf>,
    /// Its directories in version 1, by controller.
    pub v1: BTreeMap<String, PathBuf>,
    pub limits: CgroupLimits,
}

/// The use of an attempt so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// Microseconds of cpu time since its start.
    pub cpu_us: u64,
    /// Bytes charged to it, page cache included: what counts against its limit.
    pub memory_bytes: u64,
    /// The highest value so far.
    pub memory_peak_bytes: u64,
    pub processes: u32,
}

/// Whether the kernel runs the processes of a cgroup.
#[derive(Clone, Copy)]
enum FreezerState {
    Frozen,
    Thawed,
}

impl Leaf {
    /// Returns true if it has no cgroup at all.
    pub fn is_none(&self) -> bool {
        self.unified.is_none() && self.v1.is_empty()
    }

    /// Every directory, each once: in version 1 several controllers may share one.
    pub fn directories(&self) -> BTreeSet<&Path> {
        self.unified.iter().chain(self.v1.values()).map(PathBuf::as_path).collect()
    }

    /// Creates it and sets its limits.
    ///
    /// # Errors
    /// The first directory or limit that was refused: an attempt must not run without a promised limit.
    pub fn create(&self) -> io::Result<()> {
        for directory in self.directories() {
            directory_create(directory).map_err(|error| named(&error, directory))?;
        }
        let CgroupLimits { cpu_millis, memory_bytes, processes_max, .. } = self.limits;
        for directory in self.unified.iter().chain(self.v1.get("cpu")) {
            weight_set(directory, cpu_millis)?;
        }
        if memory_bytes > 0 {
            self.memory_limit(memory_bytes)?;
        }
        if processes_max > 0
            && let Some(path) = self.file("pids.max", None).or_else(|| self.file("pids.max", Some("pids")))
        {
            value_write(&path, processes_max)?;
        }
        for (name, list) in [("cpuset.cpus", &self.limits.cpus), ("cpuset.mems", &self.limits.memory_domains)]
        {
            if let Some(path) = self.file(name, None).filter(|_| !list.is_empty()) {
                fs::write(&path, list).map_err(|error| named(&error, &path))?;
            }
        }
        Ok(())
    }

    /// Confines it to these processors, in the kernel's format, if the host has the controller.
    ///
    /// # Errors
    /// They are refused.
    pub fn cpus_set(&self, list: &str) -> io::Result<()> {
        match self.file("cpuset.cpus", None) {
            Some(path) => fs::write(&path, list).map_err(|error| named(&error, &path)),
            None => Ok(()),
        }
    }

    fn memory_limit(&self, bytes: u64) -> io::Result<()> {
        if let Some(path) = self.file("memory.max", None) {
            value_write(&path, bytes)?;
            return self.file("memory.swap.max", None).map_or(Ok(()), |swap| value_write(&swap, 0));
        }
        if let Some(path) = self.file("memory.limit_in_bytes", Some("memory")) {
            value_write(&path, bytes)?;
            let swap = self.file("memory.memsw.limit_in_bytes", Some("memory"));
            return swap.map_or(Ok(()), |path| value_write(&path, bytes));
        }
        Ok(())
    }

    /// An existing control file: of version 2, or in the directory of a controller of version 1.
    pub(super) fn file(&self, name: &str, controller: Option<&str>) -> Option<PathBuf> {
        let directory = match controller {
            None => self.unified.as_ref(),
            Some(controller) => self.v1.get(controller),
        }?;
        let path = directory.join(name);
        path.exists().then_some(path)
    }

    /// Moves the calling process in, which must have one thread only.
    ///
    /// In version 1 it moves the thread and not the process. For one thread that is the same. The kernel then skips a
    /// lock that waits for every fork and exit on the machine, milliseconds each on a busy one.
    ///
    /// # Errors
    /// The first hierarchy that refused.
    pub fn join(&self) -> io::Result<()> {
        let v1: BTreeSet<PathBuf> = self.v1.values().map(|directory| directory.join("tasks")).collect();
        let unified = self.unified.as_ref().map(|directory| directory.join("cgroup.procs"));
        for path in v1.into_iter().chain(unified) {
            fs::write(&path, "0").map_err(|error| named(&error, &path))?;
        }
        Ok(())
    }

    /// The processes in it and below; empty without a cgroup.
    pub fn processes(&self) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        for directory in self.directories() {
            for inner in tree(directory) {
                let text = fs::read_to_string(inner.join("cgroup.procs")).unwrap_or_default();
                found
                    .extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid != 0));
            }
        }
        found
    }

    /// Sends SIGKILL to every process in it. Without the kernel's help new processes may appear meanwhile, so callers
    /// repeat until it is empty.
    pub fn kill(&self) {
        if let Some(path) = self.file("cgroup.kill", None)
            && fs::write(path, "1").is_ok()
        {
            return;
        }
        self.freezer_set(FreezerState::Frozen);
        for pid in self.processes() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        self.freezer_set(FreezerState::Thawed);
    }

    fn freezer_set(&self, state: FreezerState) {
        let (unified, v1) = match state {
            FreezerState::Frozen => ("1", "FROZEN"),
            FreezerState::Thawed => ("0", "THAWED"),
        };
        if let Some(path) = self.file("cgroup.freeze", None) {
            let _ = fs::write(path, unified);
        } else if let Some(path) = self.file("freezer.state", Some("freezer")) {
            let _ = fs::write(path, v1);
        }
    }

    /// Removes its directories.
    ///
    /// # Errors
    /// `ResourceBusy` while processes are left in it.
    pub fn remove(&self) -> io::Result<()> {
        for directory in self.directories() {
            for inner in tree(directory) {
                match fs::remove_dir(&inner) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(named(&error, &inner));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The memory that it may use; `None`: there is no limit, or no hierarchy has one.
    pub fn memory_max(&self) -> Option<u64> {
        let v1 = || self.file("memory.limit_in_bytes", Some("memory"));
        // Without a limit, version 2 has a word, and version 1 nearly the largest number.
        self.file("memory.max", None)
            .or_else(v1)
            .and_then(|path| number_read(&path))
            .filter(|most| most >> 60 == 0)
    }

    /// How many of its processes the kernel has killed for lack of memory.
    pub fn oom_kills(&self) -> u64 {
        let unified = self.file("memory.events", None).and_then(|path| field_read(&path, "oom_kill"));
        let v1 =
            || self.file("memory.oom_control", Some("memory")).and_then(|path| field_read(&path, "oom_kill"));
        unified.or_else(v1).unwrap_or(0)
    }

    /// Its present use; `None` if no hierarchy counts it.
    pub fn sample(&self) -> Option<CgroupUsage> {
        let unified_us = self.file("cpu.stat", None).and_then(|path| field_read(&path, "usage_usec"));
        let v1_us = || {
            self.file("cpuacct.usage", Some("cpuacct"))
                .and_then(|path| number_read(&path))
                .map(|ns| ns / 1000)
        };
        let either = |unified: &str, v1: &str| {
            let path = self.file(unified, None).or_else(|| self.file(v1, Some("memory")));
            path.and_then(|path| number_read(&path))
        };
        let memory = either("memory.current", "memory.usage_in_bytes");
        let cpu = unified_us.or_else(v1_us);
        if cpu.is_none() && memory.is_none() {
            return None;
        }
        Some(CgroupUsage {
            cpu_us: cpu.unwrap_or(0),
            memory_bytes: memory.unwrap_or(0),
            memory_peak_bytes: either("memory.peak", "memory.max_usage_in_bytes").unwrap_or(0),
            processes: u32::try_from(self.processes().len()).unwrap_or(u32::MAX),
        })
    }
}

/// How the kernel ended processes for lack of memory, with the limit, and the field of a job file that sets it.
pub(crate) fn oom_text(kills: u64, most: Option<u64>) -> String {
    const MEBI: u64 = 1 << 20;
    let limit = match most {
        None => "memory limit".to_owned(),
        Some(bytes) if bytes % MEBI == 0 => format!("memory limit of {}MiB", bytes / MEBI),
        Some(bytes) => format!("memory limit of {bytes} bytes"),
    };
    format!("the kernel killed {kills} of its processes at its {limit} (task.resources.memory)")
}

/// A directory and those below it, the deepest first.
fn tree(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_path_buf()];
    let mut next = 0;
    while let Some(current) = found.get(next).cloned() {
        let entries = fs::read_dir(&current).into_iter().flatten().flatten();
        found.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()),
        );
        next += 1;
    }
    found.reverse();
    found
}

pub(super) fn named(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn value_write(path: &Path, value: u64) -> io::Result<()> {
    fs::write(path, value.to_string()).map_err(|error| named(&error, path))
}

pub(super) fn number_read(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number after `name` in a file of `name number` lines.
pub(super) fn field_read(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("leaf");
        fs::create_dir(&path).unwrap();
        for (name, text) in files {
            fs::write(path.join(name), text).unwrap();
        }
        (root, path)
    }

    #[test]
    fn limits_go_where_the_host_has_the_controller() {
        let (_root, unified) = directory(&[
            ("cgroup.procs", ""),
            ("memory.max", "max"),
            ("memory.swap.max", "max"),
            ("cpuset.cpus", ""),
            ("cpuset.mems", ""),
        ]);
        let (_root_v1, cpu) = directory(&[("cpu.shares", "1024")]);
        let limits = CgroupLimits {
            cpu_millis: 500,
            memory_bytes: 4096,
            processes_max: 7,
            cpus: "0-3,8".to_owned(),
            memory_domains: "1".to_owned(),
        };
        let v1 = [("cpu".to_owned(), cpu.clone())].into();
        let leaf = Leaf { unified: Some(unified.clone()), v1, limits };
        leaf.create().unwrap();
        assert_eq!(fs::read_to_string(unified.join("memory.max")).unwrap(), "4096");
        assert_eq!(fs::read_to_string(unified.join("memory.swap.max")).unwrap(), "0");
        assert_eq!(fs::read_to_string(unified.join("cpuset.cpus")).unwrap(), "0-3,8");
        assert_eq!(fs::read_to_string(unified.join("cpuset.mems")).unwrap(), "1");
        assert_eq!(fs::read_to_string(cpu.join("cpu.shares")).unwrap(), "512");
    }

    #[test]
    fn kills_for_memory_are_read_on_both_versions() {
        let (_root, unified) =
            directory(&[("memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 9\n")]);
        assert_eq!(Leaf { unified: Some(unified), ..Leaf::default() }.oom_kills(), 2);
        let (_root, memory) =
            directory(&[("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")]);
        let leaf = Leaf { v1: [("memory".to_owned(), memory)].into(), ..Leaf::default() };
        assert_eq!(leaf.oom_kills(), 1);
    }

    #[test]
    fn usage_is_read_on_both_versions() {
        let (_root, unified) =
            directory(&[("cpu.stat", "usage_usec 1500\nuser_usec 1\n"), ("cgroup.procs", "7\n8\n")]);
        let sample = Leaf { unified: Some(unified), ..Leaf::default() }.sample().unwrap();
        assert_eq!((sample.cpu_us, sample.processes, sample.memory_bytes), (1500, 2, 0));
        let (_root, cpuacct) = directory(&[("cpuacct.usage", "3000000\n")]);
        let leaf = Leaf { v1: [("cpuacct".to_owned(), cpuacct)].into(), ..Leaf::default() };
        assert_eq!(leaf.sample().unwrap().cpu_us, 3000);
        assert_eq!(Leaf::default().sample(), None);
    }
}
