//! Lists: pages, labels and states, as a person types them.

use borough_tests::{Options, TestCell, is_running, options};
use serde_json::{Value, json};

/// A job that sleeps, with a label.
fn sleeper(name: &str, kind: &str, count: u32, app: &str) -> String {
    let job = json!({
        "name": name, "kind": kind, "count": count, "labels": {"app": app, "tier": name},
        "task": {"command": ["sleep", "600"], "resources": {"cpu": "10m", "memory": "8MiB"}},
    });
    job.to_string()
}

/// A column of a table without empty cells.
fn column(table: &str, column: usize) -> Vec<&str> {
    table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(column)).collect()
}

/// The first column.
fn names(table: &str) -> Vec<&str> {
    column(table, 0)
}

/// The names in a table of jobs, which has the user first.
fn job_names(table: &str) -> Vec<&str> {
    column(table, 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lists_are_chosen_by_labels_and_states_and_shown_in_pages() {
    let cell = TestCell::start(options!()).await;
    for (name, count, app) in [("front", 3, "shop"), ("back", 2, "shop"), ("other", 1, "mail")] {
        let file = cell.file(&format!("{name}.json"), &sleeper(name, "batch", count, app));
        cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
        let all =
            |tasks: &[_]| tasks.len() == usize::try_from(count).unwrap() && tasks.iter().all(is_running);
        cell.tasks_until(name, "all run", all).await;
    }
    let wide = sleeper("wide", "batch", 2_500, "wide").replace("\"10m\"", "\"999\"");
    let wide = cell.file("wide.json", &wide);
    cell.borough(&["job", "run", "--detach", &wide]).await.ended(0);
    let shown = async |arguments: &[&str]| cell.borough(arguments).await.ended(0);

    // Labels: what is equal, what is not, and both.
    let jobs = shown(&["job", "list", "-l", "app=shop"]).await;
    assert_eq!(job_names(&jobs.stdout), ["back", "front"]);
    let jobs = shown(&["job", "list", "-l", "app=shop,tier!=front"]).await;
    assert_eq!(job_names(&jobs.stdout), ["back"]);
    let tasks = shown(&["task", "list", "-l", "app!=wide,tier!=front"]).await;
    let mut listed = names(&tasks.stdout);
    listed.sort_unstable();
    assert_eq!(listed, ["tester/back/0", "tester/back/1", "tester/other/0"]);
    let refused = cell.borough(&["job", "list", "-l", "app"]).await.ended(2);
    assert!(refused.stderr.contains("KEY!=VALUE"), "{}", refused.stderr);

    // States.
    cell.borough(&["job", "stop", "other"]).await.ended(0);
    let jobs = shown(&["job", "list", "--state", "stopped"]).await;
    assert_eq!(job_names(&jobs.stdout), ["other"]);
    let tasks = shown(&["task", "list", "--state", "running"]).await;
    assert_eq!(names(&tasks.stdout).len(), 5, "{}", tasks.stdout);
    let tasks = shown(&["task", "status", "front", "--state", "pending"]).await;
    assert_eq!(
        (tasks.stdout.as_str(), tasks.stderr.as_str()),
        ("", "no tasks like this of user tester in cell alpha\n")
    );
    let one = shown(&["task", "status", "wide", "--index", "2499"]).await;
    assert_eq!(names(&one.stdout), ["tester/wide/2499"]);
    cell.borough(&["task", "status", "wide", "--index", "2500"]).await.ended(3);
    let nodes = shown(&["node", "list", "--state", "ready", "-l", "missing!=here", "-o", "json"]).await;
    assert_eq!(nodes.json().as_array().unwrap().len(), 2);
    let nodes = shown(&["node", "list", "--state", "lost"]).await;
    assert_eq!(nodes.stdout, "");
    let refused = cell.borough(&["job", "status", "front", "--state", "waiting"]).await.ended(2);
    assert!(refused.stderr.contains("accepted: pending, held"), "{}", refused.stderr);

    // Pages: of the table, of the list of objects, and by hand.
    let table = shown(&["task", "status", "wide"]).await;
    let expected: Vec<String> = (0..2_500).map(|index| format!("tester/wide/{index}")).collect();
    assert_eq!(names(&table.stdout), expected);
    let objects = shown(&["task", "status", "wide", "-o", "json"]).await.json();
    let indexes: Vec<u64> =
        objects.as_array().unwrap().iter().map(|task| task["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, (0..2_500).collect::<Vec<u64>>());
    let yaml = shown(&["task", "status", "wide", "-o", "yaml", "--limit", "1100"]).await;
    assert_eq!(yaml.stdout.lines().filter(|line| line.starts_with("- ")).count(), 1_100);
    let first = shown(&["task", "list", "-l", "app=wide", "--limit", "1200"]).await;
    let page = first.stderr.trim().rsplit(' ').next().unwrap().to_owned();
    let second = shown(&["task", "list", "-l", "app=wide", "--page", &page]).await;
    let by_hand: Vec<&str> = names(&first.stdout).into_iter().chain(names(&second.stdout)).collect();
    assert_eq!(by_hand, expected);
    assert_eq!(second.stderr, "", "no page follows");
    let empty = shown(&["task", "list", "-l", "app=none", "-o", "json"]).await;
    assert_eq!(empty.json(), Value::Array(Vec::new()));
    cell.finish().await;
}

/// A user who asks for failed tasks means those whose last attempt failed, whatever waits for them now.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_are_listed_by_how_they_have_ended() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = |name: &str, rest: &str, command: &str| {
        format!("name: {name}\n{rest}\ntask: {{command: [sh, -c, {command:?}], resources: {{cpu: 10m}}}}\n")
    };
    for (name, rest, command) in [
        ("broken", "kind: batch\nrestart: never", "exit 7"),
        ("done", "kind: batch", "true"),
        ("loops", "restart: {backoff: 1h, backoff_max: 1h}", "exit 3"),
        ("fine", "", "sleep 600"),
    ] {
        let file = cell.file(&format!("{name}.yaml"), &job(name, rest, command));
        cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    }
    let listed = async |arguments: &[&str]| {
        let ran = cell.borough(arguments).await.ended(0);
        let mut tasks: Vec<String> = names(&ran.stdout).into_iter().map(str::to_owned).collect();
        tasks.sort_unstable();
        tasks
    };
    let failed = ["tester/broken/0", "tester/loops/0"];
    borough_tests::until("the failures", || async {
        (listed(&["task", "list", "--state", "failed"]).await == failed).then_some(())
    })
    .await;
    borough_tests::until("the end of the batch job", || async {
        (listed(&["task", "list", "--state", "succeeded"]).await == ["tester/done/0"]).then_some(())
    })
    .await;
    assert_eq!(listed(&["task", "status", "loops", "--state", "failed"]).await, ["tester/loops/0"]);
    assert_eq!(listed(&["task", "status", "done", "--state", "failed"]).await, [""; 0]);
    // A task that was never placed would have no row, and be in no list.
    borough_tests::until("the service", || async {
        (listed(&["task", "list", "--state", "running"]).await == ["tester/fine/0"]).then_some(())
    })
    .await;
    cell.borough(&["job", "stop", "fine"]).await.ended(0);
    assert_eq!(listed(&["task", "list", "--state", "stopped"]).await, ["tester/fine/0"]);
    let all = ["tester/broken/0", "tester/done/0", "tester/loops/0"];
    assert_eq!(listed(&["task", "list", "--state", "failed,succeeded,pending"]).await, all);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn endpoints_are_listed_in_pages() {
    let cell = TestCell::start(options!()).await;
    for name in ["one", "two"] {
        let job = json!({
            "name": name, "count": 3,
            "task": {
                "command": ["sleep", "600"], "resources": {"cpu": "10m", "memory": "8MiB"}, "ports": ["http"],
            },
        });
        cell.run(&format!("{name}.json"), &job.to_string()).await;
    }
    let all = cell.borough(&["name", "list"]).await.ended(0);
    assert_eq!(names(&all.stdout).len(), 6);
    let (mut by_hand, mut page) = (Vec::new(), String::new());
    for _ in 0..3 {
        let more: &[&str] = if page.is_empty() { &[] } else { &["--page", &page] };
        let part = cell.borough(&[&["name", "list", "--limit", "2"], more].concat()).await.ended(0);
        by_hand.extend(names(&part.stdout).into_iter().map(str::to_owned));
        page = part.stderr.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    }
    assert_eq!(by_hand, names(&all.stdout));
    let refused = cell.borough(&["name", "list", "--page", "nonsense"]).await.ended(2);
    assert!(refused.stderr.contains("--page: \"nonsense\" is no page of this list"), "{}", refused.stderr);
    cell.finish().await;
}

/// A page of another list, of another cell, or of nobody begins nowhere. It is refused, and never an empty list.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_page_that_the_list_has_not_named_is_refused() {
    let cell =
        TestCell::start(Options { cells: vec!["alpha".to_owned(), "beta".to_owned()], ..options!() }).await;
    for name in ["front", "back"] {
        let file = cell.file(&format!("{name}.json"), &sleeper(name, "batch", 2, "shop"));
        cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    }
    let node = cell.client().node_list().await.unwrap()[0].name.clone();
    let lists: [&[&str]; 4] =
        [&["job", "list"], &["node", "list"], &["task", "list"], &["job", "status", "front"]];
    let mut pages = Vec::new();
    for list in lists {
        let first = cell.borough(&[list, &["--limit", "1"]].concat()).await.ended(0);
        let page = first.stderr.split("--page ").nth(1).expect("a page follows").trim().to_owned();
        let next = cell.borough(&[list, &["--page", &page]].concat()).await.ended(0);
        assert_ne!(next.stdout, first.stdout, "{list:?}");
        pages.push(page);
    }
    for list in lists {
        for (other, page) in lists.iter().zip(&pages).filter(|(other, _)| **other != list) {
            let ran = cell.borough(&[list, &["--page", page]].concat()).await.ended(2);
            let error = format!("error: --page: {page:?} is no page of this list; accepted: ");
            assert!(ran.stderr.starts_with(&error), "{list:?} of {other:?}: {ran:?}");
            assert!(ran.stderr.ends_with("hint: run the same command without --page\n"), "{ran:?}");
        }
        let zzz = cell.borough(&[list, &["--page", "zzz"]].concat()).await.ended(2);
        assert!(zzz.stderr.starts_with("error: --page: \"zzz\" is no page of this list"), "{zzz:?}");
    }
    let of_node = cell.borough(&["task", "list", "--node", &node, "--page", &pages[2]]).await.ended(2);
    assert!(of_node.stderr.contains("is no page of this list"), "{of_node:?}");
    for (list, page) in lists.into_iter().zip(&pages).take(3) {
        let elsewhere =
            cell.borough(&[&["--cell", "beta"][..], list, &["--page", page]].concat()).await.ended(2);
        assert!(elsewhere.stderr.contains("is no page of this list"), "{elsewhere:?}");
    }
    cell.finish().await;
}
