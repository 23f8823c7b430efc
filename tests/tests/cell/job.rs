//! Jobs: the examples, and the order in which a stop does its work.

use borough_client::{CellItem, JobFilter};
use borough_proto::v1::watch_response::Change;
use borough_proto::v1::{Job, PageRequest, TaskState, WatchFilter};
use borough_tests::{TestCell, Watcher, options, until};
use futures::StreamExt as _;
use serde_json::json;

use crate::example;

/// Writes when it gets SIGTERM, and does not end.
const STUBBORN: &str =
    r#"trap 'echo "term $(date +%s%3N)"' TERM; echo ready; while true; do sleep 0.05; done"#;

fn stubborn() -> serde_json::Value {
    json!({
        "name": "stubborn",
        "task": {
            "command": ["sh", "-c", STUBBORN], "ports": ["http"], "grace": "900ms",
            "resources": {"cpu": "1500m"},
        },
        "drain_delay": "700ms",
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stop_withdraws_waits_asks_waits_and_kills_in_this_order() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("stubborn.json", &stubborn().to_string()).await;
    let watcher = Watcher::start(cell.client(), "stubborn").await;
    let endpoint = watcher.until_published(1).await.remove(&0).unwrap();
    let port = endpoint.ports[0].number;
    let logs = |what: &'static str| {
        let cell = &cell;
        async move {
            until(what, || async {
                let ran = cell.borough(&["task", "logs", "stubborn/0"]).await;
                ran.stdout.contains(what).then_some(ran.stdout)
            })
            .await
        }
    };
    logs("ready").await;
    let (_, cursor) = cell.client().task_list_of_job(&cell.job("stubborn")).await.unwrap();
    cell.borough(&["job", "stop", "--detach", "stubborn"]).await.ended(0);

    // It needs the same port and more than is free besides: it waits for the end of the other.
    let heir = json!({
        "name": "heir",
        "task": {"command": ["sleep", "600"], "ports": [{"name": "http", "number": port}], "resources": {"cpu": "1500m"}, "grace": "100ms"},
    });
    cell.run("heir.json", &heir.to_string()).await;

    let filter = WatchFilter { tasks: true, endpoints: true, ..WatchFilter::default() };
    let mut changes = cell.client().watch_cell(filter, cursor);
    let mut order: Vec<(String, i64)> = Vec::new();
    while !order.iter().any(|(what, _)| what == "heir Running") {
        let Some(Ok(CellItem::Change(change))) = changes.next().await else { continue };
        let at_ms = change.at_ms;
        match change.change {
            Some(Change::EndpointWithdrawn(gone)) if gone.job == "stubborn" => {
                order.push(("withdrawn".to_owned(), at_ms))
            }
            Some(Change::Task(task)) => order.push((format!("{} {:?}", task.job, task.state()), at_ms)),
            _ => {}
        }
    }
    let place = |what: &str| {
        let found = order.iter().position(|(known, _)| known == what);
        found.unwrap_or_else(|| panic!("no {what} in {order:?}"))
    };
    assert!(place("withdrawn") <= place("stubborn Stopping") + 1, "{order:?}");
    assert_eq!(
        order[place("withdrawn")].1,
        order[place("stubborn Stopping")].1,
        "one transaction: {order:?}"
    );
    assert!(place("stubborn Dead") < place("heir Assigned"), "given again before its exit: {order:?}");
    assert!(!watcher.published().contains_key(&0));
    watcher.assert_sound();

    // Readable after the end, and in this order by the task's own clock.
    let printed = logs("term").await;
    let term_ms: i64 = printed.trim().rsplit(' ').next().unwrap().parse().unwrap();
    let withdrawn_ms = order[place("withdrawn")].1;
    assert!(term_ms - withdrawn_ms >= 700, "SIGTERM {} ms after the withdrawal", term_ms - withdrawn_ms);
    let task = cell.tasks("stubborn").await.remove(0);
    let exit = task.exit.unwrap();
    assert_eq!(exit.signal, Some(9), "{exit:?}");
    // The task writes when its trap runs, which on a busy machine is later than the signal: only the whole duration has
    // a minimum.
    assert!(exit.at_ms > term_ms, "SIGKILL {} ms before SIGTERM arrived", term_ms - exit.at_ms);
    let whole_ms = exit.at_ms - withdrawn_ms;
    assert!(whole_ms >= 700 + 900, "SIGKILL {whole_ms} ms after the withdrawal");
    let heir = cell.tasks("heir").await.remove(0);
    assert_eq!(heir.ports[0].number, port);
    assert!(heir.started_ms.unwrap() >= exit.at_ms);
    cell.borough(&["job", "stop", "heir"]).await.ended(0);
    cell.finish().await;
}

/// Of the four tasks of `web` the first one runs.
async fn listed_by_state_and_page(cell: &TestCell) {
    let indexes = async |more: &[&str]| {
        let words = [&["job", "status", "web", "-o", "json"], more].concat();
        let shown = cell.borough(&words).await.ended(0).json();
        let tasks = shown["tasks"].as_array().unwrap().iter();
        let indexes: Vec<u64> = tasks.map(|task| task["index"].as_u64().unwrap()).collect();
        (indexes, shown["next_page"].as_str().map(str::to_owned))
    };
    assert_eq!(indexes(&[]).await, (vec![0], None), "what a smaller count left behind is not shown unasked");
    assert_eq!(indexes(&["--state", "running"]).await, (vec![0], None));
    assert_eq!(indexes(&["--state", "running,dead", "--limit", "9"]).await, (vec![0, 1, 2, 3], None));
    let (first, page) = indexes(&["--state", "dead", "--limit", "2"]).await;
    assert_eq!(first, [1, 2]);
    let page = page.expect("a page behind");
    assert_eq!(indexes(&["--state", "dead", "--limit", "2", "--page", &page]).await, (vec![3], None));
    cell.borough(&["job", "status", "web", "--state", "running,dead", "--limit", "3"])
        .await
        .ended(0)
        .warns("repeat the command with --page");
    // Only the tasks of one job have states and pages.
    cell.borough(&["job", "status", "--state", "dead"]).await.ended(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wait_that_runs_out_says_what_it_knew() {
    let cell = TestCell::start_bare(options!().nodes(1)).await;
    let file = cell.file("vast.yaml", "name: vast\ntask: {command: ['true'], resources: {cpu: 5000}}\n");
    for timeout in ["1ms", "3s"] {
        let ran = cell.borough(&["job", "run", "--timeout", timeout, &file]).await.ended(1);
        let error = ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap().to_owned();
        assert!(error.starts_with("error: tester/vast: ") && error.ends_with("; the job goes on"), "{error}");
        assert!(error.contains(timeout), "{error}");
    }
    cell.borough(&["job", "stop", "vast"]).await.ended(0);
    // A stop goes on, and not the job.
    cell.run(
        "slow.yaml",
        "name: slow\ntask: {command: [sh, -c, 'trap : TERM; while :; do sleep 0.1; done'], grace: 5s}\n",
    )
    .await;
    let stopping = cell.borough(&["job", "stop", "slow", "--timeout", "1s"]).await.ended(1);
    assert!(stopping.stderr.contains("after 1s; the stop goes on"), "{}", stopping.stderr);
    cell.borough(&["job", "stop", "slow"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_smaller_count_is_waited_for() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let text = "name: web\ncount: 4\ndrain_delay: 1s\ntask: {command: [sleep, 600], ports: [http], resources: {cpu: 50m}}\n";
    cell.run("web.yaml", text).await;
    let alive = || async {
        let tasks = cell.tasks("web").await;
        tasks.into_iter().filter(|task| task.state() != TaskState::Dead).count()
    };
    cell.borough(&["job", "scale", "web", "1"]).await.ended(0).prints("1/1 healthy");
    assert_eq!(alive().await, 1);
    listed_by_state_and_page(&cell).await;
    cell.borough(&["job", "scale", "web", "0"]).await.ended(0).prints("0/0 healthy");
    assert_eq!(alive().await, 0);
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_batch_example_runs_all_of_its_tasks() {
    let cell = TestCell::start(options!()).await;
    cell.borough(&["job", "run", example!("batch.yaml")]).await.ended(0).prints("200/200 done");
    let tasks = cell.tasks("batch").await;
    assert_eq!(tasks.len(), 200);
    assert!(tasks.iter().all(|task| task.state() == TaskState::Dead));
    assert!(tasks.iter().all(|task| task.exit.as_ref().is_some_and(|exit| exit.code == Some(0))));
    let logs = cell.borough(&["task", "logs", "batch/137"]).await.ended(0);
    assert_eq!(logs.stdout, "task 137\n");
    let again = cell.borough(&["job", "status", "batch", "-o", "json"]).await.ended(0).json();
    assert_eq!(again["job"]["state"], "succeeded");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_crash_and_after_examples_end_as_described() {
    let cell = TestCell::start(options!()).await;
    // The second of two, submitted first.
    let after = cell.borough(&["job", "run", "--detach", example!("after.yaml")]).await;
    after.ended(0);
    let waiting = cell.borough(&["job", "status", "after", "-o", "json"]).await.ended(0).json();
    assert_eq!(waiting["job"]["state"], "waiting");
    let placed = |task: &borough_proto::v1::Task| task.state() != TaskState::Pending;
    assert!(!cell.tasks("after").await.iter().any(placed), "placed before its time");

    let ran = cell.borough(&["job", "run", example!("crash.yaml")]).await.ended(1);
    assert!(ran.stderr.contains("exit code 3"), "{}", ran.stderr);
    let task = cell.tasks("crash").await.remove(0);
    assert_eq!((task.state(), task.failures), (TaskState::Dead, 6), "once, and five times again: {task:?}");
    assert!(ran.stderr.contains("the last lines of tester/crash/0:\n    about to fail"), "{}", ran.stderr);
    let printed = cell.borough(&["task", "logs", "--stderr", "crash/0"]).await.ended(0);
    assert_eq!(printed.stdout, "about to fail\n");

    cell.borough(&["job", "run", example!("prepare.yaml")]).await.ended(0);
    let prepared = cell.tasks("prepare").await.remove(0).exit.unwrap();
    let job = cell.job("after");
    until("the job that waited to succeed", || async {
        let found = cell.client().job_get(&job).await.ok()?.job?;
        (found.state() == borough_proto::v1::JobState::Succeeded).then_some(())
    })
    .await;
    let task = cell.tasks("after").await.remove(0);
    assert!(task.started_ms.unwrap_or_else(|| task.exit.as_ref().unwrap().at_ms) >= prepared.at_ms);
    cell.borough(&["task", "logs", "after/0"]).await.ended(0).prints("prepare has succeeded");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn jobs_are_listed_by_labels_and_take_other_labels_without_a_restart() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = |name: &str, labels: serde_json::Value, description: &str| {
        json!({
            "name": name, "labels": labels, "description": description,
            "task": {"command": ["sleep", "600"], "resources": {"cpu": "10m"}, "grace": "100ms"},
        })
        .to_string()
    };
    let labels = |tier: &str| json!({"team": "shop", "tier": tier});
    for (name, tier) in [("cart", "back"), ("front", "front"), ("search", "front")] {
        cell.run(&format!("{name}.json"), &job(name, labels(tier), "what sells")).await;
    }
    cell.run("other.json", &job("other", json!({}), "")).await;

    let client = cell.client();
    let filter = |pairs: &[(&str, &str)]| JobFilter {
        labels: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..JobFilter::default()
    };
    let names = |jobs: &[Job]| jobs.iter().map(|job| job.name.clone()).collect::<Vec<_>>();
    let shop = filter(&[("team", "shop")]);
    assert_eq!(names(&client.job_list(&shop).await.unwrap()), ["cart", "front", "search"]);
    let both = filter(&[("team", "shop"), ("tier", "front")]);
    assert_eq!(names(&client.job_list(&both).await.unwrap()), ["front", "search"]);
    assert!(client.job_list(&filter(&[("team", "")])).await.unwrap().is_empty());

    // Pages are of what the filter leaves.
    let page = |page: String| PageRequest { limit: 1, page };
    let first = client.job_list_page(&both, page(String::new())).await.unwrap();
    let second = client.job_list_page(&both, page(first.next_page.clone())).await.unwrap();
    assert_eq!([names(&first.jobs), names(&second.jobs)], [["front"], ["search"]]);
    assert_eq!((first.next_page.is_empty(), second.next_page.as_str()), (false, ""));

    let attempts = || async {
        let (tasks, _) = client.task_list_of_job(&cell.job("cart")).await.unwrap();
        tasks.into_iter().map(|task| (task.incarnation, task.pid)).collect::<Vec<_>>()
    };
    let before = attempts().await;
    cell.run("cart.json", &job("cart", labels("front"), "what is bought")).await;
    let ran = cell.borough(&["job", "list", "--label", "tier=front", "-l", "team=shop", "-o", "json"]).await;
    let listed: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let cart = &listed[0];
    assert_eq!((&cart["name"], &cart["description"]), (&json!("cart"), &json!("what is bought")));
    assert_eq!((&cart["labels"], &cart["spec_version"]), (&labels("front"), &json!(2)));
    assert_eq!(attempts().await, before, "the attempts went on");
    let status = cell.borough(&["job", "status", "cart"]).await.stdout;
    assert!(status.contains("what is bought") && status.contains("team=shop,tier=front"), "{status}");

    // An operator labels the job without its file.
    let labelled = cell.borough(&["job", "label", "cart", "tier=back", "owner=ann", "team-"]).await.ended(0);
    labelled.prints("tester/cart: owner=ann,tier=back");
    cell.borough(&["job", "label", "cart", "tier=front", "owner-"]).await.ended(0);
    assert_eq!(attempts().await, before, "the attempts went on");
    let listed = cell.borough(&["job", "list", "-l", "tier=front"]).await.ended(0);
    assert!(listed.stdout.contains("tier=front") && !listed.stdout.contains("owner"), "{}", listed.stdout);
    cell.borough(&["job", "label", "cart", "a b=c"])
        .await
        .ended(2)
        .warns("has the key \"a b\"")
        .warns("accepted: 1 to 128");
    cell.borough(&["job", "label", "cart", "tier=x", "tier-"]).await.ended(2).warns("\"tier\" stands twice");
    cell.borough(&["job", "label", "cat", "tier=x"]).await.ended(3).warns("did you mean \"cart\"?");

    // The next attempt has the newest version.
    cell.borough(&["task", "restart", "cart/0"]).await.ended(0);
    let next = until("the next attempt", || async {
        let (tasks, _) = client.task_list_of_job(&cell.job("cart")).await.unwrap();
        tasks.into_iter().find(|task| task.incarnation > before[0].0)
    });
    assert_eq!(next.await.spec_version, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn ended_jobs_are_purged_and_others_stay() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = |name: &str, kind: &str, command: &str| {
        format!(
            "name: {name}\nkind: {kind}\ntask: {{command: [{command}], resources: {{cpu: 10m, memory: 4MiB}}, grace: 100ms}}\n"
        )
    };
    let done = job("done", "batch", "echo, bye");
    cell.run("done.yaml", &done).await;
    cell.run("done.yaml", &done).await;
    cell.run("web.yaml", &job("web", "service", "sleep, 600")).await;
    let refused = cell.borough(&["job", "purge", "web", "--yes"]).await.ended(4);
    refused.warns("borough job stop tester/web && borough job purge tester/web");
    cell.borough(&["task", "logs", "done/0"]).await.ended(0).prints("bye");
    cell.borough(&["job", "purge", "done"]).await.ended(2).warns("no terminal").warns("--yes");
    cell.borough(&["job", "purge", "--all-ended"]).await.ended(2).warns("no terminal").warns("--yes");
    let question = "cell alpha: forget job tester/done with its history and output? [y/N]";
    let verb = ["job", "purge", "done"];
    cell.on_terminal(&verb, &[], &[(question, "\n")]).await.ended(1).prints("nothing was changed");
    cell.on_terminal(&verb, &[], &[(question, "y\n")]).await.ended(0).prints("tester/done: 2 jobs forgotten");
    for verb in [&["status", "done"][..], &["history", "done"], &["purge", "done", "--yes"]] {
        cell.borough(&[&["job"][..], verb].concat()).await.ended(3).warns("no job \"done\"");
    }
    cell.borough(&["task", "logs", "done/0"]).await.ended(3);

    // All at once: those that have ended, and nobody else's.
    cell.run("done.yaml", &done).await;
    cell.run("again.yaml", &job("again", "batch", "'true'")).await;
    let other = cell.file("other.yaml", &format!("user: other\n{}", job("other", "batch", "'true'")));
    cell.borough(&["job", "run", &other]).await.ended(0);
    let purged = cell.borough(&["job", "purge", "--all-ended", "--yes", "-o", "json"]).await.ended(0).json();
    let one = |name: &str| json!({"user": "tester", "name": name, "jobs": 1});
    assert_eq!(purged, json!([one("again"), one("done")]));
    cell.borough(&["job", "purge", "--all-ended", "--yes"]).await.ended(0).warns("no ended jobs");
    let left = cell.borough(&["job", "list", "--all", "--ended", "-o", "json"]).await.ended(0).json();
    let left: Vec<&str> = left.as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(left, ["other", "web"]);
    cell.borough(&["job", "stop", "web"]).await.ended(0).prints("tester/web: stopped");
    cell.borough(&["job", "purge", "web", "--yes"]).await.ended(0).prints("1 job forgotten");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_service_that_crashes_is_reported_after_its_progress_deadline() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let text = "name: broken\nprogress_deadline: 4s\nrestart: {mode: always, backoff: 100ms}\n\
        task: {command: [sh, -c, 'echo no configuration; exit 7'], resources: {cpu: 10m}, grace: 100ms}\n";
    let file = cell.file("broken.yaml", text);
    let ran = cell.borough(&["job", "run", &file]).await.ended(1);
    for part in ["no progress for 4s; the job goes on", "task 0 ended with exit code 7", "no configuration"] {
        assert!(ran.stderr.contains(part), "no {part:?} in\n{}", ran.stderr);
    }
    // It goes on, and the option counts before the file.
    let status = cell.borough(&["job", "status", "broken", "-o", "json"]).await.ended(0).json();
    assert_eq!(status["job"]["state"], "running");
    cell.borough(&["job", "run", "--progress-deadline", "2s", &file])
        .await
        .ended(1)
        .warns("no progress for 2s");
    cell.borough(&["job", "scale", "broken", "2"]).await.ended(1).warns("no progress for 4s");
    cell.borough(&["job", "stop", "broken"]).await.ended(0);

    // Without room nothing crashes: the answer says why nothing starts.
    let vast = cell.file("vast.yaml", "name: vast\ntask: {command: ['true'], resources: {cpu: 5000}}\n");
    let ran = cell.borough(&["job", "run", "--progress-deadline", "4s", &vast]).await.ended(1);
    let error = ran.stderr.split_once("error: ").map(|(_, error)| error.to_owned()).unwrap_or_default();
    assert!(error.contains("no progress for 4s") && error.contains("cpu"), "{}", ran.stderr);
    cell.borough(&["job", "stop", "vast"]).await.ended(0);
    cell.finish().await;
}

/// Lines of progress come at most once a second. The one that waits is not written once the job is up: its end comes
/// last, on standard output for people, and as a remark beside an answer for programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_last_line_of_a_wait_is_its_end() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let file = |name: &str| {
        let text = format!(
            "name: {name}\ncount: 2\n\
             task: {{command: [sleep, '600'], resources: {{cpu: 10m, memory: 4MiB}}, grace: 300ms}}\n"
        );
        cell.file(&format!("{name}.yaml"), &text)
    };
    let json = cell.borough(&["job", "run", &file("one"), "-o", "json"]).await.ended(0);
    assert_eq!(json.json()["tasks"].as_array().map(Vec::len), Some(2));
    assert_eq!(json.stderr.lines().last(), Some("tester/one: 2/2 healthy"), "{}", json.stderr);
    let people = cell.borough(&["job", "run", &file("two")]).await.ended(0);
    assert_eq!(people.stdout, "tester/two: 2/2 healthy\n");
    for shown in people.stderr.lines().skip(1) {
        assert!(shown.starts_with("tester/two: 0/2") || shown.starts_with("tester/two: 1/2"), "{shown}");
    }
    // In one pipe too.
    let path = cell.file("three.out", "");
    let both = std::fs::File::create(&path).unwrap();
    let mut command = cell.command(&["job", "run", &file("three")]);
    let status = command.stdout(both.try_clone().unwrap()).stderr(both).status().await.unwrap();
    assert!(status.success());
    let lines = std::fs::read_to_string(&path).unwrap();
    assert_eq!(lines.lines().last(), Some("tester/three: 2/2 healthy"), "{lines}");
    for job in ["one", "two", "three"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

/// A purge of what another job waits for would let it wait for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_another_one_waits_for_is_not_purged() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = |name: &str, after: &str| {
        let task = "{command: ['true'], resources: {cpu: 10m, memory: 4MiB}}";
        format!("name: {name}\nkind: batch\nafter: [{after}]\ntask: {task}\n")
    };
    cell.run("first.yaml", &job("first", "")).await;
    let last = cell.file("last.yaml", &job("last", "first, second"));
    cell.borough(&["job", "run", "--detach", &last]).await.ended(0);
    let kept = "job tester/last waits for job first, and would wait for ever without it";
    cell.borough(&["job", "purge", "first", "--yes"]).await.ended(4).warns(kept);
    cell.borough(&["job", "purge", "--all-ended", "--yes"]).await.ended(0).warns(kept);
    cell.run("second.yaml", &job("second", "")).await;
    cell.borough(&["job", "run", &last]).await.ended(0);
    cell.borough(&["job", "purge", "first", "--yes"]).await.ended(0).prints("1 job forgotten");
    // One that never starts says so at once.
    let bad = cell.file("bad.yaml", "name: bad\nkind: batch\nrestart: never\ntask: {command: ['false']}\n");
    cell.borough(&["job", "run", &bad]).await.ended(1);
    let never = cell.file("never.yaml", &job("never", "bad"));
    cell.borough(&["job", "run", "--detach", &never]).await.ended(0).warns("warning: it never starts");
    cell.finish().await;
}

/// A batch job runs and ends. Its progress counts that, and no health.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_progress_of_a_batch_job_counts_what_runs_and_what_is_done() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let two = "name: two\nkind: batch\ncount: 2\ntask: {command: [sh, -c, 'test $BOROUGH_INDEX = 0 || sleep 600'], \
               resources: {cpu: 10m, memory: 4MiB}, grace: 100ms}\n";
    let file = cell.file("two.yaml", two);
    let ran = cell.borough(&["job", "run", &file, "--timeout", "8s"]).await.ended(1);
    let ran = ran.warns("tester/two: 1/2 done, 1 running");
    let ran = ran.warns("error: tester/two: 1/2 done, 1 running; the wait ended after 8s; the job goes on");
    let ran = ran.warns("\nhint: borough why tester/two; borough job status tester/two\n");
    assert!(!ran.stderr.contains("healthy"), "{ran:?}");
    cell.borough(&["job", "stop", "two"]).await.ended(0);
    cell.finish().await;
}
