//! Explanations, as a user types `borough why`.

use borough_proto::v1::{Task, TaskState};
use borough_shim::process::ProcessId;
use borough_tests::{TestCell, is_healthy, options, until};
use rustix::process::Signal;

/// A batch job of one task.
fn batch(name: &str, command: &str, after: &str) -> String {
    format!(
        "name: {name}\nkind: batch\nrestart: never\nafter: [{after}]\ntask: {{command: {command}, resources: {{cpu: 20m}}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_failed_job_and_a_job_after_it_are_explained() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let failing = cell.file("failing.yaml", &batch("failing", "[sh, -c, 'exit 7']", ""));
    let later = cell.file("later.yaml", &batch("later", "['true']", "failing"));
    cell.borough(&["job", "run", &failing]).await.ended(1);
    cell.borough(&["job", "run", "--detach", &later]).await.ended(0);
    let why = cell.borough(&["why", "failing"]).await.ended(0).prints("all tasks: its job has failed");
    why.prints("task 0: failed for good: exit code 7").prints("borough task logs tester/failing/0");
    let never = "job failing had to succeed, and has ended otherwise";
    until("the end of the job that cannot start", || async {
        let state = cell.borough(&["job", "status", "later", "-o", "json"]).await.json();
        (state["job"]["state"] == "dependency_failed").then_some(())
    })
    .await;
    cell.borough(&["why", "later"]).await.ended(0).prints(never);
    cell.borough(&["job", "status", "later"]).await.ended(0).prints(never);
    // Who waits for such a job reads the same.
    let again = cell.file("again.yaml", &batch("again", "['true']", "failing"));
    let run = cell.borough(&["job", "run", &again]).await.ended(1);
    run.warns(never).warns("hint: borough why tester/again");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_after_a_service_is_told_that_it_waits_in_vain() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", "name: web\ntask: {command: [sleep, 600], resources: {cpu: 20m}, grace: 100ms}\n")
        .await;
    let later = cell.file("later.yaml", &batch("later", "['true']", "web"));
    cell.borough(&["job", "run", "--detach", &later]).await.ended(0);
    let why = cell.borough(&["why", "later"]).await.ended(0);
    why.prints("waits for job web to succeed, and web never does: it runs until somebody stops it");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_would_wait_for_itself_is_refused() {
    let cell = TestCell::start(options!().nodes(1)).await;
    for (name, after) in [("one", "two"), ("two", "three")] {
        let file = cell.file(&format!("{name}.yaml"), &batch(name, "['true']", after));
        cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    }
    let file = cell.file("three.yaml", &batch("three", "['true']", "one"));
    let refused = cell.borough(&["job", "run", "--detach", &file]).await.ended(2);
    assert!(refused.stderr.contains("three -> one -> two -> three"), "{refused:?}");
    // Without the way back it starts, and the others after it.
    let file = cell.file("three.yaml", &batch("three", "['true']", ""));
    cell.borough(&["job", "run", &file]).await.ended(0);
    let one = cell.file("one.yaml", &batch("one", "['true']", "two"));
    cell.borough(&["job", "run", &one]).await.ended(0).prints("1/1 done");
    cell.finish().await;
}

/// Each fact stands once, with its unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_explanation_says_each_thing_once() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let file = cell.file("vast.yaml", "name: vast\ntask: {command: ['true'], resources: {cpu: 5000}}\n");
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let why = until("the explanation", || async {
        let why = cell.borough(&["why", "vast"]).await;
        why.stdout.contains("can never fit").then_some(why.stdout)
    })
    .await;
    for once in ["too small for cpu 5000 cores", "would fit on 1 node with cpu <= ", "fits on none of 1 node"]
    {
        assert_eq!(why.matches(once).count(), 1, "{once:?} in\n{why}");
    }
    let json = cell.borough(&["why", "vast", "-o", "json"]).await.ended(0).json();
    let summary = json[0]["summary"].as_str().unwrap();
    assert!(
        summary.contains("too small") && summary.contains("would fit"),
        "the whole for programs: {summary}"
    );
    cell.borough(&["job", "stop", "vast"]).await.ended(0);
    cell.finish().await;
}

/// A service of tasks that do this.
fn crashing(name: &str, count: u32, task: &str) -> String {
    format!("name: {name}\ncount: {count}\ntask: {{{task}, resources: {{cpu: 20m, memory: 4MiB}}}}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_that_crash_again_and_again_are_explained() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let looped = cell.file("loop.yaml", &crashing("loop", 2, "command: [sh, -c, 'echo gone wrong; exit 7']"));
    cell.borough(&["job", "run", "--detach", &looped]).await.ended(0);
    cell.tasks_until("loop", "failed three times", |tasks| {
        tasks.len() == 2 && tasks.iter().all(|task| task.failures >= 3)
    })
    .await;
    // They run for moments, and wait for most of the time: the answer is the same.
    let why = until("the back-off", || async {
        let why = cell.borough(&["why", "loop"]).await.ended(0);
        assert!(!why.stdout.contains("every task is placed"), "{}", why.stdout);
        why.stdout.contains("next start").then_some(why.stdout)
    })
    .await;
    for once in [
        "2 tasks (0-1): fail again and again: exit code 7, the last of up to ",
        "failures in a row",
        "last end: attempt ",
        "on alpha-1, ",
        "after the back-off",
        "borough task logs tester/loop/",
    ] {
        assert_eq!(why.matches(once).count(), 1, "{once:?} in\n{why}");
    }
    let command = why.lines().find_map(|line| line.split_once("what it wrote: borough ")).unwrap().1;
    let arguments: Vec<&str> = command.split_whitespace().collect();
    cell.borough(&arguments).await.ended(0).prints("gone wrong");
    let one = cell.borough(&["why", "loop/1"]).await.ended(0);
    one.prints("task 1: fails again and again: exit code 7");
    let json = cell.borough(&["why", "loop/1", "-o", "json"]).await.ended(0).json();
    assert_eq!(json[0]["exit"]["code"], 7);
    assert!(json[0]["failures"].as_u64().unwrap() >= 3, "{json}");
    // The table of a job and the facts of a task say it, and nothing says it again.
    let job = cell.borough(&["job", "status", "loop"]).await.ended(0).stdout;
    assert!(!job.contains("again and again") && !job.contains("back-off"), "{job}");
    let status = cell.borough(&["task", "status", "loop/0"]).await.ended(0).stdout;
    assert!(status.matches("in a row").count() <= 1 && !status.contains("backs off"), "{status}");
    cell.borough(&["job", "stop", "loop"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_start_that_fails_is_explained_by_its_cause() {
    let cell = TestCell::start(options!().nodes(1)).await;
    for (name, task, cause) in [
        ("no-program", "command: [no-such-tool]", "start failed: cannot execute \"no-such-tool\""),
        (
            "no-directory",
            "command: [sleep, 1], working_directory: /no/such/place",
            "start failed: cannot use the working directory /no/such/place",
        ),
    ] {
        let file = cell.file("failing.yaml", &crashing(name, 1, task));
        cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
        cell.tasks_until(name, "failed twice", |tasks| tasks.iter().any(|task| task.failures >= 2)).await;
        let why = cell.borough(&["why", name]).await.ended(0);
        let next = "correct the job file, then: borough job run FILE".to_owned();
        let why = why.prints("task 0: fails again and again: ").prints(cause).prints(&next);
        assert!(!why.stdout.contains("os error"), "{}", why.stdout);
        cell.borough(&["job", "stop", name]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_after_a_service_is_warned_of_before_it_waits_for_ever() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &crashing("web", 1, "command: [sleep, 600], grace: 200ms")).await;
    let never = "warning: after: job tester/web is a service and never succeeds, so this job never starts";
    let later = cell.file("later.yaml", &batch("later", "['true']", "web"));
    let plan = cell.borough(&["job", "plan", &later]).await.ended(1);
    let plan = plan
        .prints("task 0: waits for job web to succeed, and web never does: it runs until somebody stops it");
    assert!(!plan.stdout.contains("warning"), "once is enough: {}", plan.stdout);
    let ran = cell.borough(&["job", "run", "--detach", &later]).await.ended(0).warns(never);
    let ran = ran.warns("accepted: a batch job, or {job: web, condition: finished}");
    assert!(!ran.stderr.contains("not every task has a place"), "{}", ran.stderr);
    let finished = cell.file("last.yaml", &batch("last", "['true']", "{job: web, condition: finished}"));
    let waits = "job tester/web is a service and runs until somebody stops it; this job waits for that";
    cell.borough(&["job", "run", "--detach", &finished]).await.ended(0).warns(waits);
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    // It waits for nothing any more.
    let again = cell.borough(&["job", "run", &finished]).await.ended(0);
    assert!(!again.stderr.contains("warning"), "{again:?}");
    // After a batch job there is nothing to warn of.
    let two = cell.file("two.yaml", &batch("two", "['true']", "last"));
    let two = cell.borough(&["job", "run", &two]).await.ended(0);
    assert!(!two.stderr.contains("warning"), "{two:?}");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_kind_of_a_job_that_waits_is_refused_by_name_with_what_to_run() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let first = cell.file("first.yaml", &batch("first", "[sleep, '600']", ""));
    cell.borough(&["job", "run", "--detach", &first]).await.ended(0);
    let later = cell.file("later.yaml", &batch("later", "['true']", "first"));
    cell.borough(&["job", "run", "--detach", &later]).await.ended(0);
    // It has no attempts, so it takes another command without a rollout.
    let other = cell.file("later.yaml", &batch("later", "['false']", "first"));
    cell.borough(&["job", "run", "--detach", &other]).await.ended(0);
    cell.borough(&["rollout", "status", "later"]).await.ended(4).warns("has had no rollout");
    let service = batch("later", "['false']", "first").replace("kind: batch", "kind: service");
    let changed = cell.file("later.yaml", &service);
    let refused = "job tester/later has not ended, and keeps its kind, gang, scheduler and alloc set until then: kind cannot change";
    let next =
        format!("to run it all the same: borough job stop tester/later, then borough job run {changed}");
    let ran = cell.borough(&["job", "run", "--detach", &changed]).await.ended(4);
    let ran = ran.warns(&format!("{changed}:2:7: {refused}")).warns("~ kind: batch -> service");
    ran.warns(&format!("hint: {next}"));
    let plan = cell.borough(&["job", "plan", &changed]).await.ended(2).warns(&next);
    plan.prints(refused).prints("~ kind: batch -> service");
    for job in ["later", "first"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.borough(&["job", "run", "--detach", &changed]).await.ended(0);
    cell.finish().await;
}

/// A task that runs and never becomes healthy: which probe does not pass, and since when.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_probe_that_never_passes_is_named() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let deaf = |name: &str, health: &str| {
        let task = "command: [sh, -c, 'echo I am deaf; exec sleep 600'], ports: [http], grace: 200ms";
        cell.file("deaf.yaml", &crashing(name, 1, &format!("{task}, health: {{{health}}}")))
    };
    let file = deaf("deaf", "http: {port: http, path: /ready}, initial_grace: 10m");
    let ran = cell.borough(&["job", "run", "--progress-deadline", "6s", &file]).await.ended(1);
    let probe =
        "runs and is not healthy: its probe has not passed since the start: GET /ready on port http (";
    let ran = ran.warns("no progress for 6s").warns(probe).warns("the last lines of tester/deaf/0:");
    ran.warns("  I am deaf\n");
    let late = cell.borough(&["job", "run", &file, "--timeout", "4s"]).await.ended(1);
    let late = late.warns("the wait ended after 4s").warns(probe).warns("the last lines of tester/deaf/0:");
    late.warns("  I am deaf\n");
    let log = "what it writes: borough task logs tester/deaf/0";
    cell.borough(&["why", "deaf"]).await.ended(0).prints(&format!("task 0: {probe}")).prints(log);
    cell.borough(&["why", "deaf/0"]).await.ended(0).prints(probe);
    cell.borough(&["job", "status", "deaf"]).await.ended(0).prints(probe);
    cell.borough(&["task", "status", "deaf/0"]).await.ended(0).prints(probe);
    let json = cell.borough(&["why", "deaf", "-o", "json"]).await.ended(0).json();
    assert!(json[0]["probe"].as_str().unwrap().starts_with("GET /ready on port http ("), "{json}");
    assert!(json[0]["unhealthy_since_ms"].as_i64() > Some(0), "{json}");
    cell.borough(&["job", "stop", "deaf"]).await.ended(0);
    // One that is restarted for it: its probe is the cause of the failures.
    let file = deaf("beaten", "tcp: http, interval: 200ms, failures: 1, initial_grace: 200ms");
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    cell.tasks_until("beaten", "failed twice", |tasks| tasks.iter().any(|task| task.failures >= 2)).await;
    let why = cell.borough(&["why", "beaten"]).await.ended(0);
    why.prints("fails again and again: stopped: its health check failed: port http: connection refused")
        .prints("  the probe that failed: a TCP connection to port http\n");
    cell.borough(&["job", "stop", "beaten"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_failed_task_of_a_batch_job_is_named_with_its_end() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let script = "'echo went wrong; [ $BOROUGH_INDEX = 1 ] || exit 7'";
    let text =
        batch("three", &format!("[sh, -c, {script}]"), "").replace("kind: batch", "kind: batch\ncount: 3");
    let file = cell.file("three.yaml", &text);
    let ran = cell.borough(&["job", "run", &file]).await.ended(1);
    ran.warns("tester/three failed: task 0 ended with exit code 7; 2 tasks failed (0, 2)");
    let why = cell.borough(&["why", "three"]).await.ended(0).prints("all tasks: its job has failed");
    let why = why.prints("2 tasks (0, 2): failed for good: exit code 7\n").prints("it does not start again");
    let command = why.stdout.lines().find_map(|line| line.split_once("what it wrote: borough ")).unwrap().1;
    let arguments: Vec<&str> = command.split_whitespace().collect();
    cell.borough(&arguments).await.ended(0).prints("went wrong");
    let one = cell.borough(&["why", "three/2"]).await.ended(0);
    one.prints("task 2: failed for good: exit code 7");
    cell.finish().await;
}

/// Two crashes, and then an operator: who moves a task does not make it fail, and no probe is to blame.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_was_moved_after_crashes_does_not_fail() {
    let cell = TestCell::start(options!().nodes(2)).await;
    let task = "command: [sleep, '600'], grace: 200ms, health: {command: ['true'], interval: 200ms}";
    let text = format!("{}restart: {{backoff: 10ms}}\n", crashing("web", 1, task));
    cell.run("web.yaml", &text).await;
    for attempt in 1..=2_u64 {
        let running = |tasks: &[Task]| {
            tasks[0].state() == TaskState::Running
                && tasks[0].incarnation == attempt
                && tasks[0].pid.is_some()
        };
        let pid = cell.tasks_until("web", "it runs", running).await[0].pid.unwrap();
        ProcessId::find(pid).unwrap().signal(Signal::KILL).unwrap();
    }
    let again = |tasks: &[Task]| tasks[0].state() == TaskState::Running && tasks[0].incarnation == 3;
    let node = cell.tasks_until("web", "the third attempt", again).await.remove(0).node;
    // The probe passes all the time.
    let why = cell.borough(&["why", "web/0"]).await.ended(0);
    let waits = "it is healthy once it has run for 4 s without an exit and its probe passes (the command";
    let why =
        why.prints("task 0: fails again and again: SIGKILL, the last of 2 failures in a row\n").prints(waits);
    assert!(!why.stdout.contains("has not passed"), "{}", why.stdout);
    let healthy = |tasks: &[Task]| tasks.iter().all(is_healthy);
    cell.tasks_until("web", "healthy", healthy).await;

    cell.borough(&["node", "taint", &node, "hot:no_execute"]).await.ended(0);
    let moved = |tasks: &[Task]| tasks[0].state() == TaskState::Running && tasks[0].node != node;
    cell.tasks_until("web", "moved", moved).await;
    let why = cell.borough(&["why", "web"]).await.ended(0);
    let reason =
        "stopped: its node has a taint that it does not tolerate; before that it failed 2 times in a row";
    let why = why.prints(&format!("task 0: {reason}\n")).prints(waits);
    assert!(
        !why.stdout.contains("again and again") && !why.stdout.contains("probe that failed"),
        "{}",
        why.stdout
    );
    cell.tasks_until("web", "healthy again", healthy).await;
    cell.borough(&["why", "web"]).await.ended(0).prints("every task is placed or has succeeded");
    let status = cell.borough(&["task", "status", "web/0"]).await.ended(0);
    status.prints("2 in a row, before it became healthy");
    cell.borough(&["why", "web/0"]).await.ended(0).prints("task 0: has a node: it is running");
    cell.borough(&["job", "scale", "web", "0"]).await.ended(0);
    cell.borough(&["why", "web"]).await.ended(0).prints("tester/web: it has no tasks: its count is 0");
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}
