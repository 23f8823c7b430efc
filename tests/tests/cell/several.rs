//! Verbs with several names: all are checked before any is changed, and each that fails is named.

use borough_tests::{TestCell, is_running, options};
use serde_json::{Value, json};

/// A job that sleeps, with a label.
fn sleeper(name: &str, count: u32, app: &str) -> String {
    let job = json!({
        "name": name, "count": count, "labels": {"app": app},
        "task": {
            "command": ["sleep", "600"], "resources": {"cpu": "10m", "memory": "4MiB"}, "grace": "100ms",
        },
    });
    job.to_string()
}

/// What each row of an answer has in a field.
fn fields(answer: &Value, field: &str) -> Vec<Value> {
    answer.as_array().unwrap().iter().map(|row| row[field].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn jobs_and_tasks_are_changed_by_several_names_or_not_at_all() {
    let cell = TestCell::start(options!().nodes(1)).await;
    for (name, count) in [("one", 1), ("two", 1), ("web", 2)] {
        cell.run(&format!("{name}.json"), &sleeper(name, count, "shop")).await;
    }
    let missing = cell.borough(&["job", "stop", "one", "nope", "two", "nix"]).await.ended(3);
    let missing = missing.warns("error: 2 of 4 jobs: not accepted; nothing was changed\n");
    missing.warns("tester/nope").warns("tester/nix");
    let states = cell.borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&states, "state"), ["running", "running", "running"]);

    let attempts = async |cell: &TestCell| {
        cell.tasks("web").await.iter().map(|task| task.incarnation).collect::<Vec<_>>()
    };
    cell.borough(&["task", "stop", "web/0", "web/7"]).await.ended(3).warns("no task tester/web/7");
    assert_eq!(attempts(&cell).await, [1, 1]);
    let stopped = cell.borough(&["task", "stop", "web/0", "web/1", "web/0", "-o", "json"]).await.ended(0);
    assert_eq!(fields(&stopped.json(), "attempt"), [2, 2]);
    cell.borough(&["job", "restart", "one", "two", "--from", "1"])
        .await
        .ended(2)
        .warns("--from is for one job");
    let restarted = cell.borough(&["job", "restart", "one", "two", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&restarted, "restarted"), [json!([0]), json!([0])]);

    let stopped = cell.borough(&["job", "stop", "one", "two", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&stopped, "state"), ["stopped", "stopped"]);
    cell.borough(&["job", "purge", "one", "web", "--yes"]).await.ended(4).warns("job tester/web is not over");
    cell.borough(&["job", "purge", "one", "two"])
        .await
        .ended(2)
        .warns("cannot ask whether to forget 2 ended jobs");
    let purged = cell.borough(&["job", "purge", "one", "two", "--yes", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&purged, "name"), ["one", "two"]);

    // With labels: what has ended, and nothing else.
    cell.run("last.json", &sleeper("last", 1, "shop")).await;
    cell.borough(&["job", "stop", "last"]).await.ended(0);
    let refused = cell.borough(&["job", "purge", "-l", "app=shop"]).await.ended(2);
    refused.warns("job with these labels:\n  tester/last\n");
    let purged =
        cell.borough(&["job", "purge", "-l", "app=shop", "--yes", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&purged, "name"), ["last"]);
    let none = cell.borough(&["job", "purge", "-l", "ap!=shop", "--yes"]).await.ended(3);
    none.warns("no job of user tester has the label \"ap\", did you mean \"app\"?");
    cell.tasks_until("web", "it was spared", |tasks| tasks.iter().all(is_running)).await;
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_are_changed_by_several_names_or_not_at_all() {
    let cell = TestCell::start(options!().nodes(3)).await;
    cell.borough(&["node", "cordon", "alpha-1", "nope"]).await.ended(3).warns("nope");
    let nodes = cell.borough(&["node", "list", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&nodes, "schedulable"), [true, true, true]);
    let cordoned =
        cell.borough(&["node", "cordon", "alpha-1", "alpha-2", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&cordoned, "schedulable"), [false, false]);
    let drained = cell.borough(&["node", "drain", "alpha-1", "alpha-2", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&drained, "drained"), [true, true]);
    let back = cell.borough(&["node", "uncordon", "alpha-1", "alpha-2", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&back, "schedulable"), [true, true]);
    let refused = cell.borough(&["node", "remove", "alpha-1", "alpha-2", "--yes"]).await.ended(4);
    refused.warns("2 of 2 nodes: not accepted; nothing was changed").warns("node alpha-1 takes tasks");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn labels_and_taints_are_set_by_labels_after_a_yes() {
    let cell = TestCell::start(options!().nodes(2)).await;
    for (name, app) in [("front", "shop"), ("back", "shop"), ("mail", "post")] {
        cell.run(&format!("{name}.json"), &sleeper(name, 1, app)).await;
    }
    let labelled = ["job", "label", "-l", "app=shop", "tier=db", "team-"];
    let refused = cell.borough(&labelled).await.ended(2);
    refused
        .warns("jobs with these labels:\n  tester/back\n  tester/front\n")
        .warns("change labels of 2 jobs");
    cell.borough(&[&["--yes"], &labelled[..]].concat()).await.ended(0);
    let jobs = cell.borough(&["job", "list", "-l", "tier=db", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&jobs, "name"), ["back", "front"]);
    cell.borough(&["job", "label", "-l", "app=shop", "web", "a=b"])
        .await
        .ended(2)
        .warns("--label and JOB exclude");
    cell.borough(&["job", "label", "a=b", "c=d"]).await.ended(2).warns("JOB is missing");
    cell.borough(&["--yes", "job", "label", "-l", "ap=shop", "a=b"])
        .await
        .ended(3)
        .warns("did you mean \"app\"?");

    let words = ["--yes", "node", "label", "-l", "node.name!=alpha-2", "rack=r7", "-o", "json"];
    let nodes = cell.borough(&words).await.ended(0).json();
    assert_eq!(nodes.as_array().unwrap().len(), 1);
    assert_eq!(nodes[0]["labels"]["rack"], "r7");
    let words = ["--yes", "node", "taint", "-l", "rack=r7", "old:no_schedule", "-o", "json"];
    let nodes = cell.borough(&words).await.ended(0).json();
    assert_eq!((&nodes[0]["name"], &nodes[0]["taints"][0]["key"]), (&json!("alpha-1"), &json!("old")));
    cell.borough(&["node", "taint", "old:no_schedule"]).await.ended(2);
    // A bare key, which looks like the name of a node.
    let words = ["--yes", "node", "untaint", "-l", "rack=r7", "old", "-o", "json"];
    let nodes = cell.borough(&words).await.ended(0).json();
    assert_eq!((&nodes[0]["name"], &nodes[0]["taints"]), (&json!("alpha-1"), &json!([])));
    cell.borough(&["node", "untaint", "alpha-1"]).await.ended(2);
    cell.borough(&["--yes", "job", "stop", "-l", "app!=none"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_changes_nothing_is_shown_of_jobs_with_labels() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let serving = |name: &str, app: &str| {
        let job = json!({
            "name": name, "labels": {"app": app}, "priority": 200,
            "task": {
                "command": ["sh", "-c", format!("echo from {name}; exec sleep 600")], "ports": ["http"],
                "resources": {"cpu": "10m", "memory": "4MiB"}, "grace": "100ms",
            },
        });
        job.to_string()
    };
    for (name, app) in [("front", "shop"), ("back", "shop"), ("mail", "post")] {
        cell.run(&format!("{name}.json"), &serving(name, app)).await;
    }
    let big = json!({
        "name": "big", "labels": {"app": "shop"},
        "task": {"command": ["true"], "resources": {"cpu": "9000", "memory": "4MiB"}},
    });
    let big = cell.file("big.json", &big.to_string());
    cell.borough(&["job", "run", "--detach", &big]).await.ended(0);

    let names = cell.borough(&["name", "list", "-l", "app=shop", "-o", "json"]).await.ended(0).json();
    let mut jobs = fields(&names, "job");
    jobs.sort_by_key(ToString::to_string);
    assert_eq!(jobs, ["back", "front"]);
    let not = cell.borough(&["name", "list", "-l", "app!=shop", "--limit", "1", "-o", "json"]).await.ended(0);
    assert_eq!(fields(&not.json(), "job"), ["mail"]);
    cell.borough(&["name", "list", "-l", "ap=shop"])
        .await
        .ended(0)
        .warns("no job of user tester has the label \"ap\", did you mean \"app\"?");

    let why = cell.borough(&["why", "-l", "app=shop"]).await.ended(0);
    why.prints("tester/big:\n  task 0: ").prints("tester/front: every task is placed");
    let why = cell.borough(&["why", "big", "mail", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&why, "job"), ["tester/big"]);
    cell.borough(&["why", "big", "nope"]).await.ended(3).warns("nope");
    cell.borough(&["why"]).await.ended(2);
    cell.borough(&["why", "big", "-l", "app=shop"]).await.ended(2);

    let logs = cell.borough(&["job", "logs", "-l", "app=shop"]).await.ended(0);
    let logs = logs.prints("front/0 | from front\n").prints("back/0 | from back\n");
    assert!(!logs.stdout.contains("mail"), "{}", logs.stdout);
    let logs = cell.borough(&["job", "logs", "mail", "back", "-o", "json"]).await.ended(0);
    let texts: Vec<Value> = logs
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].clone())
        .collect();
    assert_eq!(texts, ["from mail", "from back"]);
    cell.borough(&["job", "logs", "mail", "nope"]).await.ended(3);
    // Followed together, until all of them are over.
    let (followed, ()) = tokio::join!(cell.borough(&["job", "logs", "-f", "front", "back", "mail"]), async {
        cell.borough(&["job", "stop", "front", "back", "mail"]).await.ended(0);
    });
    let followed = followed.ended(0);
    followed.prints("from front").prints("from back").prints("from mail");
    cell.borough(&["job", "stop", "big"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn labels_that_a_changed_file_changes_are_in_the_event() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.json", &sleeper("web", 1, "shop")).await;
    cell.run("web.json", &sleeper("web", 1, "post")).await;
    let events = cell.borough(&["event", "list", "--job", "web"]).await.ended(0);
    events.prints("labels: app: shop -> post;");
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}
