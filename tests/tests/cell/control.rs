//! The control process killed, and away: nothing is lost, doubled, or wrongly declared lost.

use std::time::Duration;

use borough_client::JobFilter;
use borough_proto::v1::WatchFilter;
use borough_shim::process::ProcessId;
use borough_tests::{TestCell, Watcher, is_up, now, options, recorded, until};

use crate::SERVICE;

/// Waits until `time` has passed: the system under test has a tolerance of its own.
async fn passes(time: Duration) {
    let begun = now();
    until("time to pass", || async { (now().saturating_sub(begun) > time).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_killed_control_process_loses_and_doubles_nothing() {
    let mut cell = TestCell::start(options!()).await;
    cell.run("served.yaml", SERVICE).await;
    let watcher = Watcher::start(cell.client(), "served").await;
    let published = watcher.until_published(2).await;
    let mut processes = Vec::new();
    for round in 0..3 {
        // A job is in progress at the kill.
        let name = format!("under-way-{round}");
        let text = format!("name: {name}\ncount: 2\ntask: {{command: [sleep, 600], grace: 500ms}}\n");
        let file = cell.file(&format!("{name}.yaml"), &text);
        cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
        let jobs = cell.client().job_list(&JobFilter { ended: true, ..JobFilter::default() }).await.unwrap();
        let before = cell.tasks("served").await;
        cell.control_kill();
        processes.extend(before.iter().map(|task| ProcessId::find(task.pid.unwrap()).unwrap()));
        assert!(processes.iter().all(|process| process.alive()), "tasks go on without the control process");
        cell.control_start().await;
        cell.nodes_ready().await;
        let after = cell.client().job_list(&JobFilter { ended: true, ..JobFilter::default() }).await.unwrap();
        let ids = |jobs: &[borough_proto::v1::Job]| jobs.iter().map(|job| job.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&after), ids(&jobs));
        let attempts = |tasks: &[borough_proto::v1::Task]| {
            tasks.iter().map(|task| (task.index, task.pid, task.incarnation)).collect::<Vec<_>>()
        };
        assert_eq!(attempts(&cell.tasks("served").await), attempts(&before));
        cell.tasks_until(&name, "placed in the end", |tasks| is_up(tasks, 2)).await;
        let (endpoints, _) = cell.client().endpoint_list("tester", "served").await.unwrap();
        assert_eq!(endpoints.len(), 2);
    }
    assert_eq!(watcher.published(), published);
    // Every attempt has one process: eight of four jobs.
    let tasks = recorded(&cell.records());
    let tasks = tasks.iter().filter(|record| record.kind == borough_shim::record::ProcessKind::Task).count();
    assert_eq!(tasks, 8);
    watcher.assert_sound();
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_control_process_away_for_longer_than_the_tolerance_declares_nothing_lost() {
    let tolerance = Duration::from_secs(3);
    let mut cell = TestCell::start(options!().lost_after_ms(3_000)).await;
    cell.run("served.yaml", SERVICE).await;
    let watcher = Watcher::start(cell.client(), "served").await;
    let published = watcher.until_published(2).await;
    let before = cell.tasks("served").await;
    cell.control_kill();
    passes(tolerance * 2).await;
    cell.control_start().await;
    // Past the moment at which it would wrongly give up its nodes.
    passes(tolerance * 2).await;
    cell.nodes_ready().await;
    let after = cell.tasks("served").await;
    let attempts = |tasks: &[borough_proto::v1::Task]| {
        tasks.iter().map(|task| (task.index, task.pid, task.incarnation)).collect::<Vec<_>>()
    };
    assert_eq!(attempts(&after), attempts(&before));
    let filter = WatchFilter { nodes: true, ..WatchFilter::default() };
    let events = cell.client().event_list(filter, 1_000).await.unwrap().events;
    let lost: Vec<_> = events.iter().filter(|event| event.action == "node_declare_lost").collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(!events.is_empty());
    assert_eq!(watcher.published(), published);
    watcher.assert_sound();
    cell.finish().await;
}
