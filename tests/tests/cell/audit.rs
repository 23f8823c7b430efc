//! The audit as an administrator uses it: who has changed what, who was refused, and whether anybody has changed that.

use std::path::Path;

use borough_client::JobRef;
use borough_tests::{Ran, TestCell, http_get, options, until};
use serde_json::Value;

use crate::access::{TokenIssuer, with_token};

const JOB: &str = "\
name: crunch
kind: batch
task:
  command: [sleep, '600']
  environment: {PASSWORD: 'hunter2-of-ann'}
  resources: {cpu: 50m, memory: 4MiB}
  grace: 300ms
";

async fn calls(cell: &TestCell, words: &[&str]) -> Vec<Value> {
    let listed = cell.borough(&[&["audit", "list", "-o", "json"], words].concat()).await.ended(0);
    listed.json().as_array().unwrap().clone()
}

fn texts(calls: &[Value], field: &str) -> Vec<String> {
    calls.iter().map(|call| call[field].as_str().unwrap().to_owned()).collect()
}

/// What `audit export` or `audit verify` has printed: the number of calls, and the last hash.
fn chain(ran: &Ran) -> (u64, String) {
    let printed = ran.json();
    let chain = printed.as_array().unwrap().first().unwrap().clone();
    (chain["calls"].as_u64().unwrap(), chain["hash"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_change_and_every_refusal_is_recorded_and_no_content_of_a_call() {
    let issuer = TokenIssuer::new();
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &issuer.file()])).await;
    let (ann, eve) = (issuer.token("ann", &[]), issuer.token("eve", &[]));
    cell.borough(&["auth", "grant", "user/ann", "--role", "runner"]).await.ended(0);
    let job = cell.file("crunch.yaml", JOB);
    with_token(&cell, &ann, &["job", "run", "--detach", &job]).await.ended(0);
    let running = JobRef::new("ann", "crunch");
    until("the task of ann runs", || async {
        let tasks = cell.client().task_list_of_job(&running).await.ok()?.0;
        tasks.iter().any(|task| task.pid.is_some()).then_some(())
    })
    .await;
    with_token(&cell, &ann, &["task", "exec", "crunch/0", "--", "true"]).await.ended(0);
    for _ in 0..3 {
        with_token(&cell, &eve, &["job", "stop", "--yes", "ann/crunch"]).await.ended(6);
    }
    with_token(&cell, &eve, &["job", "list", "--all"]).await.ended(6);
    let nobody = cell.file("nobody.token", "eyJh.eyJz.c2ln\n");
    with_token(&cell, Path::new(&nobody), &["node", "list"]).await;
    cell.borough(&["node", "cordon", "alpha-1"]).await.ended(0);

    let done = calls(&cell, &["--outcome", "done"]).await;
    let methods = texts(&done, "method");
    let newest =
        ["NodeService/CordonNode", "TaskService/Exec", "JobService/SubmitJob", "AccessService/SetGrant"];
    assert_eq!(methods, newest, "{done:?}");
    assert_eq!(
        texts(&done, "object"),
        ["node/alpha-1", "task/ann/crunch/0", "job/ann/crunch", "grant/user/ann"]
    );
    assert_eq!(texts(&done, "by"), ["operator", "user/ann", "user/ann", "operator"]);
    assert!(done.iter().all(|call| call["from"] == "127.0.0.1"), "{done:?}");
    let revisions: Vec<Value> = done.iter().map(|call| call["revisions"]["before"].clone()).collect();
    assert!(revisions[0].as_u64().unwrap() > 0 && revisions[2] == 0 && revisions[3] == 0, "{revisions:?}");

    // Three tries are one line if they came within a second; all of them count.
    let refused = calls(&cell, &["--by", "eve", "--outcome", "refused", "--object", "job/ann"]).await;
    let times: u64 = refused.iter().map(|call| call["refused"]["times"].as_u64().unwrap()).sum();
    assert_eq!(times, 3, "{refused:?}");
    assert!(refused.iter().all(|call| call["refused"]["reason"] == "ACCESS_REFUSED"), "{refused:?}");
    assert!(
        !calls(&cell, &["--by", "eve", "--method", "ListJobs"]).await.is_empty(),
        "a read without the right"
    );
    let forged = calls(&cell, &["--by", "nobody"]).await;
    assert!(texts(&forged, "method").contains(&"NodeService/ListNodes".to_owned()), "{forged:?}");
    // Who may not administer may not see it either.
    with_token(&cell, &ann, &["audit", "list"]).await.ended(6).warns("ann has no grant of administer");

    let file = cell.file("audit", "");
    cell.borough(&["audit", "export", "--to", &file]).await.ended(0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("job/ann/crunch") && !text.contains("hunter2"), "{text}");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_chain_goes_on_over_a_crash_and_a_changed_call_shows() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    let file = cell.file("audit", "");
    for verb in ["cordon", "uncordon"] {
        cell.borough(&["node", verb, "alpha-1"]).await.ended(0);
    }
    // After a crash the next controller waits for the lease of the last one, and an export says what it lacks.
    let export = async |cell: &TestCell| {
        until("an export has everything", || async {
            let exported = cell.borough(&["audit", "export", "-o", "json", "--to", &file]).await.ended(0);
            (!exported.stderr.contains("not sealed yet")).then(|| chain(&exported))
        })
        .await
    };
    let (calls, first) = export(&cell).await;
    assert_eq!(calls, 2);
    cell.borough(&["node", "cordon", "alpha-1"]).await.ended(0);
    cell.control_kill();
    cell.control_start().await;
    cell.borough(&["node", "uncordon", "alpha-1"]).await.ended(0);
    let (calls, last) = export(&cell).await;
    assert_eq!(calls, 4, "nothing is lost, and nothing comes twice");
    assert_ne!(first, last);
    let verify = async |words: &[&str]| cell.borough(&[&["audit", "verify"], words].concat()).await;
    verify(&[&file, "--hash", &first]).await.ended(0).prints(&last);
    verify(&["--hash", &first]).await.ended(0).prints(&last);
    let other = "0".repeat(64);
    verify(&["--hash", &other]).await.ended(4).warns("the chain does not have the hash");
    verify(&["--hash", "zz"]).await.ended(2).warns("accepted: 64 hexadecimal digits");

    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("UncordonNode", "CordonNode", 1)).unwrap();
    verify(&[&file]).await.ended(1).warns("the audit was changed: chunk 1");
    // An export does not go on behind what was changed.
    cell.borough(&["audit", "export", "--to", &file]).await.ended(1).warns("the audit was changed");
    cell.finish().await;
}

/// HTTP answers programs without gRPC, and its refusals are decisions like others.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn refusals_over_http_are_recorded_too() {
    let issuer = TokenIssuer::new();
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &issuer.file()])).await;
    let eve = std::fs::read_to_string(issuer.token("eve", &[])).unwrap();
    let node = std::fs::read_to_string(cell.root().join("node-token-alpha")).unwrap();
    let get = async |path: &str, token: Option<&str>| {
        http_get(&cell.http(), path, token.map(str::trim)).await.unwrap().0
    };
    assert_eq!(get("/metrics", None).await, 401);
    assert_eq!(get("/metrics", Some(&eve)).await, 403);
    assert_eq!(get("/v1/cells/alpha/names/ann/web/watch", Some(&eve)).await, 403);
    assert_eq!(get("/v1/cells/alpha/names", Some(&eve)).await, 403);
    assert_eq!(get("/v1/cells/alpha/names", Some(&node)).await, 403);
    assert_eq!(get("/secret-of-a-caller", Some("no-token-of-anybody-0123456789abcdef")).await, 401);
    // What is for everybody, and what was answered, is no refusal.
    assert_eq!(get("/healthz", None).await, 200);
    assert_eq!(get("/metrics", Some(&cell.token())).await, 200);

    let refused = calls(&cell, &["--outcome", "refused", "--since", "1h"]).await;
    let mut seen: Vec<String> = refused
        .iter()
        .map(|call| {
            format!(
                "{} {} {}",
                call["by"].as_str().unwrap(),
                call["method"].as_str().unwrap(),
                call["refused"]["reason"].as_str().unwrap()
            )
        })
        .filter(|line| line.contains(" GET "))
        .collect();
    seen.sort();
    seen.dedup();
    assert_eq!(
        seen,
        [
            "nobody GET /metrics CREDENTIAL_MISSING",
            "nobody GET other TOKEN_REFUSED",
            "node GET /v1/cells/CELL/names ",
            "user/eve GET /metrics ACCESS_REFUSED",
            "user/eve GET /v1/cells/CELL/names ACCESS_REFUSED",
            "user/eve GET /v1/cells/CELL/names/watch ACCESS_REFUSED",
        ]
    );
    assert!(refused.iter().all(|call| call["from"] == "127.0.0.1"), "{refused:?}");
    cell.finish().await;
}
