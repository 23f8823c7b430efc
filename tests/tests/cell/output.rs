//! Output of tasks, followed over everything that ends its stream: a gateway, a relay, an attempt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use borough_tests::{DEADLINE, TestCell, is_running, options, until, until_or};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Lines of a writer.
const LINES: usize = 1_500;

/// A batch job of writers. Each writes numbered lines to standard output, and every tenth to standard error too.
fn writers(name: &str, count: u32) -> String {
    let script = format!(
        "i=0; while [ $i -lt {LINES} ]; do echo \"line $i\"; \
         if [ $((i % 10)) = 0 ]; then echo \"tenth $i\" >&2; fi; i=$((i+1)); sleep 0.01; done; printf done"
    );
    let job = serde_json::json!({
        "name": name, "kind": "batch", "count": count,
        "task": {"command": ["sh", "-c", script], "resources": {"cpu": "20m", "memory": "16MiB"}},
    });
    job.to_string()
}

/// What a writer writes to standard output and to standard error, with `prefix` before each line.
fn written(prefix: &str) -> (String, String) {
    let out: String = (0..LINES).map(|i| format!("{prefix}line {i}\n")).collect();
    let err = (0..LINES).step_by(10).map(|i| format!("{prefix}tenth {i}\n")).collect();
    (format!("{out}{prefix}done"), err)
}

/// A way to the gateway, as if it was another gateway. Aborting it cuts every connection.
pub(crate) async fn relay(to: String) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (listener.local_addr().unwrap().to_string(), relay_on(listener, to))
}

/// The same at this address, on which nobody listens any more.
pub(crate) async fn relay_at(address: &str, to: String) -> JoinHandle<()> {
    relay_on(TcpListener::bind(address).await.unwrap(), to)
}

fn relay_on(listener: TcpListener, to: String) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            let to = to.clone();
            connections.spawn(async move {
                let mut far = TcpStream::connect(to).await.ok()?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await.ok()
            });
        }
    })
}

/// A verb that goes on, with its output in files.
pub(crate) struct Following {
    child: tokio::process::Child,
    out: PathBuf,
    err: PathBuf,
}

/// Waits for a text in a file that grows.
async fn until_in(path: &Path, text: &str) {
    let what = || format!("{text:?} in {}; it has\n{}", path.display(), Following::text(path));
    until_or(what, || async { Following::text(path).contains(text).then_some(()) }).await;
}

impl Following {
    pub(crate) fn start(cell: &TestCell, name: &str, arguments: &[&str]) -> Self {
        let file = |of: &str| PathBuf::from(cell.file(&format!("{name}.{of}"), ""));
        let (out, err) = (file("out"), file("err"));
        let stdio = |path: &Path| Stdio::from(fs::File::create(path).unwrap());
        let mut command = cell.command(arguments);
        let child = command.stdout(stdio(&out)).stderr(stdio(&err)).spawn().unwrap();
        Self { child, out, err }
    }

    fn text(path: &Path) -> String {
        String::from_utf8(fs::read(path).unwrap()).unwrap()
    }

    pub(crate) async fn until_shown(&self, text: &str) {
        until_in(&self.out, text).await;
    }

    pub(crate) async fn until_warned(&self, text: &str) {
        until_in(&self.err, text).await;
    }

    /// What it has written to standard output.
    pub(crate) fn shown(&self) -> String {
        Self::text(&self.out)
    }

    /// What it has remarked.
    pub(crate) fn warned(&self) -> String {
        Self::text(&self.err)
    }

    /// Ends it, and returns its output.
    pub(crate) async fn end(mut self) -> String {
        self.child.kill().await.unwrap();
        self.shown()
    }

    /// Its output and its errors, once it has ended by itself.
    pub(crate) async fn ended(self) -> (String, String) {
        self.ended_with(0).await
    }

    /// The same, if it ends with this code.
    pub(crate) async fn ended_with(mut self, code: i32) -> (String, String) {
        let status = tokio::time::timeout(DEADLINE, self.child.wait()).await;
        let (out, err) = (Self::text(&self.out), Self::text(&self.err));
        let status = status.unwrap_or_else(|_| panic!("it does not end: {out}\n{err}")).unwrap();
        assert_eq!(status.code(), Some(code), "{status}: {err}");
        (out, err)
    }
}

/// The output of a job stays whole over the move of its task to another node.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn output_is_followed_over_the_drain_of_its_node() {
    let cell = TestCell::start(options!()).await;
    let script = "i=0; while :; do echo \"$BOROUGH_NODE line $i\"; i=$((i+1)); sleep 0.1; done";
    let job = serde_json::json!({
        "name": "moving",
        "task": {
            "command": ["sh", "-c", script], "resources": {"cpu": "20m", "memory": "16MiB"}, "grace": "300ms",
        },
    });
    cell.run("moving.json", &job.to_string()).await;
    let before = cell.tasks("moving").await.remove(0);
    let follow = Following::start(&cell, "moving", &["job", "logs", "-f", "moving"]);
    follow.until_shown(&format!("{} line 2\n", before.node)).await;
    cell.borough(&["node", "drain", &before.node]).await.ended(0);
    let moved = |tasks: &[borough_proto::v1::Task]| is_running(&tasks[0]) && tasks[0].node != before.node;
    let after = cell.tasks_until("moving", "on the other node", moved).await.remove(0);
    follow.until_shown(&format!("{} line 2\n", after.node)).await;
    // The attempt that ended on the drained node is kept there.
    let both = cell.borough(&["job", "logs", "--attempt", "all", "moving"]).await.ended(0);
    let first = cell.borough(&["task", "logs", "--previous", "moving/0"]).await.ended(0).stdout;
    cell.borough(&["job", "stop", "moving"]).await.ended(0);
    let (followed, _) = follow.ended().await;
    let lines = followed.lines().map(|line| line.strip_prefix("moving/0 | ").unwrap_or(line));
    let lines: Vec<&str> = lines.collect();
    let of = |node: &str| lines.iter().filter(|line| line.starts_with(node)).count();
    assert_eq!(of(&before.node) + of(&after.node), lines.len(), "{followed}");
    let numbered = |node: &str| (0..of(node)).map(|i| format!("{node} line {i}")).collect::<Vec<_>>();
    assert_eq!(lines, [numbered(&before.node), numbered(&after.node)].concat(), "in order, each once");
    assert_eq!(first, numbered(&before.node).iter().map(|line| format!("{line}\n")).collect::<String>());
    both.prints(&format!("{} line 0\n", before.node)).prints(&format!("{} line 0\n", after.node));
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn output_is_followed_without_a_lost_or_doubled_byte_over_gateways_that_die() {
    let mut cell = TestCell::start(options!()).await;
    let (first, first_relay) = relay(cell.grpc()).await;
    let (second, second_relay) = relay(cell.grpc()).await;
    let file = cell.file("writers.json", &writers("writers", 4));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    cell.tasks_until("writers", "all run", |tasks| tasks.len() == 4 && tasks.iter().all(is_running)).await;
    let token = cell.root().join("token").display().to_string();
    let gateways = format!("{first},{second}");
    let common = ["--gateway", &gateways, "--token-file", &token, "--cell", "alpha"];
    let one = Following::start(&cell, "one", &[&common[..], &["task", "logs", "-f", "writers/0"]].concat());
    let all = Following::start(&cell, "all", &[&common[..], &["job", "logs", "-f", "writers"]].concat());
    one.until_shown("line 100\n").await;
    all.until_shown("writers/3 | line 100\n").await;
    first_relay.abort();
    one.until_shown("line 300\n").await;
    all.until_shown("writers/3 | line 300\n").await;
    cell.control_kill();
    cell.control_start().await;
    let (out, err) = one.ended().await;
    // On a loaded machine the gateway is away for long enough to be remarked.
    let remarked =
        |line: &&str| !line.contains("no gateway answers") && !line.contains("a gateway answers again");
    let err: String = err.split_inclusive('\n').filter(remarked).collect();
    assert_eq!((out, err), written(""));
    let (out, err) = all.ended().await;
    for index in 0..4 {
        let prefix = format!("writers/{index} | ");
        let of = |text: &str| -> String {
            text.split_inclusive('\n').filter(|line| line.starts_with(&prefix)).collect()
        };
        let (expected_out, expected_err) = written(&prefix);
        assert_eq!((of(&out), of(&err)), (format!("{expected_out}\n"), expected_err), "task {index}");
    }
    assert_eq!(out.lines().count(), 4 * (LINES + 1), "no other line");
    second_relay.abort();
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_is_followed_over_restarts_and_new_tasks_to_its_end() {
    let cell = TestCell::start(options!()).await;
    // The shell would say on standard error that its sleep was ended.
    let script = "exec 2>/dev/null; trap 'echo bye; exit 0' TERM; echo attempt $BOROUGH_ATTEMPT of $BOROUGH_INDEX; \
                  while true; do sleep 0.05; done";
    let job = serde_json::json!({
        "name": "spoken", "count": 2,
        "task": {"command": ["sh", "-c", script], "resources": {"cpu": "20m", "memory": "16MiB"}, "grace": "5s"},
        "restart": {"mode": "always", "backoff": "100ms"},
    });
    cell.run("spoken.json", &job.to_string()).await;
    let follow = Following::start(&cell, "spoken", &["job", "logs", "-f", "spoken"]);
    follow.until_shown("spoken/0 | attempt 1").await;
    follow.until_shown("spoken/1 | attempt 1").await;
    cell.borough(&["task", "restart", "spoken/0"]).await.ended(0);
    follow.until_shown("spoken/0 | attempt 2").await;
    cell.borough(&["job", "scale", "spoken", "3"]).await.ended(0);
    follow.until_shown("spoken/2 | attempt 1").await;
    cell.borough(&["job", "stop", "spoken"]).await.ended(0);
    let (out, err) = follow.ended().await;
    let of = |index: u32| -> Vec<&str> {
        out.lines().filter_map(|line| line.strip_prefix(&format!("spoken/{index} | "))).collect()
    };
    let first = |index| format!("attempt 1 of {index}");
    assert_eq!(of(0), [first(0).as_str(), "bye", "attempt 2 of 0", "bye"]);
    assert_eq!(of(1), [first(1).as_str(), "bye"]);
    assert_eq!(of(2), [first(2).as_str(), "bye"]);
    assert_eq!(err, "", "nothing was missed");
    // What is kept is shown after the end too, task by task.
    let kept = cell.borough(&["job", "logs", "--tail", "1", "spoken"]).await.ended(0);
    assert_eq!(kept.stdout, "spoken/0 | bye\nspoken/1 | bye\nspoken/2 | bye\n");
    let first = cell.borough(&["job", "logs", "--attempt", "1", "spoken", "-o", "json"]).await;
    let texts: Vec<String> = first
        .stdout
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {}: {}", line["index"], line["attempt"], line["text"].as_str().unwrap())
        })
        .collect();
    assert_eq!(texts[..2], ["1 1: attempt 1 of 1", "1 1: bye"], "{texts:?}");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_logs_of_many_tasks_have_each_line_of_each_once() {
    let cell = TestCell::start(options!()).await;
    let (tasks, lines) = (60_u32, 40_u32);
    // One line is written in two parts, with a pause in which its begin is read.
    let script = format!(
        "for i in $(seq {lines}); do printf %s: $BOROUGH_INDEX; if [ $i = 20 ]; then sleep 1; fi; echo $i; done"
    );
    let job = serde_json::json!({
        "name": "many", "kind": "batch", "count": tasks,
        "task": {"command": ["sh", "-c", script], "resources": {"cpu": "1m", "memory": "8MiB"}},
    });
    let file = cell.file("many.json", &job.to_string());
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let follow = Following::start(&cell, "many", &["job", "logs", "-f", "many"]);
    let (out, _) = follow.ended().await;
    let kept = cell.borough(&["job", "logs", "many"]).await.ended(0);
    for (what, text) in [("followed", &out), ("kept", &kept.stdout)] {
        for index in 0..tasks {
            let prefix = format!("many/{index:<2} | ");
            let of: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
            let expected: Vec<String> = (1..=lines).map(|i| format!("{index}:{i}")).collect();
            assert_eq!(of, expected, "{what}: task {index}");
        }
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lines_have_their_times_and_are_chosen_by_them() {
    let cell = TestCell::start(options!()).await;
    // Each line says when it was written.
    let script = "date +early.%s%3N; sleep 4; date +late.%s%3N; exec sleep 600";
    let job = serde_json::json!({
        "name": "timed", "count": 2,
        "task": {"command": ["sh", "-c", script], "resources": {"cpu": "20m", "memory": "16MiB"}},
    });
    cell.run("timed.json", &job.to_string()).await;
    let follow = Following::start(&cell, "timed", &["job", "logs", "-f", "--timestamps", "timed"]);
    follow.until_shown("timed/0 | 20").await;
    follow.until_shown("Z late").await;
    let times = async |arguments: &[&str]| -> Vec<(String, i64)> {
        let shown =
            cell.borough(&[&["job", "logs", "timed", "-o", "json"], arguments].concat()).await.ended(0);
        let lines = shown.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut lines: Vec<_> = lines
            .filter(|line| line["index"] == 0)
            .map(|line| (line["text"].as_str().unwrap().to_owned(), line["at_ms"].as_i64().unwrap_or(-1)))
            .collect();
        lines.sort();
        lines
    };
    until("all lines", || async { (times(&[]).await.len() == 2).then_some(()) }).await;
    assert_eq!(times(&[]).await[0].1, -1, "times are shown only if they are asked for");
    let all = times(&["--timestamps"]).await;
    let written: Vec<i64> =
        all.iter().map(|(text, _)| text.split_once('.').unwrap().1.parse().unwrap()).collect();
    // A line has the time at which it was read: not before it was written, and on a busy machine somewhat later.
    for ((_, read_ms), written_ms) in all.iter().zip(&written) {
        assert!((*written_ms..written_ms + 60_000).contains(read_ms), "{all:?}");
    }
    assert!(written[1] - written[0] >= 4_000, "{all:?}");
    let apart = all[1].1 - all[0].1;
    assert!(apart > 0, "{all:?}");
    let lately = times(&["--since", "1h", "--timestamps"]).await;
    assert_eq!(lately, all);
    // All but the early line, however busy the machine is: the age is counted from the line itself.
    let aged = || async {
        let now_ms = borough_kv::env::SystemClock::shared().wall_ms();
        let since = format!("{}ms", now_ms - all[1].1 + (apart / 2));
        let lines = times(&["--since", &since]).await;
        (lines.len() == 1 && lines[0].0.starts_with("late")).then_some(())
    };
    until("the late line alone", aged).await;
    let none = || async { times(&["--since", "1ms"]).await.is_empty().then_some(()) };
    until("that all lines are old", none).await;
    drop(follow.end().await);
    cell.finish().await;
}

/// One task, the attempt that ended last, and times: both verbs on output take the same options.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn output_is_chosen_by_task_attempt_and_time() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = "name: pair\ncount: 2\ntask:\n  \
        command: [sh, -c, 'echo attempt $BOROUGH_ATTEMPT of $BOROUGH_INDEX; exec sleep 600']\n  \
        resources: {cpu: 10m, memory: 4MiB}\n  grace: 300ms\n";
    cell.run("pair.yaml", job).await;
    let follow = Following::start(&cell, "one", &["job", "logs", "-f", "pair", "--task", "1"]);
    follow.until_shown("pair/1 | attempt 1 of 1\n").await;
    cell.borough(&["job", "restart", "pair", "--task", "1"]).await.ended(0);
    follow.until_shown("pair/1 | attempt 2 of 1\n").await;

    let logs = async |options: &[&str], verb: &[&str]| {
        let line: Vec<&str> = verb.iter().chain(options).copied().collect();
        cell.borough(&line).await
    };
    let of_job = async |options: &[&str]| logs(options, &["job", "logs", "pair"]).await;
    let of_task = async |options: &[&str]| logs(options, &["task", "logs", "pair/1"]).await;
    assert_eq!(of_job(&["--task", "1"]).await.ended(0).stdout, "pair/1 | attempt 2 of 1\n");
    let both = "pair/0 | attempt 1 of 0\npair/1 | attempt 2 of 1\n";
    for chosen in [&["--task", "1,0"][..], &["--task", "0", "--task", "1", "--task", "0"], &[]] {
        assert_eq!(of_job(chosen).await.ended(0).stdout, both, "{chosen:?}");
    }
    for previous in [&["--previous"][..], &["-p", "--task", "1"], &["--previous", "--task", "0,1"]] {
        assert_eq!(of_job(previous).await.ended(0).stdout, "pair/1 | attempt 1 of 1\n", "{previous:?}");
    }
    assert_eq!(of_task(&["--previous"]).await.ended(0).stdout, "attempt 1 of 1\n");
    let none = of_job(&["--previous", "--task", "0"]).await.ended(3);
    none.warns("task tester/pair/0 has no attempt that has ended yet")
        .warns("hint: borough job logs tester/pair --task 0");
    let absent = of_job(&["--task", "0,7"]).await.ended(3);
    absent.warns("job tester/pair has no task 7; accepted: 0 to 1");
    of_job(&["--previous", "--follow"]).await.ended(2).warns("exclude each other");

    // The time of a line stands before it, or in its object.
    let timed = of_task(&["--timestamps"]).await.ended(0).stdout;
    let (time, line) = timed.split_once(' ').unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z') && line == "attempt 2 of 1\n", "{timed}");
    let object = of_task(&["--timestamps", "-o", "json"]).await.ended(0).json();
    assert_eq!((object["attempt"].as_u64(), object["text"].as_str()), (Some(2), Some("attempt 2 of 1")));
    assert!(object["at_ms"].as_i64().is_some(), "{object}");
    for since in [&of_task(&["--since", "1h"]).await.ended(0), &of_job(&["--since", "1h"]).await.ended(0)] {
        assert!(since.stdout.contains("attempt 2 of 1\n"), "{since:?}");
    }
    until("output that is older than a second", || async {
        of_task(&["--since", "1s"]).await.ended(0).stdout.is_empty().then_some(())
    })
    .await;
    cell.borough(&["job", "stop", "pair"]).await.ended(0);
    let (shown, _) = follow.ended().await;
    assert!(!shown.contains(" of 0"), "{shown}");
    cell.finish().await;
}

/// A stream that is written all the time neither hides the other one nor keeps a reader who does not follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_loud_standard_output_leaves_standard_error_its_turn() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = "name: loud\ntask:\n  \
        command: [sh, -c, '(while :; do echo tick >&2; sleep 0.1; done) & exec yes']\n  \
        resources: {cpu: 100m, memory: 32MiB}\n  grace: 300ms\n";
    cell.run("loud.yaml", job).await;
    let err = PathBuf::from(cell.file("follow.err", ""));
    let mut follow = cell.command(&["task", "logs", "-f", "loud/0"]);
    let into = Stdio::from(fs::File::create(&err).unwrap());
    let mut follow = follow.stdout(Stdio::null()).stderr(into).spawn().unwrap();
    // More than were there when it began.
    until("standard error", || async {
        let ticks = fs::read_to_string(&err).unwrap().matches("tick\n").count();
        (ticks > 40).then_some(())
    })
    .await;
    follow.kill().await.unwrap();
    let tail = cell.borough(&["task", "logs", "loud/0", "--tail", "3"]).await.ended(0);
    assert!(tail.stdout.ends_with("y\n") && tail.stderr.contains("tick\n"), "{}", tail.stderr);
    cell.borough(&["job", "stop", "loud"]).await.ended(0);
    cell.finish().await;
}
