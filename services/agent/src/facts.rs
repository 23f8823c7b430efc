//! The facts of the machine: the node's attributes, and its capacity unless it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use borough_model::node::{
    AGENT_ALLOCS, AGENT_HELPERS, AGENT_IDENTITIES, AGENT_RESIZE, AGENT_SECRETS, node_packages_kept,
};
use borough_proto::v1;
use borough_shim::cgroup::CgroupRoot;

use crate::decide::cores::Cores;
use crate::decide::load::{LoadReading, ProcessorTime};
use crate::decide::pressure::PressureReading;
use crate::error::AgentError;
use crate::task_users::TaskUsers;

/// The part of a machine's memory that is left to the system and the agent, in hundredths.
const MEMORY_RESERVE_PERCENT: u64 = 5;

/// The node's attributes. Features that the host lacks are among them, with the reason.
pub(crate) fn attributes(
    base: &CgroupRoot,
    users: &TaskUsers,
    secrets: Option<&Path>,
) -> BTreeMap<String, String> {
    let text = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let yes = |have: bool| if have { "yes" } else { "no" }.to_owned();
    let mut found: BTreeMap<String, String> = [
        ("arch", std::env::consts::ARCH.to_owned()),
        ("os", std::env::consts::OS.to_owned()),
        ("kernel.version", text("/proc/sys/kernel/osrelease")),
        ("hostname", text("/proc/sys/kernel/hostname")),
        ("cpu.model", cpu_model(&text("/proc/cpuinfo"))),
        ("cpu.count", cpu_count().to_string()),
        ("memory.bytes", memory_total(&text("/proc/meminfo")).unwrap_or(0).to_string()),
        ("cgroup.version", base.version().text().to_owned()),
        ("cgroup.cpu", yes(base.controls("cpu"))),
        ("cgroup.memory", yes(base.controls("memory"))),
        ("cgroup.pids", yes(base.controls("pids"))),
        ("cgroup.kill", yes(base.kill)),
        ("user.root", yes(rustix::process::geteuid().is_root())),
        ("task.user", users.to_string()),
        (AGENT_RESIZE, yes(true)),
        (AGENT_ALLOCS, yes(true)),
        (AGENT_HELPERS, yes(true)),
        (AGENT_IDENTITIES, yes(true)),
        (AGENT_SECRETS, yes(secrets.is_some())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if !base.missing.is_empty() {
        found.insert("cgroup.missing".to_owned(), base.missing.join("; "));
    }
    if *users == TaskUsers::Agent {
        let why = if rustix::process::geteuid().is_root() {
            "the agent runs tasks as its own user, root"
        } else {
            "the agent is not root and runs tasks as its own user"
        };
        found.insert("task.user.missing".to_owned(), why.to_owned());
    }
    found
}

/// The node's capacity for tasks. The machine does not show rates of disk and network; they stay 0 unless given.
///
/// # Errors
/// The machine does not show its memory, or the disk of the state directory its size.
pub(crate) fn capacity(given: Option<&v1::Resources>, state_dir: &Path) -> Result<v1::Resources, AgentError> {
    let given = given.cloned().unwrap_or_default();
    let or = |value: u64, found: u64| if value == 0 { found } else { value };
    let failed = |what| move |source: io::Error| AgentError::Machine { what, source };
    let meminfo = fs::read_to_string("/proc/meminfo").map_err(failed("/proc/meminfo"))?;
    let missing = || failed("/proc/meminfo")(io::Error::from(io::ErrorKind::InvalidData));
    let memory = memory_total(&meminfo).ok_or_else(missing)?;
    let disk = rustix::fs::statvfs(state_dir).map_err(|error| failed("the disk's size")(error.into()))?;
    Ok(v1::Resources {
        cpu_millis: or(given.cpu_millis, cpu_count().saturating_mul(1000)),
        memory_bytes: or(given.memory_bytes, memory / 100 * (100 - MEMORY_RESERVE_PERCENT)),
        disk_bytes: or(given.disk_bytes, disk.f_blocks.saturating_mul(disk.f_frsize)),
        ..given
    })
}

/// The same, with its processor time converted to the reference core.
pub(crate) fn capacity_normalised(own: v1::Resources, cores: &Cores) -> v1::Resources {
    v1::Resources { cpu_millis: cores.reference_millis(own.cpu_millis), ..own }
}

/// The cards of the node: the given ones, then those of each kind that has whole devices and no given card. Their ids
/// are 0, 1, …. The places of a kind follow the given order.
pub(crate) fn cards(given: &[v1::Card], capacity: &v1::Resources) -> Vec<v1::Card> {
    let mut cards = given.to_vec();
    let mut placed: BTreeMap<String, u32> = BTreeMap::new();
    for card in &mut cards {
        let place = placed.entry(card.kind.clone()).or_default();
        card.place = *place;
        *place = place.saturating_add(1);
    }
    for (kind, &millis) in &capacity.device_millis {
        let whole = u32::try_from(millis / 1000).ok().filter(|_| millis % 1000 == 0);
        let Some(whole) = whole.filter(|&whole| whole <= CARDS_MAX && !placed.contains_key(kind)) else {
            continue;
        };
        let card =
            |place: u32| v1::Card { kind: kind.clone(), place, id: place.to_string(), ..v1::Card::default() };
        cards.extend((0..whole).map(card));
    }
    cards
}

/// A kind with more devices gets no cards, so the scheduler only counts them.
const CARDS_MAX: u32 = 64;

/// The packages installed below a directory: `NAME/VERSION`, each a directory. Names that begin with a dot do not
/// count: such a package is not complete yet. A missing directory has none.
pub(crate) fn packages(directory: &Path) -> BTreeSet<String> {
    let names = |directory: &Path| -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.path().is_dir());
        directories.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let versions = |name: String| {
        let of_name = names(&directory.join(&name));
        of_name.into_iter().map(move |version| format!("{name}/{version}"))
    };
    node_packages_kept(names(directory).into_iter().flat_map(versions))
}

/// The free resources of the machine. `proc` is where the kernel shows them.
pub(crate) fn reading(proc: &Path, state_dir: &Path) -> PressureReading {
    let text = |path: &str| fs::read_to_string(proc.join(path)).unwrap_or_default();
    let disk = rustix::fs::statvfs(state_dir).ok();
    PressureReading {
        memory_free: memory_free(&text("meminfo")),
        memory_stalled: memory_stalled(&text("pressure/memory")),
        disk_free: disk.and_then(|disk| per_mille(disk.f_bavail, disk.f_blocks)),
        pids_free: pids_free(&text("loadavg"), &text("sys/kernel/pid_max")),
    }
}

/// The load of the machine. `proc` is where the kernel shows it.
pub(crate) fn load_reading(proc: &Path) -> LoadReading {
    let text = |path: &str| fs::read_to_string(proc.join(path)).unwrap_or_default();
    let memory = text("meminfo");
    LoadReading {
        processor: processor_time(&text("stat")),
        memory_free_bytes: meminfo_bytes(&memory, "MemAvailable:"),
        memory_total_bytes: meminfo_bytes(&memory, "MemTotal:"),
    }
}

/// `cpu user nice system idle iowait irq softirq steal guest guest_nice`, in ticks, then a line for each processor. The
/// time of guests is part of that of their users.
fn processor_time(stat: &str) -> Option<ProcessorTime> {
    let mut lines = stat.lines().take_while(|line| line.starts_with("cpu"));
    let all = lines.next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = all.split_ascii_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
    let [user, nice, system, idle, rest @ ..] = ticks.as_slice() else { return None };
    let of = |place: usize| rest.get(place).copied().unwrap_or(0);
    let (waiting, interrupts, stolen) = (of(0), of(1).checked_add(of(2))?, of(3));
    let busy = [*nice, *system, interrupts, stolen].into_iter().try_fold(*user, u64::checked_add)?;
    let processors = u64::try_from(lines.count()).ok().filter(|&count| count > 0)?;
    Some(ProcessorTime { busy, idle: idle.checked_add(waiting)?, processors })
}

fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn per_mille(part: u64, whole: u64) -> Option<u64> {
    let thousandths = (u128::from(part) * 1000).checked_div(u128::from(whole))?;
    u64::try_from(thousandths).ok()
}

fn memory_free(meminfo: &str) -> Option<u64> {
    let of = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    per_mille(of("MemAvailable")?, of("MemTotal")?)
}

/// `full avg10=1.25 avg60=…`: a percentage with two digits.
fn memory_stalled(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("full "))?;
    let (whole, part) = line.strip_prefix("avg10=")?.split_once(' ')?.0.split_once('.')?;
    let tenth = part.chars().next()?.to_digit(10)?;
    Some(whole.parse::<u64>().ok()?.checked_mul(10)?.saturating_add(u64::from(tenth)))
}

/// `loadavg` has the number of threads after a slash.
fn pids_free(loadavg: &str, pid_max: &str) -> Option<u64> {
    let threads = loadavg.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse::<u64>().ok()?;
    let most = pid_max.trim().parse::<u64>().ok()?;
    per_mille(most.saturating_sub(threads), most)
}

fn cpu_count() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| u64::try_from(count.get()).unwrap_or(1))
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim().to_owned()).unwrap_or_default()
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read() {
        assert_eq!(memory_total("MemTotal:       24684396 kB\nMemFree: 1 kB"), Some(24_684_396 * 1024));
        assert_eq!(memory_total("x"), None);
        assert_eq!(cpu_model("processor : 0\nmodel name\t: Fast CPU\n"), "Fast CPU");
        let found = attributes(&CgroupRoot::default(), &TaskUsers::PerOwner(5..=9), None);
        assert_eq!(found["task.user"], "per owner, 5-9");
        assert!(!found.contains_key("task.user.missing"));
        assert!(
            attributes(&CgroupRoot::default(), &TaskUsers::Agent, None).contains_key("task.user.missing")
        );
        assert_eq!(found["cgroup.version"], "none");
        assert_eq!(found["cgroup.memory"], "no");
        assert!(!found["kernel.version"].is_empty());
    }

    #[test]
    fn devices_are_cards_where_they_are_whole() {
        let card = |kind: &str, place, id: &str| v1::Card {
            kind: kind.to_owned(),
            place,
            id: id.to_owned(),
            ..v1::Card::default()
        };
        let device_millis = [("gpu", 2000), ("tpu", 2000), ("part", 1500)];
        let device_millis = device_millis.map(|(kind, millis)| (kind.to_owned(), millis)).into();
        let capacity = v1::Resources { device_millis, ..v1::Resources::default() };
        let given = [card("gpu", 0, "a"), card("gpu", 0, "b")];
        let found = cards(&given, &capacity);
        let expect = [card("gpu", 0, "a"), card("gpu", 1, "b"), card("tpu", 0, "0"), card("tpu", 1, "1")];
        assert_eq!(found, expect);
    }

    #[test]
    fn packages_are_directories_of_versions() {
        let root = tempfile::tempdir().unwrap();
        for path in ["web/1.4.2", "web/1.5", "web/.1.6-next", "db/2", ".trash/1", "empty"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        fs::write(root.path().join("db/notes"), "").unwrap();
        let found: Vec<String> = packages(root.path()).into_iter().collect();
        assert_eq!(found, ["db/2", "web/1.4.2", "web/1.5"]);
        assert!(packages(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn what_is_left_is_read_in_thousandths() {
        assert_eq!(memory_free("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:   125 kB\n"), Some(125));
        assert_eq!(memory_free("MemTotal:  1000 kB\n"), None);
        let stalled = "some avg10=9.00 avg60=0.03 total=1\nfull avg10=12.34 avg60=0.02 avg300=0.00 total=2\n";
        assert_eq!(memory_stalled(stalled), Some(123));
        assert_eq!(memory_stalled("some avg10=9.00 avg60=0.03 total=1\n"), None);
        assert_eq!(pids_free("0.1 0.2 0.3 3/400 77\n", "1000\n"), Some(600));
        assert_eq!(pids_free("", "1000"), None);
        let machine = reading(Path::new("/proc"), Path::new("/"));
        assert!(machine.memory_free.is_some() && machine.disk_free.is_some() && machine.pids_free.is_some());
        assert_eq!(per_mille(1, 0), None);
    }

    #[test]
    fn what_the_machine_does_is_read_as_the_kernel_shows_it() {
        let stat = "cpu  10 1 5 100 20 2 1 3 4 0\ncpu0 5 1 2 50 10 1 0 2 2 0\ncpu1 5 0 3 50 10 1 1 1 2 0\nintr 7 8\n";
        let expected = ProcessorTime { busy: 22, idle: 120, processors: 2 };
        assert_eq!(processor_time(stat), Some(expected));
        let short = "cpu  10 1 5 100\ncpu0 10 1 5 100\n";
        assert_eq!(processor_time(short), Some(ProcessorTime { busy: 16, idle: 100, processors: 1 }));
        for damaged in
            ["", "cpu  1 2 3\ncpu0 1\n", "cpu  -1 2 3 4\ncpu0 1\n", "cpu  1 2 3 4\n", "intr 1 2 3 4\n"]
        {
            assert_eq!(processor_time(damaged), None, "{damaged}");
        }
        assert_eq!(processor_time(&format!("cpu  {0} 1 1 1\ncpu0 1\n", u64::MAX)), None);
        assert_eq!(
            meminfo_bytes("MemTotal: 9 kB\nMemAvailable:   125 kB\n", "MemAvailable:"),
            Some(125 * 1024)
        );
        let machine = load_reading(Path::new("/proc"));
        assert!(machine.processor.is_some() && machine.memory_free_bytes.is_some(), "{machine:?}");
        assert_eq!(load_reading(Path::new("/nowhere")), LoadReading::default());
    }

    #[test]
    fn what_is_given_wins() {
        let given = v1::Resources { cpu_millis: 123, ..v1::Resources::default() };
        let capacity = capacity(Some(&given), Path::new("/")).unwrap();
        assert_eq!(capacity.cpu_millis, 123);
        assert!(capacity.memory_bytes > 0 && capacity.disk_bytes > 0);
    }
}
