//! The machine's NUMA domains, from the kernel's files below `/sys`.

use std::fs;
use std::path::Path;

use borough_proto::v1;

/// Where the kernel shows its devices.
pub(crate) const SYSFS: &str = "/sys/devices/system";

/// The domains that have processors, by number. Empty if the kernel does not show them.
pub(crate) fn domains(sysfs: &Path) -> Vec<v1::NumaDomain> {
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let nodes = sysfs.join("node");
    let online = list_parse(&text(&nodes.join("online"))).unwrap_or_default();
    let domain = |place: u32| {
        let node = nodes.join(format!("node{place}"));
        let cpus = list_parse(&text(&node.join("cpulist"))).filter(|cpus| !cpus.is_empty())?;
        let first = sysfs.join(format!("cpu/cpu{}/topology/physical_package_id", cpus.first()?));
        let socket = text(&first).trim().parse().unwrap_or(0);
        let memory_bytes = memory_total(&text(&node.join("meminfo"))).unwrap_or(0);
        Some(v1::NumaDomain { place, socket, cpus, memory_bytes })
    };
    online.into_iter().filter_map(domain).collect()
}

/// Bytes of a domain's `meminfo`: `Node 0 MemTotal:  24684396 kB`.
fn memory_total(meminfo: &str) -> Option<u64> {
    let (_, rest) = meminfo.split_once("MemTotal:")?;
    rest.trim().split_once(" kB")?.0.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The numbers of a list in the kernel's format: `0-3,8`.
fn list_parse(text: &str) -> Option<Vec<u32>> {
    /// A list with a larger number is not read: no machine has so many processors.
    const NUMBERS_MAX: u32 = 1 << 16;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last < first || last > NUMBERS_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// A list of numbers in the kernel's format.
pub(crate) fn list_text(numbers: &[u32]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(list_parse("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(list_parse("\n"), Some(vec![]));
        for wrong in ["a", "3-1", "0-99999999", "1-2-3"] {
            assert_eq!(list_parse(wrong), None, "{wrong}");
        }
        assert_eq!(list_text(&[0, 1, 8]), "0,1,8");
    }

    #[test]
    fn domains_are_found_with_processors_memory_and_socket() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(domains(root.path()), []);
        write("node/online", "0-2\n");
        write("node/node0/cpulist", "0-1,4\n");
        write("node/node0/meminfo", "Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB\n");
        write("node/node1/cpulist", "2-3\n");
        write("cpu/cpu2/topology/physical_package_id", "1\n");
        // Memory without processors: no task can run there.
        write("node/node2/cpulist", "\n");
        let found = domains(root.path());
        let domain = |place, socket, cpus: &[u32], memory_bytes| v1::NumaDomain {
            place,
            socket,
            cpus: cpus.to_vec(),
            memory_bytes,
        };
        assert_eq!(found, [domain(0, 0, &[0, 1, 4], 1 << 20), domain(1, 1, &[2, 3], 0)]);
    }
}
