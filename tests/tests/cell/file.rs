//! Invalid job files, from the file to the exit code: a clear line, and no effect.

use borough_client::JobFilter;
use borough_tests::{TestCell, options};

/// The error, the file, and the expected messages.
const WRONG: [(&str, &str, &[&str]); 12] = [
    ("misspelt", "name: web\ntask:\n  comand: [sleep, 1]\n", &["misspelt.yaml:3", "comand", "command"]),
    ("unit", "name: web\ntask:\n  command: [a]\n  resources: {memory: 64MX}\n", &["unit.yaml:4", "64MX"]),
    ("negative", "name: web\ntask:\n  command: [a]\n  resources: {cpu: -1}\n", &["negative.yaml:4", "-1"]),
    (
        "overflow",
        "name: web\ntask:\n  command: [a]\n  resources: {memory: 99999999999999TiB}\n",
        &["overflow.yaml:4"],
    ),
    ("infinite", "name: web\ntask:\n  command: [a]\n  resources: {cpu: .inf}\n", &["infinite.yaml:4"]),
    ("many", "name: web\ncount: 1000000000\ntask: {command: [a]}\n", &["count", "1000000000"]),
    ("name", "name: Web_1\ntask: {command: [a]}\n", &["name.yaml:1", "Web_1"]),
    ("twice", "name: web\nname: web\ntask: {command: [a]}\n", &["twice.yaml:2", "name"]),
    ("ports", "name: web\ntask: {command: [a], ports: [http, http]}\n", &["http"]),
    ("reserved", "name: web\ntask: {command: [a], ports: [{name: http, number: 80}]}\n", &["80"]),
    ("nothing", "", &["nothing.yaml"]),
    ("grace", "name: web\ntask: {command: [a], grace: 5}\n", &["grace", "unit"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_invalid_file_is_reported_and_changes_nothing() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let mut silent = Vec::new();
    for (what, text, printed) in WRONG {
        let file = cell.file(&format!("{what}.yaml"), text);
        let ran = cell.borough(&["job", "run", "--detach", &file]).await;
        let explained = printed.iter().all(|part| ran.stderr.contains(part));
        if ran.code != Some(2) || !explained {
            silent.push(format!(
                "{what}: {:?} without all of {printed:?}\n{}{}",
                ran.code, ran.stdout, ran.stderr
            ));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    let looping = cell.file("loop.jsonnet", "local f(x) = f(x + 1); f(0)\n");
    cell.borough(&["job", "run", &looping]).await.ended(2);
    assert!(
        cell.client().job_list(&JobFilter { ended: true, ..JobFilter::default() }).await.unwrap().is_empty()
    );

    // A count of 0 is legal. A missing job, a missing gateway and a wrong token have codes of their own.
    cell.run("none.yaml", "name: none\ncount: 0\ntask: {command: [a]}\n").await.prints("0/0 healthy");
    cell.borough(&["job", "stop", "none"]).await.ended(0);
    cell.borough(&["job", "status", "other"]).await.ended(3);
    let gone = cell.borough(&["--gateway", "127.0.0.1:9", "cell", "list"]).await.ended(5);
    gone.warns("no gateway answers at 127.0.0.1:9");
    let token = cell.file("token", "0123456789abcdef0123456789abcdef");
    cell.borough(&["--token-file", &token, "node", "list"]).await.ended(6);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_file_of_each_kind_is_valid_and_can_be_planned() {
    let cell = TestCell::start(options!().cards(&["gpu=GPU-1,model=A100,memory=40GiB"])).await;
    for kind in ["web", "batch", "gang", "gpu", "daemon"] {
        let file = cell.root().join(format!("{kind}.yaml")).display().to_string();
        cell.borough(&["job", "init", "--kind", kind, &file])
            .await
            .ended(0)
            .warns("run it with: borough job run");
        cell.borough(&["job", "validate", &file]).await.ended(0).prints("fine");
        let plan = cell.borough(&["job", "plan", &file, "-o", "json"]).await.ended(1).json();
        assert_eq!(plan["refusal"], serde_json::Value::Null, "{kind}: {plan}");
        assert_eq!(plan["unplaced"], serde_json::json!([]), "{kind}: {plan}");
    }
    let help = cell.borough(&["explain", "task.health.http.path", "-o", "json"]).await.ended(0).json();
    assert_eq!(help["default"], "/");
    cell.borough(&["explain", "task.helth"]).await.ended(2).warns("did you mean \"task.health\"?");
    cell.finish().await;
}
