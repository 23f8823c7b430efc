//! The consequences of an exit, the pause after it, and the timeline of a stop.

use borough_model::id::NodeId;
use borough_model::job::{JobKind, RestartMode, RestartSpec};
use borough_model::task::machine::{RestartDecision, node_avoided, restart_decide, restart_pause_ms};
use borough_model::task::{
    EndReason, Exit, Health, StartFailure, StopReason, TaskEvent, TaskRow, TaskRules, TaskState, Verdict,
};
use proptest::prelude::*;

use crate::sample::{NODE, NOW, STARTED, attempt, exit, placement, row_from, rules, running};

fn mode(kind: JobKind, mode: RestartMode) -> TaskRules {
    TaskRules { kind, restart: RestartSpec { mode, ..RestartSpec::for_kind(kind) } }
}

fn verdict(rules: &TaskRules, stop: Option<StopReason>, exit: &Exit) -> Verdict {
    let row = TaskRow { stop, ..running(Health::Healthy) };
    restart_decide(rules, &row, exit, NOW).verdict
}

#[test]
fn modes_and_kinds_decide_what_follows_an_exit_by_itself() {
    use RestartMode::{Always, Never, OnFailure};
    use Verdict::{Again, Failed, Succeeded};
    let done = exit(EndReason::Exited, Some(0));
    let failed = exit(EndReason::Exited, Some(3));
    let table = [
        (JobKind::Service, Always, Again, Again),
        (JobKind::Service, OnFailure, Succeeded, Again),
        (JobKind::Service, Never, Succeeded, Failed),
        (JobKind::Batch, Always, Succeeded, Again),
        (JobKind::Batch, OnFailure, Succeeded, Again),
        (JobKind::Batch, Never, Succeeded, Failed),
    ];
    for (kind, restart, after_zero, after_failure) in table {
        let rules = mode(kind, restart);
        assert_eq!(verdict(&rules, None, &done), after_zero, "{kind:?} {restart:?}");
        assert_eq!(verdict(&rules, None, &failed), after_failure, "{kind:?} {restart:?}");
        for reason in [EndReason::Signaled, EndReason::OutOfMemory, EndReason::StartFailed] {
            assert_eq!(
                verdict(&rules, None, &exit(reason, None)),
                after_failure,
                "{kind:?} {restart:?} {reason:?}"
            );
        }
        for reason in [EndReason::NodeRebooted, EndReason::NodeLost] {
            assert_eq!(verdict(&rules, None, &exit(reason, None)), Again, "{kind:?} {restart:?} {reason:?}");
        }
    }
}

#[test]
fn the_reason_of_a_stop_decides_what_follows_it() {
    let stopped = exit(EndReason::Stopped, Some(0));
    for rules in [rules(JobKind::Service), rules(JobKind::Batch)] {
        for reason in StopReason::ALL {
            let expected = if reason.is_final() { Verdict::Stopped } else { Verdict::Again };
            assert_eq!(verdict(&rules, Some(reason), &stopped), expected, "{reason:?}");
        }
    }
    let never = mode(JobKind::Service, RestartMode::Never);
    assert_eq!(verdict(&never, Some(StopReason::Unhealthy), &stopped), Verdict::Failed);
    assert_eq!(verdict(&never, Some(StopReason::Preempted), &stopped), Verdict::Again);
}

#[test]
fn a_batch_task_that_finishes_before_its_stop_reaches_it_has_succeeded() {
    let done = exit(EndReason::Exited, Some(0));
    assert_eq!(verdict(&rules(JobKind::Batch), Some(StopReason::Preempted), &done), Verdict::Succeeded);
    assert_eq!(verdict(&rules(JobKind::Service), Some(StopReason::JobStopped), &done), Verdict::Stopped);
}

#[test]
fn pauses_double_up_to_the_longest_and_attempts_run_out() {
    let batch = rules(JobKind::Batch);
    let pauses: Vec<u64> = (0..=10).map(|failures| restart_pause_ms(&batch, failures)).collect();
    assert_eq!(pauses, [500, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
    let failed = exit(EndReason::Exited, Some(1));
    let after = |failures| {
        let row = TaskRow { failures, ..running(Health::Healthy) };
        restart_decide(&batch, &row, &failed, NOW)
    };
    let again = |failures, pause_ms| RestartDecision {
        verdict: Verdict::Again,
        crashed: true,
        failures,
        not_before_ms: NOW + pause_ms,
    };
    assert_eq!([after(0), after(1), after(2)], [again(1, 500), again(2, 1000), again(3, 2000)]);
    assert_eq!((after(3).verdict, after(3).not_before_ms), (Verdict::Failed, 0));
}

/// A version that no full node could start has not failed, and a task that may not restart has not begun.
#[test]
fn a_start_that_a_full_disk_prevents_is_no_failure_of_the_task() {
    let start_failure = Some(StartFailure::NodeFull);
    let full = Exit { start_failure, ..exit(EndReason::StartFailed, None) };
    assert!(!full.is_failure() && exit(EndReason::StartFailed, None).is_failure());
    let own = Exit { reason: EndReason::Exited, code: Some(1), ..full.clone() };
    assert!(own.is_failure(), "it has started");
    let message = "the disk of its node is full: a task that writes the text of an agent".to_owned();
    assert!(Exit { message, start_failure: None, ..full }.is_failure(), "texts are for people");
    for mode in [RestartMode::Never, RestartMode::OnFailure, RestartMode::Always] {
        let rules = rules(JobKind::Service);
        let restart = RestartSpec { mode, attempts_max: Some(0), ..rules.restart };
        let rules = TaskRules { restart, ..rules };
        let row = TaskRow { failures: 2, crashes_there: 1, ..running(Health::Unknown) };
        let again = RestartDecision {
            verdict: Verdict::Again,
            crashed: true,
            failures: 2,
            not_before_ms: NOW + i64::try_from(restart_pause_ms(&rules, 2)).unwrap(),
        };
        assert_eq!(restart_decide(&rules, &row, &full, NOW), again, "{mode:?}");
    }
}

#[test]
fn a_long_attempt_makes_the_next_failure_the_first() {
    let service = rules(JobKind::Service);
    let row = TaskRow { failures: 9, started_ms: Some(STARTED), ..running(Health::Healthy) };
    let at = |lasted_ms: i64| Exit { at_ms: STARTED + lasted_ms, ..exit(EndReason::Signaled, None) };
    assert_eq!(restart_decide(&service, &row, &at(119_999), NOW).failures, 10);
    assert_eq!(restart_decide(&service, &row, &at(120_000), NOW).failures, 1);
    assert_eq!(restart_decide(&service, &row, &at(-5), NOW).failures, 10);
    let never_started = TaskRow { started_ms: None, ..row };
    let no_reset = TaskRules { restart: RestartSpec { reset_after_ms: 0, ..service.restart }, ..service };
    assert_eq!(restart_decide(&no_reset, &never_started, &at(0), NOW).failures, 10);
}

/// A stop is no failure, and what ran well until then has no failures before it.
#[test]
fn a_long_attempt_that_is_stopped_ends_the_row_of_failures() {
    let service = rules(JobKind::Service);
    let stop = Some(StopReason::Drained);
    let row = TaskRow { failures: 9, started_ms: Some(STARTED), stop, ..running(Health::Healthy) };
    let at = |lasted_ms: i64| Exit { at_ms: STARTED + lasted_ms, ..exit(EndReason::Stopped, None) };
    assert_eq!(restart_decide(&service, &row, &at(119_999), NOW).failures, 9);
    assert_eq!(restart_decide(&service, &row, &at(120_000), NOW).failures, 0);
}

#[test]
fn an_end_is_a_failure_unless_somebody_else_wanted_it() {
    let stopped =
        |stop: StopReason| Exit { message: stop.text().to_owned(), ..exit(EndReason::Stopped, None) };
    assert!(stopped(StopReason::Unhealthy).is_failure());
    for stop in [StopReason::Drained, StopReason::Tainted, StopReason::Shutdown, StopReason::Restart] {
        assert!(!stopped(stop).is_failure(), "{stop:?}");
        // It exited by itself before its agent stopped it.
        assert!(!Exit { reason: EndReason::Exited, ..stopped(stop) }.is_failure(), "{stop:?}");
    }
    assert!(exit(EndReason::Signaled, None).is_failure() && !exit(EndReason::NodeLost, None).is_failure());
}

/// An agent knows why a probe failed, and not what an attempt was stopped for.
#[test]
fn the_answer_of_a_probe_is_in_the_end_of_what_was_stopped_for_it_and_in_no_other() {
    let answer = StopReason::Unhealthy.text_with("/ready: 404 Not Found");
    let ended = |reason: StopReason| {
        let stop = TaskEvent::StopRequested { reason };
        let exit = Exit { message: answer.clone(), ..exit(EndReason::Stopped, None) };
        let rules = rules(JobKind::Service);
        let exited = TaskEvent::ProcessExited { attempt: attempt(1), exit, released: true, rules };
        row_from(running(Health::Healthy), &[stop, exited]).exit.unwrap()
    };
    let unhealthy = ended(StopReason::Unhealthy);
    assert_eq!((unhealthy.message.as_str(), unhealthy.stop()), (&*answer, Some(StopReason::Unhealthy)));
    assert!(unhealthy.is_failure());
    let drained = ended(StopReason::Drained);
    assert_eq!(drained.message, StopReason::Drained.text());
    assert!(!drained.is_failure());
    assert_eq!(StopReason::of_text("its health check failed badly"), None);
    // An earlier version said it of a canary that is taken back, too.
    assert!(!StopReason::JobShrunk.text().contains("scaled"));
    assert_eq!(StopReason::of_text("its job was scaled down"), Some(StopReason::JobShrunk));
}

#[test]
fn a_node_is_avoided_after_two_crashes_in_a_row_and_not_for_being_drained() {
    let crash = |incarnation: u64| TaskEvent::StartFailed {
        attempt: attempt(incarnation),
        message: "no such file".to_owned(),
        failure: None,
        rules: rules(JobKind::Service),
    };
    let place = |incarnation: u64| TaskEvent::Place(placement(incarnation));
    let once = row_from(crate::sample::placed(), &[crash(1)]);
    assert_eq!((node_avoided(&once), once.crashed_on), (None, Some(NODE)));
    let twice = row_from(once.clone(), &[place(2), crash(2)]);
    assert_eq!(node_avoided(&twice), Some(NODE));
    let drained = TaskEvent::StopRequested { reason: StopReason::Drained };
    let gone = TaskEvent::ReleaseConfirmed { attempt: attempt(2) };
    assert_eq!(node_avoided(&row_from(once.clone(), &[place(2), drained, gone.clone()])), None);
    let moved = row_from(once.clone(), &[place(2), TaskEvent::MoveRequested, gone]);
    assert_eq!((node_avoided(&moved), moved.state), (Some(NODE), TaskState::Pending), "its owner moves it");
    assert_eq!(
        (moved.failures, moved.not_before_ms),
        (once.failures, once.not_before_ms),
        "no failure, no pause"
    );
    let elsewhere = TaskRow { crashed_on: Some(NodeId(99)), crashes_there: 5, ..once };
    let row = row_from(elsewhere, &[place(2), crash(2)]);
    assert_eq!((row.crashed_on, row.crashes_there), (Some(NODE), 1));
}

#[test]
fn a_message_is_cut_between_characters() {
    let message = format!("x{}", "é".repeat(1024));
    let failed = TaskEvent::StartFailed {
        attempt: attempt(1),
        message,
        failure: None,
        rules: rules(JobKind::Service),
    };
    let row = row_from(crate::sample::placed(), &[failed]);
    assert_eq!(row.exit.unwrap().message.len(), 1023);
}

/// A job asks for the shortest pauses, and to forget failures at once.
#[test]
fn a_task_that_fails_at_once_pauses_ever_longer_whatever_its_job_says() {
    let service = rules(JobKind::Service);
    let restart =
        RestartSpec { backoff_initial_ms: 10, backoff_max_ms: 10, reset_after_ms: 0, ..service.restart };
    let rules = TaskRules { restart, ..service };
    let pauses: Vec<u64> = (1..=12).map(|failures| restart_pause_ms(&rules, failures)).collect();
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_000, 10_000]);
    let row = TaskRow { failures: 9, started_ms: Some(STARTED), ..running(Health::Healthy) };
    let at = |lasted_ms: i64| Exit { at_ms: STARTED + lasted_ms, ..exit(EndReason::Signaled, None) };
    assert_eq!(restart_decide(&rules, &row, &at(999), NOW).failures, 10);
    assert_eq!(restart_decide(&rules, &row, &at(1_000), NOW).failures, 1);
}

proptest! {
    #[test]
    fn no_numbers_overflow_and_pauses_never_shrink(
        initial in any::<u64>(), longest in any::<u64>(), reset in any::<u64>(), failures in any::<u32>(),
        started in any::<i64>(), ended in any::<i64>(), now in any::<i64>(),
    ) {
        let service = rules(JobKind::Service);
        let restart = RestartSpec {
            backoff_initial_ms: initial, backoff_max_ms: longest, reset_after_ms: reset, ..service.restart
        };
        let rules = TaskRules { restart, ..service };
        prop_assert!(restart_pause_ms(&rules, failures) <= longest.max(10_000));
        prop_assert!(restart_pause_ms(&rules, failures) <= restart_pause_ms(&rules, failures.saturating_add(1)));
        let row = TaskRow { failures, started_ms: Some(started), ..running(Health::Healthy) };
        let exit = Exit { at_ms: ended, ..exit(EndReason::Signaled, None) };
        restart_decide(&rules, &row, &exit, now);
    }
}
