//! `--watch`: lists and statuses that are shown again after each change.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;

use borough_tests::{TestCell, options, until};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::output::Following;

fn sleeper(name: &str, count: u32) -> String {
    let job = json!({
        "name": name, "count": count, "task": {"command": ["sleep", "600"], "resources": {"cpu": "10m", "memory": "8MiB"}},
    });
    job.to_string()
}

/// The objects of a stream.
fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The last object of the stream that has this name, if any.
fn last_of(text: &str, name: &str) -> Option<Value> {
    objects(text).into_iter().rev().find(|change| change["name"] == name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watched_list_is_a_stream_of_what_changes() {
    let mut cell = TestCell::start(options!()).await;
    cell.run("web.json", &sleeper("web", 2)).await;
    let tasks =
        Following::start(&cell, "tasks", &["task", "list", "--state", "running", "--watch", "-o", "json"]);
    let jobs = Following::start(&cell, "jobs", &["job", "list", "-w", "-o", "json"]);
    let status = Following::start(&cell, "status", &["job", "status", "web", "-w", "-o", "json"]);
    let nodes = Following::start(&cell, "nodes", &["node", "list", "-w"]);
    let events = Following::start(&cell, "events", &["event", "list", "-w", "--limit", "10"]);
    tasks.until_shown("tester/web/1").await;
    nodes.until_shown("alpha-2").await;
    events.until_shown("tester/web").await;
    status.until_shown("\"index\":1").await;
    assert!(objects(&tasks.shown()).iter().all(|change| change["event"] == "listed"));
    cell.borough(&["job", "scale", "web", "3"]).await.ended(0);
    // Over a restart of everything that answers.
    tasks.until_shown("tester/web/2").await;
    cell.control_kill();
    cell.control_start().await;
    cell.borough(&["job", "scale", "web", "1"]).await.ended(0);
    cell.borough(&["node", "cordon", "alpha-1"]).await.ended(0);
    let gone = || async {
        let shown = tasks.shown();
        let is_gone = |name| last_of(&shown, name).is_some_and(|change| change["event"] == "removed");
        (is_gone("tester/web/1") && is_gone("tester/web/2")).then_some(())
    };
    until("the tasks that run no more", gone).await;
    let counts = || async {
        let last = last_of(&jobs.shown(), "tester/web")?;
        (last["event"] == "changed" && last["object"]["count"] == 1).then_some(())
    };
    until("the count of the job", counts).await;
    let count = || async { (objects(&status.shown()).last()?["job"]["count"] == 1).then_some(()) };
    until("the count in the status", count).await;
    nodes.until_shown("cordoned").await;
    events.until_shown("cordon").await;
    let stream = tasks.end().await;
    let added = objects(&stream).into_iter().filter(|change| change["event"] == "added");
    assert_eq!(added.map(|change| change["name"].clone()).collect::<Vec<_>>(), ["tester/web/2"]);
    // Plain text is appended under one head, without escapes.
    let plain = nodes.end().await;
    assert_eq!(plain.matches("NODE").count(), 1, "{plain}");
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    assert!(
        plain.contains("  SEEN\n") && plain.contains("Z listed\n") && plain.contains("Z changed\n"),
        "{plain}"
    );
    let log = events.end().await;
    assert!(!log.contains("not in the list"), "events do not go: {log}");
    drop((jobs.end().await, status.end().await));
    cell.finish().await;
}

/// The limit of a watched list of events is of those from before. However many come at once, each is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watch_with_a_limit_says_what_it_leaves_out() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.json", &sleeper("web", 2)).await;
    let events = Following::start(&cell, "events", &["event", "list", "-w", "--limit", "1", "-o", "json"]);
    events.until_shown("\"listed\"").await;
    let tasks = Following::start(&cell, "tasks", &["task", "list", "-w", "--limit", "1", "-o", "json"]);
    let said =
        "there are more tasks: with --limit 1 the watch shows those that are the first 1 at the time\n";
    tasks.until_warned(said).await;
    cell.borough(&["job", "scale", "web", "60"]).await.ended(0);
    for index in 2..60 {
        events.until_shown(&format!("\"subject\":\"task tester/web/{index}\"")).await;
    }
    let all = objects(&events.end().await);
    assert_eq!(all.iter().filter(|event| event["event"] == "listed").count(), 1);
    let shown = objects(&tasks.end().await);
    assert!(shown.iter().all(|change| change["name"] == "tester/web/0"), "{shown:?}");
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

/// The gateway is away for longer than a reading waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watch_goes_on_after_a_long_absence_of_the_gateway() {
    let mut cell = TestCell::start(options!()).await;
    cell.run("web.json", &sleeper("web", 1)).await;
    let of =
        |name, verb: [&str; 3]| Following::start(&cell, name, &[&verb[..], &["-w", "-o", "json"]].concat());
    let lists = [
        of("tasks", ["task", "list", "--all"]),
        of("jobs", ["job", "list", "--all"]),
        of("status", ["job", "status", "web"]),
    ];
    for list in &lists {
        list.until_shown("\"web\"").await;
    }
    cell.control_kill();
    for list in &lists {
        list.until_warned("the watch goes on").await;
    }
    cell.control_start().await;
    cell.borough(&["job", "scale", "web", "2"]).await.ended(0);
    let [tasks, jobs, status] = &lists;
    tasks.until_shown("tester/web/1").await;
    jobs.until_shown("\"count\":2").await;
    status.until_shown("\"index\":1").await;
    for list in lists {
        list.until_warned("a gateway answers again; the watch goes on\n").await;
        drop(list.end().await);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watched_list_is_redrawn_on_a_terminal() {
    let cell = TestCell::start(options!()).await;
    cell.run("web.json", &sleeper("web", 30)).await;
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: 10, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs: OwnedFd = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut command = cell.command(&["task", "status", "web", "--watch"]);
    let mut child =
        command.env("TERM", "xterm").stdout(Stdio::from(theirs)).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let seen = Arc::new(Mutex::new(String::new()));
    let (mut screen, told) = (File::from(ours), Arc::clone(&seen));
    // Ends with the last end of the terminal: reading it then fails.
    let reader = std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = screen.read(&mut part) {
            told.lock().push_str(&String::from_utf8_lossy(&part[..length]));
        }
    });
    // The last complete frame.
    let frame = || {
        let seen = seen.lock();
        let frames: Vec<&str> = seen.split("\u{1b}[?7l\u{1b}[H").collect();
        frames.into_iter().rev().find(|frame| frame.contains("\u{1b}[J")).map(str::to_owned)
    };
    let shown = || async { frame().filter(|frame| frame.contains("tester/web/5")) };
    let first = until("the list on the terminal", shown).await;
    assert!(first.matches("\r\n").count() <= 9, "it fits the terminal: {first:?}");
    assert!(first.contains("more below") && !first.contains("tester/web/9 "), "{first:?}");
    cell.borough(&["job", "scale", "web", "2"]).await.ended(0);
    let shrunk = || async {
        frame().filter(|frame| frame.contains("tester/web/1 ") && !frame.contains("tester/web/2 "))
    };
    until("the list drawn again", shrunk).await;
    child.kill().await.unwrap();
    reader.join().unwrap();
    cell.finish().await;
}
