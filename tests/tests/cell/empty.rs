//! Answers without content: each says what is the case, and what is not known is an error.

use borough_tests::{TestCell, is_up, options};

/// A job that no node takes.
const NEVER: &str = "name: never\ntask: {command: ['true'], resources: {cpu: 5000}}\n";
const SLEEPER: &str =
    "name: sleeper\ntask: {command: [sleep, '600'], resources: {cpu: 10m, memory: 4MiB}, grace: 300ms}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_empty_answer_says_why_it_is_empty() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let never = cell.file("never.yaml", NEVER);
    cell.borough(&["job", "run", "--detach", &never]).await.ended(0);
    for more in [&[][..], &["--attempt", "99"], &["--attempt", "all"]] {
        let logs = cell.borough(&[&["job", "logs", "never"], more].concat()).await.ended(0);
        let logs =
            logs.warns("tester/never: no task has run yet, so there is no output: borough why tester/never");
        assert_eq!(logs.stdout, "");
        let json = cell.borough(&[&["job", "logs", "never", "-o", "json"], more].concat()).await.ended(0);
        assert_eq!(json.warns("no task has run yet").stdout, "");
    }
    cell.run("sleeper.yaml", SLEEPER).await;
    let absent = cell.borough(&["job", "logs", "sleeper", "--attempt", "99"]).await.ended(3);
    let absent = absent.warns("no task of job tester/sleeper has an attempt 99; known: 1");
    absent.warns("hint: borough job logs tester/sleeper --attempt all");

    // A job without endpoints is not a job that nobody knows.
    cell.borough(&["name", "list", "never"]).await.ended(0).warns("no endpoints");
    cell.borough(&["name", "list", "nix"])
        .await
        .ended(3)
        .warns("no job \"nix\" of user tester in cell alpha");
    cell.borough(&["event", "list", "--job", "nix"])
        .await
        .ended(3)
        .warns("no job \"nix\" of user tester in cell alpha");
    cell.borough(&["event", "list", "--node", "nix"]).await.ended(3).warns("no node \"nix\" in cell alpha");
    for verb in [&["name", "list", "nix"][..], &["event", "list", "--job", "nix"]] {
        let json = cell.borough(&[verb, &["-o", "json"]].concat()).await.ended(3);
        assert_eq!(json.stdout, "", "{verb:?}");
    }

    // What has ended, and is purged, has events for a while.
    cell.tasks_until("sleeper", "up", |tasks| is_up(tasks, 1)).await;
    cell.borough(&["job", "stop", "sleeper"]).await.ended(0);
    cell.borough(&["job", "purge", "sleeper", "--yes"]).await.ended(0);
    cell.borough(&["event", "list", "--job", "sleeper"]).await.ended(0).prints("tester/sleeper");
    cell.borough(&["name", "list", "sleeper"]).await.ended(3);
    cell.borough(&["job", "stop", "never"]).await.ended(0);
    cell.finish().await;
}
