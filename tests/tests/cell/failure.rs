//! A store whose disk fails: the role ends with its code, and the next start continues with everything acknowledged.

use borough_tests::{Options, TestCell, is_fdb, is_up, options};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::SERVICE;

/// The code of a role whose store has stopped.
const STORE_FAILED: i32 = 74;
/// Writes beyond this offset of a file fail from now on: more than the process's log has, and less than its store.
const FILE_BYTES: u64 = 48 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_control_process_whose_disk_fails_ends_and_is_started_again() {
    if is_fdb() {
        eprintln!("NOT EXERCISED: a failing disk; the cell is on FoundationDB");
        return;
    }
    // The kernel ends a process that writes beyond its limit, unless it ignores the signal; then the write fails.
    let prelude = Some("trap '' XFSZ".to_owned());
    let mut cell = TestCell::start(Options { prelude, faults: false, ..options!() }).await;
    cell.run("served.yaml", SERVICE).await;
    let attempts = |tasks: Vec<borough_proto::v1::Task>| {
        tasks.iter().map(|task| (task.index, task.pid, task.incarnation)).collect::<Vec<_>>()
    };
    let before = attempts(cell.tasks("served").await);
    let control = Pid::from_raw(i32::try_from(cell.control().pid).unwrap());
    let limit = Rlimit { current: Some(FILE_BYTES), maximum: Some(FILE_BYTES) };
    prlimit(control, Resource::Fsize, limit).unwrap();
    let word = "room".repeat(12_000);
    for number in 0..4 {
        // The answer is open; only the end matters.
        let text = format!(
            "name: more-{number}\ncount: 0\ntask: {{command: [sleep, 1], environment: {{WORD: {word}}}}}\n"
        );
        let file = cell.file("more.yaml", &text);
        cell.borough(&["job", "run", "--detach", &file]).await;
    }
    assert_eq!(cell.control_ended().await.code(), Some(STORE_FAILED));
    cell.control_start().await;
    cell.nodes_ready().await;
    cell.tasks_until("served", "up as before", |tasks| is_up(tasks, 2)).await;
    assert_eq!(attempts(cell.tasks("served").await), before, "no task has noticed");
    cell.finish().await;
}
