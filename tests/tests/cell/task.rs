//! Single tasks: killed, restarted, signalled, inspected.

use std::os::unix::process::ExitStatusExt as _;

use borough_proto::v1::Health;
use borough_shim::process::ProcessId;
use borough_tests::{TestCell, Watcher, is_healthy, is_running, now, options, until};
use rustix::process::Signal;
use tokio::io::AsyncBufReadExt as _;

use crate::SERVICE;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_killed_task_is_withdrawn_for_good_and_started_again() {
    let cell = TestCell::start(options!()).await;
    cell.run("served.yaml", SERVICE).await;
    let watcher = Watcher::start(cell.client(), "served").await;
    let before = watcher.until_published(2).await;
    let tasks = cell.tasks("served").await;
    let (first, other) = (&tasks[0], &tasks[1]);
    let process = ProcessId::find(first.pid.unwrap()).unwrap();
    let killed = now();
    process.signal(Signal::KILL).unwrap();
    let withdrawn = until("the withdrawal", || async { watcher.withdrawn_at(0, first.incarnation) }).await;
    let after = until("the next attempt's endpoint", || async {
        let published = watcher.published();
        published.get(&0).filter(|endpoint| endpoint.incarnation > first.incarnation).cloned()
    })
    .await;
    println!("from death to withdrawal: {} ms", withdrawn.saturating_sub(killed).as_millis());
    assert_eq!(after.incarnation, first.incarnation + 1);
    let tasks = cell.tasks_until("served", "healthy again", |tasks| tasks.iter().all(is_healthy)).await;
    let exit = tasks[0].exit.as_ref().expect("how the first attempt ended");
    assert_eq!((exit.signal, exit.incarnation), (Some(9), first.incarnation));
    assert_eq!((tasks[1].pid, tasks[1].incarnation), (other.pid, other.incarnation), "the other one goes on");
    assert_eq!(watcher.published()[&1], before[&1]);
    watcher.assert_sound();
    cell.borough(&["job", "stop", "served"]).await.ended(0);
    watcher.until_published(0).await;
    watcher.assert_sound();
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn people_look_into_tasks_signal_and_restart_them() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let script = r#"trap "echo hup" HUP; trap "echo term; exit 0" TERM; echo attempt $BOROUGH_ATTEMPT
        while true; do sleep 0.05; done"#;
    let job = serde_json::json!({
        "name": "spoken",
        "task": {"command": ["sh", "-c", script], "environment": {"WORD": "mellon"}, "grace": "5s"},
        "restart": {"mode": "always", "backoff": "100ms"},
    });
    cell.run("spoken.json", &job.to_string()).await;
    // exec: the task's environment and directory, and the command's exit code.
    cell.borough(&["task", "exec", "spoken/0", "--", "sh", "-c", "echo $WORD $BOROUGH_JOB; exit 7"])
        .await
        .ended(7)
        .prints("mellon spoken\n");
    let missing = cell.borough(&["task", "exec", "spoken/0", "--", "no-such-program"]).await.ended(127);
    missing
        .warns("error: task tester/spoken/0 on alpha-1: cannot execute \"no-such-program\": no directory of its PATH has it")
        .warns("\nhint: borough task exec tester/spoken/0 -- env\n");
    let refused = cell.borough(&["task", "exec", "spoken/0", "--", "/etc/passwd"]).await.ended(126);
    refused.warns("cannot execute \"/etc/passwd\": its mode, or that of a directory above it");
    cell.borough(&["task", "exec", "spoken/0", "--", "/tmp"]).await.ended(126).warns("it is a directory");
    cell.borough(&["task", "exec", "spoken/0", "--", ""])
        .await
        .ended(2)
        .warns("accepted: a program and its arguments");
    cell.borough(&["task", "exec", "spoken/1", "--", "true"]).await.ended(255);

    // What follows a job ends with SIGTERM, also in the middle.
    let mut all = cell.command(&["job", "logs", "-f", "spoken"]).spawn().unwrap();
    let mut shown = tokio::io::BufReader::new(all.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(borough_tests::DEADLINE, shown.next_line()).await.unwrap().unwrap();
    assert!(first.is_some_and(|line| line.contains("attempt")));
    ProcessId::find(all.id().unwrap()).unwrap().signal(Signal::TERM).unwrap();
    let ended = tokio::time::timeout(borough_tests::DEADLINE, all.wait()).await.unwrap().unwrap();
    assert!(ended.code() == Some(143) || ended.signal() == Some(15), "{ended}");

    // signal, and logs that are followed over it.
    let mut follow = cell.command(&["task", "logs", "-f", "spoken/0"]).spawn().unwrap();
    cell.borough(&["task", "signal", "spoken/0", "HUP"]).await.ended(0);
    let first = cell.tasks("spoken").await.remove(0);
    until("the signal in the logs", || async {
        let ran = cell.borough(&["task", "logs", "spoken/0"]).await;
        ran.stdout.contains("hup").then_some(())
    })
    .await;

    // restart: the attempt ends as by a stop, and the next one begins.
    cell.borough(&["task", "restart", "spoken/0"]).await.ended(0);
    let next = cell
        .tasks_until("spoken", "the next attempt", |tasks| {
            tasks.iter().all(|task| is_running(task) && task.incarnation > first.incarnation)
        })
        .await
        .remove(0);
    assert_ne!(next.pid, first.pid);
    assert_eq!(next.failures, 0, "a restart is no failure");
    // The followed output ends with its attempt, and is complete.
    let (attempt, status) = (first.incarnation, follow.wait());
    assert!(tokio::time::timeout(borough_tests::DEADLINE, status).await.unwrap().unwrap().success());
    let output = follow.wait_with_output().await.unwrap();
    let followed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(followed, format!("attempt {attempt}\nhup\nterm\n"));
    let previous = cell.borough(&["task", "logs", "--previous", "spoken/0"]).await.ended(0);
    assert_eq!(previous.stdout, followed);
    let tail =
        cell.borough(&["task", "logs", "--tail", "1", "--attempt", &attempt.to_string(), "spoken/0"]).await;
    assert_eq!(tail.ended(0).stdout, "term\n");
    cell.borough(&["job", "stop", "spoken"]).await.ended(0);
    cell.finish().await;
}

/// A task that has failed waits for its next start. Its last attempt is the one that people ask for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_output_of_the_last_attempt_is_shown_while_the_next_one_waits() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = "name: failing\ntask: {command: [sh, -c, 'echo attempt $BOROUGH_ATTEMPT; exit 3']}\n\
        restart: {mode: always, attempts: 50, backoff: 300s, backoff_max: 300s}\n";
    let job = cell.file("failing.yaml", job);
    cell.borough(&["job", "run", "--detach", &job]).await.ended(0);
    let waits = |tasks: &[borough_proto::v1::Task]| {
        tasks[0].state() == borough_proto::v1::TaskState::Pending && tasks[0].exit.is_some()
    };
    cell.tasks_until("failing", "its pause", waits).await;
    cell.borough(&["task", "logs", "--previous", "failing/0"]).await.ended(0).prints("attempt 1\n");
    cell.borough(&["task", "restart", "failing/0"]).await.ended(0);
    let second = |tasks: &[borough_proto::v1::Task]| waits(tasks) && tasks[0].incarnation == 2;
    cell.tasks_until("failing", "its second pause", second).await;
    for logs in [&["task", "logs", "--previous", "failing/0"][..], &["task", "logs", "failing/0"]] {
        assert_eq!(cell.borough(logs).await.ended(0).stdout, "attempt 2\n", "{logs:?}");
    }
    let gone = cell.borough(&["task", "logs", "--attempt", "1", "failing/0"]).await.ended(3);
    gone.warns("no attempt 1 of task tester/failing/0; known: 2");
    cell.borough(&["job", "stop", "failing"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_failed_start_and_a_missing_health_are_reported() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let missing = cell.file(
        "missing.yaml",
        "name: missing\ntask: {command: [/no/such/program]}\nrestart: {mode: always, attempts: 2, backoff: 100ms}\n",
    );
    let ran = cell.borough(&["job", "run", &missing]).await.ended(1);
    assert!(ran.stderr.contains(": task 0 ended with start failed"), "{}", ran.stderr);
    ran.warns("hint: borough job status tester/missing; borough task status tester/missing/0\n");
    let quits = "name: quits\ncount: 2\nrestart: {mode: always, attempts: 2, backoff: 100ms}\n\
        task: {command: [sh, -c, 'test $BOROUGH_INDEX = 0 || exit 3; exec sleep 600'], grace: 200ms}\n";
    let ran = cell.borough(&["job", "run", &cell.file("quits.yaml", quits)]).await.ended(1);
    ran.warns("hint: borough job status tester/quits; borough task logs tester/quits/1\n");
    let status = cell.borough(&["task", "status", "missing", "-o", "json"]).await.ended(0);
    assert!(status.stdout.contains("/no/such/program"), "the reason is not in {}", status.stdout);
    assert!(status.stdout.contains("start_failed"), "{}", status.stdout);

    // The port is never opened: the check fails, and the task is started again.
    let ill = "name: ill\ntask:\n  command: [sleep, 600]\n  ports: [http]\n  grace: 200ms\n  \
        health: {tcp: http, interval: 100ms, timeout: 100ms, failures: 2, initial_grace: 0s}\n\
        restart: {mode: always, backoff: 100ms}\n";
    let ran = cell.borough(&["job", "run", &cell.file("ill.yaml", ill), "--timeout", "2s"]).await.ended(1);
    assert!(ran.stderr.contains("0/1 healthy"), "{}", ran.stderr);
    let tasks =
        cell.tasks_until("ill", "started again", |tasks| tasks.iter().all(|task| task.restarts > 0)).await;
    assert!(tasks.iter().all(|task| task.health() != Health::Healthy));
    let status = cell.borough(&["task", "status", "ill"]).await.ended(0);
    assert!(status.stdout.contains("health check failed"), "{}", status.stdout);
    for job in ["ill", "missing", "quits"] {
        let ran = cell.borough(&["job", "stop", job]).await;
        assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stopped_task_runs_elsewhere_if_it_fits_there() {
    let cell = TestCell::start(options!()).await;
    let job = "name: moved\ncount: 1\ntask: {command: [sleep, 600], resources: {cpu: 10m, memory: 4MiB}, grace: 300ms}\n";
    cell.run("moved.yaml", job).await;
    let first = cell.tasks("moved").await.remove(0);
    // Once more brings it back: the node that it left last is the one to avoid.
    let mut before = first.clone();
    for _ in 0..2 {
        let ran = cell.borough(&["task", "stop", "moved/0", "--timeout", "60s"]).await.ended(0);
        let after = cell.tasks("moved").await.remove(0);
        assert_ne!(after.node, before.node, "{}", ran.stdout);
        assert_eq!(after.incarnation, before.incarnation + 1);
        assert_eq!(
            (after.failures, is_healthy(&after)),
            (0, true),
            "a stop is no failure, and the verb waits"
        );
        ran.prints(&format!("moved/0: running on {}, attempt {}", after.node, after.incarnation));
        before = after;
    }
    // The only node that takes tasks is taken again.
    let other = if first.node == "alpha-1" { "alpha-2" } else { "alpha-1" };
    cell.borough(&["node", "cordon", other]).await.ended(0);
    let json = cell.borough(&["task", "stop", "moved/0", "-o", "json"]).await.ended(0).json();
    assert_eq!((json["node"].as_str(), json["state"].as_str()), (Some(first.node.as_str()), Some("running")));
    cell.borough(&["task", "stop", "moved/0", "--detach"])
        .await
        .ended(0)
        .warns("moved/0: stopping attempt 4");
    cell.tasks_until("moved", "again", |tasks| tasks[0].incarnation == 5 && is_healthy(&tasks[0])).await;

    // A stop that takes longer than the wait goes on. A task without an attempt has none to stop.
    cell.borough(&["node", "cordon", &first.node]).await.ended(0);
    let late = cell.borough(&["task", "stop", "moved/0", "--timeout", "2s"]).await.ended(1);
    assert!(late.stderr.contains("moved/0: pending") && late.stderr.contains("after 2s"), "{}", late.stderr);
    assert!(late.stderr.contains("cordoned"), "it says why the task waits: {}", late.stderr);
    let waits = cell.borough(&["task", "stop", "moved/0"]).await.ended(4);
    waits.warns("no attempt to stop").warns("borough task restart tester/moved/0");
    cell.borough(&["task", "stop", "moved/1"]).await.ended(3).warns("the only one is 0");
    cell.borough(&["task", "stop", "nothing/0"]).await.ended(3).warns("no job \"nothing\" of user tester");
    cell.borough(&["job", "stop", "moved"]).await.ended(0);
    cell.borough(&["task", "stop", "moved/0"]).await.ended(4).warns("its job does not run");
    cell.finish().await;
}

/// The kernel answers a search in `PATH` with its refusal of a closed directory, even if no other one has the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_program_that_path_does_not_have_is_missing_even_if_a_directory_of_it_is_closed() {
    use std::os::unix::fs::PermissionsExt as _;
    let cell = TestCell::start(options!().nodes(1)).await;
    let closed = tempfile::tempdir().unwrap();
    let mode = |mode| std::fs::set_permissions(closed.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0);
    let path = format!("{}:/usr/bin:/bin", closed.path().display());
    let job = serde_json::json!({
        "name": "lost", "kind": "batch", "restart": "never",
        "task": {"command": ["no-such-tool"], "environment": {"PATH": path}, "resources": {"memory": "8MiB"}},
    });
    let file = cell.file("lost.json", &job.to_string());
    let ran = cell.borough(&["job", "run", &file]).await.ended(1);
    // Progress and lists say it in short.
    let short = "start failed: cannot execute \"no-such-tool\": no directory of its PATH has it";
    let ran = ran.warns(short);
    assert!(!ran.stderr.contains("/usr/bin"), "{ran:?}");
    let list = cell.borough(&["job", "status", "lost"]).await.ended(0).prints(short);
    assert!(!list.stdout.contains("/usr/bin"), "{list:?}");
    let status = cell.borough(&["task", "status", "lost/0"]).await.ended(0).prints(short);
    assert!(!status.stdout.contains("Permission denied"), "{status:?}");
    assert!(!status.stdout.contains("No such file"), "{status:?}");
    mode(0o700);
    cell.finish().await;
}
