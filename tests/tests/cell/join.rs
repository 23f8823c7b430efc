//! How nodes join: a token that counts once, an identity that only its node has, and everybody else who tries.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use borough_proto::v1::NodeState;
use borough_tests::{TestCell, options, until};
use serde_json::Value;

use crate::access::{TokenIssuer, with_token};

/// An agent that joins, with a state directory of its own.
struct JoiningAgent {
    node: String,
    state: PathBuf,
    token: PathBuf,
    child: Option<Child>,
}

impl JoiningAgent {
    /// Starts the agent of `node` in the state directory `state` of the cell.
    fn start(cell: &TestCell, node: &str, state: &str, token: &Path) -> Self {
        let state = cell.root().join(state);
        fs::create_dir_all(&state).unwrap();
        let mut agent = Self { node: node.to_owned(), state, token: token.to_owned(), child: None };
        agent.run(cell);
        agent
    }

    fn run(&mut self, cell: &TestCell) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_borough-under-test"));
        command
            .args(["agent", "--cell", "alpha", "--node", &self.node, "--gateway", &cell.grpc()])
            .arg("--join-token-file")
            .arg(&self.token)
            .arg("--state-dir")
            .arg(&self.state)
            .arg("--record-dir")
            .arg(cell.records())
            .args(borough_tests::NEVER_SHORT)
            .env("NO_COLOR", "1")
            .env_remove("BOROUGH_TOKEN_FILE")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    fn log_path(&self) -> PathBuf {
        self.state.with_extension("log")
    }

    fn identity(&self) -> Option<String> {
        fs::read_to_string(self.state.join("node-identity")).ok()
    }

    async fn says(&self, text: &str) {
        until(&format!("the agent of {} says {text:?}", self.node), || async {
            let log = fs::read_to_string(self.log_path()).unwrap_or_default();
            log.contains(text).then_some(())
        })
        .await;
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for JoiningAgent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Makes a join token of a node, in a new file.
async fn token_of(cell: &TestCell, node: &str, file: &str) -> PathBuf {
    let to = cell.root().join(file);
    let path = to.display().to_string();
    let issue = ["node", "join-token", "issue", node, "--to", &path, "--identity-lasts", "20s"];
    cell.borough(&issue).await.ended(0).warns("once, within 1h");
    to
}

async fn ready(cell: &TestCell, node: &str) {
    until(&format!("node {node} ready"), || async {
        let node = cell.client().node_get(node).await.ok()?;
        (node.state() == NodeState::Ready && node.connected).then_some(())
    })
    .await;
}

/// How often the audit has a refusal of joining, or of a session, of a node.
async fn refusals(cell: &TestCell, node: &str, method: &str) -> u64 {
    let object = format!("node/{node}");
    let list =
        ["audit", "list", "-o", "json", "--outcome", "refused", "--object", &object, "--method", method];
    let calls = cell.borough(&list).await.ended(0).json();
    let calls = calls.as_array().unwrap();
    assert!(calls.iter().all(|call| call["refused"]["reason"] == "NODE_NOT_JOINED"), "{calls:?}");
    calls.iter().map(|call| call["refused"]["times"].as_u64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_joins_once_and_renews_its_identity_by_itself() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let token = token_of(&cell, "j1", "j1.join").await;
    let secret = fs::read_to_string(&token).unwrap();
    assert_eq!(fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    cell.borough(&["node", "join-token", "list"]).await.ended(0).prints("open");
    let mut agent = JoiningAgent::start(&cell, "j1", "j1", &token);
    ready(&cell, "j1").await;
    let first = agent.identity().unwrap();
    let mode = fs::metadata(agent.state.join("node-identity")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let listed = cell.borough(&["node", "join-token", "list", "-o", "json"]).await.ended(0);
    assert!(listed.json()[0]["token"]["used_ms"].as_i64().unwrap() > 0, "{listed:?}");
    assert!(!listed.stdout.contains(secret.trim()) && !listed.stdout.contains(first.trim()));
    // A third of 20 s.
    until("a renewal", || async { agent.identity().filter(|now| *now != first) }).await;
    ready(&cell, "j1").await;

    // An agent that ends comes back without its token. One that was cut off in a renewal repeats it.
    agent.kill();
    fs::remove_file(&token).unwrap();
    until("the agent is gone", || async {
        let node = cell.client().node_get("j1").await.ok()?;
        (!node.connected).then_some(())
    })
    .await;
    agent.run(&cell);
    ready(&cell, "j1").await;
    let done = cell.borough(&["audit", "list", "--object", "node/j1", "--outcome", "done"]).await.ended(0);
    for method in ["CreateJoinToken", "JoinNode"] {
        assert!(done.stdout.contains(method), "{done:?}");
    }
    agent.kill();
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_agent_that_dies_before_it_knows_that_it_has_joined_joins_again() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let token = token_of(&cell, "j1", "j1.join").await;
    let mut agent = JoiningAgent::start(&cell, "j1", "j1", &token);
    ready(&cell, "j1").await;
    agent.kill();
    // What is on the disk if it dies between the answer and its note of it, or before the answer.
    let (now, next) = (agent.state.join("node-identity"), agent.state.join("node-identity.next"));
    fs::rename(&now, &next).unwrap();
    let asked = fs::read_to_string(&next).unwrap();
    agent.run(&cell);
    agent.says("its join token counts no more").await;
    until("the same identity", || async { agent.identity().filter(|identity| *identity == asked) }).await;
    agent.kill();
    // The same of a renewal: the gateway has the next one, and the agent does not know.
    let old = agent.identity().unwrap();
    agent.run(&cell);
    let renewed = until("a renewal", || async { agent.identity().filter(|now| *now != old) }).await;
    agent.kill();
    fs::write(&next, &renewed).unwrap();
    fs::set_permissions(&next, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&now, &old).unwrap();
    agent.run(&cell);
    until("the renewal is repeated", || async {
        agent.identity().filter(|_| !next.exists()).filter(|identity| *identity != old)
    })
    .await;
    ready(&cell, "j1").await;
    agent.kill();
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stolen_token_or_identity_opens_nothing() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let token = token_of(&cell, "j1", "j1.join").await;
    let mut agent = JoiningAgent::start(&cell, "j1", "j1", &token);
    ready(&cell, "j1").await;
    let first = agent.identity().unwrap();

    // The token again, and for another node.
    let mut thief = JoiningAgent::start(&cell, "j1", "thief", &token);
    thief.says("the join token was used before, and counts once").await;
    thief.kill();
    assert!(refusals(&cell, "j1", "JoinNode").await > 0);
    let mut other = JoiningAgent::start(&cell, "j2", "other", &token);
    other.says("it is not the join token of this node").await;
    other.kill();
    assert!(refusals(&cell, "j2", "JoinNode").await > 0);
    cell.borough(&["node", "status", "j2"]).await.ended(3);

    // The identity for another node, also for one that was here before; then an old one.
    for node in ["j2", "alpha-1"] {
        let state = format!("{node}-copy");
        let directory = cell.root().join(&state);
        fs::create_dir_all(&directory).unwrap();
        let copy = directory.join("node-identity");
        fs::write(&copy, agent.identity().unwrap()).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
        let mut copied = JoiningAgent::start(&cell, node, &state, Path::new("/nonexistent"));
        copied.says("it is not the identity of this node").await;
        copied.kill();
        assert!(refusals(&cell, node, "Session").await > 0);
    }
    until("a renewal", || async { agent.identity().filter(|now| *now != first) }).await;
    let directory = cell.root().join("old");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("node-identity"), &first).unwrap();
    fs::set_permissions(directory.join("node-identity"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut old = JoiningAgent::start(&cell, "j1", "old", Path::new("/nonexistent"));
    old.says("j1 of cell alpha: ").await;
    old.kill();
    ready(&cell, "j1").await;
    agent.kill();
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_two_agents_that_race_with_one_token_one_joins() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let token = token_of(&cell, "j1", "j1.join").await;
    let mut agents = ["one", "two"].map(|state| JoiningAgent::start(&cell, "j1", state, &token));
    ready(&cell, "j1").await;
    let winner = usize::from(agents[0].identity().is_none());
    agents[1 - winner].says("the join token was used before, and counts once").await;
    assert!(agents[winner].identity().is_some() && agents[1 - winner].identity().is_none());
    agents.iter_mut().for_each(JoiningAgent::kill);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_an_administrator_takes_back_ends_and_others_may_not() {
    let issuer = TokenIssuer::new();
    let arguments = ["--issuer", &issuer.file()];
    let cell = TestCell::start(options!().nodes(1).lost_after_ms(4_000).dev_arguments(&arguments)).await;
    let eve = issuer.token("eve", &[]);
    cell.borough(&["auth", "grant", "user/eve", "--role", "maintainer"]).await.ended(0);
    let own = cell.root().join("eve.join").display().to_string();
    with_token(&cell, &eve, &["node", "join-token", "issue", "j9", "--to", &own]).await.ended(6);
    assert!(!Path::new(&own).exists(), "a token that nobody accepts");
    with_token(&cell, &eve, &["node", "join-token", "list"]).await.ended(6);

    // A token, before it is used.
    let token = token_of(&cell, "j1", "j1.join").await;
    cell.borough(&["node", "join-token", "revoke", "j1"]).await.ended(0);
    cell.borough(&["node", "join-token", "revoke", "j1"]).await.ended(3);
    let mut agent = JoiningAgent::start(&cell, "j1", "j1", &token);
    agent.says("it is not the join token of this node").await;
    agent.kill();

    // An identity, while its session is open.
    let token = token_of(&cell, "j1", "j1-again.join").await;
    let mut agent = JoiningAgent::start(&cell, "j1", "j1-again", &token);
    ready(&cell, "j1").await;
    cell.borough(&["node", "join-token", "revoke", "j1"]).await.ended(4).warns("--identity");
    cell.borough(&["--yes", "node", "join-token", "revoke", "j1", "--identity"]).await.ended(0);
    agent.says("it is not the identity of this node").await;

    // It joins again by another token, and `node remove` ends that identity as well.
    fs::remove_file(&token).unwrap();
    let again = token_of(&cell, "j1", "j1-again.join").await;
    assert_eq!(again, token);
    until("the second token is used", || async {
        let joins = cell.borough(&["node", "join-token", "list", "-o", "json"]).await.ended(0).json();
        let used = |join: &Value| join["node"] == "j1" && join["token"]["used_ms"].as_i64() > Some(0);
        joins.as_array().unwrap().iter().any(used).then_some(())
    })
    .await;
    ready(&cell, "j1").await;
    agent.kill();
    cell.borough(&["node", "drain", "j1"]).await.ended(0);
    until("the removal", || async {
        let removed = cell.borough(&["--yes", "node", "remove", "j1"]).await;
        (removed.code == Some(0)).then_some(())
    })
    .await;
    // It shows its identity, to open a session or to replace it, and has nothing else.
    let refused = async || refusals(&cell, "j1", "Session").await + refusals(&cell, "j1", "JoinNode").await;
    let before = refused().await;
    agent.run(&cell);
    until("the removed node is refused", || async { (refused().await > before).then_some(()) }).await;
    cell.borough(&["node", "status", "j1"]).await.ended(3);
    agent.kill();
    cell.finish().await;
}
