//! Ports: one task per address and port, no port of another process, and no health from another process's server.

use std::net::TcpListener;

use borough_proto::v1::{EndReason, Task, TaskState};
use borough_tests::{PortSlot, TestCell, is_healthy, is_running, options, until};

/// A service that listens on a fixed port.
fn served(name: &str, count: u32, port: u16) -> String {
    format!(
        "name: {name}\ncount: {count}\ntask:\n  command: [python3, -u, -m, http.server, --bind, 127.0.0.1, '{port}']\n  \
         resources: {{cpu: 10m, memory: 32MiB}}\n  ports: [{{name: http, number: {port}}}]\n  \
         health: {{tcp: http, interval: 200ms}}\n  grace: 500ms\nrestart: {{mode: always, backoff: 100ms}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_of_one_address_give_a_fixed_port_once() {
    let cell = TestCell::start(options!().nodes(3)).await;
    let slot = PortSlot::take();
    let file = cell.file("fixed.yaml", &served("fixed", 3, slot.grpc()));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let one = |tasks: &[Task]| tasks.iter().filter(|task| is_healthy(task)).count() == 1;
    cell.tasks_until("fixed", "one healthy", one).await;
    until("why the others wait", || async {
        let ran = cell.borough(&["why", "fixed"]).await.ended(0);
        let text = format!("3 of 3 nodes refused by: port {} taken", slot.grpc());
        ran.stdout.contains(&text).then_some(())
    })
    .await;
    let tasks = cell.tasks("fixed").await;
    assert_eq!(tasks.iter().filter(|task| is_running(task)).count(), 1, "{tasks:?}");
    assert!(tasks.iter().all(|task| task.failures == 0), "none crashed: {tasks:?}");
    let (endpoints, _) = cell.client().endpoint_list("tester", "fixed").await.unwrap();
    assert_eq!(endpoints.len(), 1, "{endpoints:?}");
    // Another task gets the port once it is free.
    let first = tasks.iter().find(|task| is_running(task)).unwrap().index;
    cell.borough(&["task", "restart", &format!("fixed/{first}")]).await.ended(0);
    cell.tasks_until("fixed", "one healthy again", |tasks| {
        one(tasks)
            && tasks.iter().any(|task| is_healthy(task) && (task.index, task.incarnation) != (first, 1))
    })
    .await;
    cell.borough(&["job", "stop", "fixed"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_port_of_another_process_fails_the_start_and_shows_no_health() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let slot = PortSlot::take();
    let server = TcpListener::bind(("127.0.0.1", slot.http())).unwrap();
    let file = cell.file("taken.yaml", &served("taken", 1, slot.http()));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let refused = |tasks: &[Task]| {
        tasks
            .first()
            .and_then(|task| task.exit.as_ref())
            .is_some_and(|exit| exit.reason() == EndReason::StartFailed)
    };
    let exit = cell.tasks_until("taken", "refused", refused).await.remove(0).exit.unwrap();
    let expected = format!("({}) is in use: process {} (", slot.http(), std::process::id());
    assert!(exit.message.contains(&expected), "{exit:?}");
    drop(server);
    cell.tasks_until("taken", "healthy", |tasks| tasks.iter().any(is_healthy)).await;
    cell.borough(&["job", "stop", "taken"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_crashes_again_and_again_is_never_healthy() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let text = "name: loops\ntask: {command: [sh, -c, 'sleep 0.2; exit 3'], grace: 200ms}\n\
                restart: {mode: always, backoff: 100ms}\n";
    let file = cell.file("loops.yaml", text);
    let ran = cell.borough(&["job", "run", &file, "--timeout", "6s"]).await.ended(1);
    assert!(!ran.stderr.contains("1/1 healthy"), "{}", ran.stderr);
    assert!(ran.stderr.contains("exit code 3"), "{}", ran.stderr);
    let tasks = cell.tasks("loops").await;
    assert!(tasks[0].failures > 0 || tasks[0].state() == TaskState::Running, "{tasks:?}");
    cell.borough(&["job", "stop", "loops"]).await.ended(0);
    cell.finish().await;
}

/// Workers place the tasks of an earlier start before the agents are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_that_come_back_get_the_ports_of_the_later_start() {
    let mut cell = TestCell::start(options!().nodes(2)).await;
    let task =
        "task: {command: [sleep, '600'], resources: {cpu: 10m, memory: 16MiB}, ports: [http], grace: 300ms}";
    cell.run("web.yaml", &format!("name: web\ncount: 4\n{task}\n")).await;
    let port = |task: &Task| task.ports.first().map(|port| port.number);
    cell.tasks_until("web", "ports", |tasks| {
        tasks.iter().all(|task| is_running(task) && port(task).is_some())
    })
    .await;
    assert!(cell.control_stop().await.success());
    let range = cell.task_ports_change();
    let (first, last) = range.split_once('-').unwrap();
    let range = first.parse::<u32>().unwrap()..=last.parse().unwrap();
    cell.control_start().await;
    let back = |task: &Task| is_running(task) && task.incarnation == 2;
    let tasks = cell.tasks_until("web", "the tasks again", |tasks| tasks.iter().all(back)).await;
    let ports: Vec<_> = tasks.iter().filter_map(port).collect();
    assert!(ports.len() == 4 && ports.iter().all(|port| range.contains(port)), "{range:?} {ports:?}");
    cell.finish().await;
}
