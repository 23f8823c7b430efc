//! Two agents of one node name: a machine that was cloned, and a state directory that was copied.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use borough_proto::v1::{NodeState, Task};
use borough_tests::{TestCell, Watcher, is_stopped, options, until};
use rustix::process::Signal;

use crate::SERVICE;

/// Another agent for `node`, which writes its log to a file in `state`.
fn agent_start(cell: &TestCell, node: &str, state: &Path) -> Child {
    fs::create_dir_all(state).unwrap();
    let log = fs::File::create(log_of(state)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_borough-under-test"));
    command
        .args(["agent", "--cell", "alpha", "--node", node, "--gateway", &cell.grpc()])
        .arg("--token-file")
        .arg(cell.root().join("node-token-alpha"))
        .arg("--state-dir")
        .arg(state)
        .arg("--record-dir")
        .arg(cell.records())
        .args(borough_tests::NEVER_SHORT)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    command.spawn().unwrap()
}

fn log_of(state: &Path) -> std::path::PathBuf {
    state.with_extension("log")
}

/// The identity that the log of a refused agent names as its own.
async fn refused(state: &Path) -> String {
    until("a refusal that says what to run", || async {
        let log = fs::read_to_string(log_of(state)).unwrap_or_default();
        let (_, rest) = log.split_once("borough node admit alpha-1 --identity ")?;
        let end = rest.find(|each: char| !each.is_ascii_alphanumeric() && each != '@' && each != '-');
        Some(rest[..end?].to_owned())
    })
    .await
}

fn attempts(tasks: &[Task]) -> Vec<(String, u64, Option<u32>)> {
    tasks.iter().map(|task| (task.node.clone(), task.incarnation, task.pid)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_second_agent_of_a_name_is_refused_and_moves_nothing() {
    let cell = TestCell::start(options!()).await;
    cell.run("served.yaml", SERVICE).await;
    let watcher = Watcher::start(cell.client(), "served").await;
    watcher.until_published(2).await;
    let before = attempts(&cell.tasks("served").await);
    let recorded = cell.client().node_get("alpha-1").await.unwrap().identity;
    assert!(recorded.contains('@'), "{recorded}");

    let state = cell.root().join("clone");
    let mut second = agent_start(&cell, "alpha-1", &state);
    let own = refused(&state).await;
    assert_ne!(own, recorded);
    let log = fs::read_to_string(log_of(&state)).unwrap();
    assert!(log.contains(&recorded), "both are named: {log}");
    let begun = fs::read_dir(state.join("attempts")).unwrap().count();
    assert_eq!(begun, 0, "the second agent has started something");
    assert_eq!(attempts(&cell.tasks("served").await), before);
    let node = cell.client().node_get("alpha-1").await.unwrap();
    assert_eq!((node.state(), node.identity), (NodeState::Ready, recorded));

    // While the first one reports, no operator can give its node away.
    let admit = cell.borough(&["node", "admit", "alpha-1", "--identity", &own]).await;
    assert!(admit.code != Some(0) && admit.stderr.contains("still reports"), "{admit:?}");
    cell.borough(&["node", "admit", "alpha-1", "--identity", "me"]).await.ended(2);
    assert_eq!(attempts(&cell.tasks("served").await), before);
    second.kill().unwrap();
    second.wait().unwrap();
    watcher.assert_sound();
    cell.borough(&["job", "stop", "served"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_copied_state_directory_runs_once_on_a_host() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let state = cell.root().join("copy");
    fs::create_dir_all(&state).unwrap();
    for file in ["format", "identity"] {
        fs::copy(cell.root().join("nodes/alpha-1").join(file), state.join(file)).unwrap();
    }
    let mut copy = agent_start(&cell, "alpha-1", &state);
    let ended = parking_lot::Mutex::new(&mut copy);
    let status = until("the end of the copy", || async { ended.lock().try_wait().unwrap() }).await;
    let log = fs::read_to_string(log_of(&state)).unwrap();
    assert!(!status.success() && log.contains("another agent of identity"), "{log}");
    assert_eq!(cell.client().node_get("alpha-1").await.unwrap().state(), NodeState::Ready);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_operator_gives_the_node_of_a_gone_machine_to_another_agent() {
    let cell = TestCell::start(options!().nodes(1).lost_after_ms(2_000)).await;
    let agent = cell.agent_found("alpha-1").await;
    // A machine that seems to be gone.
    agent.signal(Signal::STOP).unwrap();
    until("the stop", || async { is_stopped(agent.pid).then_some(()) }).await;
    let state = cell.root().join("new");
    let mut second = agent_start(&cell, "alpha-1", &state);
    let own = refused(&state).await;
    // Its gateway renews its lease while it may only have missed some reports.
    until("the operator's act", || async {
        let admit = cell.borough(&["node", "admit", "alpha-1", "--identity", &own]).await;
        (admit.code == Some(0)).then_some(())
    })
    .await;
    until("the other agent's node", || async {
        let node = cell.client().node_get("alpha-1").await.ok()?;
        (node.state() == NodeState::Ready && node.identity == own && node.connected).then_some(())
    })
    .await;
    // The former machine comes back: its agent has no node any more.
    agent.signal(Signal::CONT).unwrap();
    let job = "name: later\ncount: 1\ntask: {command: [sleep, 600], grace: 500ms}\n";
    cell.run("later.yaml", job).await;
    assert_eq!(fs::read_dir(state.join("attempts")).unwrap().count(), 1, "the new agent runs it");
    assert_eq!(cell.client().node_get("alpha-1").await.unwrap().identity, own);
    cell.borough(&["job", "stop", "later"]).await.ended(0);
    second.kill().unwrap();
    second.wait().unwrap();
    cell.finish().await;
}
