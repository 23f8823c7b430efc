//! Daemon jobs: one task on each node that matches, while nodes join, leave, and are taken out of service.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};

use borough_proto::v1::{Task, TaskState};
use borough_tests::{TestCell, is_healthy, is_stopped, options, until};
use rustix::process::Signal;

const DAEMON: &str = "name: logs\nkind: daemon\ntask: {command: [sleep, '600'], resources: {cpu: 10m, memory: 4MiB}, \
                      grace: 300ms}\nupdate: {healthy_after: 200ms}\n";

/// An agent of a node that joins, and ends with the test.
struct Joined(Child);

impl Joined {
    fn new(cell: &TestCell, node: &str) -> Self {
        let state = cell.root().join(node);
        fs::create_dir_all(&state).unwrap();
        let log = fs::File::create(state.with_extension("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_borough-under-test"));
        command
            .args(["agent", "--cell", "alpha", "--node", node, "--gateway", &cell.grpc()])
            .arg("--token-file")
            .arg(cell.root().join("node-token-alpha"))
            .arg("--state-dir")
            .arg(&state)
            .arg("--record-dir")
            .arg(cell.records())
            .args(borough_tests::NEVER_SHORT)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Self(command.spawn().unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The live tasks of a job by node, each with its index and attempt.
fn by_node(tasks: &[Task]) -> BTreeMap<String, (u32, u64)> {
    let live = tasks.iter().filter(|task| task.state() != TaskState::Dead);
    live.map(|task| (task.node.clone(), (task.index, task.incarnation))).collect()
}

/// Waits until these nodes have a healthy task each, and no other one has any.
async fn serves(cell: &TestCell, job: &str, nodes: &[&str]) -> BTreeMap<String, (u32, u64)> {
    let what = format!("healthy on {nodes:?} alone");
    let tasks = cell.tasks_until(job, &what, |tasks| {
        let live: Vec<&Task> = tasks.iter().filter(|task| task.state() != TaskState::Dead).collect();
        let there: Vec<&str> = by_node(tasks).into_keys().map(|node| node.leak() as &str).collect();
        live.len() == nodes.len() && live.iter().all(|task| is_healthy(task)) && there == nodes
    });
    by_node(&tasks.await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_daemon_runs_once_on_each_node_whatever_becomes_of_the_nodes() {
    let cell = TestCell::start(options!().lost_after_ms(2_000)).await;
    cell.run("logs.yaml", DAEMON).await.prints("2/2 healthy");
    let first = serves(&cell, "logs", &["alpha-1", "alpha-2"]).await;

    // One joins.
    let mut joined = Joined::new(&cell, "late");
    let three = serves(&cell, "logs", &["alpha-1", "alpha-2", "late"]).await;
    assert!(first.iter().all(|(node, task)| three.get(node) == Some(task)), "{first:?} {three:?}");
    cell.borough(&["job", "status", "logs"]).await.ended(0).prints("3 wanted");

    // One is cordoned: its task goes on, and comes again.
    cell.borough(&["node", "cordon", "alpha-2"]).await.ended(0);
    let index = three["alpha-2"].0.to_string();
    cell.borough(&["task", "restart", &format!("logs/{index}")]).await.ended(0);
    let again = serves(&cell, "logs", &["alpha-1", "alpha-2", "late"]).await;
    assert_eq!(again["alpha-2"], (three["alpha-2"].0, three["alpha-2"].1 + 1));
    assert_eq!(again["alpha-1"], three["alpha-1"]);

    // One is drained: the daemon ends last, and blocks nothing.
    cell.run(
        "web.yaml",
        "name: web\ncount: 2\ntask: {command: [sleep, '600'], grace: 300ms}\nspread: [node.name]\n",
    )
    .await;
    cell.borough(&["node", "drain", "alpha-1"]).await.ended(0);
    serves(&cell, "logs", &["alpha-2", "late"]).await;
    let left = cell.tasks("logs").await;
    let gone = left.iter().find(|task| task.index == three["alpha-1"].0).expect("its row stays");
    assert_eq!((gone.state(), gone.stop().as_str_name()), (TaskState::Dead, "STOP_REASON_NODE_LEFT"));
    cell.borough(&["job", "status", "logs"]).await.ended(0).prints("2 wanted");
    cell.borough(&["node", "uncordon", "alpha-1"]).await.ended(0);
    let back = serves(&cell, "logs", &["alpha-1", "alpha-2", "late"]).await;
    assert_eq!(back["alpha-1"].0, three["alpha-1"].0, "the index is that of the node");

    // One is lost, and then comes back.
    let agent = cell.agent_found("alpha-1").await;
    agent.signal(Signal::STOP).unwrap();
    until("the stop", || async { is_stopped(agent.pid).then_some(()) }).await;
    serves(&cell, "logs", &["alpha-2", "late"]).await;
    agent.signal(Signal::CONT).unwrap();
    let back = serves(&cell, "logs", &["alpha-1", "alpha-2", "late"]).await;
    assert_eq!(back["alpha-1"].0, three["alpha-1"].0);

    // One is gone for good.
    joined.kill();
    serves(&cell, "logs", &["alpha-1", "alpha-2"]).await;
    for job in ["logs", "web"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn labels_and_taints_of_nodes_decide_where_a_daemon_runs() {
    let cell = TestCell::start(options!()).await;
    let text = format!("{DAEMON}constraints: [disk == ssd]\n");
    let ran = cell.run("logs.yaml", &text).await;
    ran.prints("0/0 healthy").warns("warning: no node of the cell matches now");
    let why = cell.borough(&["why", "logs"]).await.ended(0);
    why.prints("fit on none of 2 nodes").prints("constraint disk in [ssd]");
    cell.borough(&["node", "label", "alpha-1", "disk=ssd"]).await.ended(0);
    serves(&cell, "logs", &["alpha-1"]).await;
    cell.borough(&["node", "label", "alpha-2", "disk=ssd"]).await.ended(0);
    let both = serves(&cell, "logs", &["alpha-1", "alpha-2"]).await;

    // A taint that only keeps new tasks away leaves the task; one that drives tasks out does not.
    cell.borough(&["node", "taint", "alpha-1", "own:no_schedule"]).await.ended(0);
    let still = serves(&cell, "logs", &["alpha-1", "alpha-2"]).await;
    assert_eq!(both, still);
    cell.borough(&["node", "taint", "alpha-1", "own:no_execute"]).await.ended(0);
    serves(&cell, "logs", &["alpha-2"]).await;
    cell.borough(&["node", "untaint", "alpha-1", "own"]).await.ended(0);
    serves(&cell, "logs", &["alpha-1", "alpha-2"]).await;

    cell.borough(&["node", "label", "alpha-1", "disk-"]).await.ended(0);
    serves(&cell, "logs", &["alpha-2"]).await;

    // A changed file reaches the nodes one after the other, and what it does not have is refused.
    cell.run("logs.yaml", &text.replace("'600'", "'601'")).await;
    let after = serves(&cell, "logs", &["alpha-2"]).await;
    assert_eq!(after["alpha-2"].0, both["alpha-2"].0);
    let scaled = cell.borough(&["job", "scale", "logs", "3"]).await.ended(2);
    assert!(scaled.stderr.contains("one task on each node that matches"), "{}", scaled.stderr);
    cell.borough(&["job", "stop", "logs"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_daemon_waits_for_room_on_its_node_and_delays_no_other_node() {
    let cell = TestCell::start(options!().agent_arguments(&["--cpu=1"])).await;
    let full = "name: full\npriority: 399\ntask: {command: [sleep, '600'], resources: {cpu: 950m, memory: 4MiB}, grace: \
                300ms}\nconstraints: ['node.name == alpha-1']\n";
    cell.run("full.yaml", full).await;
    let text = DAEMON.replace("cpu: 10m", "cpu: 100m");
    let file = cell.file("logs.yaml", &text);
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    cell.tasks_until("logs", "one healthy and one that waits", |tasks| {
        tasks.iter().filter(|task| is_healthy(task)).count() == 1
            && tasks.iter().any(|task| task.state() == TaskState::Pending)
    })
    .await;
    let why = cell.borough(&["why", "logs"]).await.ended(0);
    why.prints("does not fit its own node, and may run on no other").prints("less than cpu 0.1 cores free");
    // A rollout does not wait for it.
    cell.borough(&["job", "run", "--detach", &cell.file("logs.yaml", &text.replace("'600'", "'601'"))])
        .await
        .ended(0);
    until("the end of the rollout", || async {
        let status = cell.borough(&["rollout", "status", "logs"]).await;
        status.stdout.contains("done").then_some(())
    })
    .await;
    cell.borough(&["job", "stop", "full"]).await.ended(0);
    serves(&cell, "logs", &["alpha-1", "alpha-2"]).await;
    cell.borough(&["job", "stop", "logs"]).await.ended(0);
    cell.finish().await;
}

/// A task that pauses after failures of the version before is no task without room: the next version is tried on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_bad_version_after_a_bad_version_fails_as_well() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let run = async |command: &str, on_failure: &str| {
        let text = DAEMON.replace("sleep, '600'", command);
        let text = text.replace("update: {", &format!("update: {{on_failure: {on_failure}, "));
        let file = cell.file("logs.yaml", &(text + "restart: {backoff: 2s}\n"));
        cell.borough(&["job", "run", &file, "--timeout", "60s"]).await
    };
    run("sleep, '600'", "stop").await.ended(0);
    for version in ["exit 2", "exit 3"] {
        let ran = run(&format!("sh, -c, '{version}'"), "stop").await.ended(1);
        ran.warns("failed");
        let status = cell.borough(&["rollout", "status", "logs"]).await.ended(0);
        status.prints(": failed").prints("before: 1\n");
    }
    // This one goes back by itself.
    run("sh, -c, 'exit 4'", "revert").await.ended(1);
    until("the first version serves again", || async {
        let tasks = cell.tasks("logs").await;
        tasks.iter().all(is_healthy).then_some(())
    })
    .await;
    cell.finish().await;
}
