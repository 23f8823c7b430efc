//! The end of `dev`: tasks are stopped in the documented order, within a bound, and start again with the next start.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use borough_kv::exercise::not_exercised;
use borough_proto::v1::{EndReason, Task};
use borough_tests::{TestCell, is_up, options, until};
use rustix::process::Signal;

/// A service of one task that records SIGTERM, and then ends or not.
fn job(seen: &Path, then: &str, grace: &str) -> String {
    let script = format!("trap 'echo seen >> {}; {then}' TERM; while :; do sleep 0.05; done", seen.display());
    format!("name: last\ntask:\n  command: [sh, -c, {script:?}]\n  grace: {grace}\n")
}

struct StoppedSystem {
    cell: TestCell,
    seen: PathBuf,
    _directory: tempfile::TempDir,
}

impl StoppedSystem {
    async fn new(then: &str, grace: &str, dev_arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // If the test runs as root, the task does not: its file must be writable for everybody.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let seen = directory.path().join("seen");
        let cell = TestCell::start(options!().nodes(1).dev_arguments(dev_arguments)).await;
        cell.run("last.yaml", &job(&seen, then, grace)).await;
        Self { cell, seen, _directory: directory }
    }

    /// How often the task got SIGTERM.
    fn terms(&self) -> usize {
        fs::read_to_string(&self.seen).unwrap_or_default().lines().count()
    }

    fn signal(&self, signal: Signal) {
        self.cell.control().signal(signal).unwrap();
    }

    /// The task after the next start.
    async fn next(&mut self) -> Task {
        let before = self.cell.control_ended().await;
        assert_eq!(before.code(), Some(0), "{before}");
        self.cell.control_start().await;
        self.cell.tasks_until("last", "up again", |tasks| is_up(tasks, 1)).await.remove(0)
    }
}

/// Whether this process was started so that it outlives its terminal. What it starts then does too.
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_interrupted_cell_stops_its_tasks_as_their_jobs_specify() {
    let hangup = (!hangups_are_ignored()).then_some(Signal::HUP);
    if hangup.is_none() {
        not_exercised("SIGHUP of a cell", "this run was started with nohup, and so is the cell");
    }
    for signal in [Signal::INT, Signal::TERM].into_iter().chain(hangup) {
        let mut system = StoppedSystem::new("exit 0", "1m", &[]).await;
        system.signal(signal);
        let task = system.next().await;
        assert_eq!(system.terms(), 1, "the task has seen SIGTERM once");
        let exit = task.exit.unwrap();
        assert_eq!(
            (exit.reason(), exit.message.as_str()),
            (EndReason::Stopped, "its cell was shut down"),
            "{exit:?}"
        );
        assert_eq!((task.incarnation, task.failures), (2, 0));
        system.cell.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_second_interrupt_cuts_the_wait_short() {
    let mut system = StoppedSystem::new("true", "30m", &["--stop-timeout", "30m"]).await;
    system.signal(Signal::INT);
    until("SIGTERM for the task", || async { (system.terms() == 1).then_some(()) }).await;
    let log = system.cell.log();
    assert!(fs::read_to_string(&log).unwrap().contains("stopping 1 task within 30m"));
    until("what is waited for", || async {
        fs::read_to_string(&log).unwrap().contains("still stopping: alpha: tester/last/0").then_some(())
    })
    .await;
    system.signal(Signal::INT);
    let task = system.next().await;
    let exit = task.exit.unwrap();
    assert_eq!((exit.signal, exit.message.as_str()), (Some(9), "its cell was shut down"), "{exit:?}");
    // Only SIGKILL ends this one.
    system.signal(Signal::INT);
    until("SIGTERM for the task", || async { (system.terms() == 2).then_some(()) }).await;
    system.signal(Signal::TERM);
    assert_eq!(system.cell.control_ended().await.code(), Some(0));
    system.cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_end_of_a_cell_is_bounded() {
    let mut system = StoppedSystem::new("true", "30m", &["--stop-timeout", "500ms"]).await;
    system.signal(Signal::TERM);
    let task = system.next().await;
    assert_eq!(system.terms(), 1);
    let exit = task.exit.unwrap();
    assert_eq!((exit.signal, exit.message.as_str()), (Some(9), "its cell was shut down"), "{exit:?}");
    system.cell.finish().await;
}
