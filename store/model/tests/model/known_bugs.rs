//! Bugs of other systems in updates, drains and resizes, as decisions of ours that must not have them. The table of
//! `docs/mechanisms/known-bugs.md` maps each bug to its test.

use borough_model::job::{CanaryHealth, JobKind, JobSpec, RolloutFailure, UpdateSpec};
use borough_model::rollout::RolloutStep;
use borough_model::task::{EndReason, LEAVE_MARGIN_MS, StopReason, TaskEvent, TaskRow, TaskState, Verdict};

use crate::rollout::{
    DEADLINE_MS, HEALTHY_AFTER_MS, begun, begun_with_canaries, job, replaced, set, step, task,
};
use crate::sample::{NOW, attempt, exit, row_from, rules, running};

fn healthy(index: u32, version: u32) -> TaskRow {
    task(index, version, TaskState::Running, Some(NOW - 60_000))
}

/// A job of two tasks with one canary, which promotes the version by itself.
fn with_canary() -> (borough_model::JobRow, JobSpec, Vec<TaskRow>) {
    let update = UpdateSpec { canaries: 1, auto_promote: true, ..UpdateSpec::default() };
    let (row, spec) = job(2, update);
    (begun_with_canaries(&row, 1, 1), spec, vec![healthy(0, 1), healthy(1, 1)])
}

const END_MS: i64 = NOW + DEADLINE_MS.cast_signed();

/// Nomad #10465: a canary that could not start and was not tried again kept its deployment open for ever.
#[test]
fn a_canary_that_is_over_for_good_fails_its_rollout() {
    let (row, spec, mut tasks) = with_canary();
    let over = TaskRow { verdict: Some(Verdict::Failed), failures: 1, ..task(2, 2, TaskState::Dead, None) };
    tasks.push(over);
    assert_eq!(step(&row, &spec, &tasks, NOW), RolloutStep::Wait { due_ms: Some(END_MS) });
    let RolloutStep::Fail(failure) = step(&row, &spec, &tasks, END_MS) else { panic!() };
    assert!(matches!(failure, RolloutFailure::NoProgress { .. }), "{failure}");
    // One that is tried again and again fails it sooner.
    tasks[2] = TaskRow { failures: 3, ..task(2, 2, TaskState::Pending, None) };
    let failure = RolloutFailure::TaskFails { index: 2, failures: 3 };
    assert_eq!(step(&row, &spec, &tasks, NOW), RolloutStep::Fail(failure));
}

/// Nomad #20308: a canary that had to wait for a node was healthy later, and then waited for a person although the job
/// says `auto_promote`.
#[test]
fn a_canary_that_had_to_wait_for_a_node_still_promotes_by_itself() {
    let (row, spec, mut tasks) = with_canary();
    tasks.push(task(2, 0, TaskState::Pending, None));
    assert!(matches!(step(&row, &spec, &tasks, NOW), RolloutStep::Wait { .. }));
    let late = END_MS - 1;
    assert!(matches!(step(&row, &spec, &tasks, late), RolloutStep::Wait { .. }));
    tasks[2] = task(2, 2, TaskState::Running, Some(late));
    assert_eq!(step(&row, &spec, &tasks, late + HEALTHY_AFTER_MS), RolloutStep::Promote);
}

/// Nomad #6407: the count of healthy canaries was wrong after one was replaced, so the promotion was refused. Attempts
/// of the earlier version were ended before it.
#[test]
fn a_canary_that_was_replaced_counts_once_and_by_its_last_attempt() {
    let (row, spec, mut tasks) = with_canary();
    let again = TaskRow { failures: 1, restarts: 1, ..task(2, 2, TaskState::Running, Some(NOW)) };
    tasks.push(again);
    assert_eq!(step(&row, &spec, &tasks, NOW + HEALTHY_AFTER_MS), RolloutStep::Promote);
    // Of two canaries one is not enough, however often it has been healthy.
    let (row, spec) = job(2, UpdateSpec { canaries: 2, auto_promote: true, ..UpdateSpec::default() });
    let row = begun_with_canaries(&row, 2, 2);
    let RolloutStep::Wait { due_ms } = step(&row, &spec, &tasks, NOW + HEALTHY_AFTER_MS) else { panic!() };
    assert!(due_ms.is_some(), "it has a deadline, and ends nothing of the owner before it");
}

/// Nomad #7058: a promotion after a long look at the canaries met a deadline that had passed meanwhile.
#[test]
fn a_promotion_has_its_whole_deadline_before_it() {
    let (row, spec, mut tasks) = with_canary();
    tasks.push(healthy(2, 2));
    let rollout = row.rollout.as_deref().unwrap();
    let waiting = set(&row, rollout.with_canaries(CanaryHealth::Healthy, NOW));
    let much_later = END_MS * 10;
    let promoted = set(&waiting, waiting.rollout.as_deref().unwrap().promoted(much_later));
    assert!(matches!(step(&promoted, &spec, &tasks, much_later), RolloutStep::Replace(_)));
    tasks[0] = task(0, 2, TaskState::Starting, None);
    tasks[1] = task(1, 2, TaskState::Starting, None);
    let end_ms = much_later + i64::try_from(DEADLINE_MS).unwrap();
    assert!(matches!(step(&promoted, &spec, &tasks, end_ms - 1), RolloutStep::Wait { .. }));
    assert!(matches!(step(&promoted, &spec, &tasks, end_ms), RolloutStep::Fail(_)));
}

/// Kubernetes, KEP-5882: pods that were ending did not count against the surge, so that a long grace doubled the use.
#[test]
fn what_is_still_ending_counts_and_nothing_begins_beside_it() {
    let update = UpdateSpec { unavailable_max: Some(0), surge_max: Some(1), ..UpdateSpec::default() };
    let (row, spec) = job(3, update);
    let row = begun_with_canaries(&row, 0, 1);
    let mut tasks: Vec<TaskRow> = (0..3).map(|index| healthy(index, 1)).collect();
    tasks.push(healthy(3, 2));
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [0]);
    // It ends for as long as it likes. Its index gets no other attempt, and no other task is ended for it.
    tasks[0] = task(0, 1, TaskState::Stopping, None);
    assert!(matches!(step(&row, &spec, &tasks, NOW), RolloutStep::Wait { .. }));
    tasks[0] = task(0, 1, TaskState::Releasing, None);
    assert!(matches!(step(&row, &spec, &tasks, NOW), RolloutStep::Wait { .. }));
    assert_eq!(row.count, 4, "three tasks and one that surges, whatever ends");
}

/// Nomad #17563: batch work that was drained while no other node was free counted as complete, and never ran again.
#[test]
fn batch_work_that_is_drained_waits_for_a_node_whatever_its_end_was() {
    let drained = TaskEvent::StopRequested { reason: StopReason::Drained };
    for (reason, code) in
        [(EndReason::Stopped, Some(0)), (EndReason::Stopped, None), (EndReason::Signaled, None)]
    {
        let exited = TaskEvent::ProcessExited {
            attempt: attempt(1),
            exit: exit(reason, code),
            released: true,
            rules: rules(JobKind::Batch),
        };
        let row = row_from(running(borough_model::task::Health::Healthy), &[drained.clone(), exited]);
        assert_eq!((row.state, row.not_before_ms, row.failures), (TaskState::Pending, 0, 0), "{reason:?}");
    }
}

/// The time of a stop is the owner's choice, and may be longer than the deadline.
#[test]
fn an_attempt_that_ends_in_its_own_time_is_progress_until_it_is_late() {
    let (row, mut spec) = job(2, UpdateSpec::default());
    let deadline_ms = i64::try_from(DEADLINE_MS).unwrap();
    (spec.drain_delay_ms, spec.task.grace_ms) = (DEADLINE_MS, 2 * DEADLINE_MS);
    let row = begun(&row);
    let ending = |version| TaskRow { changed_ms: NOW, ..task(0, version, TaskState::Stopping, None) };
    let of = |version, now_ms| {
        step(&row, &spec, &[ending(version), task(1, 2, TaskState::Running, Some(NOW))], now_ms)
    };
    let late_ms = NOW + 3 * deadline_ms + LEAVE_MARGIN_MS;
    assert_eq!(of(1, late_ms + deadline_ms - 1), RolloutStep::Progress(late_ms));
    assert!(matches!(of(1, late_ms + deadline_ms), RolloutStep::Fail(RolloutFailure::NoProgress { .. })));
    // One of the new version ends since it fails, which is none.
    assert!(matches!(of(2, late_ms), RolloutStep::Fail(RolloutFailure::NoProgress { .. })));
}
