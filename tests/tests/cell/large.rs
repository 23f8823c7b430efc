//! Jobs whose specs no single message between gateway and agent can hold.

use borough_tests::{TestCell, is_running, options, until};

/// Bytes of one environment variable.
const LARGE_BYTES: usize = 85_000;

/// A wait for a job of 20,000 tasks ends in time: while its tasks are read, and later.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wait_for_a_huge_job_runs_out_in_time() {
    let cell = TestCell::start(options!().nodes(1).agent_arguments(&["--cpu=1"])).await;
    let huge = cell.file(
        "huge.yaml",
        "name: huge\ncount: 20000\n\
         task: {command: [sleep, '600'], resources: {cpu: 450m, memory: 4MiB}, grace: 300ms}\n",
    );
    let late = cell.borough(&["job", "run", &huge, "--timeout", "1ms"]).await.ended(1);
    // Depending on the machine, its time is over before the answer to `job run` or while its tasks are read.
    late.warns("1ms; the job goes on");
    cell.tasks_until("huge", "two of it", |tasks| tasks.iter().filter(|task| is_running(task)).count() == 2)
        .await;
    let late = cell.borough(&["job", "run", &huge, "--timeout", "20s"]).await.ended(1);
    let late = late
        .warns("19998 pending; the wait ended after 20s; the job goes on")
        .warns("borough why tester/huge");
    assert!(late.stderr.contains("tester/huge: reading its tasks"), "{}", late.stderr);
    cell.borough(&["job", "stop", "huge"]).await.ended(0);
    cell.finish().await;
}

/// Sixty tasks with 85 kilobytes of environment each on one node: five megabytes of specs if each was sent with its
/// task. All of them run, and the stop of another user's task on the same node arrives meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn sixty_tasks_with_a_large_environment_run_and_stop_no_other() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let other = cell.file(
        "other.yaml",
        "name: other\ntask: {command: [sleep, \"600\"], resources: {cpu: 1m, memory: 8MiB}}\n",
    );
    let as_other = async |arguments: &[&str]| {
        let output = cell.command(arguments).env("BOROUGH_USER", "other").output().await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    as_other(&["job", "run", &other]).await;
    let value = "x".repeat(LARGE_BYTES);
    let text = format!(
        "name: large\ncount: 60\ntask:\n  command: [sleep, \"600\"]\n  environment: {{LARGE: {value}}}\n  \
         resources: {{cpu: 1m, memory: 8MiB}}\n  grace: 1s\n"
    );
    let large = cell.file("large.yaml", &text);
    let begin = async {
        cell.borough(&["job", "run", "--detach", &large]).await.ended(0);
        // Some have started, not all.
        cell.tasks_until("large", "a first task that runs", |tasks| tasks.iter().any(is_running)).await;
        as_other(&["job", "stop", "other"]).await;
    };
    begin.await;
    let tasks = cell
        .tasks_until("large", "60 of 60", |tasks| tasks.len() == 60 && tasks.iter().all(is_running))
        .await;
    assert!(tasks.iter().all(|task| task.incarnation == 1), "none was started twice");
    let failed = until("the node", || async { cell.client().node_list().await.ok() }).await;
    assert!(failed.iter().all(|node| node.session_failure.is_none()), "{failed:?}");
    cell.borough(&["job", "stop", "large"]).await.ended(0);
    cell.finish().await;
}
