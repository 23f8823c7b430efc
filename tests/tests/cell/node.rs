//! Nodes that vanish and come back, and nodes that operators take out of service.

use borough_proto::v1::NodeState;
use borough_shim::process::ProcessId;
use borough_tests::{TestCell, Watcher, is_healthy, is_stopped, is_up, options, until};
use rustix::process::Signal;

use crate::SERVICE;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_vanished_nodes_tasks_go_elsewhere_and_never_live_twice() {
    let cell = TestCell::start(options!().lost_after_ms(2_000)).await;
    cell.run("served.yaml", SERVICE).await;
    let watcher = Watcher::start(cell.client(), "served").await;
    watcher.until_published(2).await;
    let before = cell.tasks("served").await;
    let gone = before[0].clone();
    assert_ne!(gone.node, before[1].node, "spread over the nodes");
    let old = ProcessId::find(gone.pid.unwrap()).unwrap();
    let agent = cell.agent_found(&gone.node).await;
    agent.signal(Signal::STOP).unwrap();
    until("the stop", || async { is_stopped(agent.pid).then_some(()) }).await;

    let after = cell
        .tasks_until("served", "healthy elsewhere", |tasks| {
            tasks.iter().all(is_healthy) && tasks[0].incarnation > gone.incarnation
        })
        .await;
    assert_eq!(after[0].node, before[1].node);
    assert_eq!((after[1].pid, after[1].incarnation), (before[1].pid, before[1].incarnation));
    assert_eq!(cell.client().node_get(&gone.node).await.unwrap().state(), NodeState::Lost);
    assert!(old.alive(), "nobody could end it");
    until("the new attempt's endpoint", || async {
        let published = watcher.published();
        published.get(&0).filter(|endpoint| endpoint.incarnation == after[0].incarnation).cloned()
    })
    .await;

    agent.signal(Signal::CONT).unwrap();
    until("the end of the old attempt", || async { (!old.alive()).then_some(()) }).await;
    cell.nodes_ready().await;
    // Back in service: a job that must run there does.
    let text = format!(
        "name: back\ncount: 1\ntask: {{command: [sleep, 600], grace: 500ms}}\nconstraints: ['node.name == {}']\n",
        gone.node
    );
    cell.run("back.yaml", &text).await;
    let tasks = cell.tasks("served").await;
    assert_eq!((tasks[0].pid, tasks[0].incarnation), (after[0].pid, after[0].incarnation));
    watcher.assert_sound();
    for job in ["served", "back"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tainted_nodes_keep_tasks_away_and_drive_them_out() {
    let cell = TestCell::start(options!()).await;
    let file = |name: &str, count: u32, tolerations: &str| {
        format!(
            "name: {name}\ncount: {count}\ntask: {{command: [sleep, 600], resources: {{cpu: 10m, memory: 4MiB}}, \
             grace: 300ms}}\nspread: [node.name]\ntolerations: {tolerations}\n"
        )
    };
    cell.borough(&["node", "taint", "alpha-1", "own=db:no_schedule"]).await.ended(0).prints("tainted");
    cell.run("plain.yaml", &file("plain", 2, "[]")).await;
    cell.run("db.yaml", &file("db", 2, "[{taint: own, value: db}]")).await;
    let plain = cell.tasks("plain").await;
    assert!(plain.iter().all(|task| task.node == "alpha-2"), "they do not tolerate it: {plain:?}");
    let db = cell.tasks("db").await;
    assert!(db.iter().any(|task| task.node == "alpha-1"), "it is tolerated: {db:?}");

    // Another taint moves tasks that do not tolerate it at once, and tasks that tolerate it for a while later.
    let patient = "[own, {taint: worn, effect: no_execute, evict_after: 2s}]";
    cell.run("patient.yaml", &file("patient", 2, patient)).await;
    let before = cell.tasks("patient").await;
    assert!(before.iter().any(|task| task.node == "alpha-1"), "{before:?}");
    cell.borough(&["node", "taint", "alpha-1", "worn:no_execute"]).await.ended(0);
    for job in ["db", "patient"] {
        let what = format!("{job} all up elsewhere");
        let tasks = cell.tasks_until(job, &what, |tasks| is_up(tasks, 2)).await;
        let gone = |tasks: &[borough_proto::v1::Task]| tasks.iter().all(|task| task.node == "alpha-2");
        if !gone(&tasks) {
            cell.tasks_until(job, &what, |tasks| is_up(tasks, 2) && gone(tasks)).await;
        }
    }
    cell.borough(&["node", "untaint", "alpha-1", "worn", "own"]).await.ended(0);
    let node = cell.client().node_get("alpha-1").await.unwrap();
    assert!(node.taints.is_empty(), "{node:?}");
    cell.borough(&["job", "scale", "plain", "4"]).await.ended(0);
    let plain = cell.tasks("plain").await;
    assert!(plain.iter().any(|task| task.node == "alpha-1"), "{plain:?}");
    cell.borough(&["node", "taint", "alpha-1", "worn:sometimes"]).await.ended(2).warns("no_schedule");
    for job in ["plain", "db", "patient"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_share_cards_and_know_which_they_have() {
    let cards = ["gpu=GPU-a,model=A100,memory=40GiB", "gpu=GPU-b,model=L4,memory=24GiB"];
    let cell = TestCell::start(options!().nodes(1).cards(&cards)).await;
    let job = |name: &str, count: u32, gpu: &str| {
        format!(
            "name: {name}\ncount: {count}\ntask:\n  command: [sh, -c, 'echo cards $BOROUGH_DEVICE_GPU \
             $BOROUGH_DEVICE_GPU_MILLIS $CUDA_VISIBLE_DEVICES; exec sleep 600']\n  resources: {{cpu: 10m, memory: 4MiB, \
             devices: {{gpu: {gpu}}}}}\n  grace: 300ms\n"
        )
    };
    cell.run("share.yaml", &job("share", 2, "0.5")).await;
    for index in ["share/0", "share/1"] {
        cell.borough(&["task", "logs", index]).await.ended(0).prints("cards GPU-a 500 GPU-a");
    }
    cell.run("whole.yaml", &job("whole", 1, "{memory: 20GiB}")).await;
    cell.borough(&["task", "logs", "whole/0"]).await.ended(0).prints("cards GPU-b 1000 GPU-b");
    let more = cell.file("more.yaml", &job("more", 1, "{count: 0.25, model: A100}"));
    cell.borough(&["job", "run", &more, "--detach"]).await.ended(0);
    until("the explanation", || async {
        let ran = cell.borough(&["why", "more"]).await.ended(0);
        ran.stdout.contains("less than device gpu 0.25 free").then_some(())
    })
    .await;
    cell.borough(&["job", "stop", "share"]).await.ended(0);
    cell.tasks_until("more", "up in the room of others", |tasks| is_up(tasks, 1)).await;
    for job in ["whole", "more"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_are_taken_out_of_service_and_back() {
    let cell = TestCell::start(options!()).await;
    let file = |count: u32| {
        format!(
            "name: moved\ncount: {count}\ntask: {{command: [sleep, 600], resources: {{cpu: 10m, memory: 4MiB}}, \
             grace: 300ms}}\nspread: [node.name]\n"
        )
    };
    cell.run("moved.yaml", &file(2)).await;
    cell.borough(&["node", "cordon", "alpha-1"]).await.ended(0);
    cell.borough(&["job", "scale", "moved", "5"]).await.ended(0).prints("5/5 healthy");
    let tasks = cell.tasks("moved").await;
    assert!(tasks.iter().skip(2).all(|task| task.node == "alpha-2"), "placed on a cordoned node: {tasks:?}");
    assert_eq!(tasks.iter().filter(|task| task.node == "alpha-1").count(), 1, "a cordon moves nothing");

    cell.borough(&["node", "drain", "alpha-1", "--timeout", "60s"]).await.ended(0);
    let tasks = cell.tasks_until("moved", "all up elsewhere", |tasks| is_up(tasks, 5)).await;
    assert!(tasks.iter().all(|task| task.node == "alpha-2"), "{tasks:?}");
    assert!(cell.client().task_list_of_node("alpha-1").await.unwrap().0.is_empty());

    cell.borough(&["node", "uncordon", "alpha-1"]).await.ended(0);
    cell.borough(&["job", "scale", "moved", "7"]).await.ended(0);
    let tasks = cell.tasks("moved").await;
    assert!(tasks.iter().any(|task| task.node == "alpha-1"), "an uncordoned node takes tasks: {tasks:?}");
    cell.borough(&["node", "drain", "no-such-node"]).await.ended(3);

    // Fewer, none (which is legal), and some again.
    cell.borough(&["job", "scale", "moved", "1"]).await.ended(0);
    let left = |tasks: &[borough_proto::v1::Task]| {
        tasks.iter().filter(|task| borough_tests::is_running(task)).count()
    };
    cell.tasks_until("moved", "one left", |tasks| left(tasks) == 1).await;
    cell.borough(&["job", "scale", "moved", "0"]).await.ended(0);
    cell.tasks_until("moved", "none left", |tasks| left(tasks) == 0).await;
    cell.borough(&["job", "scale", "moved", "2"]).await.ended(0).prints("2/2 healthy");
    cell.borough(&["job", "stop", "moved"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_is_gone_is_removed_and_comes_back_as_another() {
    let cell = TestCell::start(options!().lost_after_ms(2_000)).await;
    let job = "name: moved\ncount: 2\ntask: {command: [sleep, 600], resources: {cpu: 10m, memory: 4MiB}, grace: 300ms}\n\
        spread: [node.name]\n";
    cell.run("moved.yaml", job).await;
    cell.borough(&["node", "remove", "alpha-1"])
        .await
        .ended(2)
        .warns("cannot ask whether to forget node alpha-1");
    let remove = async || cell.borough(&["node", "remove", "alpha-1", "--yes"]).await;
    remove().await.ended(4).warns("node alpha-1 takes tasks: borough node drain alpha-1");
    cell.borough(&["node", "cordon", "alpha-1"]).await.ended(0);
    remove().await.ended(4).warns("node alpha-1 still has tasks; to move them: borough node drain alpha-1");
    let before = cell.client().node_get("alpha-1").await.unwrap();
    cell.borough(&["node", "remove", "no-such-node", "-y"]).await.ended(3).warns("no-such-node");

    // Its machine vanishes with a task, and with a label that goes with the node.
    cell.borough(&["node", "label", "alpha-1", "tier=old"]).await.ended(0);
    let tasks = cell.tasks("moved").await;
    let gone = tasks.iter().find(|task| task.node == "alpha-1").unwrap().clone();
    let old = ProcessId::find(gone.pid.unwrap()).unwrap();
    let agent = cell.agent_found("alpha-1").await;
    agent.signal(Signal::STOP).unwrap();
    until("the stop", || async { is_stopped(agent.pid).then_some(()) }).await;
    let elsewhere = |tasks: &[borough_proto::v1::Task]| {
        tasks.iter().all(|task| task.node == "alpha-2" && is_healthy(task))
    };
    let after = cell.tasks_until("moved", "all up elsewhere", elsewhere).await;
    remove().await.ended(0).warns("alpha-1: removed");
    let of_node = cell.borough(&["event", "list", "--node", "alpha-1"]).await.ended(0);
    of_node.prints("node alpha-1").prints("removed");
    cell.borough(&["node", "status", "alpha-1"]).await.ended(3);
    let listed = cell.borough(&["node", "list"]).await.ended(0).stdout;
    assert!(!listed.contains("alpha-1") && listed.contains("alpha-2"), "{listed}");
    remove().await.ended(3).warns("alpha-1");
    assert!(old.alive(), "nobody could end it");

    // It comes back as a new node, and what it ran is stopped.
    agent.signal(Signal::CONT).unwrap();
    until("the end of the old attempt", || async { (!old.alive()).then_some(()) }).await;
    cell.nodes_ready().await;
    let back = cell.client().node_get("alpha-1").await.unwrap();
    assert!(back.id != before.id && back.labels.is_empty() && back.schedulable, "{back:?}");
    let now: Vec<_> =
        cell.tasks("moved").await.into_iter().map(|task| (task.pid, task.incarnation)).collect();
    assert_eq!(now, after.into_iter().map(|task| (task.pid, task.incarnation)).collect::<Vec<_>>());

    // A drained node is empty, and its agent still works.
    cell.borough(&["node", "drain", "alpha-1"]).await.ended(0);
    remove().await.ended(4).warns("the agent of node alpha-1 was heard of");
    cell.borough(&["job", "stop", "moved"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn labels_of_nodes_decide_where_tasks_run() {
    let cell = TestCell::start(options!()).await;
    let job = |name: &str, constraint: &str| {
        let task = "task: {command: [sleep, 600], resources: {cpu: 10m, memory: 4MiB}, grace: 300ms}";
        cell.file(&format!("{name}.yaml"), &format!("name: {name}\n{task}\nconstraints: ['{constraint}']\n"))
    };
    cell.borough(&["job", "run", "--detach", &job("db", "tier == db")]).await.ended(0);
    until("the explanation", || async {
        let why = cell.borough(&["why", "db"]).await.ended(0);
        why.stdout.contains("constraint tier in [db]").then_some(())
    })
    .await;
    let labelled = cell.borough(&["node", "label", "alpha-2", "tier=db", "rack=r99"]).await.ended(0);
    labelled.prints("alpha-2: rack=r99,tier=db");
    let task = cell.tasks_until("db", "up", |tasks| is_up(tasks, 1)).await.remove(0);
    assert_eq!(task.node, "alpha-2", "a label wakes what waits for it");
    // A label hides the attribute of its key, and a registration leaves it alone.
    cell.borough(&["job", "run", &job("racked", "rack == r99")]).await.ended(0);
    let agent = cell.agent_found("alpha-2").await;
    agent.signal(Signal::KILL).unwrap();
    until("another agent", || async { cell.agent("alpha-2").filter(|next| next.pid != agent.pid) }).await;
    cell.nodes_ready().await;
    cell.borough(&["node", "list", "-o", "wide"]).await.ended(0).prints("rack=r99,tier=db");
    cell.borough(&["node", "status", "alpha-2"]).await.ended(0).prints("tier = db");

    // Without the label what runs stays, and nothing new comes.
    cell.borough(&["node", "label", "alpha-2", "tier-", "rack-"]).await.ended(0).prints("alpha-2: no labels");
    let now = cell.tasks("db").await.remove(0);
    assert_eq!((now.pid, now.incarnation), (task.pid, task.incarnation));
    cell.borough(&["job", "scale", "db", "2", "--timeout", "2s"]).await.ended(1).warns("1 pending");
    let label = async |label: &str| cell.borough(&["node", "label", "alpha-2", label]).await;
    label("node.name=x").await.ended(2).warns("node.name and those of package/ are set by the cell");
    label("a b=c").await.ended(2).warns("has the key \"a b\"");
    label("tier").await.ended(2).warns("accepted: KEY=VALUE to set a label, KEY- to remove it");
    cell.borough(&["node", "label", "no-such-node", "a=b"]).await.ended(3);
    for job in ["db", "racked"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}
