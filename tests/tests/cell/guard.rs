//! Tests own what they start: nothing outlives a test, in whatever way it ends.

use std::process::{Child, Command, Stdio};

use borough_shim::process::ProcessId;
use borough_shim::record::ProcessKind;
use borough_tests::{Options, TestCell, options, recorded, until};

/// Names the file in which the inner test records what it has started.
const RECORD_VARIABLE: &str = "BOROUGH_TEST_GUARD_RECORD";

/// The test below runs it in a process of its own, which is killed. By itself it does nothing.
#[tokio::test]
async fn inner() {
    let Ok(record) = std::env::var(RECORD_VARIABLE) else { return };
    // Its directory stays behind; there it is removed with ours.
    let below = std::path::Path::new(&record).parent().map(std::path::Path::to_path_buf);
    let cell = TestCell::start(Options { below, ..options!() }).await;
    cell.run("sleeper.yaml", "name: sleeper\ncount: 2\ntask: {command: [sh, -c, 'sleep 600 & sleep 600']}\n")
        .await;
    let mut lines = Vec::new();
    for record in recorded(&cell.records()).into_iter().chain(recorded(&cell.control_records())) {
        lines.push(format!("{:?} {} {}", record.kind, record.process.pid, record.process.start_ticks));
        if record.kind == ProcessKind::Task {
            let below =
                borough_tests::descendants_of(record.process.pid).into_iter().filter_map(ProcessId::find);
            lines.extend(below.map(|process| format!("Below {} {}", process.pid, process.start_ticks)));
        }
    }
    std::fs::write(format!("{record}.new"), lines.join("\n")).unwrap();
    std::fs::rename(format!("{record}.new"), &record).unwrap();
    std::future::pending::<()>().await;
}

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn a_killed_test_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    let inner = Killed(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "guard::inner", "--nocapture"])
            .env(RECORD_VARIABLE, &record)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap(),
    );
    let text = until("the inner test's processes", || async { std::fs::read_to_string(&record).ok() }).await;
    drop(inner);
    let process = |line: &str| {
        let mut parts = line.split(' ').skip(1).map(|part| part.parse::<u64>().unwrap());
        let pid = u32::try_from(parts.next().unwrap()).unwrap();
        ProcessId { pid, start_ticks: parts.next().unwrap() }
    };
    let count = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count();
    // Two agents and the control process, which is recorded as one of them.
    assert_eq!((count("Agent"), count("Shim"), count("Task")), (3, 2, 2), "{text}");
    assert!(count("Below") >= 2, "{text}");
    let processes: Vec<ProcessId> = text.lines().map(process).collect();
    until("the end of everything the inner test started", || async {
        processes.iter().all(|process| !process.alive()).then_some(())
    })
    .await;
}
