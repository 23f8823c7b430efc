//! Rollouts of several jobs by their labels, and the history of a job's versions.

use borough_tests::{TestCell, options, until};
use serde_json::{Value, json};

/// A service with a label. Each further version counts as healthy only after a minute.
fn service(name: &str, says: &str, healthy_after: &str) -> String {
    let job = json!({
        "name": name, "count": 1, "labels": {"app": "shop"}, "update": {"healthy_after": healthy_after},
        "task": {
            "command": ["sleep", "600"], "environment": {"SAYS": says},
            "resources": {"cpu": "10m", "memory": "4MiB"}, "grace": "100ms",
        },
    });
    job.to_string()
}

/// What each row of an answer has in a field.
fn fields(answer: &Value, field: &str) -> Vec<Value> {
    answer.as_array().unwrap().iter().map(|row| row[field].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rollouts_are_shown_paused_and_taken_back_by_labels() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let borough = async |words: &[&str]| cell.borough(words).await;
    for name in ["front", "back"] {
        cell.run(&format!("{name}.json"), &service(name, "one", "300ms")).await;
    }
    let none = borough(&["rollout", "status", "-l", "app=shop"]).await.ended(3);
    none.warns("no job with these labels has a rollout");
    for name in ["front", "back"] {
        let file = cell.file("next.json", &service(name, "two", "1m"));
        borough(&["job", "run", "--detach", &file]).await.ended(0);
    }
    let status = borough(&["rollout", "status", "-l", "app=shop", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&status, "name"), ["back", "front"]);
    assert_eq!(fields(&status, "state"), ["rolling", "rolling"]);
    let refused = borough(&["rollout", "pause", "-l", "app=shop"]).await.ended(2);
    refused.warns("rollouts with these labels:\n  tester/back\n  tester/front\n");
    let paused =
        borough(&["--yes", "rollout", "pause", "-l", "app=shop", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&paused, "state"), ["paused", "paused"]);
    borough(&["--yes", "rollout", "pause", "-l", "app=shop"])
        .await
        .ended(3)
        .warns("has a rollout that goes on");
    let resumed =
        borough(&["--yes", "rollout", "resume", "-l", "app=shop", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&resumed, "state"), ["rolling", "rolling"]);
    let typo = borough(&["--yes", "rollout", "pause", "-l", "ap!=shop"]).await.ended(3);
    typo.warns("no job of user tester has the label \"ap\", did you mean \"app\"?");

    // The version that is under way is no one to go back to.
    let history = borough(&["rollout", "history", "front", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&history, "version"), [2, 1]);
    assert_eq!(fields(&history, "rolled_out"), [false, true]);
    assert_eq!(fields(&history, "in_force"), [true, false]);
    assert_eq!(fields(&history, "actor"), ["user/tester", "user/tester"]);
    let table = borough(&["rollout", "history", "front"]).await.ended(0);
    table.prints("ROLLED OUT").prints("task.environment.SAYS: one -> two");

    let words = ["--yes", "rollout", "undo", "-l", "app=shop", "--detach", "-o", "json"];
    let undone = borough(&words).await.ended(0).json();
    assert_eq!(fields(&undone, "version"), [3, 3]);
    borough(&["--yes", "job", "stop", "-l", "app=shop"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rollout_names_the_task_that_ends() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = |says: &str| {
        format!(
            "name: slow\nupdate: {{healthy_after: 100ms, surge_max: 0, unavailable_max: 1}}\ntask:\n  command: [sh, -c, \
             \"trap '' TERM; while true; do sleep 0.1; done\"]\n  grace: 5s\n  environment: {{SAYS: {says}}}\n"
        )
    };
    cell.run("one.yaml", &job("one")).await;
    // The agent is called after its node, not after the id of it.
    cell.borough(&["event", "list", "--job", "slow", "-o", "wide"]).await.ended(0).prints(" node/alpha-1 ");
    let file = cell.file("two.yaml", &job("two"));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    until("the task that ends", || async {
        let status = cell.borough(&["rollout", "status", "slow"]).await.ended(0);
        status.stdout.contains(" task 0 ends on alpha-1 since ").then_some(())
    })
    .await;
    let status = cell.borough(&["rollout", "status", "slow", "--wait", "-o", "json"]).await.ended(0).json();
    assert_eq!((&status["state"], &status["leaving"]), (&json!("done"), &json!([])));
    let task = cell.borough(&["task", "status", "slow/0"]).await.ended(0);
    task.prints("SIGTERM did not end it within its grace").prints("restarts    0\n");
    cell.finish().await;
}

/// A service of two tasks that wait for an hour after each failure.
fn patient(script: &str, more: &str) -> String {
    format!(
        "name: patient\ncount: 2\nprogress_deadline: 1m\nupdate: {{healthy_after: 100ms{more}}}\n\
         restart: {{mode: always, backoff: 1h, backoff_max: 1h}}\n\
         task: {{command: [sh, -c, '{script}'], resources: {{cpu: 10m, memory: 4MiB}}, grace: 100ms}}\n"
    )
}

/// Neither the correction nor anything else waits for the pause of the version that failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_corrected_version_does_not_wait_for_the_failures_of_the_one_before() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let file = cell.file("bad.yaml", &patient("exit 4", ""));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    cell.tasks_until("patient", "two failures", |tasks| {
        tasks.len() == 2 && tasks.iter().all(|task| task.failures > 0 && task.not_before_ms > 0)
    })
    .await;
    let file = cell.file("good.yaml", &patient("exec sleep 600", ""));
    cell.borough(&["job", "run", &file]).await.ended(0).prints("2/2 healthy with version 2");
    cell.finish().await;
}

/// Its cause is gone, and the file that failed is run once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rollout_that_has_failed_is_finished_by_its_file() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = |seconds: u32| {
        let text = patient(&format!("exec sleep {seconds}"), ", on_failure: stop");
        text.replace("progress_deadline: 1m", "progress_deadline: 2s")
    };
    cell.run("one.yaml", &job(601)).await;
    cell.borough(&["node", "cordon", "alpha-1"]).await.ended(0);
    let file = cell.file("two.yaml", &job(602));
    let failed = cell.borough(&["job", "run", &file]).await;
    failed.warns("the rollout of version 2 failed: no further task became healthy within 2s");
    cell.borough(&["node", "uncordon", "alpha-1"]).await.ended(0);
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    let plan = plan.prints("the rollout of version 2 has failed").prints("the submission begins it again");
    plan.prints("replace task 1: task.command[2]\n");
    let dry = cell.borough(&["job", "run", "--dry-run", &file]).await.ended(1);
    dry.prints("rollout of version 2, which had failed, begins again; ");
    cell.borough(&["job", "run", &file]).await.ended(0).prints("2/2 healthy with version 2");
    cell.borough(&["job", "run", &file]).await.ended(0).warns("no change");
    cell.finish().await;
}
