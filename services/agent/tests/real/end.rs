//! Ends of attempts: by themselves, by a signal, by an order, with children that resist.

use borough_proto::v1::EndReason;
use borough_proto::v1::task_status::Phase;
use borough_shim::process::ProcessId;
use rustix::process::Signal;

use crate::harness::{Cell, attempt, number_in, output, runs, script, stop, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_from_elsewhere_is_reported() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "exec sleep 60"));
    let pid = cell.gateway.phase(&attempt, Phase::Running).await.pid.unwrap();
    ProcessId::find(pid).unwrap().signal(Signal::KILL).unwrap();
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.signal, exit.code), (EndReason::Signaled, Some(9), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_polite_task_ends_at_sigterm() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"));
    cell.gateway.phase(&attempt, Phase::Running).await;
    let directory = cell.attempt_dir(&attempt);
    until("its start", || output(&directory).contains("up").then_some(())).await;
    cell.gateway.stop(stop(&attempt, 60_000));
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.code), (EndReason::Stopped, Some(7)));
    assert!(output(&cell.attempt_dir(&attempt)).ends_with("bye\n"));
    let phases =
        cell.gateway.look(|seen| seen.history.iter().map(|status| status.phase()).collect::<Vec<_>>());
    assert!(phases.is_sorted(), "an attempt does not go back: {phases:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ignores_sigterm_is_killed_with_all_it_started() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    // A child in a session of its own, which no signal to the group reaches.
    let text = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.05; done' & \
                echo $$ > own; while :; do sleep 0.05; done";
    cell.gateway.run(script(&attempt, text));
    cell.gateway.phase(&attempt, Phase::Running).await;
    let work = cell.attempt_dir(&attempt).join("work");
    let (own, child) = (number_in(work.join("own")).await, number_in(work.join("child")).await);
    cell.gateway.stop(stop(&attempt, 50));
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.signal), (EndReason::Stopped, Some(9)));
    assert!(!runs(own) && !runs(child));
}

#[tokio::test(flavor = "multi_thread")]
async fn children_that_outlive_their_parent_do_not_outlive_the_attempt() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(
        &attempt,
        "setsid sh -c 'echo $$ > child; exec sleep 600' & until test -s child; do :; done",
    ));
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.code), (EndReason::Exited, Some(0)));
    let child = number_in(cell.attempt_dir(&attempt).join("work/child")).await;
    assert!(!runs(child), "released, and {child} still runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_attempt_is_not_reported_again_and_not_run_again() {
    let mut cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    let work = script(&attempt, "echo once; exit 3");
    cell.gateway.run(work.clone());
    cell.gateway.phase(&attempt, Phase::Released).await;
    cell.gateway.forget(attempt.clone());
    until("its files to be set aside", || {
        cell.attempt_dir(&attempt).parent()?.ends_with("ended").then_some(())
    })
    .await;
    assert_eq!(output(&cell.attempt_dir(&attempt)), "once\n");
    cell.agent_stop().await;
    cell.agent_start(cell.config());
    cell.gateway.wait("a second session", |seen| (seen.sessions >= 2).then_some(())).await;
    let other = crate::harness::attempt(1, 1);
    cell.gateway.run(script(&other, "true"));
    cell.gateway.phase(&other, Phase::Released).await;
    assert!(!cell.gateway.look(|seen| seen.tasks.contains_key(&crate::gateway::key(&attempt))));
    // A gateway that is behind assigns it once more.
    cell.gateway.run(work);
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.code), (EndReason::Exited, Some(3)));
    assert_eq!(output(&cell.attempt_dir(&attempt)), "once\n");
}
