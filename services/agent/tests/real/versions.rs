//! Each version of cgroups alone, on the real hierarchies of this machine. A hybrid host prefers version 2 where both
//! work, so only these tests exercise version 1.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use borough_kv::exercise::not_exercised;
use borough_shim::cgroup::{CgroupLimits, CgroupRoot, CgroupVersion, Host, Leaf};
use borough_shim::process::ProcessId;
use borough_shim::record::{ProcessKind, process_record};

use crate::harness::{Cell, runs, until};

/// Forks as fast as it can, each child in a session of its own.
const FORKING: &str = "while :; do setsid sh -c 'trap \"\" TERM; sleep 300' & sleep 0.002; done";

fn start(leaf: &Leaf, cell: &Cell, script: &str) -> Child {
    let join: String = leaf
        .directories()
        .into_iter()
        .map(|path| format!("echo $$ > {}/cgroup.procs && ", path.display()))
        .collect();
    let child = Command::new("sh")
        .args(["-c", &format!("{join} echo in; {script}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let directories: Vec<PathBuf> = leaf.directories().into_iter().map(Path::to_path_buf).collect();
    let process = ProcessId::find(child.id()).unwrap();
    process_record(cell.guard.records(), ProcessKind::Task, process, directories).unwrap();
    child
}

async fn kill_all(leaf: &Leaf, mut child: Child) {
    until("many processes", || (leaf.processes().len() > 20).then_some(())).await;
    let seen = leaf.processes();
    until("an empty cgroup", || {
        leaf.kill();
        leaf.processes().is_empty().then_some(())
    })
    .await;
    child.wait().unwrap();
    assert!(seen.into_iter().all(|pid| !runs(pid)));
    until("its removal", || leaf.remove().ok()).await;
    assert!(leaf.directories().iter().all(|path| !path.exists()));
}

fn relative(cell: &Cell, version: &str) -> PathBuf {
    let unique = cell.state_dir().parent().unwrap().file_name().unwrap().to_string_lossy().replace('.', "-");
    Path::new("borough").join(format!("{unique}-{version}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn version_1_alone_limits_counts_and_kills() {
    let cell = Cell::new().await;
    let host = Host { unified: None, ..Host::find() };
    let base = CgroupRoot::prepare(&host, &relative(&cell, "v1"), 2000);
    if base.version() != CgroupVersion::V1 || !base.v1.contains_key("freezer") || !base.controls("memory") {
        not_exercised("cgroup version 1 alone", &format!("{base:?}"));
        return;
    }
    let limits = CgroupLimits {
        cpu_millis: 500,
        memory_bytes: 256 << 20,
        processes_max: 5000,
        ..CgroupLimits::default()
    };
    let leaf = base.leaf("attempt", limits);
    leaf.create().unwrap();
    let read = |controller: &str, file: &str| {
        std::fs::read_to_string(leaf.v1[controller].join(file)).unwrap().trim().to_owned()
    };
    assert_eq!(read("cpu", "cpu.shares"), "512");
    let of_node = std::fs::read_to_string(base.v1["cpu"].join("cpu.shares")).unwrap();
    assert_eq!(of_node.trim(), "2048");
    assert_eq!(read("memory", "memory.limit_in_bytes"), (256 << 20).to_string());
    assert_eq!(read("pids", "pids.max"), "5000");
    let child = start(&leaf, &cell, FORKING);
    until("its usage", || {
        leaf.sample().filter(|sample| sample.cpu_us > 0 && sample.memory_bytes > 0 && sample.processes > 1)
    })
    .await;
    kill_all(&leaf, child).await;
    base.remove(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn version_2_alone_kills_at_once() {
    let cell = Cell::new().await;
    let host = Host { v1: [].into(), ..Host::find() };
    let base = CgroupRoot::prepare(&host, &relative(&cell, "v2"), 2000);
    if base.version() != CgroupVersion::V2 || !base.kill {
        not_exercised("cgroup version 2 alone", &format!("{base:?}"));
        return;
    }
    for controller in ["cpu", "memory", "pids"] {
        if !base.controls(controller) {
            not_exercised(&format!("{controller} of cgroup version 2"), "version 1 has it on this machine");
        }
    }
    let limits = CgroupLimits {
        cpu_millis: 500,
        memory_bytes: 256 << 20,
        processes_max: 5000,
        ..CgroupLimits::default()
    };
    let leaf = base.leaf("attempt", limits);
    leaf.create().unwrap();
    let child = start(&leaf, &cell, FORKING);
    until("its usage", || leaf.sample().filter(|sample| sample.cpu_us > 0 && sample.processes > 1)).await;
    kill_all(&leaf, child).await;
    base.remove(2);
}
