//! Running tasks get other amounts in place: their processes go on, and their limits and charges change.

use std::path::PathBuf;

use borough_kv::exercise::not_exercised;
use borough_proto::v1::{Resources, Task};
use borough_tests::{TestCell, is_up, options, until};

/// A service that runs `script`, with these amounts. `more` is further text of the file.
fn web(script: &str, cpu: &str, memory: &str, more: &str) -> String {
    format!(
        "name: web\ncount: 2\nrestart: {{mode: always, backoff: 100ms}}\n{more}task: {{command: [sh, -c, '{script}'], \
         resources: {{cpu: {cpu}, memory: {memory}}}, grace: 300ms}}\n"
    )
}

const SLEEPS: &str = "exec sleep 600";
const UPDATE: &str = "update: {healthy_after: 300ms}\n";
const MIB: u64 = 1 << 20;

fn processes(tasks: &[Task]) -> Vec<(Option<u32>, u64)> {
    tasks.iter().map(|task| (task.pid, task.incarnation)).collect()
}

async fn healthy(cell: &TestCell) -> Vec<Task> {
    cell.tasks_until("web", "two healthy tasks", |tasks| is_up(tasks, 2)).await
}

/// Processor time and memory of each task's charge.
fn charges(tasks: &[Task]) -> Vec<(u64, u64)> {
    let amounts = |charge: &Resources| (charge.cpu_millis, charge.memory_bytes);
    tasks.iter().map(|task| task.charge.as_ref().map(amounts).unwrap_or_default()).collect()
}

/// What all nodes are charged together: processor time and memory.
async fn committed(cell: &TestCell) -> (u64, u64) {
    let nodes = cell.client().node_list().await.expect("nodes");
    let used = nodes.iter().filter_map(|node| node.used.as_ref());
    used.fold((0, 0), |sum, used| (sum.0 + used.cpu_millis, sum.1 + used.memory_bytes))
}

/// The file with the memory limit of a process; `None`, and a note, on a host that has no such limit.
async fn memory_limit(cell: &TestCell, pid: u32) -> Option<PathBuf> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = |is: &dyn Fn(&[&str]) -> bool| {
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        fields.into_iter().find(|fields| is(fields)).map(|fields| PathBuf::from(fields[1]))
    };
    let group = |name: &str| {
        let parts = groups.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        parts
            .into_iter()
            .find(|parts| parts[1] == name)
            .map(|parts| parts[2].trim_start_matches('/').to_owned())
    };
    let v1 = mount(&|fields| fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "memory"));
    let v1 = v1.zip(group("memory")).map(|(mount, group)| mount.join(group).join("memory.limit_in_bytes"));
    let v2 = mount(&|fields| fields[2] == "cgroup2").zip(group(""));
    let v2 = v2.map(|(mount, group)| mount.join(group).join("memory.max"));
    let nodes = cell.client().node_list().await.expect("nodes");
    let has = |name: &str| nodes.iter().all(|node| node.attributes.get(name).is_some_and(|has| has == "yes"));
    let found = [v1, v2].into_iter().flatten().find(|path| path.exists()).filter(|_| has("cgroup.memory"));
    if found.is_none() {
        not_exercised("the memory limit of a cgroup", "the nodes of this machine have none");
    }
    found
}

/// Waits until the kernel shows the limit.
async fn limit_is(cell: &TestCell, pid: u32, bytes: u64) {
    let Some(path) = memory_limit(cell, pid).await else { return };
    let look =
        || async { std::fs::read_to_string(&path).ok().filter(|text| text.trim() == bytes.to_string()) };
    until(&format!("a limit of {bytes} in {}", path.display()), look).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn other_amounts_reach_running_tasks_in_place_up_and_down() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &web(SLEEPS, "10m", "32MiB", UPDATE)).await;
    let before = healthy(&cell).await;
    let idle = committed(&cell).await;
    for (version, cpu, memory, charge) in [
        (2, "20m", "64MiB", (20, 64 * MIB)),
        (3, "5m", "96MiB", (5, 96 * MIB)),
        (4, "40m", "16MiB", (40, 16 * MIB)),
    ] {
        let file = cell.file("web.yaml", &web(SLEEPS, cpu, memory, UPDATE));
        let ran = cell.borough(&["job", "run", &file]).await.ended(0);
        ran.prints(&format!("tester/web: 2/2 healthy with version {version}"));
        let after = healthy(&cell).await;
        assert_eq!(processes(&after), processes(&before), "the processes go on");
        assert_eq!(charges(&after), [charge; 2]);
        assert!(after.iter().all(|task| task.resize.is_none() && task.spec_version == version));
        let node = committed(&cell).await;
        let own = (2 * charge.0, 2 * charge.1);
        assert_eq!(node, (idle.0 - 20 + own.0, idle.1 - 64 * MIB + own.1));
        for task in &after {
            limit_is(&cell, task.pid.unwrap(), charge.1).await;
        }
    }
    let status = cell.borough(&["rollout", "status", "web"]).await.ended(0);
    status.prints("of version 4: done").prints("2 of 2 have it, 2 of these are healthy");
    cell.finish().await;
}
