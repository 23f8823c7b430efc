//! What a cell keeps from other users of the machine, and from its own tasks.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use borough_client::{Client, ClientConfig, ClientError, JobRef, Token};
use borough_kv::env::SeededRng;
use borough_tests::{TestCell, http_get, options};

/// A task that has a secret in its environment and writes one to its log.
const KEEPER: &str = r#"
name: keeper
task:
  command: [sh, -c, "echo password=$PASSWORD; echo more >&2; exec sleep 600"]
  environment: {PASSWORD: hunter2}
  grace: 200ms
"#;

/// Every file and directory below `directory` that group or others may use in some way.
fn open_to_others(directory: &Path) -> Vec<String> {
    let mut open = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        // A link has no permissions of its own.
        if found.is_symlink() {
            continue;
        }
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            open.push(format!("{} {mode:o}", path.display()));
        }
        if found.is_dir() && !is_the_tasks_own(&path) {
            left.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
        }
    }
    open.retain(|line| !is_the_tasks_own(&PathBuf::from(line.split(' ').next().unwrap())));
    open.sort();
    open
}

/// A task's own directory: its mode is the task's business, and the directories above it keep others out.
fn is_the_tasks_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "work")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_file_of_a_cell_is_for_others() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    cell.run("keeper.yaml", KEEPER).await;
    cell.tasks_until("keeper", "running", |tasks| tasks.iter().any(|task| task.pid.is_some())).await;
    let root = cell.root();
    assert_eq!(open_to_others(&root), [""; 0]);
    let logs = root.join("nodes/alpha-1/lives");
    assert!(fs::read_dir(logs).unwrap().count() > 0, "there is something to look at");
    // As versions before this one left it.
    assert!(cell.control_stop().await.success());
    let kept = ["log", "records", "nodes/alpha-1", "nodes/alpha-1/lives", "nodes/alpha-1/ended"];
    // There is no such directory where the cell is on FoundationDB.
    let store = Some(root.join("store")).filter(|store| store.exists());
    for path in kept.iter().map(|path| root.join(path)).chain(store) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let kept = ["dev.json", "LOCK", "log/alpha-1.log", "nodes/alpha-1/format"];
    let store = fs::read_dir(root.join("store")).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in kept.iter().map(|path| root.join(path)).chain(store) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    cell.control_start().await;
    cell.nodes_ready().await;
    assert_eq!(open_to_others(&root), [""; 0]);
    cell.finish().await;
}

/// A client of the cell with the token that its agents have.
fn client_of_a_node(cell: &TestCell) -> (Client, String) {
    let token = fs::read_to_string(cell.root().join("node-token-alpha")).unwrap().trim().to_owned();
    let mut config = ClientConfig::new(vec![cell.grpc()], "tester", "alpha");
    config.token = Some(Token::Value(token.clone()));
    (Client::new(config, SeededRng::from_kernel().0).unwrap(), token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_nodes_token_opens_nothing_but_sessions() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let agent = cell.agent_found("alpha-1").await;
    let line = fs::read(format!("/proc/{}/cmdline", agent.pid)).unwrap();
    let (line, operator) = (String::from_utf8_lossy(&line).into_owned(), cell.token());
    assert!(line.contains("node-token-alpha") && !line.contains(&operator), "{line}");
    let (client, token) = client_of_a_node(&cell);
    assert_ne!(token, operator);
    let refused = |what: &str, error: ClientError| {
        assert_eq!(error.code(), Some(tonic::Code::PermissionDenied), "{what}: {error}");
        assert!(error.to_string().contains("borough.v1.AgentService/Session"), "{what}: {error}");
    };
    refused("cell", client.cell_get().await.unwrap_err());
    refused("nodes", client.node_list().await.unwrap_err());
    refused("stop", client.job_stop(&JobRef::new("tester", "any")).await.unwrap_err());
    for path in ["/metrics", "/v1/cells/alpha/names"] {
        let (status, body) = http_get(&cell.http(), path, Some(&token)).await.unwrap();
        assert_eq!(status, 403, "{path}: {body}");
        assert!(body.contains("borough.v1.AgentService/Session"), "{body}");
        assert_eq!(http_get(&cell.http(), path, Some(&operator)).await.unwrap().0, 200, "{path}");
    }
    cell.finish().await;
}
