//! A full disk, missing privileges, a damaged or foreign directory, a test that is aborted.

use std::io::{Seek as _, Write};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::Command;

use borough_agent::{AgentError, run};
use borough_kv::exercise::not_exercised;
use borough_proto::v1::task_status::Phase;
use borough_proto::v1::{EndReason, NodePressure, StartFailure};
use tokio_util::sync::CancellationToken;

use crate::harness::{Cell, attempt, number_in, output, runs, script, stop, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_is_refused_and_disturbs_nothing() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "exec sleep 600"));
    let pid = cell.gateway.phase(&attempt, Phase::Running).await.pid.unwrap();
    let refused = run(cell.config(), CancellationToken::new()).await;
    assert!(matches!(refused, Err(AgentError::Locked { .. })), "{refused:?}");
    assert!(runs(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_work_are_refused_by_name() {
    let cell = Cell::new().await;
    let mut none = cell.config();
    none.gateways.clear();
    let mut name = cell.config();
    name.node = "No Name".to_owned();
    let mut outside = cell.config();
    outside.cgroup_name = Some("../elsewhere".to_owned());
    for (config, expect) in [(none, "gateways"), (name, "node"), (outside, "cgroup_name")] {
        match run(config, CancellationToken::new()).await {
            Err(AgentError::Setting { setting, .. }) => assert_eq!(setting, expect),
            other => panic!("{expect}: {other:?}"),
        }
    }
    assert!(!cell.state_dir().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_files_are_damaged_is_ended_and_reported() {
    let mut cell = Cell::with_agent().await;
    let hello = cell.gateway.wait("hello", |seen| seen.hello.clone()).await;
    if hello.attributes["cgroup.version"] == "none" {
        not_exercised("damaged files of an attempt", "without cgroups only its own record leads to a task");
        return;
    }
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "exec sleep 600"));
    let pid = cell.gateway.phase(&attempt, Phase::Running).await.pid.unwrap();
    cell.agent_stop().await;
    for name in ["state.json", "assignment.pb", "stop.json"] {
        std::fs::write(cell.attempt_dir(&attempt).join(name), "\u{0}{").unwrap();
    }
    cell.agent_start(cell.config());
    cell.gateway.wait("a second session", |seen| (seen.sessions >= 2).then_some(())).await;
    // Its shim keeps running and gets no double. Its last record is whole again.
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.signal), (EndReason::Signaled, Some(9)));
    assert!(!runs(pid));
}

/// An agent whose state is on a disk of this size that only it sees; `None` if this machine does not allow it.
fn agent_on_small_disk(cell: &Cell, size: &str) -> Option<std::process::Child> {
    let (program, arguments, variable) = cell.agent_command();
    std::fs::create_dir_all(cell.state_dir()).unwrap();
    let text = format!("mount -t tmpfs -o size={size} tmpfs \"$0\" && exec \"$@\"");
    let mut child = Command::new("unshare")
        .args(["--mount", "sh", "-c", &text])
        .arg(cell.state_dir())
        .arg(program)
        .args(arguments)
        .env(variable.0, variable.1)
        .stdout(std::process::Stdio::null())
        .spawn()
        .ok()?;
    let allowed = rustix::process::geteuid().is_root() && child.try_wait().ok()?.is_none();
    if allowed {
        return Some(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// The last reported shortage of disk.
fn short_of_disk(seen: &crate::gateway::Seen) -> bool {
    let pressure = seen.reports.iter().rev().find_map(|report| report.pressure.as_ref());
    pressure.is_some_and(|pressure| pressure.short_of().any(|short| short == NodePressure::Disk))
}

/// Takes all the space of a disk.
fn fill_up(file: &mut std::fs::File) {
    for size in [65536, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_neither_task_nor_agent_and_prevents_no_stop() {
    let cell = Cell::new().await;
    let Some(mut agent) = agent_on_small_disk(&cell, "6m") else {
        not_exercised("a full disk of an agent", "this user may not mount a file system");
        return;
    };
    let (talks, stays) = (attempt(0, 1), attempt(1, 1));
    cell.gateway.run(script(&talks, "while :; do echo some words that fill the disk; sleep 0.005; done"));
    cell.gateway.run(script(&stays, "exec sleep 600"));
    let pid = cell.gateway.phase(&talks, Phase::Running).await.pid.unwrap();
    cell.gateway.phase(&stays, Phase::Running).await;
    // The disk as the agent sees it.
    let seen = PathBuf::from(format!("/proc/{}/root", agent.id()));
    let state = seen.join(cell.state_dir().strip_prefix("/").unwrap());
    let directory = state.join("attempts").join("j00000000000000ab.0.1");
    until("output", || (!output(&directory).is_empty()).then_some(())).await;
    let mut fill = std::fs::File::create(state.join("fill")).unwrap();
    fill_up(&mut fill);
    // The free part of the last page is written first.
    let log = directory.join("stdout.0.log");
    until("output to be lost", || {
        let length = std::fs::metadata(&log).ok()?.len();
        (length > 0 && length % 4096 == 0).then_some(())
    })
    .await;
    cell.gateway.wait("the report of a full disk", |seen| short_of_disk(seen).then_some(())).await;
    let refused = attempt(2, 1);
    cell.gateway.run(script(&refused, "true"));
    let exit = cell.gateway.phase(&refused, Phase::Released).await.exit.unwrap();
    assert_eq!(exit.reason(), EndReason::StartFailed);
    assert_eq!(exit.start_failure(), StartFailure::NodeFull, "{exit:?}");
    assert!(exit.message.contains("the disk of its node is full"), "{exit:?}");
    // With room for a part of what a start writes, each attempt ends all the same.
    for (number, pages) in (10..).zip(1..=12) {
        let length = fill.metadata().unwrap().len();
        fill.set_len(length - pages * 4096).unwrap();
        let tried = attempt(number, 1);
        cell.gateway.run(script(&tried, "true"));
        cell.gateway.phase(&tried, Phase::Released).await;
        fill.seek(std::io::SeekFrom::End(0)).unwrap();
        fill_up(&mut fill);
    }
    assert!(runs(pid));
    cell.gateway.stop(stop(&stays, 1000));
    let exit = cell.gateway.phase(&stays, Phase::Released).await.exit.unwrap();
    assert_eq!(exit.reason(), EndReason::Stopped);
    // With free space, output continues and mentions the gap.
    drop(fill);
    std::fs::remove_file(state.join("fill")).unwrap();
    until("the note", || output(&directory).contains("bytes of output lost").then_some(())).await;
    cell.gateway
        .wait("the report that the disk has space", |seen| (!short_of_disk(seen)).then_some(()))
        .await;
    let taken = attempt(3, 1);
    cell.gateway.run(script(&taken, "exec sleep 600"));
    cell.gateway.phase(&taken, Phase::Running).await;
    assert!(runs(pid) && agent.try_wait().unwrap().is_none());
    assert_eq!(cell.gateway.look(|seen| seen.sessions), 1, "the session ended");
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_privileges_everything_is_ended_all_the_same() {
    const NOBODY: u32 = 65534;
    let cell = Cell::new().await;
    if !rustix::process::geteuid().is_root() {
        not_exercised("an agent without privileges", "the test has no privileges to give up");
        return;
    }
    let top = cell.state_dir().parent().unwrap().to_owned();
    for path in [top.clone(), top.join("records")] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let (program, arguments, variable) = cell.agent_command();
    let mut command = Command::new(program);
    command.args(arguments).env(variable.0, variable.1).stdout(std::process::Stdio::null());
    std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
    std::os::unix::process::CommandExt::gid(&mut command, NOBODY);
    let Ok(mut agent) = command.spawn() else {
        not_exercised("an agent without privileges", "the user nobody may not execute this program");
        return;
    };
    let attempt = attempt(0, 1);
    // A child in a session of its own, whose parent ends: only the subreaper finds it.
    let text = "setsid sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.05; done' & \
                trap '' TERM; echo $$ > own; while :; do sleep 0.05; done";
    cell.gateway.run(script(&attempt, text));
    cell.gateway.phase(&attempt, Phase::Running).await;
    let hello = cell.gateway.look(|seen| seen.hello.clone()).unwrap();
    assert_eq!(hello.attributes["cgroup.version"], "none", "{:?}", hello.attributes);
    assert_eq!(hello.attributes["cgroup.memory"], "no");
    assert_eq!(hello.attributes["user.root"], "no");
    assert!(hello.attributes.contains_key("cgroup.missing"));
    let work = cell.attempt_dir(&attempt).join("work");
    let (own, child) = (number_in(work.join("own")).await, number_in(work.join("child")).await);
    let usage =
        cell.gateway.wait("usage", |seen| seen.tasks.get(&crate::gateway::key(&attempt))?.usage).await;
    assert!(usage.processes >= 2, "{usage:?}");
    cell.gateway.stop(stop(&attempt, 20));
    cell.gateway.phase(&attempt, Phase::Released).await;
    assert!(!runs(own) && !runs(child));
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_test_leaves_nothing() {
    let cell = Cell::new().await;
    // A test with its own guard, in a process that is killed.
    let mut test = cell.guarded_process();
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "setsid sleep 600 & echo $! > child; exec sleep 600"));
    let pid = cell.gateway.phase(&attempt, Phase::Running).await.pid.unwrap();
    let child = number_in(cell.attempt_dir(&attempt).join("work/child")).await;
    let cgroups =
        borough_shim::file::json_read::<borough_shim::spec::Spec>(&cell.attempt_dir(&attempt), "spec.json");
    let cgroups = cgroups.unwrap().unwrap().cgroup;
    test.kill().unwrap();
    test.wait().unwrap();
    until("the end of everything", || (!runs(pid) && !runs(child)).then_some(())).await;
    until("the end of its cgroups", || {
        let nodes = cgroups.directories().into_iter().map(|path| path.parent().unwrap().to_owned());
        nodes.into_iter().all(|path| !path.exists()).then_some(())
    })
    .await;
}
