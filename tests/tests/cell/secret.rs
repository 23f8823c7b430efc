//! Secrets of a cell: kept from other users of the machine, and from the cell's own tasks.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use borough_client::{Client, ClientConfig, ClientError, ClientToken, JobRef};
use borough_kv::env::SeededRng;
use borough_shim::process::ProcessId;
use borough_tests::{TestCell, http_get, options, until};

/// A task that has a secret in its environment and writes one to its log.
const KEEPER: &str = r#"
name: keeper
task:
  command: [sh, -c, "echo password=$PASSWORD; echo more >&2; exec sleep 600"]
  environment: {PASSWORD: hunter2}
  grace: 200ms
"#;

/// Every file and directory below `directory` with permissions for group or others.
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

/// A task's own directory: the task decides its mode, and the directories above keep others out.
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
    let logs = root.join("nodes/alpha-1/attempts");
    assert!(fs::read_dir(logs).unwrap().count() > 0, "there is something to look at");
    // As earlier versions left it.
    assert!(cell.control_stop().await.success());
    let kept = ["log", "records", "nodes/alpha-1", "nodes/alpha-1/attempts", "nodes/alpha-1/ended"];
    // With FoundationDB this directory does not exist.
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

/// A client of the cell with the token of its agents.
fn client_of_a_node(cell: &TestCell) -> (Client, String) {
    let token = fs::read_to_string(cell.root().join("node-token-alpha")).unwrap().trim().to_owned();
    let mut config = ClientConfig::new(vec![cell.grpc()], "tester", "alpha");
    config.token = Some(ClientToken::Value(token.clone()));
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
        assert!(error.to_string().contains("opens sessions of agents and nothing else"), "{what}: {error}");
    };
    refused("cell", client.cell_get().await.unwrap_err());
    refused("nodes", client.node_list().await.unwrap_err());
    refused("stop", client.job_stop(&JobRef::new("tester", "any")).await.unwrap_err());
    for path in ["/metrics", "/v1/cells/alpha/names"] {
        let (status, body) = http_get(&cell.http(), path, Some(&token)).await.unwrap();
        assert_eq!(status, 403, "{path}: {body}");
        assert!(body.contains("opens sessions of agents and nothing else"), "{body}");
        assert_eq!(http_get(&cell.http(), path, Some(&operator)).await.unwrap().0, 200, "{path}");
    }
    cell.finish().await;
}

/// Tries to read each file of `FILES` and to plant a link, and writes the results.
const SPY: &str = r#"
name: spy
task:
  command:
    - sh
    - -c
    - |
      for file in $FILES; do
        if cat "$file" > got 2> refused; then echo "READ $file"; else echo "kept $file: $(cat refused)"; fi
      done
      ln -s /etc/shadow "$LOGS/stdout.7.log" 2> refused && echo PLANTED
      echo "uid $(id -u) gid $(id -g) groups $(id -G)"
      grep -E '^(NoNewPrivs|CapEff|CapPrm|CapAmb|Groups):' /proc/self/status
      echo "files $(ls /proc/self/fd | tr '\n' ' ')"
      echo "home $HOME" && cd "$HOME" && touch mine && echo "writable $(pwd -P)"
      echo "by name" > /dev/stdout
      echo done
      exec sleep 600
  environment: {FILES: "FILES_HERE", LOGS: "LOGS_HERE"}
  grace: 200ms
"#;

/// The output of a job's task, once it has written `done`.
async fn printed(cell: &TestCell, job: &str) -> String {
    until("what the spy says", || async {
        let logs = cell.borough(&["task", "logs", &format!("{job}/0")]).await.ended(0);
        logs.stdout.contains("\ndone\n").then(|| logs.stdout.clone())
    })
    .await
}

/// The own directory of the task of the first job of a node.
fn attempt_of(cell: &TestCell, job_id: &str) -> PathBuf {
    let attempts = fs::read_dir(cell.root().join("nodes/alpha-1/attempts")).unwrap().flatten();
    let mut paths = attempts.map(|entry| entry.path());
    paths.find(|path| path.file_name().unwrap().to_string_lossy().starts_with(job_id)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_reads_no_token_no_state_and_nothing_of_another_owner() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT EXERCISED: users of tasks; this test does not run as root");
        return;
    }
    let cell = TestCell::start(options!().nodes(1)).await;
    let file = cell.file("keeper.yaml", KEEPER);
    cell.borough(&["--user", "other", "job", "run", &file]).await.ended(0);
    let job = JobRef::new("other", "keeper");
    let keeper = cell.client().task_list_of_job(&job).await.unwrap().0.remove(0);
    let (attempt, agent) = (attempt_of(&cell, &keeper.job_id), cell.agent_found("alpha-1").await);
    let root = cell.root();
    let own = fs::canonicalize(attempt.join("work")).unwrap();
    fs::write(own.join("private"), "of another owner").unwrap();
    let mut files: Vec<PathBuf> = ["token", "node-token-alpha", "client.json", "dev.json", "log/alpha-1.log"]
        .map(|name| root.join(name))
        .to_vec();
    files.extend(["format", "lock"].map(|name| root.join("nodes/alpha-1").join(name)));
    files.extend(["stdout.0.log", "spec.json", "state.json", "assignment.pb"].map(|name| attempt.join(name)));
    files.extend([own.join("private"), cell.tasks_directory().join("users.json")]);
    let pids = [agent.pid, cell.control().pid, keeper.pid.unwrap()];
    files.extend(pids.map(|pid| PathBuf::from(format!("/proc/{pid}/environ"))));
    assert!(files.iter().all(|file| file.exists()), "{files:?}");
    let list = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" ");
    let spy = SPY.replace("FILES_HERE", &list).replace("LOGS_HERE", &attempt.display().to_string());
    cell.run("spy.yaml", &spy).await;
    let printed = printed(&cell, "spy").await;
    for file in &files {
        let kept = format!("kept {}: ", file.display());
        let line = printed.lines().find(|line| line.starts_with(&kept));
        assert!(
            line.is_some_and(|line| line.contains("Permission denied")),
            "{}:\n{printed}",
            file.display()
        );
    }
    assert!(!printed.contains("READ") && !printed.contains("PLANTED"), "{printed}");
    for expected in
        ["NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "writable /", "by name"]
    {
        assert!(printed.contains(expected), "{expected}:\n{printed}");
    }
    // The three streams, and the directory that `ls` itself reads.
    assert!(printed.contains("files 0 1 2 3 \n"), "{printed}");
    let users = printed.lines().find_map(|line| line.strip_prefix("uid ")).unwrap().to_owned();
    let uid = users.split(' ').next().unwrap().to_owned();
    assert_eq!(users, format!("{uid} gid {uid} groups {uid}"));
    assert_ne!(uid, "0");
    // A command in its environment is the same user; the other owner's task is another.
    cell.borough(&["task", "exec", "spy/0", "--", "id", "-u"]).await.ended(0).prints(&uid);
    let token = root.join("token").display().to_string();
    let read = cell.borough(&["task", "exec", "spy/0", "--", "cat", &token]).await;
    assert!(!read.stdout.contains(&cell.token()), "a command beside a task reads the token");
    let other = fs::read_to_string(format!("/proc/{}/status", keeper.pid.unwrap())).unwrap();
    let other = other.lines().find_map(|line| line.strip_prefix("Uid:\t")).unwrap().to_owned();
    assert!(!other.starts_with("0\t") && !other.starts_with(&uid), "{other}");
    // Nothing of a task is left after it is forgotten.
    let process = ProcessId::find(keeper.pid.unwrap()).unwrap();
    cell.borough(&["--user", "other", "job", "stop", "keeper"]).await.ended(0);
    until("the end of the keeper", || async { (!process.alive() && !own.exists()).then_some(()) }).await;
    cell.finish().await;
}
