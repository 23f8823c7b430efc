//! A full node: who gives way to whom, with what notice, and who comes back.

use borough_tests::{TestCell, Watcher, is_up, options};

/// A job of `count` tasks that each need one of the node's cards, and that do not end before they are killed.
fn job(name: &str, band: &str, count: u32, more: &str) -> String {
    format!(
        "name: {name}\npriority: {band}\ncount: {count}\ntask:\n  command: [sh, -c, \"trap '' TERM; echo up; while true; do \
         sleep 0.05; done\"]\n  grace: 2s\n  resources: {{cpu: 10m, memory: 8MiB, devices: {{gpu: 1}}}}\n{more}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_preemptor_bounds_the_notice_and_the_victim_is_withdrawn_at_once() {
    let cell = TestCell::start(options!().nodes(1).cards(&["gpu=GPU-a"])).await;
    let served = job("low", "batch", 1, "").replace("grace: 2s", "grace: 10m");
    let served = served.replace("task:\n", "task:\n  ports: [http]\n");
    cell.run("low.yaml", &served).await;
    let watcher = Watcher::start(cell.client(), "low").await;
    watcher.until_published(1).await;
    // Without the bound it would wait for ten minutes, longer than this test has patience.
    let bounded = job("high", "production", 1, "preemption: {notice_max: 100ms}\n");
    cell.borough(&["job", "run", &cell.file("high.yaml", &bounded)]).await.ended(0);
    watcher.until_published(0).await;
    cell.tasks_until("high", "running in the freed place", |tasks| is_up(tasks, 1)).await;
    watcher.assert_sound();
    // One that never evicts waits.
    let meek = job("meek", "monitoring", 1, "preemption: {never: true}\n");
    let plan =
        cell.borough(&["job", "plan", &cell.file("meek.yaml", &meek), "-o", "json"]).await.ended(1).json();
    assert_eq!(plan["placements"], serde_json::json!([]), "{plan}");
    // Nor does production within production.
    let equal = job("equal", "299", 1, "");
    let plan =
        cell.borough(&["job", "plan", &cell.file("equal.yaml", &equal), "-o", "json"]).await.ended(1).json();
    assert_eq!(plan["placements"], serde_json::json!([]), "{plan}");
    // First the one that waits: once the card is free it would run again, and take its ten minutes.
    for job in ["low", "high"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}
