//! What a person names: a task in place of a job, a job that is not there, a list without rows, and a single task.

use borough_client::LabelChange;
use borough_tests::{TestCell, is_running, options, until};

const JOB: &str = "name: web\ncount: 2\nlabels: {team: shop}\ntask: {command: [sleep, '600'], ports: [http], \
    resources: {cpu: 10m, memory: 4MiB}, grace: 100ms}\n";

/// A command line, and what it says on standard error.
type Said<'s> = (&'s [&'s str], i32, &'s [&'s str]);

async fn say(cell: &TestCell, lines: &[Said<'_>]) {
    let mut wrong = Vec::new();
    for (words, code, texts) in lines {
        let ran = cell.borough(words).await;
        let lacks: Vec<&&str> = texts.iter().filter(|text| !ran.stderr.contains(**text)).collect();
        if ran.code != Some(*code) || !lacks.is_empty() {
            wrong.push(format!("{words:?}: {:?}, expected {code} and {lacks:?}\n{}", ran.code, ran.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wrong_name_is_answered_with_the_right_command() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.borough(&["job", "list"])
        .await
        .ended(0)
        .warns("no jobs of user tester in cell alpha\nhint: of every user, if you may see them: borough job list --all");
    cell.borough(&["task", "list", "--all"]).await.ended(0).warns("no tasks of any user in cell alpha");
    cell.run("web.yaml", JOB).await;
    let is_task = "\"web/0\" is a task; its job is web";
    let no_job = "no job \"wbe\" of user tester in cell alpha, did you mean \"web\"?\nhint: borough job list";
    say(
        &cell,
        &[
            (&["job", "status", "web/0"], 2, &[is_task, "hint: borough task status web/0\n"]),
            (&["job", "logs", "web/0"], 2, &[is_task, "hint: borough task logs web/0\n"]),
            (
                &["job", "stop", "tester/web/0"],
                2,
                &["its job is tester/web", "hint: borough task stop tester/web/0\n"],
            ),
            (&["job", "restart", "web/0"], 2, &[is_task, "hint: borough task restart web/0\n"]),
            (&["job", "scale", "web/0", "3"], 2, &[is_task, "hint: borough job scale web 3\n"]),
            (&["name", "list", "web/0"], 2, &[is_task, "hint: borough name list web\n"]),
            (&["event", "list", "--job", "web/0"], 2, &[is_task, "hint: borough event list --job web\n"]),
            (&["event", "list", "--job=web/0"], 2, &[is_task, "hint: borough event list --job=web\n"]),
            (&["job", "status", "wbe"], 3, &[no_job]),
            (&["job", "stop", "wbe"], 3, &[no_job]),
            (&["job", "edit", "wbe", "--yes"], 3, &[no_job]),
            (&["task", "logs", "wbe/0"], 3, &[no_job]),
            (&["task", "exec", "wbe/0", "--", "true"], 255, &[no_job]),
            (&["why", "wbe"], 3, &[no_job]),
            (
                &["job", "status", "ann/web"],
                3,
                &[
                    "no job \"web\" of user ann in cell alpha, did you mean \"tester/web\"?",
                    "hint: borough --user ann job list",
                ],
            ),
            (
                &["job", "status", "nowhere-near"],
                3,
                &["no job \"nowhere-near\" of user tester in cell alpha\nhint: borough job list"],
            ),
            (
                &["node", "status", "alpha-9"],
                3,
                &["no node \"alpha-9\" in cell alpha, did you mean \"alpha-1\"?\nhint: borough node list"],
            ),
            (&["node", "drain", "beta-77", "--yes"], 3, &["no node \"beta-77\" in cell alpha\n"]),
            (&["task", "list", "--node", "alpha-2"], 3, &["no node \"alpha-2\""]),
            (&["task", "status", "web/7"], 3, &["no task tester/web/7"]),
            (&["job", "list", "--label", "team=none"], 0, &["no jobs like this of user tester"]),
            (&["name", "list", "--user", "ann"], 0, &["no endpoints of user ann in cell alpha"]),
            (&["task", "status", "web/0", "--state", "running"], 2, &["tester/web/0 is one task"]),
            (&["explain", ""], 2, &["accepted: a field such as task.grace"]),
        ],
    )
    .await;
    assert!(cell.borough(&["job", "init", "-"]).await.ended(0).stdout.contains("\nname: hello "));
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn one_task_is_shown_in_full() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", JOB).await;
    let task = cell.tasks("web").await.remove(1);
    let shown = cell.borough(&["task", "status", "web/1"]).await.ended(0);
    for text in [
        "task      ",
        "tester/web/1 in cell alpha",
        "running",
        "healthy",
        "alpha-1 at 127.0.0.1",
        "http:",
        "attempt",
    ] {
        assert!(shown.stdout.contains(text), "{text:?} is not in {}", shown.stdout);
    }
    let json = cell.borough(&["task", "status", "tester/web/1", "-o", "json"]).await.ended(0).json();
    assert_eq!((json["cell"].as_str(), json["task"]["index"].as_u64()), (Some("alpha"), Some(1)));
    assert_eq!(json["task"]["pid"].as_u64(), task.pid.map(u64::from));
    assert_eq!(json["task"]["charge"]["cpu_millis"], 10);
    cell.borough(&["task", "status", "web/1", "-o", "yaml"]).await.ended(0).prints("state: running");

    // A task that waits says why, and a watch shows when it does not any more.
    cell.borough(&["node", "cordon", "alpha-1"]).await.ended(0);
    let watched = cell.root().join("watched");
    let mut watch = cell.command(&["task", "status", "web/1", "--watch", "-o", "json"]);
    let mut watch = watch.stdout(std::fs::File::create(&watched).unwrap()).spawn().unwrap();
    let shows = async |wanted: &str| {
        until(&format!("the watch shows {wanted}"), || async {
            let text = std::fs::read_to_string(&watched).unwrap();
            let last = serde_json::from_str::<serde_json::Value>(text.lines().last()?).ok()?;
            (last["task"]["state"] == wanted).then_some(())
        })
        .await;
    };
    shows("running").await;
    cell.borough(&["task", "restart", "web/1"]).await.ended(0);
    shows("pending").await;
    let waits = cell.borough(&["task", "status", "web/1"]).await.ended(0);
    waits
        .prints("pending\n")
        .prints("refused by: cordoned")
        .prints("last exit")
        .prints("(attempt 1 on alpha-1, ");
    cell.borough(&["node", "uncordon", "alpha-1"]).await.ended(0);
    shows("running").await;
    watch.kill().await.unwrap();
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_are_listed_by_the_words_of_their_column() {
    let cell = TestCell::start(options!().nodes(3)).await;
    cell.borough(&["node", "cordon", "alpha-1"]).await.ended(0).prints("alpha-1: ready, cordoned");
    cell.borough(&["node", "drain", "alpha-2", "--yes"]).await.ended(0);
    cell.borough(&["node", "taint", "alpha-3", "old:no_schedule"]).await.ended(0);
    let listed = async |states: &str| -> Vec<String> {
        let json = cell.borough(&["node", "list", "--state", states, "-o", "json"]).await.ended(0).json();
        let names = json.as_array().unwrap().iter();
        names.map(|node| node["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed("cordoned").await, ["alpha-1"]);
    assert_eq!(listed("drained").await, ["alpha-2"]);
    assert!(listed("draining").await.is_empty());
    assert_eq!(listed("cordoned,tainted").await, ["alpha-1", "alpha-3"]);
    assert_eq!(listed("ready, cordoned").await, ["alpha-1", "alpha-2", "alpha-3"]);
    assert!(listed("not connected").await.is_empty());
    let refused = cell.borough(&["node", "list", "--state", "cordonned"]).await.ended(2);
    refused.warns("accepted: ready, recovering, lost, draining, drained, cordoned, tainted");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_change_is_shown_in_the_words_of_the_job_file() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", JOB).await;
    let file = |text: &str| cell.file("next.yaml", text);
    let labelled = JOB.replace("shop", "front").replace("count: 2", "count: 1");
    let plan = cell.borough(&["job", "plan", &file(&labelled)]).await.ended(1);
    plan.prints("~ count: 2 -> 1\n").prints("~ labels.team: shop -> front\n");
    cell.borough(&["job", "run", &file(&labelled)]).await.ended(0);
    cell.borough(&["job", "scale", "web", "2"]).await.ended(0);
    let other =
        labelled.replace("100ms", "10s").replace("count: 1", "count: 2") + "overrides: {1: {weight: 2}}\n";
    let plan = cell.borough(&["job", "plan", &file(&other)]).await.ended(1);
    plan.clone().prints("~ task.grace: 100ms -> 10s\n").prints("+ overrides: {1: {weight: 2}}\n");
    assert!(!plan.stdout.contains("_ms"), "{}", plan.stdout);
    let json = cell.borough(&["job", "plan", &file(&other), "-o", "json"]).await.ended(1).json();
    assert_eq!(json["file_diff"][0]["path"], "task.grace");
    assert_eq!(json["diff"][0]["path"], "task.grace_ms", "a program reads what it always has");

    // The history says what each version changed, also from one job of the name to the next.
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.borough(&["job", "run", &file(&other)]).await.ended(0);
    let history = cell.borough(&["job", "history", "web"]).await.ended(0);
    history
        .clone()
        .prints("  ~ task.grace: 100ms -> 10s\n")
        .prints("  + overrides: {1: {weight: 2}}\n")
        .prints("  ~ labels.team: shop -> front\n");
    let json = cell.borough(&["job", "history", "web", "-o", "json"]).await.ended(0).json();
    let paths = |version: usize| -> Vec<&str> {
        let changes = json[version]["changes"].as_array().unwrap().iter();
        changes.map(|change| change["path"].as_str().unwrap()).collect()
    };
    assert_eq!(paths(0), ["task.grace", "overrides"], "the job was scaled to the same count: {history:?}");
    assert_eq!(paths(1), ["labels.team", "count"], "the file changed both: {history:?}");
    assert!(json[2]["changes"].is_null());
    let change = &json[0]["changes"][0];
    assert_eq!((&change["old"], &change["new"]), (&"100ms".into(), &"10s".into()));
    // One of them is a file: that of the newest job that has the version.
    let first = cell.borough(&["job", "history", "web", "--version", "1"]).await.ended(0);
    assert!(first.stdout.starts_with("# Version 1 of job tester/web, j"), "{}", first.stdout);
    first.clone().prints("grace: 10s\n");
    cell.borough(&["job", "run", &file(&first.stdout)]).await.ended(0).warns("no change");
    let none = cell.borough(&["job", "history", "web", "--version", "9"]).await.ended(3);
    none.warns("job tester/web has no version 9; accepted: ");
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

/// A job that gets other labels all the time keeps its newest versions, and those that its tasks run.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn old_versions_of_a_job_go_and_its_tasks_run_on() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", JOB).await;
    let (client, web) = (cell.client(), cell.job("web"));
    for number in 0..60 {
        let set = [("release".to_owned(), number.to_string())].into();
        client.job_label(&web, LabelChange { set, remove: Vec::new() }).await.unwrap();
    }
    let kept = until("old versions are gone", || async {
        let history = cell.borough(&["job", "history", "web", "-o", "json"]).await.ended(0).json();
        let versions = history.as_array().unwrap().iter().map(|version| version["version"].as_u64().unwrap());
        Some(versions.collect::<Vec<u64>>()).filter(|versions| versions.len() <= 40)
    })
    .await;
    assert_eq!(kept.last(), Some(&1), "its tasks run it");
    assert!(kept.starts_with(&(42..=61).rev().collect::<Vec<u64>>()), "{kept:?}");
    let gone = cell.borough(&["job", "history", "web", "--version", "3"]).await.ended(3);
    gone.warns("job tester/web has no version 3; accepted: ");
    let events = cell.borough(&["event", "list", "--limit", "1000"]).await.ended(0);
    assert_eq!(
        events.stdout.matches("labels: release").count(),
        60,
        "one for each change: {}",
        events.stdout
    );
    cell.borough(&["task", "restart", "web/0"]).await.ended(0);
    until("one task has the newest version", || async {
        let tasks = cell.tasks("web").await;
        let versions: Vec<u32> = tasks.iter().map(|task| task.spec_version).collect();
        (versions == [61, 1] && tasks.iter().all(is_running)).then_some(())
    })
    .await;
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_id_in_place_of_a_name_is_answered_with_its_job_or_that_none_is_known() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", JOB).await;
    let id = cell.borough(&["job", "status", "web", "-o", "json"]).await.json();
    let id = id["job"]["id"].as_str().unwrap().to_owned();
    let named =
        "this is the id of job tester/web, and a verb takes its name\nhint: borough job status tester/web\n";
    let unknown = "and no job has this id: it never existed, or its record has expired\nhint: borough job list --ended\n";
    say(
        &cell,
        &[
            (&["job", "status", &id], 3, &[named]),
            (&["why", &id], 3, &[named]),
            (&["job", "status", "j0123456789abcdef"], 3, &[unknown]),
            (&["why", "j0123456789abcdef"], 3, &[unknown]),
            (&["job", "stop", "j0123456789abcdef"], 3, &[unknown]),
            (
                &["why", "j0123456789abcde"],
                3,
                &["no job \"j0123456789abcde\" of user tester in cell alpha\n"],
            ),
        ],
    )
    .await;
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    // An ended job has its record for a while.
    say(&cell, &[(&["why", &id], 3, &[named])]).await;
    cell.finish().await;
}
