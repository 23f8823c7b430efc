//! Agents are restarted while their tasks keep running.

use borough_kv::exercise::not_exercised;
use borough_proto::v1::EndReason;
use borough_proto::v1::task_status::Phase;
use borough_shim::file::{Durability, json_read, json_write};
use borough_shim::process::ProcessId;
use borough_shim::record::{AttemptRecord, STATE_FILE};
use rustix::process::{Pid, Signal, getsid};

use crate::gateway::{DEADLINE, key};
use crate::harness::{Cell, attempt, runs, script, stop, until};

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_the_same_processes_are_taken_up_again() {
    let cell = Cell::new().await;
    let mut agent = cell.agent_process();
    let (stays, ends) = (attempt(0, 1), attempt(1, 1));
    cell.gateway.run(script(&stays, "exec sleep 600"));
    cell.gateway.run(script(&ends, "until test -e go; do sleep 0.01; done; exit 5"));
    let pid = cell.gateway.phase(&stays, Phase::Running).await.pid.unwrap();
    cell.gateway.phase(&ends, Phase::Running).await;
    // Ending the agent's session or cgroup does not reach the shim.
    let record: AttemptRecord = json_read(&cell.attempt_dir(&stays), STATE_FILE).unwrap().unwrap();
    let shim = record.shim.unwrap().pid;
    let session = |pid: u32| getsid(Pid::from_raw(pid.try_into().unwrap())).unwrap();
    assert_eq!(session(shim).as_raw_nonzero().get(), i32::try_from(shim).unwrap());
    assert_ne!(session(shim), session(pid));
    let hello = cell.gateway.look(|seen| seen.hello.clone()).unwrap();
    if hello.attributes["cgroup.version"] == "none" {
        not_exercised("a shim's own cgroup", "this machine has none");
    } else {
        let inside = |line: &str| line.ends_with("/n1/shims");
        until("the shim in its own cgroup", || {
            let text = std::fs::read_to_string(format!("/proc/{shim}/cgroup")).unwrap();
            text.lines().any(inside).then_some(())
        })
        .await;
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(runs(pid), "it ended with its agent");
    // One ends while no agent runs.
    std::fs::write(cell.attempt_dir(&ends).join("work/go"), "").unwrap();
    let record = cell.attempt_dir(&ends);
    until("its end", || json_read::<AttemptRecord>(&record, STATE_FILE).unwrap()?.released_ms).await;
    let mut agent = cell.agent_process();
    cell.gateway.wait("a second session", |seen| (seen.sessions >= 2).then_some(())).await;
    let exit = cell.gateway.phase(&ends, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.code), (EndReason::Exited, Some(5)));
    assert_eq!(cell.gateway.phase(&stays, Phase::Running).await.pid, Some(pid));
    // The new agent still controls it.
    cell.gateway.stop(stop(&stays, 1000));
    cell.gateway.phase(&stays, Phase::Released).await;
    assert!(!runs(pid));
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_the_control_plane_does_not_know_is_parked_and_not_killed() {
    let mut cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "exec sleep 600"));
    let pid = cell.gateway.phase(&attempt, Phase::Running).await.pid.unwrap();
    cell.gateway.amnesia();
    cell.agent_stop().await;
    // A busy machine may have cost the agent a session before: only a new one counts.
    let before = cell.gateway.look(|seen| seen.sessions);
    cell.agent_start(cell.config());
    cell.gateway.wait("another session", |seen| (seen.sessions > before).then_some(())).await;
    assert_eq!(cell.gateway.phase(&attempt, Phase::Running).await.pid, Some(pid));
    assert!(runs(pid));
    cell.gateway.stop(stop(&attempt, 1000));
    cell.gateway.phase(&attempt, Phase::Released).await;
    assert!(!runs(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_shim_costs_its_task_and_leaves_nothing() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "exec sleep 600"));
    let pid = cell.gateway.phase(&attempt, Phase::Running).await.pid.unwrap();
    let record: AttemptRecord = json_read(&cell.attempt_dir(&attempt), STATE_FILE).unwrap().unwrap();
    record.shim.unwrap().signal(Signal::KILL).unwrap();
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!(exit.reason(), EndReason::Signaled);
    assert!(exit.message.contains("shim"), "{exit:?}");
    assert!(!runs(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_is_distinguished_from_a_restart() {
    let mut cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "exec sleep 600"));
    let pid = cell.gateway.phase(&attempt, Phase::Running).await.pid.unwrap();
    cell.agent_stop().await;
    // As if written before the machine was started: another process has the number now.
    let directory = cell.attempt_dir(&attempt);
    let record: AttemptRecord = json_read(&directory, STATE_FILE).unwrap().unwrap();
    let before = AttemptRecord { boot_id: "another boot".to_owned(), ..record };
    json_write(&directory, STATE_FILE, &before, Durability::Process).unwrap();
    cell.agent_start(cell.config());
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!(exit.reason(), EndReason::NodeRebooted);
    assert!(runs(pid), "a process of another boot is not touched");
    ProcessId::find(pid).unwrap().signal(Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_continue_without_a_gateway_and_are_reported_to_the_next() {
    let cell = Cell::with_agent().await;
    let (ends, stays) = (attempt(0, 1), attempt(1, 1));
    cell.gateway.run(script(&stays, "exec sleep 600"));
    cell.gateway.run(script(&ends, "until test -e go; do sleep 0.01; done"));
    let pid = cell.gateway.phase(&stays, Phase::Running).await.pid.unwrap();
    cell.gateway.phase(&ends, Phase::Running).await;
    cell.gateway.hang_up();
    std::fs::write(cell.attempt_dir(&ends).join("work/go"), "").unwrap();
    cell.gateway.wait("a second session", |seen| (seen.sessions >= 2).then_some(())).await;
    cell.gateway.phase(&ends, Phase::Released).await;
    assert_eq!(cell.gateway.look(|seen| seen.tasks[&key(&stays)].pid), Some(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn unapplied_reports_are_sent_again() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.wait("a session", |seen| (!seen.reports.is_empty()).then_some(())).await;
    cell.gateway.silence(true);
    cell.gateway.run(script(&attempt, "exit 4"));
    cell.gateway.phase(&attempt, Phase::Released).await;
    // The gateway dies before any of that was durable.
    let reported_before = cell.gateway.look(|seen| seen.history.len());
    cell.gateway.hang_up();
    let again = |status: &borough_proto::v1::TaskStatus| {
        status.exit.as_ref().is_some_and(|exit| exit.code == Some(4))
    };
    cell.gateway
        .wait("the exit again", |seen| {
            seen.history[reported_before..].iter().find(|status| again(status)).cloned()
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_was_broken_off_is_done_again() {
    let mut cell = Cell::with_agent().await;
    let (done, begun) = (attempt(0, 1), attempt(1, 1));
    cell.gateway.run(script(&done, "echo $BOROUGH_INDEX"));
    cell.gateway.phase(&done, Phase::Released).await;
    cell.agent_stop().await;
    // The state after an agent was killed between making an attempt's directory and the first record of its shim. Also
    // the state after it was killed while it made one.
    let from = cell.attempt_dir(&done);
    let attempts = from.parent().unwrap();
    let to = attempts.join("j00000000000000ab.1.1");
    std::fs::create_dir_all(to.join("work")).unwrap();
    std::fs::create_dir(attempts.join(".new.j00000000000000ab.2.1")).unwrap();
    let spec = std::fs::read_to_string(from.join("spec.json")).unwrap();
    std::fs::write(to.join("spec.json"), spec.replace("ab.0.1", "ab.1.1")).unwrap();
    std::fs::copy(from.join("assignment.pb"), to.join("assignment.pb")).unwrap();
    cell.gateway.run(script(&begun, "echo never read: the spec on disk says what is started"));
    cell.agent_start(cell.config());
    let exit = cell.gateway.phase(&begun, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.code), (EndReason::Exited, Some(0)), "{exit:?}");
    assert_eq!(crate::harness::output(&to), "0\n");
    assert!(!attempts.join(".new.j00000000000000ab.2.1").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_goes_on_over_a_restart_and_may_be_made_shorter() {
    let mut cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "trap '' TERM; echo up; while :; do sleep 0.02; done"));
    cell.gateway.phase(&attempt, Phase::Running).await;
    until("its start", || (!crate::harness::output(&cell.attempt_dir(&attempt)).is_empty()).then_some(()))
        .await;
    cell.gateway.stop(stop(&attempt, 3_600_000));
    let pid = cell.gateway.phase(&attempt, Phase::Stopping).await.pid.unwrap();
    cell.agent_stop().await;
    let before = cell.gateway.look(|seen| seen.history.len());
    cell.agent_start(cell.config());
    cell.gateway.wait("a second session", |seen| (seen.history.len() > before).then_some(())).await;
    let after = cell
        .gateway
        .look(|seen| seen.history[before..].iter().map(|status| status.phase()).collect::<Vec<_>>());
    assert!(after.iter().all(|phase| *phase == Phase::Stopping), "{after:?}");
    assert!(runs(pid));
    cell.gateway.stop(stop(&attempt, 0));
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.signal), (EndReason::Stopped, Some(9)));
}

/// An administrator may move a state directory: its tasks still stop as their specs say.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_state_directory_that_was_moved_are_stopped_in_order() {
    let mut cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "trap 'exit 7' TERM; touch ready; while :; do sleep 0.05; done"));
    cell.gateway.phase(&attempt, Phase::Running).await;
    let ready = cell.attempt_dir(&attempt).join("work/ready");
    until("its trap", || ready.exists().then_some(())).await;
    cell.agent_stop().await;
    let moved = cell.state_dir().with_file_name("moved");
    std::fs::rename(cell.state_dir(), &moved).unwrap();
    let config = borough_agent::AgentConfig { state_dir: moved, ..cell.config() };
    cell.agent_start(config);
    cell.gateway.wait("a second session", |seen| (seen.sessions >= 2).then_some(())).await;
    cell.gateway.stop(stop(&attempt, 30_000));
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.code), (EndReason::Stopped, Some(7)), "{exit:?}");
    cell.agent_stop().await;
}

/// The shims of the original run its tasks, and never read what is written into the copy.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_state_directory_is_refused_while_its_tasks_run() {
    let mut cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "exec sleep 600"));
    cell.gateway.phase(&attempt, Phase::Running).await;
    cell.agent_stop().await;
    let copy = cell.state_dir().with_file_name("copy");
    let copied =
        std::process::Command::new("cp").arg("-a").args([&cell.state_dir(), &copy]).status().unwrap();
    assert!(copied.success());
    // It becomes another node with an identity of its own, as the error proposes.
    std::fs::remove_file(copy.join("identity")).unwrap();
    let config =
        borough_agent::AgentConfig { state_dir: copy.clone(), node: "n2".to_owned(), ..cell.config() };
    let started =
        tokio::time::timeout(DEADLINE, borough_agent::run(config.clone(), Default::default())).await;
    let refused = started.expect("it ends").unwrap_err().to_string();
    assert!(refused.contains("is a copy") && refused.contains("attempts"), "{refused}");
    std::fs::remove_dir_all(copy.join("attempts")).unwrap();
    let shutdown = tokio_util::sync::CancellationToken::new();
    let second = tokio::spawn(borough_agent::run(config, shutdown.clone()));
    cell.gateway.wait("its session", |seen| (seen.sessions >= 2).then_some(())).await;
    shutdown.cancel();
    second.await.unwrap().unwrap();
    cell.agent_start(cell.config());
    cell.gateway.wait("the first agent's", |seen| (seen.sessions >= 3).then_some(())).await;
    cell.gateway.stop(stop(&attempt, 1_000));
    cell.gateway.phase(&attempt, Phase::Released).await;
    cell.agent_stop().await;
}
