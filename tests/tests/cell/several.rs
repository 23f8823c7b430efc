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
    let missing = missing.warns("error: 2 of 4 jobs: not ready; nothing was changed\n");
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
    refused.warns("2 of 2 nodes: not ready; nothing was changed").warns("node alpha-1 takes tasks");
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
    cell.borough(&["--yes", "job", "stop", "-l", "app!=none"]).await.ended(0);
    cell.finish().await;
}
