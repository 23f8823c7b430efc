//! Output that cannot be written: no role ends because of its log, and a verb reports that its answer is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use borough_agent::ProcessGuard;
use borough_kv::secret::Secret;
use borough_shim::process::ProcessId;
use borough_tests::{PortSlot, RECORDS_VARIABLE, http_get, options, until};
use rustix::process::Signal;
use tokio::net::TcpListener;

const BATCH: &str = crate::example!("batch.yaml");

/// A device that accepts nothing, like a full disk.
fn full() -> Stdio {
    Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
}

/// A role whose output and log are lost.
fn role(directory: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(options!().program);
    command.args(arguments).env(RECORDS_VARIABLE, directory.join("records")).env("BOROUGH_LOG", "debug");
    command.env("BOROUGH_DIR", directory.join("dev")).env_remove("BOROUGH_GATEWAY");
    command.stdin(Stdio::null()).stdout(full()).stderr(full()).spawn().unwrap()
}

/// Ends a role as its supervisor does; it must still run.
async fn role_end(name: &str, child: Child) {
    let process = ProcessId::find(child.id());
    let child = parking_lot::Mutex::new(child);
    assert!(matches!(child.lock().try_wait(), Ok(None)), "{name} has ended by itself");
    process.unwrap().signal(Signal::TERM).unwrap();
    let ended = until(&format!("the end of {name}"), || async { child.lock().try_wait().unwrap() }).await;
    assert_eq!(ended.code(), Some(0), "{name} ended with {ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_control_role_ends_because_of_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let _guard = ProcessGuard::new(root).unwrap();
    let token = root.join("token");
    fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let ports = PortSlot::take();
    let (grpc, http) = (format!("127.0.0.1:{}", ports.grpc()), format!("127.0.0.1:{}", ports.http()));
    let store = format!("embedded:{}", root.join("store").display());
    let token = token.display().to_string();
    let common = ["--store", &store, "--cells", "alpha", "--token-file", &token, "--http-listen", &http];
    let dev = ["--nodes", "1", "--cells", "alpha", "--port", &ports.grpc().to_string()].map(str::to_owned);
    let roles: [(&str, Vec<&str>); 4] = [
        ("gateway", [&common[..], &["--listen", &grpc]].concat()),
        ("scheduler", common.to_vec()),
        ("controller", common.to_vec()),
        (
            "dev",
            dev.iter().map(String::as_str).chain(["--http-port", http.split(':').nth(1).unwrap()]).collect(),
        ),
    ];
    for (name, arguments) in roles {
        let mut child = role(root, &[&[name][..], &arguments].concat());
        until(&format!("an answer of {name}"), || async {
            http_get(&http, "/healthz", None).await.ok().filter(|(status, _)| *status == 200)
        })
        .await;
        assert!(matches!(child.try_wait(), Ok(None)), "{name} has ended by itself");
        role_end(name, child).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_agent_goes_on_where_its_log_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let guard = ProcessGuard::new(root).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = listener.local_addr().unwrap().to_string();
    let (state, records) = (root.join("state"), guard.records().to_path_buf());
    let (state, records) = (state.display().to_string(), records.display().to_string());
    let token = root.join("node-token");
    Secret::create(&token, "borough-node").unwrap();
    let token = token.display().to_string();
    let who = ["agent", "--cell", "alpha", "--node", "n1", "--gateway", &gateway, "--token-file", &token];
    let child = role(root, &[&who[..], &["--state-dir", &state, "--record-dir", &records]].concat());
    // Each connection that is aborted is a line of the log.
    for _ in 0..4 {
        let accepted = tokio::time::timeout(borough_tests::DEADLINE, listener.accept()).await;
        drop(accepted.expect("the agent tries again").unwrap());
    }
    role_end("agent", child).await;
}

/// A verb's exit code and its standard error; its answer goes to `stdout`.
fn verb(arguments: &[&str], stdout: Stdio) -> (Option<i32>, String) {
    let mut command = Command::new(options!().program);
    let child = command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn();
    let output = child.unwrap().wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_answer_that_is_lost_is_a_failure_and_a_reader_that_has_gone_is_none() {
    for arguments in [&["completion", "bash"][..], &["job", "validate", "--user", "ann", BATCH], &["--help"]]
    {
        let (code, printed) = verb(arguments, full());
        assert_eq!(code, Some(1), "{arguments:?}: {printed}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(verb(arguments, writer.into()), (Some(0), String::new()), "{arguments:?}");
    }
    let (_, printed) = verb(&["completion", "bash"], full());
    assert!(printed.contains("cannot write the answer: no space left"), "{printed}");
}
