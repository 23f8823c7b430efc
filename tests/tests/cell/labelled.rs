//! Verbs on everything with some labels: what they are for, what they ask, and what is said of what fails.

use borough_client::{ExpectedJob, TaskFilter};
use borough_proto::v1::{LabelMatch, PageRequest, TaskState};
use borough_tests::{TestCell, is_running, options, until};
use serde_json::{Value, json};

/// A job that sleeps, with labels.
fn sleeper(name: &str, count: u32, app: &str) -> String {
    let job = json!({
        "name": name, "count": count, "labels": {"app": app, "tier": name},
        "task": {
            "command": ["sleep", "600"], "resources": {"cpu": "10m", "memory": "4MiB"}, "grace": "100ms",
        },
    });
    job.to_string()
}

/// Runs jobs, each with its count and the label `app`, until their tasks run.
async fn running(cell: &TestCell, jobs: &[(&str, u32, &str)]) {
    for (name, count, app) in jobs {
        cell.run(&format!("{name}.json"), &sleeper(name, *count, app)).await;
    }
}

/// The job `slow`, a task of which ends only after its grace.
fn slow(grace: &str) -> String {
    let command = json!(["sh", "-c", "trap '' TERM; sleep 600"]).to_string();
    let job = sleeper("slow", 1, "shop").replace(&json!(["sleep", "600"]).to_string(), &command);
    job.replace("100ms", grace)
}

/// Names of objects in an answer, and what each has in `field`.
fn fields<'v>(answer: &'v Value, field: &str) -> Vec<(&'v str, &'v Value)> {
    let rows = answer.as_array().unwrap();
    rows.iter().map(|row| (row["name"].as_str().unwrap(), &row[field])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn jobs_are_stopped_and_scaled_by_labels_after_a_yes() {
    let cell = TestCell::start(options!().nodes(1)).await;
    running(&cell, &[("front", 1, "shop"), ("back", 1, "shop"), ("mail", 1, "post")]).await;
    let borough = async |words: &[&str]| cell.borough(words).await;

    // Nobody can be asked, so nothing happens, and the list shows what would.
    let refused = borough(&["job", "stop", "-l", "app=shop"]).await.ended(2);
    let refused = refused.warns("jobs with these labels:\n  tester/back\n  tester/front\n");
    refused.warns("cannot ask whether to stop 2 jobs: standard input is no terminal").warns("--yes");
    let jobs = borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    assert!(fields(&jobs, "state").iter().all(|(_, state)| *state == "running"), "{jobs}");

    let scaled = borough(&["job", "scale", "-l", "app=shop", "2", "--yes", "-o", "json"]).await.ended(0);
    assert_eq!(fields(&scaled.json(), "count"), [("back", &json!(2)), ("front", &json!(2))]);
    // It has waited: the tasks run.
    for name in ["front", "back"] {
        cell.tasks_until(name, "two run", |tasks| tasks.iter().filter(|task| is_running(task)).count() == 2)
            .await;
    }
    let both = borough(&["job", "scale", "--yes", "0", "-l", "app=shop,tier!=back", "-d"]).await.ended(0);
    both.prints("front");
    let jobs = borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&jobs, "count"), [("back", &json!(2)), ("front", &json!(0)), ("mail", &json!(1))]);

    let stopped = borough(&["--yes", "job", "stop", "-l", "app=shop", "-o", "json"]).await.ended(0);
    assert_eq!(fields(&stopped.json(), "state"), [("back", &json!("stopped")), ("front", &json!("stopped"))]);
    let jobs = borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&jobs, "state"), [("mail", &json!("running"))]);

    // Nothing is like this any more, or ever was.
    let none = borough(&["--yes", "job", "stop", "-l", "app=shop"]).await.ended(3);
    none.warns("error: no jobs like this of user tester in cell alpha\nhint: of every user");
    let unknown = borough(&["--yes", "job", "stop", "-l", "ap=shop"]).await.ended(3);
    unknown.warns("error: no job of user tester has the label \"ap\", did you mean \"app\"?");
    // A key that nothing has would choose everything with !=.
    let typo = borough(&["--yes", "job", "stop", "-l", "ap!=shop"]).await.ended(3);
    typo.warns("error: no job of user tester has the label \"ap\", did you mean \"app\"?");
    let jobs = borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    assert_eq!(fields(&jobs, "state"), [("mail", &json!("running"))], "it was spared");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn labels_choose_among_the_jobs_of_the_user_or_of_all() {
    let cell = TestCell::start(options!().nodes(1)).await;
    running(&cell, &[("mine", 1, "shop")]).await;
    let other = cell.file("other.json", &sleeper("theirs", 1, "shop"));
    cell.borough(&["--user", "bob", "job", "run", &other]).await.ended(0);
    let stopped = async |words: &[&str]| {
        let words = [&["--yes", "-o", "json"], words, &["-l", "app=shop"]].concat();
        let answer = cell.borough(&words).await.ended(0).json();
        let of = |job: &Value| format!("{}/{}", job["user"].as_str().unwrap(), job["name"].as_str().unwrap());
        answer.as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(stopped(&["--user", "bob", "job", "scale", "2"]).await, ["bob/theirs"]);
    assert_eq!(stopped(&["job", "scale", "2", "--all"]).await, ["bob/theirs", "tester/mine"]);
    assert_eq!(stopped(&["job", "stop"]).await, ["tester/mine"]);
    assert_eq!(stopped(&["job", "stop", "--all"]).await, ["bob/theirs"]);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_fails_is_named_and_the_rest_is_done() {
    let cell = TestCell::start(options!().nodes(1)).await;
    running(&cell, &[("front", 1, "shop"), ("back", 1, "shop")]).await;
    // A gang cannot become smaller than its minimum.
    let gang =
        sleeper("gang", 2, "shop").replace("\"count\":2", "\"count\":2,\"kind\":\"batch\",\"min_member\":2");
    let gang = cell.file("gang.json", &gang);
    cell.borough(&["job", "run", "--detach", &gang]).await.ended(0);
    cell.tasks_until("gang", "it runs", |tasks| tasks.len() == 2 && tasks.iter().all(is_running)).await;
    let scaled = cell.borough(&["--yes", "job", "scale", "-l", "app=shop", "1", "-o", "json"]).await;
    assert_ne!(scaled.code, Some(0), "{}", scaled.stderr);
    let answer = scaled.json();
    assert_eq!(fields(&answer, "count"), [("back", &json!(1)), ("front", &json!(1))]);
    scaled.warns("error: 1 of 3 jobs: not scaled and up\n  ").warns("tester/gang");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wait_for_many_ends_in_time_and_names_those_that_are_not_there_yet() {
    let cell = TestCell::start(options!().nodes(2)).await;
    running(&cell, &[("front", 1, "shop")]).await;
    cell.run("slow.json", &slow("20s")).await;
    // Both nodes are drained, so their tasks have no room elsewhere.
    let stays = cell.borough(&["--yes", "node", "drain", "-l", "os=linux", "--timeout", "1s"]).await.ended(7);
    let stays = stays.warns("after 1s; the drain goes on");
    stays.warns("hint: why tasks are left: borough node status ").warns("node uncordon -l 'os=linux'");
    cell.borough(&["--yes", "node", "uncordon", "-l", "os=linux"]).await.ended(0);
    let words = ["--yes", "job", "stop", "-l", "app=shop", "--timeout", "2s", "-o", "json"];
    let stopped = cell.borough(&words).await.ended(1);
    assert_eq!(fields(&stopped.json(), "state"), [("front", &json!("stopped"))]);
    let stopped = stopped.warns("error: 1 of 2 jobs: not stopped\n  tester/slow: ");
    stopped.warns("the wait ended after ").warns("the stop goes on");
    cell.borough(&["job", "stop", "slow"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_does_not_come_back_ends_the_restart_of_those_after_it() {
    let cell = TestCell::start(options!().nodes(1)).await;
    running(&cell, &[("front", 1, "shop"), ("zoo", 1, "shop")]).await;
    cell.run("slow.json", &slow("4s")).await;
    let words = ["--yes", "job", "restart", "-l", "app=shop", "--timeout", "2s", "-o", "json"];
    let stopped = cell.borough(&words).await.ended(1);
    assert_eq!(fields(&stopped.json(), "restarted"), [("front", &json!([0]))]);
    let stopped = stopped.warns("error: 2 of 3 jobs: not restarted\n  ").warns("not healthy after 2s");
    stopped.warns("\n  1 job left alone after that\n").warns(
        "to go on with what is left: borough job restart -l 'app=shop' --from tester/slow/0 --timeout 2s\n",
    );
    let zoo = cell.tasks("zoo").await;
    assert!(zoo.len() == 1 && zoo[0].incarnation == 1, "{zoo:?}");
    // What it names does just that.
    let rest = ["--yes", "job", "restart", "-l", "app=shop", "--from", "tester/slow/0", "-o", "json"];
    let rest = cell.borough(&rest).await.ended(0).json();
    let names: Vec<&str> = fields(&rest, "restarted").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["slow", "zoo"]);
    cell.borough(&["--yes", "job", "stop", "-l", "app=shop"]).await.ended(0);
    cell.finish().await;
}

/// Between the list and the answer to the question a job may end and begin again, and a task may restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_successor_of_what_was_listed_is_left_alone() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let (front, client) = (cell.job("front"), cell.client());
    let id = async || client.job_get(&front).await.unwrap().job.unwrap().id;
    running(&cell, &[("front", 1, "shop")]).await;
    let first = id().await;
    cell.borough(&["job", "stop", "front"]).await.ended(0);
    running(&cell, &[("front", 1, "shop")]).await;
    let second = id().await;
    assert_ne!(first, second);
    let (task, refused) = (cell.task("front", 0), Some(tonic::Code::FailedPrecondition));
    assert_eq!(client.job_stop_of(&front, &first).await.unwrap_err().code(), refused);
    let seen = |id: &str, revision| ExpectedJob { id: id.to_owned(), revision };
    assert_eq!(client.job_scale_of(&front, seen(&first, 0), 2).await.unwrap_err().code(), refused);
    assert_eq!(client.task_stop_of(&task, &first, 1).await.unwrap_err().code(), refused);
    let ended = client.task_stop_of(&task, &second, 2).await.unwrap_err();
    assert_eq!(ended.code(), refused, "{ended}");
    assert!(ended.to_string().contains("attempt 2 is not the present one, which is 1"), "{ended}");
    let tasks = cell.tasks("front").await;
    assert!(tasks.len() == 1 && is_running(&tasks[0]) && tasks[0].incarnation == 1, "{tasks:?}");
    client.task_stop_of(&task, &second, 1).await.unwrap();
    let changed = client.job_get(&front).await.unwrap().job.unwrap().changed_revision;
    client.job_scale_of(&front, seen(&second, changed), 0).await.unwrap();
    let late = client.job_scale_of(&front, seen(&second, changed), 1).await.unwrap_err();
    assert_eq!(late.code(), refused, "{late}");
    assert!(late.to_string().contains(&format!("the change was made for {changed}: ")), "{late}");
    client.job_stop_of(&front, &second).await.unwrap();
    cell.borough(&["job", "stop", "front"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn jobs_are_restarted_one_after_the_other_and_tasks_are_stopped_by_labels() {
    let cell = TestCell::start(options!().nodes(1)).await;
    running(&cell, &[("front", 2, "shop"), ("back", 1, "shop"), ("mail", 1, "post")]).await;
    let attempts = async |job: &str| {
        let mut tasks = cell.tasks(job).await;
        tasks.sort_by_key(|task| task.index);
        tasks.iter().map(|task| task.incarnation).collect::<Vec<_>>()
    };
    let restarted = cell.borough(&["--yes", "job", "restart", "-l", "app=shop", "-o", "json"]).await.ended(0);
    assert_eq!(fields(&restarted.json(), "restarted"), [("back", &json!([0])), ("front", &json!([0, 1]))]);
    assert_eq!((attempts("front").await, attempts("mail").await), (vec![2, 2], vec![1]));

    cell.borough(&["task", "stop", "-l", "app=shop"])
        .await
        .ended(2)
        .warns("tasks with these labels:\n  tester/")
        .warns("cannot ask whether to stop 3 tasks");
    let stopped = cell.borough(&["--yes", "task", "stop", "-l", "tier=front", "-o", "json"]).await.ended(0);
    let answer = stopped.json();
    let of = |task: &Value| (task["index"].as_u64(), task["attempt"].as_u64());
    let tasks: Vec<_> = answer.as_array().unwrap().iter().map(of).collect();
    assert_eq!(tasks, [(Some(0), Some(3)), (Some(1), Some(3))], "{answer}");
    assert_eq!((attempts("front").await, attempts("back").await), (vec![3, 3], vec![2]));
    cell.borough(&["--yes", "task", "stop", "-l", "tier=none"])
        .await
        .ended(3)
        .warns("no tasks with an attempt");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_are_cordoned_drained_and_uncordoned_by_labels_and_attributes() {
    let cell = TestCell::start(options!().nodes(3)).await;
    running(&cell, &[("web", 3, "shop")]).await;
    for node in ["alpha-1", "alpha-2"] {
        cell.borough(&["node", "label", node, "row=a"]).await.ended(0);
    }
    let borough = async |words: &[&str]| cell.borough(words).await;
    borough(&["node", "cordon", "-l", "row=a"]).await.ended(2).warns("nodes with these labels:\n  alpha-1\n");
    let cordoned = borough(&["--yes", "node", "cordon", "-l", "row=a,os=linux", "-o", "json"]).await.ended(0);
    let cordoned = cordoned.json();
    let states = fields(&cordoned, "schedulable");
    assert_eq!(states, [("alpha-1", &json!(false)), ("alpha-2", &json!(false))]);
    borough(&["--yes", "node", "uncordon", "-l", "row=a"]).await.ended(0).prints("alpha-2");
    let drained = borough(&["--yes", "node", "drain", "-l", "row=a", "-o", "json"]).await.ended(0);
    assert_eq!(drained.json().as_array().unwrap().len(), 2);
    // No task has moved from one drained node to the other.
    let tasks = cell.tasks("web").await;
    assert!(tasks.iter().all(|task| task.node == "alpha-3"), "{tasks:?}");
    let moved = tasks.iter().all(|task| task.incarnation <= 2);
    assert!(moved, "each has moved once at most: {tasks:?}");
    let none = borough(&["--yes", "node", "drain", "-l", "rwo=a"]).await.ended(3);
    none.warns("no node has the label or attribute \"rwo\", did you mean \"row\"?");
    borough(&["--yes", "node", "drain", "-l", "row=b"])
        .await
        .ended(3)
        .warns("no nodes like this in cell alpha");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn events_are_chosen_by_the_present_labels_of_their_jobs_and_nodes() {
    let cell = TestCell::start(options!().nodes(2)).await;
    running(&cell, &[("front", 1, "shop"), ("mail", 1, "post")]).await;
    cell.borough(&["node", "label", "alpha-1", "row=a"]).await.ended(0);
    let subjects = async |words: &[&str]| {
        let ran = cell.borough(&[&["event", "list", "-o", "json"], words].concat()).await.ended(0);
        let answer = ran.json();
        let mut subjects: Vec<String> = answer
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["subject"].as_str().unwrap().to_owned())
            .collect();
        subjects.sort();
        subjects.dedup();
        subjects
    };
    assert_eq!(
        subjects(&["-l", "app=shop"]).await,
        ["job tester/front", "name 0.front.tester", "task tester/front/0"]
    );
    assert_eq!(subjects(&["-l", "row=a"]).await, ["node alpha-1"]);
    assert_eq!(
        subjects(&["-l", "app!=shop", "--job", "mail"]).await,
        ["job tester/mail", "name 0.mail.tester", "task tester/mail/0"]
    );
    assert!(subjects(&["-l", "app=shop", "--job", "mail"]).await.is_empty());
    let both = subjects(&["-l", "app!=post"]).await;
    assert!(both.contains(&"node alpha-2".to_owned()) && both.contains(&"job tester/front".to_owned()));
    assert!(!both.iter().any(|subject| subject.contains("mail")), "{both:?}");
    // The labels are those of now.
    cell.borough(&["job", "label", "mail", "app=shop"]).await.ended(0);
    assert_eq!(subjects(&["-l", "app=shop"]).await.len(), 6);
    let unknown = cell.borough(&["event", "list", "-l", "ap=shop"]).await.ended(0);
    unknown.warns("no job and no node has the label \"ap\", did you mean \"app\"?");

    // A watch goes by them too.
    let watched = cell.root().join("watched.txt");
    let mut command = cell.command(&["event", "watch", "-l", "tier=mail", "-o", "json"]);
    command.stdout(std::fs::File::create(&watched).unwrap()).kill_on_drop(true);
    let mut watch = command.spawn().unwrap();
    until("the watch shows the job with the label", async || {
        cell.borough(&["task", "restart", "front/0"]).await.ended(0);
        cell.borough(&["job", "label", "mail", "seen=1"]).await.ended(0);
        cell.borough(&["job", "label", "mail", "seen-"]).await.ended(0);
        std::fs::read_to_string(&watched).unwrap().contains("tester/mail").then_some(())
    })
    .await;
    watch.kill().await.unwrap();
    let text = std::fs::read_to_string(&watched).unwrap();
    assert!(!text.contains("tester/front"), "{text}");
    // A watch shows each event as a list does.
    let listed = cell.borough(&["event", "list", "--limit", "10000", "-o", "json"]).await.ended(0).json();
    let told = |event: &Value| ["at_ms", "actor", "action", "subject", "text"].map(|key| event[key].clone());
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(told).collect();
    for line in text.lines() {
        let watched = told(&serde_json::from_str(line).unwrap());
        assert!(listed.contains(&watched), "{watched:?} is not in the list");
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_page_looks_at_a_bounded_number_of_tasks_and_the_list_goes_on() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let wide = sleeper("wide", 100_000, "wide").replace("\"10m\"", "\"999\"");
    let wide = cell.file("wide.json", &wide.replace("\"count\"", "\"kind\":\"batch\",\"count\""));
    cell.borough(&["job", "run", "--detach", &wide]).await.ended(0);
    running(&cell, &[("front", 1, "wide")]).await;
    let wanted =
        |key: &str, value: &str| LabelMatch { key: key.to_owned(), value: value.to_owned(), not: false };
    let filter = TaskFilter {
        user: "tester".to_owned(),
        states: vec![TaskState::Running],
        selector: vec![wanted("app", "wide")],
        ..TaskFilter::default()
    };
    let (mut pages, mut found, mut page) = (Vec::new(), Vec::new(), String::new());
    loop {
        let answer = cell.client().task_list_page(&filter, PageRequest { limit: 10, page }).await.unwrap();
        pages.push(answer.tasks.len());
        found.extend(answer.tasks.into_iter().map(|task| format!("{}/{}", task.job, task.index)));
        page = answer.next_page;
        if page.is_empty() {
            break;
        }
    }
    assert_eq!(found, ["front/0"], "{pages:?}");
    assert!(pages.len() > 1, "one page has looked at every task");
    let listed = cell.borough(&["task", "list", "--state", "running", "-l", "app=wide", "-o", "json"]).await;
    assert_eq!(listed.ended(0).json().as_array().unwrap().len(), 1);
    // What another selector finds does not depend on where its pages end.
    let pending = cell.borough(&["task", "list", "--state", "pending", "-l", "app=wide", "-o", "json"]).await;
    let pending = pending.ended(0).json();
    let indexes: Vec<u64> =
        pending.as_array().unwrap().iter().map(|task| task["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, (0..100_000).collect::<Vec<u64>>());
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_selector_that_no_label_can_meet_is_refused_whole_by_the_gateway_too() {
    let cell = TestCell::start(options!().nodes(1)).await;
    running(&cell, &[("front", 1, "shop")]).await;
    let refused = async |selector: Vec<LabelMatch>| {
        let filter = TaskFilter { selector, ..TaskFilter::default() };
        let error = cell.client().task_list_page(&filter, PageRequest::default()).await.unwrap_err();
        assert_eq!(error.code(), Some(tonic::Code::InvalidArgument));
        error.to_string()
    };
    let wanted =
        |key: &str, value: &str| LabelMatch { key: key.to_owned(), value: value.to_owned(), not: false };
    let many = refused(vec![wanted("app", "shop"); 1_000]).await;
    assert!(many.contains("selector: 1000 conditions; accepted: at most 64"), "{many}");
    let odd = refused(vec![wanted("app", "shop"), wanted("x y", "a\u{1b}[31m")]).await;
    assert!(odd.contains("selector[1].key: \"x y\"") && odd.contains("selector[1].value: "), "{odd}");
    assert!(!odd.contains('\u{1b}'), "{odd:?}");
    let long = refused(vec![wanted(&"k".repeat(100_000), "v")]).await;
    assert!(long.len() < 1_000, "{}", long.len());
    let events = borough_proto::v1::WatchFilter { selector: vec![wanted("", "x")], ..Default::default() };
    let error = cell.client().event_list(events, 10).await.unwrap_err();
    assert!(error.to_string().contains("filter.selector[0].key: "), "{error}");
    cell.finish().await;
}

/// More jobs than anybody reads in a list end only with the code of exactly these.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn many_jobs_are_stopped_with_the_code_that_is_theirs_and_not_by_a_yes() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let submit = async |number: u32| {
        let name = format!("j{number}");
        let file = cell.file(&format!("{name}.json"), &sleeper(&name, 0, "many"));
        cell.borough(&["job", "run", "-d", &file]).await.ended(0);
    };
    for number in 0..21 {
        submit(number).await;
    }
    let stop = ["--yes", "job", "stop", "-l", "app=many"];
    let code = async || {
        let refused = cell.borough(&stop).await.ended(2).warns("  and ").stderr;
        refused.split_once("repeat the command with --confirm ").unwrap().1.trim().to_owned()
    };
    let first = code().await;
    assert_eq!((first.len(), code().await == first), (8, true));
    cell.borough(&["--yes", "job", "scale", "-l", "app=many", "0"]).await.ended(2).warns("without a code");
    cell.borough(&["--yes", "job", "label", "-l", "app=many", "seen=yes"]).await.ended(0);

    submit(21).await;
    let late = [&stop[..], &["--confirm", &first]].concat();
    cell.borough(&late).await.ended(2).warns("was for other objects, or another change; nothing was changed");
    assert_eq!(
        cell.borough(&["job", "list", "-l", "app=many", "-o", "json"]).await.json().as_array().unwrap().len(),
        22
    );
    let second = code().await;
    cell.borough(&[&stop[..], &["--confirm", &second]].concat()).await.ended(0);
    cell.borough(&["job", "list", "-l", "app=many"]).await.warns("no jobs");
    cell.finish().await;
}
