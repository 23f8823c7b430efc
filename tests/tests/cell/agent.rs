//! Agents that are killed: their tasks keep running, and the next agent adopts them.

use borough_shim::process::ProcessId;
use borough_tests::{TestCell, Watcher, is_healthy, options, until};
use rustix::process::Signal;

use crate::SERVICE;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_killed_agents_tasks_go_on_and_are_taken_over() {
    let cell = TestCell::start(options!()).await;
    cell.run("served.yaml", SERVICE).await;
    let watcher = Watcher::start(cell.client(), "served").await;
    let published = watcher.until_published(2).await;
    let before = cell.tasks("served").await;
    let attempts: Vec<_> = before.iter().map(|task| (task.pid, task.incarnation)).collect();
    let processes: Vec<ProcessId> =
        before.iter().map(|task| ProcessId::find(task.pid.unwrap()).unwrap()).collect();
    let node = before[0].node.clone();
    for _ in 0..2 {
        let agent = cell.agent_found(&node).await;
        agent.signal(Signal::KILL).unwrap();
        until("the next agent", || async { cell.agent(&node).filter(|next| *next != agent) }).await;
        cell.nodes_ready().await;
        assert!(processes.iter().all(|process| process.alive()), "a task ended with its agent");
    }
    let after = cell.tasks("served").await;
    assert_eq!(after.iter().map(|task| (task.pid, task.incarnation)).collect::<Vec<_>>(), attempts);
    assert_eq!(watcher.published(), published);

    // The next agent controls the adopted task, and stops it on order.
    processes[0].signal(Signal::KILL).unwrap();
    cell.tasks_until("served", "started again by the next agent", |tasks| {
        tasks.iter().all(is_healthy) && tasks[0].incarnation > attempts[0].1
    })
    .await;
    cell.borough(&["job", "stop", "served"]).await.ended(0);
    assert!(!processes[1].alive(), "stopped by the agent that did not start it");
    watcher.until_published(0).await;
    watcher.assert_sound();
    cell.finish().await;
}
