//! Agents' reports about their machines: simulated ones, on which real processes run.

use std::fs;
use std::path::Path;

use borough_tests::{TestCell, descendants_of, is_up, options, until};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

/// Writes the state of a machine with so many thousandths of its memory free.
fn machine_write(root: &Path, memory_left: u64) {
    let text = format!("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: {memory_left} kB\n");
    // In one step: the agent may read it at any moment.
    fs::write(root.join("next"), text).unwrap();
    fs::rename(root.join("next"), root.join("meminfo")).unwrap();
}

async fn until_taints(cell: &TestCell, node: &str, expected: &[&str]) {
    until(&format!("taints {expected:?} of {node}"), || async {
        let known = cell.client().node_get(node).await.ok()?.taints;
        known.iter().map(|taint| taint.key.as_str()).eq(expected.iter().copied()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_short_of_memory_is_left_to_production_until_it_has_recovered() {
    let machine = tempfile::tempdir().unwrap();
    machine_write(machine.path(), 500);
    let proc = format!("alpha-1:--proc={}", machine.path().display());
    let cell =
        TestCell::start(options!().agent_arguments(&[&proc, "alpha-1:--sample-ms=50", "--memory-low=3"]))
            .await;
    let file = |name: &str, priority: u32, node: &str| {
        format!(
            "name: {name}\npriority: {priority}\ntask: {{command: [sleep, 600], resources: {{cpu: 10m, memory: \
             4MiB}}, grace: 300ms}}\nconstraints: ['node.name in [{node}]']\n"
        )
    };
    machine_write(machine.path(), 20);
    let both = ["pressure/memory", "pressure/memory"];
    until_taints(&cell, "alpha-1", &both).await;
    cell.borough(&["node", "status", "alpha-1"]).await.ended(0).prints("pressure/memory:no_schedule");
    let late = cell.file("late.yaml", &file("late", 150, "alpha-1"));
    cell.borough(&["job", "run", &late, "--detach"]).await.ended(0);
    cell.run("other.yaml", &file("other", 150, "\"alpha-1\", \"alpha-2\"")).await;
    assert_eq!(cell.tasks("other").await[0].node, "alpha-2");
    cell.run("served.yaml", &file("served", 200, "alpha-1")).await;
    assert_eq!(cell.tasks("served").await[0].node, "alpha-1", "what it asks for is its own");
    cell.run("choosing.yaml", &file("choosing", 200, "\"alpha-1\", \"alpha-2\"")).await;
    assert_eq!(cell.tasks("choosing").await[0].node, "alpha-2", "where there is a better one");
    cell.borough(&["why", "late"]).await.ended(0).prints("short of memory");

    machine_write(machine.path(), 600);
    cell.tasks_until("late", "up when the node has recovered", |tasks| is_up(tasks, 1)).await;
    until_taints(&cell, "alpha-1", &[]).await;
    cell.borough(&["event", "list", "--node", "alpha-1"])
        .await
        .ended(0)
        .prints("tainted pressure/memory:prefer_no_schedule");
    let refused = cell.borough(&["node", "taint", "alpha-1", "pressure/disk:no_schedule"]).await;
    refused.ended(2).warns("the cell sets those of pressure/");
    for job in ["late", "other", "served", "choosing"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_go_where_their_packages_are_installed() {
    let packages = tempfile::tempdir().unwrap();
    let directory = format!("alpha-2:--package-dir={}", packages.path().display());
    let arguments = [directory.as_str(), "alpha-2:--sample-ms=50"];
    let cell = TestCell::start(options!().agent_arguments(&arguments)).await;
    let file = |name: &str, constraints: &str| {
        format!(
            "name: {name}\ncount: 3\ntask: {{command: [sleep, 600], resources: {{cpu: 10m, memory: 4MiB}}, grace: \
             300ms, packages: [web/1.4.2]}}\nconstraints: [{constraints}]\n"
        )
    };
    let needs = cell.file("needs.yaml", &file("needs", "package/web/1.4.2 exists"));
    cell.borough(&["job", "run", &needs, "--detach"]).await.ended(0);
    until("the explanation", || async {
        let ran = cell.borough(&["why", "needs"]).await.ended(0);
        ran.stdout.contains("no node has an attribute or label package/web/1.4.2").then_some(())
    })
    .await;
    fs::create_dir_all(packages.path().join("web/1.4.2")).unwrap();
    cell.tasks_until("needs", "up once it is installed", |tasks| is_up(tasks, 3)).await;
    cell.borough(&["node", "status", "alpha-2"]).await.ended(0).prints("web/1.4.2");
    cell.run("likes.yaml", &file("likes", "")).await;
    for job in ["needs", "likes"] {
        assert!(cell.tasks(job).await.iter().all(|task| task.node == "alpha-2"), "{job}");
    }
    for job in ["needs", "likes"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

/// The two cores of this machine as a machine of two NUMA nodes; `None` if it does not have two.
fn topology_write(root: &Path) -> Option<()> {
    let own = sched_getaffinity(None).unwrap();
    if !(0..2).all(|core| own.is_set(core)) {
        return None;
    }
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("node/online", "0-1\n");
    for place in 0..2 {
        write(&format!("node/node{place}/cpulist"), &format!("{place}\n"));
        write(&format!("node/node{place}/meminfo"), "Node 0 MemTotal:  1048576 kB\n");
        write(&format!("cpu/cpu{place}/topology/physical_package_id"), &format!("{place}\n"));
    }
    Some(())
}

/// The cores that a process may use, of the first two.
fn cores_of(pid: u32) -> Option<Vec<usize>> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let set: CpuSet = sched_getaffinity(Some(pid)).ok()?;
    Some((0..2).filter(|&core| set.is_set(core)).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_are_kept_within_numa_nodes_and_off_the_cores_of_others() {
    let machine = tempfile::tempdir().unwrap();
    if topology_write(machine.path()).is_none() {
        return;
    }
    let sysfs = format!("--sysfs={}", machine.path().display());
    let cell = TestCell::start(options!().nodes(1).agent_arguments(&[&sysfs, "--sample-ms=50"])).await;
    let file = |name: &str, cpu: &str, more: &str| {
        // A child of the task, to check that it stays on the cores too.
        format!(
            "name: {name}\ntask: {{command: [sh, -c, 'sleep 600 & wait'], resources: {{cpu: {cpu}, memory: 4MiB}}, \
             grace: 300ms{more}}}\n"
        )
    };
    let until_cores = |job: &'static str, expected: &'static [usize]| {
        let cell = &cell;
        async move {
            let pid = cell.tasks(job).await[0].pid.unwrap();
            until(&format!("{job} on cores {expected:?}"), || async move {
                let mut all = descendants_of(pid);
                all.push(pid);
                all.iter().all(|&pid| cores_of(pid).is_none_or(|cores| cores == expected)).then_some(())
            })
            .await;
        }
    };
    cell.run("floats.yaml", &file("floats", "100m", "")).await;
    until_cores("floats", &[0, 1]).await;
    cell.run("inside.yaml", &file("inside", "100m", ", within: one_numa_node")).await;
    until_cores("inside", &[0]).await;
    // A tenth of the first domain is taken, so the free core is in the other one.
    cell.run("alone.yaml", &file("alone", "1", ", exclusive_cores: true")).await;
    until_cores("alone", &[1]).await;
    until_cores("floats", &[0]).await;
    assert_eq!(cell.tasks("alone").await[0].cores, [1]);
    let events = cell.borough(&["event", "list", "--limit", "500"]).await.ended(0);
    assert!(
        events.stdout.contains("running on alpha-1, alone on cores 1 of NUMA node 1"),
        "{}",
        events.stdout
    );
    assert!(events.stdout.contains("running on alpha-1, within NUMA node 0"), "{}", events.stdout);
    let more = cell.file("more.yaml", &file("more", "1", ", exclusive_cores: true"));
    cell.borough(&["job", "run", &more, "--detach"]).await.ended(0);
    until("the explanation", || async {
        let ran = cell.borough(&["why", "more"]).await.ended(0);
        (ran.stdout.contains("cores") || ran.stdout.contains("cpu")).then_some(())
    })
    .await;
    cell.run("later.yaml", &file("later", "100m", "")).await;
    until_cores("later", &[0]).await;

    // A restarted agent knows their owners, and frees them when an owner is released.
    let agent = cell.agent_found("alpha-1").await;
    agent.signal(rustix::process::Signal::KILL).unwrap();
    until("the next agent", || async { cell.agent("alpha-1").filter(|next| *next != agent) }).await;
    cell.nodes_ready().await;
    until_cores("alone", &[1]).await;
    cell.borough(&["job", "stop", "more"]).await.ended(0);
    cell.borough(&["job", "stop", "alone"]).await.ended(0);
    for job in ["floats", "later"] {
        until_cores(job, &[0, 1]).await;
    }
    for job in ["floats", "inside", "later"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}
