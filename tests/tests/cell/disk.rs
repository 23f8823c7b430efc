//! A full disk: the cell reports it and accepts nothing more, loses nothing, and recovers when space is free.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use borough_client::JobFilter;
use borough_kv::exercise::not_exercised;
use borough_tests::{Options, TestCell, is_fdb, options, until};

/// A small file system of its own, while it is held.
struct Mount(PathBuf);

impl Mount {
    /// Absent if this user may not mount.
    fn new(directory: &Path) -> Option<Self> {
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=56m", "none"]).arg(directory).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(directory.to_path_buf()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().unwrap();
    }
}

fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    let block = vec![7_u8; 64 * 1024];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&[7]).is_ok() {}
}

/// A job that runs nothing and takes some space.
fn job(number: usize) -> String {
    let word = "room".repeat(12_000);
    format!("name: job-{number}\ncount: 0\ntask: {{command: [sleep, 1], environment: {{WORD: {word}}}}}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_disk_is_reported_and_loses_nothing() {
    if is_fdb() {
        not_exercised("a full disk of a cell", "the cell is on FoundationDB");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::new(directory.path()) else {
        not_exercised("a full disk of a cell", "this user may not mount a file system");
        return;
    };
    let below = Some(directory.path().to_path_buf());
    let files = tempfile::tempdir().unwrap();
    let control_below = Some(files.path().to_path_buf());
    let mut cell = TestCell::start(Options { below, control_below, ..options!().nodes(1) }).await;
    let file = files.path().join("job.yaml");
    let file = file.display().to_string();
    let run = ["job", "run", "--detach", file.as_str()];
    fill(&directory.path().join("ballast"));
    let mut taken = Vec::new();
    let refused = loop {
        let number = taken.len();
        assert!(number < 2_000, "the disk never fills");
        fs::write(&file, job(number)).unwrap();
        let ran = cell.borough(&run).await;
        if ran.code != Some(0) {
            break ran;
        }
        taken.push(format!("job-{number}"));
    };
    assert!(refused.stderr.contains("disk") || refused.stderr.contains("space"), "{refused:?}");
    assert!(matches!(refused.code, Some(4 | 5)), "{refused:?}");
    let names = |jobs: Vec<borough_proto::v1::Job>| jobs.into_iter().map(|job| job.name).collect::<Vec<_>>();
    // Still readable, and nothing acknowledged is lost: neither now nor after a crash with the disk full.
    let mut expected = taken.clone();
    expected.sort();
    assert_eq!(names(cell.client().job_list(&JobFilter::default()).await.unwrap()), expected);
    cell.control_kill();
    cell.control_start().await;
    assert_eq!(names(cell.client().job_list(&JobFilter::default()).await.unwrap()), expected);
    fs::remove_file(directory.path().join("ballast")).unwrap();
    fs::write(&file, job(taken.len())).unwrap();
    cell.borough(&run).await.ended(0);
    expected.push(format!("job-{}", taken.len()));
    expected.sort();
    cell.control_kill();
    cell.control_start().await;
    assert_eq!(names(cell.client().job_list(&JobFilter::default()).await.unwrap()), expected);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_agent_whose_disk_and_log_are_full_keeps_its_node_and_its_tasks() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::new(directory.path()) else {
        not_exercised("an agent on a full disk", "this user may not mount a file system");
        return;
    };
    let below = Some(directory.path().to_path_buf());
    let files = tempfile::tempdir().unwrap();
    let control_below = Some(files.path().to_path_buf());
    let mut cell = TestCell::start(Options { below, control_below, ..options!().nodes(1) }).await;
    cell.run("stays.yaml", "name: stays\ntask: {command: [sleep, 600], grace: 200ms}\n").await;
    let task = cell.tasks("stays").await[0].pid;
    let agent = cell.agent_found("alpha-1").await;
    let log = cell.root().join("log").join("alpha-1.log");
    fill(&directory.path().join("ballast"));
    let mut last_page = fs::OpenOptions::new().append(true).open(&log).unwrap();
    while last_page.write_all(b"#").is_ok() {}
    // The agent loses its session and reports that in its log.
    cell.control_kill();
    cell.control_start().await;
    cell.nodes_ready().await;
    assert!(agent.alive(), "the agent ended because of its log");
    assert_eq!(cell.tasks("stays").await[0].pid, task);
    fs::remove_file(directory.path().join("ballast")).unwrap();
    cell.run("more.yaml", "name: more\ntask: {command: [sleep, 600], grace: 200ms}\n").await;
    assert!(agent.alive(), "the agent ended because of its log");
    agent.signal(rustix::process::Signal::TERM).unwrap();
    until("the note of what is missing", || async {
        fs::read_to_string(&log).ok()?.contains("lines of this log are lost").then_some(())
    })
    .await;
    cell.finish().await;
}

/// A version that no node has space to start has not failed, and the rollout goes on once there is some.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_disk_of_a_node_takes_no_version_back() {
    let cell = TestCell::start(options!().nodes(1)).await;
    // The agent looks at another file system for a shortage, so tasks still come.
    let attempts = cell.root().join("nodes").join("alpha-1").join("attempts");
    let Some(_mount) = Mount::new(&attempts) else {
        not_exercised("a rollout on a full disk", "this user may not mount a file system");
        return;
    };
    let job = |says: &str| {
        let update = "update: {healthy_after: 100ms, failures_max: 0, on_failure: revert}";
        format!(
            "name: web\n{update}\ntask:\n  command: [sleep, 600]\n  grace: 200ms\n  environment: {{SAYS: {says}}}\n"
        )
    };
    cell.run("one.yaml", &job("one")).await;
    fill(&attempts.join("ballast"));
    let second = cell.file("two.yaml", &job("two"));
    cell.borough(&["job", "run", "--detach", &second]).await.ended(0);
    until("an attempt that the disk prevents", || async {
        let why = cell.borough(&["why", "web"]).await;
        let is_said =
            why.stdout.contains("the disk of its node is full") && why.stdout.contains("free space");
        is_said.then_some(())
    })
    .await;
    let status = cell.borough(&["rollout", "status", "web", "-o", "json"]).await.ended(0).json();
    assert_eq!((&status["state"], &status["version"]), (&"rolling".into(), &2.into()), "{status}");
    assert_eq!(cell.tasks("web").await[0].failures, 0);
    fs::remove_file(attempts.join("ballast")).unwrap();
    cell.borough(&["rollout", "status", "web", "--wait"]).await.ended(0).prints("of version 2: done");
    cell.finish().await;
}
