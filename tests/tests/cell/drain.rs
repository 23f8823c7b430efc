//! Drains: tasks without room elsewhere keep running, and the wait says why.

use std::process::Stdio;

use borough_proto::v1::{Task, TaskState};
use borough_tests::{TestCell, is_running, is_up, options, until};

use crate::output::Following;

/// A cell of two nodes of a core each.
async fn narrow() -> TestCell {
    TestCell::start(options!().agent_arguments(&["--cpu=1"])).await
}

/// A service of one task that needs nearly a whole node.
fn wide(name: &str, constraint: &str) -> String {
    format!(
        "name: {name}\ntask: {{command: [sleep, 600], resources: {{cpu: 600m, memory: 4MiB}}, grace: 300ms}}\n\
         constraints: [{constraint}]\n"
    )
}

fn attempt(task: &Task) -> (Option<u32>, u64) {
    (task.pid, task.incarnation)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_drain_stops_no_task_without_room_elsewhere() {
    let cell = narrow().await;
    cell.run("last.yaml", &wide("last", "")).await;
    let before = cell.tasks("last").await.remove(0);
    let from = before.node.clone();
    let other = if from == "alpha-1" { "alpha-2" } else { "alpha-1" };
    cell.run("filler.yaml", &wide("filler", "")).await;
    assert_eq!(cell.tasks("filler").await[0].node, other);

    let drain = ["node", "drain", from.as_str(), "--timeout", "4s"];
    let ran = cell.borough(&drain).await.ended(7);
    for text in [
        format!("{from}: 1 task left after 4s; the drain goes on"),
        "tester/last/0 stays: fits on none of 1 other node".to_owned(),
        "1 of 1 node refused by: less than cpu 0.6 cores free".to_owned(),
        format!("borough node uncordon {from}"),
    ] {
        assert_eq!(ran.stderr.matches(&text).count(), 1, "not once {text:?} in\n{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("refused by: drained"), "{}", ran.stderr);
    // Who asks about the task hears the same.
    for asked in ["last", "last/0"] {
        let why = cell.borough(&["why", asked]).await.ended(0);
        let why = why.prints(&format!(
            "task 0: its node {from} is drained, and it stays: fits on none of 1 other node"
        ));
        let why = why.prints("1 of 1 node refused by: less than cpu 0.6 cores free");
        why.prints(&format!("to end the drain: borough node uncordon {from}"));
    }
    assert_eq!(attempt(&cell.tasks("last").await[0]), attempt(&before), "it runs on");

    // As soon as there is room, the drain uses it.
    let mut waiting = cell.command(&["node", "drain", &from]);
    let waiting = waiting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    cell.borough(&["job", "stop", "filler"]).await.ended(0);
    let ended = tokio::time::timeout(borough_tests::DEADLINE, waiting.wait_with_output()).await;
    assert_eq!(ended.expect("the drain ends").unwrap().status.code(), Some(0));
    let after = cell.tasks("last").await.remove(0);
    assert!(is_running(&after) && after.node == other, "{after:?}");
    assert_eq!(after.incarnation, before.incarnation + 1);
    cell.borough(&["job", "stop", "last"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reason_that_keeps_several_tasks_is_said_once() {
    let cell = narrow().await;
    let bound = "name: bound\ncount: 3\ntask: {command: [sleep, 600], resources: {cpu: 10m, memory: 4MiB}, grace: 300ms}\n\
                 constraints: ['node.name == alpha-1']\n";
    cell.run("bound.yaml", bound).await;
    let ran = cell.borough(&["node", "drain", "alpha-1", "--timeout", "5s"]).await.ended(7);
    let stay = "tester/bound/0, tester/bound/1, tester/bound/2 stay: fits on none of 1 other node\n  1 of 1 node refused \
                by: constraint node.name in [alpha-1]\n";
    assert_eq!(ran.stderr.matches(stay).count(), 1, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("refused by").count(), 1, "{}", ran.stderr);
    // Without remarks the end has it.
    let quiet = cell.borough(&["node", "drain", "alpha-1", "--timeout", "3s", "-q"]).await.ended(7);
    assert_eq!(quiet.stderr.matches("refused by").count(), 1, "{}", quiet.stderr);
    let why = cell.borough(&["why", "bound"]).await.ended(0);
    let why = why
        .prints("3 tasks (0-2): their node alpha-1 is drained, and they stay: fits on none of 1 other node");
    why.prints("to stop what stays: borough node drain alpha-1 --force");
    cell.borough(&["node", "uncordon", "alpha-1"]).await.ended(0);
    let why = cell.borough(&["why", "bound"]).await.ended(0);
    why.prints("tester/bound: every task is placed or has succeeded");
    cell.borough(&["job", "stop", "bound"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_operator_can_force_a_drain_and_sees_what_then_waits() {
    let cell = narrow().await;
    cell.run("bound.yaml", &wide("bound", "'node.name == alpha-1'")).await;
    let before = cell.tasks("bound").await.remove(0);
    // The node is empty: nobody waits for a task that no other node takes.
    let ran = cell.borough(&["node", "drain", "alpha-1", "--force=1s", "--timeout", "30s"]).await.ended(0);
    assert!(ran.stderr.contains("alpha-1 is empty: 1 task not running elsewhere yet"), "{}", ran.stderr);
    assert!(ran.stderr.contains("tester/bound/0 waits: "), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("alpha-1 is empty, and what waits begins once a node takes it"),
        "{}",
        ran.stderr
    );
    let waits = |tasks: &[Task]| tasks[0].state() == TaskState::Pending;
    cell.tasks_until("bound", "without a node", waits).await;
    cell.borough(&["node", "uncordon", "alpha-1"]).await.ended(0);
    let after = cell.tasks_until("bound", "back", |tasks| is_up(tasks, 1)).await.remove(0);
    assert_eq!(after.incarnation, before.incarnation + 1);

    cell.borough(&["node", "drain", "alpha-1", "--force", "--detach"]).await.ended(0);
    until("the forced stop", || async { waits(&cell.tasks("bound").await).then_some(()) }).await;
    cell.borough(&["job", "stop", "bound"]).await.ended(0);
    cell.finish().await;
}

/// The drain and `why` ask the scheduler, also about a gang, which is placed as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_drain_and_why_agree_about_a_gang_that_leaves() {
    let cell = narrow().await;
    cell.borough(&["node", "cordon", "alpha-2"]).await.ended(0);
    // Its members end slowly, one after the other. Two of them make a gang.
    let gang = "name: gang\ncount: 3\nmin_member: 2\ntask: {command: [sh, -c, 'trap : TERM; while :; do sleep 0.2; done'], \
                resources: {cpu: 10m, memory: 4MiB}, grace: 8s}\n";
    cell.run("gang.yaml", gang).await;
    cell.borough(&["node", "uncordon", "alpha-2"]).await.ended(0);
    let drain = Following::start(&cell, "drain", &["node", "drain", "alpha-1"]);
    drain.until_warned(" fit on other nodes, and leave when their job can spare them: ").await;
    let why = cell.borough(&["why", "gang"]).await.ended(0);
    why.prints(
        "their node alpha-1 is drained; they fit on other nodes, and leave when their job can spare them: ",
    );
    cell.borough(&["node", "drain", "alpha-1", "--force", "--detach"]).await.ended(0);
    let (_, warned) = drain.ended().await;
    assert!(!warned.contains(" stay"), "{warned}");
    cell.borough(&["job", "stop", "gang"]).await.ended(0);
    cell.finish().await;
}

/// A drain keeps to the budget of a job, whatever takes its tasks away. It says the figures and the tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_drain_waits_while_the_job_can_spare_no_task_and_says_so() {
    let cell = narrow().await;
    let slow = "name: web\ncount: 2\nupdate: {unavailable_max: 1}\ntask: {command: [sh, -c, 'trap : TERM; while :; do \
                sleep 0.2; done'], resources: {cpu: 10m, memory: 4MiB}, grace: 8s}\n";
    cell.run("web.yaml", slow).await;
    let before = cell.tasks("web").await;
    let node = before[0].node.as_str();
    // It takes its grace, and is away for so long.
    cell.borough(&["task", "restart", "web/1"]).await.ended(0);
    let drain = Following::start(&cell, "drain", &["node", "drain", node]);
    let budget = "1 of 2 tasks is away, and 1 may be: task 1 ends\n";
    drain
        .until_warned(&format!(
            "tester/web/0 fits on another node, and leaves when its job can spare it: {budget}"
        ))
        .await;
    assert_eq!(attempt(&cell.tasks("web").await[0]), attempt(&before[0]), "it serves");
    let why = cell.borough(&["why", "web"]).await.ended(0);
    let why = why.prints(&format!(
        "task 0: its node {node} is drained; it fits on another node, and leaves when its job can spare it: {budget}"
    ));
    why.prints(&format!("to stop what stays: borough node drain {node} --force"));
    let status = cell.borough(&["node", "status", node]).await.ended(0);
    let status = status.prints(&format!(
        "drain\n  tester/web/0 fits on another node, and leaves when its job can spare it: {budget}"
    ));
    status.prints(&format!("  to stop what stays: borough node drain {node} --force\n"));
    drain.ended().await;
    let after = cell.tasks_until("web", "both", |tasks| is_up(tasks, 2)).await;
    assert!(after.iter().all(|task| task.node != node), "{after:?}");
    cell.borough(&["job", "stop", "web", "--detach"]).await.ended(0);
    cell.borough(&["node", "drain", &after[0].node, "--force", "--detach"]).await.ended(0);
    cell.finish().await;
}

/// Nobody knows when it will serve, so nobody waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_fails_for_ever_does_not_hold_up_a_drain() {
    let cell = narrow().await;
    let failing = "name: web\ncount: 2\nupdate: {unavailable_max: 1}\nrestart: {mode: always, backoff: 10ms}\n\
                   task: {command: [sleep, 600], resources: {cpu: 10m, memory: 4MiB}, grace: 300ms}\n\
                   overrides: {1: {command: [sh, -c, 'exit 3']}}\n";
    let file = cell.file("web.yaml", failing);
    cell.borough(&["job", "run", &file, "--detach"]).await.ended(0);
    let fails = |tasks: &[Task]| is_running(&tasks[0]) && tasks.len() == 2 && tasks[1].restarts >= 2;
    let before = cell.tasks_until("web", "one that fails", fails).await.remove(0);
    cell.borough(&["node", "drain", &before.node, "--detach"]).await.ended(0);
    let moved = |tasks: &[Task]| is_running(&tasks[0]) && tasks[0].node != before.node;
    cell.tasks_until("web", "the move of the other one", moved).await;
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

/// The further task takes the only room that there is. It serves, so the drain goes on, and the other one waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_drain_with_room_for_one_more_task_leaves_the_one_that_surges() {
    let cell = narrow().await;
    let file = wide("web", "").replace("task:", "update: {surge_max: 1, healthy_after: 0s}\ntask:");
    cell.run("web.yaml", &file).await;
    let before = cell.tasks("web").await.remove(0);
    let ran = cell.borough(&["node", "drain", &before.node, "--timeout", "8s"]).await.ended(7);
    let empty = format!("{} is empty: 1 task not running elsewhere yet", before.node);
    assert!(ran.stderr.contains(&empty), "{}", ran.stderr);
    let surges = |tasks: &[Task]| tasks.len() == 2 && is_running(&tasks[1]) && tasks[1].node != before.node;
    let tasks = cell.tasks_until("web", "one that surges", surges).await;
    assert_eq!(tasks[0].state(), TaskState::Pending, "{tasks:?}");
    cell.borough(&["node", "uncordon", &before.node]).await.ended(0);
    let over = |tasks: &[Task]| is_running(&tasks[0]) && tasks[1].state() == TaskState::Dead;
    let after = cell.tasks_until("web", "the end of what surges", over).await.remove(0);
    assert_eq!((after.node, after.incarnation), (before.node, before.incarnation + 1));
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}
