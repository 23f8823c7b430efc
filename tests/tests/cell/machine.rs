//! What agents tell of their machines: made-up ones, below which real processes run.

use std::fs;
use std::path::Path;

use borough_tests::{TestCell, is_up, options, until};

/// Figures of a machine of which so many thousandths of its memory are left.
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
    cell.borough(&["node", "status", "alpha-1"]).await.ended(0).says("pressure/memory:no_schedule");
    let late = cell.file("late.yaml", &file("late", 150, "alpha-1"));
    cell.borough(&["job", "run", &late, "--detach"]).await.ended(0);
    cell.run("other.yaml", &file("other", 150, "\"alpha-1\", \"alpha-2\"")).await;
    assert_eq!(cell.tasks("other").await[0].node, "alpha-2");
    cell.run("served.yaml", &file("served", 200, "alpha-1")).await;
    assert_eq!(cell.tasks("served").await[0].node, "alpha-1", "what it asks for is its own");
    cell.run("choosing.yaml", &file("choosing", 200, "\"alpha-1\", \"alpha-2\"")).await;
    assert_eq!(cell.tasks("choosing").await[0].node, "alpha-2", "where there is a better one");
    cell.borough(&["why", "late"]).await.ended(0).says("short of memory");

    machine_write(machine.path(), 600);
    cell.tasks_until("late", "up when the node has recovered", |tasks| is_up(tasks, 1)).await;
    until_taints(&cell, "alpha-1", &[]).await;
    cell.borough(&["event", "list", "--node", "alpha-1"])
        .await
        .ended(0)
        .says("tainted pressure/memory:prefer_no_schedule");
    let refused = cell.borough(&["node", "taint", "alpha-1", "pressure/disk:no_schedule"]).await;
    refused.ended(2).warns("set by the node's agent");
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
    cell.borough(&["node", "status", "alpha-2"]).await.ended(0).says("web/1.4.2");
    cell.run("likes.yaml", &file("likes", "")).await;
    for job in ["needs", "likes"] {
        assert!(cell.tasks(job).await.iter().all(|task| task.node == "alpha-2"), "{job}");
    }
    for job in ["needs", "likes"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}
