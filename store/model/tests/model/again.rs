//! Rollouts that are tried again, and what they do not hold against their tasks.

use std::num::NonZeroU32;

use borough_model::job::{
    JobKind, JobRow, JobSpec, OnFailure, Rollout, RolloutFailure, RolloutState, UpdateSpec, stable_versions,
};
use borough_model::rollout::{AttemptFit, REPLACED_MAX, RolloutRules, RolloutStep, RolloutView};
use borough_model::task::machine::{TaskEvent, task_transition};
use borough_model::task::{TaskRow, TaskState};

use crate::rollout::{DEADLINE_MS, HEALTHY_AFTER_MS, begun, begun_with_canaries, job, set, step, task};
use crate::sample::NOW;

const DEADLINE: i64 = DEADLINE_MS.cast_signed();

fn running(index: u32, version: u32, healthy_ms: i64) -> TaskRow {
    task(index, version, TaskState::Running, Some(healthy_ms))
}

/// A task in the pause after a failure.
fn paused(index: u32, version: u32) -> TaskRow {
    let not_before_ms = NOW + 10 * DEADLINE;
    TaskRow { failures: 3, not_before_ms, changed_ms: NOW, ..task(index, version, TaskState::Pending, None) }
}

fn rollout_of(row: &JobRow) -> &Rollout {
    row.rollout.as_deref().unwrap()
}

fn retried(step: RolloutStep) -> Vec<u32> {
    match step {
        RolloutStep::Retry(tasks) => tasks.iter().map(|(task, _)| task.index).collect(),
        other => panic!("{other:?}"),
    }
}

fn stop_rules() -> (JobRow, JobSpec) {
    let (row, spec) = job(2, UpdateSpec { on_failure: OnFailure::Stop, ..UpdateSpec::default() });
    let failure = RolloutFailure::TaskFails { index: 0, failures: 3 };
    let row = begun(&row);
    (set(&row, rollout_of(&row).failed(failure)), spec)
}

/// What failed was another version, so nothing waits for it, nor is a deadline over meanwhile.
#[test]
fn a_task_in_the_pause_of_an_earlier_version_is_tried_at_once() {
    let (row, spec) = job(2, UpdateSpec::default());
    let row = begun(&row);
    let tasks = [paused(0, 1), running(1, 1, NOW - 60_000)];
    assert_eq!(retried(step(&row, &spec, &tasks, NOW)), [0]);
    assert_eq!(retried(step(&row, &spec, &tasks, NOW + 2 * DEADLINE)), [0], "its time is not over");
    // Its own pause is its own, and one that has no pause left needs nothing.
    let own = [paused(0, 2), running(1, 1, NOW - 60_000)];
    assert!(!matches!(step(&row, &spec, &own, NOW), RolloutStep::Retry(_)));
    let free = [TaskRow { not_before_ms: NOW, ..paused(0, 1) }, running(1, 1, NOW - 60_000)];
    assert!(!matches!(step(&row, &spec, &free, NOW), RolloutStep::Retry(_)));
    // So does a task that the change does not concern.
    let rules = RolloutRules::of_job(&spec, rollout_of(&row), &row);
    let mut view = RolloutView::default();
    view.visit(&paused(0, 1), AttemptFit::Fits, &rules, NOW);
    assert!(!matches!(view.step(rollout_of(&row), &rules, NOW), RolloutStep::Retry(_)));
}

#[test]
fn one_step_lets_so_many_tasks_be_tried_at_most() {
    let (row, spec) = job(300, UpdateSpec::default());
    let row = begun(&row);
    let tasks: Vec<TaskRow> = (0..300).map(|index| paused(index, 1)).collect();
    assert_eq!(retried(step(&row, &spec, &tasks, NOW)).len(), REPLACED_MAX);
}

/// What was paused by an earlier version has room on its node, as far as anybody knows: it is waited for.
#[test]
fn a_daemon_whose_pause_is_over_is_none_without_room() {
    let (row, mut spec) = job(1, UpdateSpec::default());
    spec.kind = JobKind::Daemon;
    let row = begun(&row);
    let later = rollout_of(&row).begun_ms + 1_000;
    let row = set(&row, Rollout { begun_ms: later, clock_ms: later, ..rollout_of(&row).clone() });
    let before = paused(0, 1);
    assert_eq!(retried(step(&row, &spec, std::slice::from_ref(&before), later + 1)), [0]);
    let tried = task_transition(&before, &TaskEvent::FailuresForgotten, later + 1).unwrap().row;
    let next = step(&row, &spec, std::slice::from_ref(&tried), later + 2);
    assert!(matches!(next, RolloutStep::Wait { .. }), "{next:?}");
    // One that has waited since before the rollout, without a failure, has no room.
    let full = TaskRow { failures: 0, not_before_ms: 0, ..before };
    assert_eq!(step(&row, &spec, &[full], later + 1), RolloutStep::Done { skipped: 0 });
}

/// Beside canaries, a task of the owner begins with the version that was rolled out.
#[test]
fn beside_canaries_only_the_pause_of_a_version_in_between_is_over() {
    let (row, spec) = job(2, UpdateSpec { canaries: 1, ..UpdateSpec::default() });
    let second = begun(&row);
    let row = begun_with_canaries(&second, 1, 1);
    assert_eq!((rollout_of(&row).base, row.spec_version), (1, 3));
    let tasks = [paused(0, 2), paused(1, 1), paused(2, 3)];
    assert_eq!(retried(step(&row, &spec, &tasks, NOW)), [0]);
}

#[test]
fn failures_are_forgotten_in_every_state() {
    let forgotten = |row: &TaskRow| task_transition(row, &TaskEvent::FailuresForgotten, NOW + 5).unwrap();
    let after = forgotten(&paused(0, 1)).row;
    let waits = (after.failures, after.not_before_ms, after.changed_ms);
    assert_eq!(waits, (0, NOW + 5, NOW), "it may begin now, and its state is the same");
    assert!(!forgotten(&after).changed, "once is enough");
    let runs = TaskRow { failures: 2, ..running(0, 1, NOW) };
    assert_eq!((forgotten(&runs).row.failures, forgotten(&runs).row.state), (0, TaskState::Running));
    assert!(
        !forgotten(&running(0, 1, NOW)).changed
            && !forgotten(&TaskRow { state: TaskState::Dead, ..runs }).changed
    );
}

#[test]
fn a_rollout_that_has_failed_is_done_when_all_its_tasks_are_well() {
    let (failed, spec) = stop_rules();
    let well = |index| running(index, 2, NOW - HEALTHY_AFTER_MS);
    let done = RolloutStep::Done { skipped: 0 };
    assert_eq!(step(&failed, &spec, &[well(0), well(1)], NOW), done);
    let waits = |second: TaskRow| {
        assert!(matches!(step(&failed, &spec, &[well(0), second], NOW), RolloutStep::Wait { .. }));
    };
    waits(running(1, 2, NOW));
    waits(running(1, 1, NOW - 60_000));
    waits(paused(1, 2));
    waits(task(1, 1, TaskState::Starting, None));
    waits(task(1, 2, TaskState::Dead, None));
    assert!(matches!(step(&failed, &spec, &[well(0)], NOW), RolloutStep::Wait { .. }), "one has no row");
    let none = JobRow { count: 0, ..failed.clone() };
    assert!(matches!(step(&none, &spec, &[], NOW), RolloutStep::Wait { .. }));
    let ended = rollout_of(&failed).done(0);
    assert_eq!((ended.state, ended.failure), (RolloutState::Done, None));
    assert_eq!(stable_versions(&set(&failed, ended)), [1, 2]);
}

/// Only a person begins it again. What failed before does not count then.
#[test]
fn a_rollout_that_begins_again_has_all_its_time_and_no_failures() {
    let (failed, spec) = stop_rules();
    let later = NOW + 5 * DEADLINE;
    let again = set(&failed, rollout_of(&failed).again("user/bob", later));
    let rollout = rollout_of(&again);
    assert_eq!((rollout.state, rollout.version, rollout.failure), (RolloutState::Rolling, 2, None));
    assert_eq!((rollout.by.as_str(), rollout.clock_ms, rollout.begun_ms), ("user/bob", later, later));
    let tasks = [paused(0, 2), running(1, 1, NOW - 60_000)];
    assert_eq!(retried(step(&again, &spec, &tasks, later)), [0]);
    let since = TaskRow { changed_ms: later + 1, ..paused(0, 2) };
    let fails = step(&again, &spec, &[since, running(1, 1, NOW - 60_000)], later + 2);
    assert!(matches!(fails, RolloutStep::Fail(RolloutFailure::TaskFails { index: 0, failures: 3 })));
}

/// A healthy attempt that ends takes the progress with it that it made, unless the row has it.
#[test]
fn progress_is_recorded_and_never_goes_back() {
    let (row, spec) = job(2, UpdateSpec::default());
    let row = begun(&row);
    let proven_ms = NOW + 50_000;
    let serves = running(0, 2, proven_ms - HEALTHY_AFTER_MS);
    let starts = task(1, 2, TaskState::Starting, None);
    let at_ms = proven_ms + 5_000;
    let recorded = step(&row, &spec, &[serves.clone(), starts.clone()], at_ms);
    assert_eq!(recorded, RolloutStep::Progress(proven_ms));
    let row = set(&row, rollout_of(&row).progressed(proven_ms));
    assert_eq!(rollout_of(&row).progressed(NOW).progress_ms, proven_ms, "it never goes back");
    let end_ms = proven_ms + DEADLINE;
    let due_ms = Some(end_ms);
    assert_eq!(step(&row, &spec, &[serves, starts.clone()], at_ms), RolloutStep::Wait { due_ms });
    let gone = TaskRow { failures: 1, ..task(0, 2, TaskState::Pending, None) };
    assert_eq!(
        step(&row, &spec, &[gone.clone(), starts.clone()], NOW + DEADLINE),
        RolloutStep::Wait { due_ms }
    );
    assert!(matches!(step(&row, &spec, &[gone, starts], end_ms), RolloutStep::Fail(_)));
}

/// A task that fails again and again just before it has proved itself makes no progress that is kept.
#[test]
fn an_attempt_on_its_way_after_a_failure_is_no_progress_to_keep() {
    let (row, spec) = job(1, UpdateSpec::default());
    let row = begun(&row);
    let at_ms = NOW + 30_000;
    let on_its_way = running(0, 2, at_ms - 1_000);
    assert_eq!(step(&row, &spec, std::slice::from_ref(&on_its_way), at_ms), RolloutStep::Progress(at_ms));
    let again = TaskRow { failures: 1, ..on_its_way };
    assert!(matches!(step(&row, &spec, &[again], at_ms), RolloutStep::Wait { .. }));
}

/// Later changes of metadata are part of the version that is taken back.
#[test]
fn a_way_back_names_the_version_that_the_rollout_brought() {
    let (row, _) = job(2, UpdateSpec::default());
    let row = begun(&row);
    let labelled = JobRow { spec_version: 3, ..row };
    assert_eq!(Rollout::revert(&labelled, None, "controller", NOW).reverts, Some(2));
    let done = set(&labelled, rollout_of(&labelled).done(0));
    assert_eq!(Rollout::revert(&done, None, "user/ada", NOW).reverts, Some(3));
}

/// Its job was scaled to no tasks before they had shown what it does. It goes on with the first ones.
#[test]
fn a_version_that_was_left_by_its_tasks_does_not_count_as_rolled_out() {
    let (row, _) = job(3, UpdateSpec::default());
    let row = begun(&row);
    let rollout = Rollout { held: vec![1], ..rollout_of(&row).clone() };
    assert!(!rollout.empty);
    let none = JobRow { count: 0, ..set(&row, rollout.without_tasks()) };
    assert_eq!((stable_versions(&none), rollout_of(&none).held.clone()), (vec![1], vec![1]));
    let resumed = none.rollout_resumed(NOW + 9).unwrap();
    assert_eq!((resumed.state, resumed.clock_ms, resumed.untried), (RolloutState::Rolling, NOW + 9, false));
    assert_eq!(JobRow { count: 3, ..none.clone() }.rollout_resumed(NOW), None);
    assert!(Rollout::begin(&none, 0, "user/ada", NOW).empty);
}

/// The owner has what the version brings, so nothing is taken back for a task that nobody wants.
#[test]
fn a_task_beyond_the_count_that_takes_its_time_fails_no_rollout() {
    let (row, spec) = job(2, UpdateSpec::default());
    let row = begun(&row);
    let held = set(&row, Rollout { held: vec![1], ..rollout_of(&row).clone() });
    let well = |index| running(index, 2, NOW - HEALTHY_AFTER_MS);
    let ends = task(2, 1, TaskState::Stopping, None);
    let tasks = [well(0), well(1), ends.clone()];
    let late = NOW + 3 * DEADLINE;
    assert_eq!(step(&held, &spec, &tasks, late), RolloutStep::Wait { due_ms: None }, "its charge is kept");
    assert_eq!(step(&row, &spec, &tasks, late), RolloutStep::Done { skipped: 0 });
    let none = JobRow { count: 0, ..held.clone() };
    assert_eq!(step(&none, &spec, std::slice::from_ref(&ends), late), RolloutStep::Wait { due_ms: None });
    let unsettled = [well(0), task(1, 2, TaskState::Starting, None), ends];
    assert!(matches!(step(&held, &spec, &unsettled, late), RolloutStep::Fail(_)));
}

/// It has failed in the same way before, so it says nothing about the version.
#[test]
fn a_task_that_failed_before_a_change_that_does_not_concern_it_fails_no_rollout() {
    let (row, spec) = job(2, UpdateSpec::default());
    let row = begun(&row);
    let well = running(0, 2, NOW - HEALTHY_AFTER_MS);
    let failing = TaskRow { failing_since: NonZeroU32::new(1), ..paused(1, 2) };
    assert_eq!(failing.failing_version(), 1);
    assert_eq!(step(&row, &spec, &[well.clone(), failing], NOW), RolloutStep::Done { skipped: 0 });
    let own = paused(1, 2);
    assert_eq!(own.failing_version(), 2);
    assert!(matches!(step(&row, &spec, &[well, own], NOW), RolloutStep::Fail(_)));
}

#[test]
fn failures_that_go_on_keep_the_version_of_the_first_one() {
    let first = TaskRow { failures: 2, ..task(0, 1, TaskState::Pending, None) };
    let mut second = TaskRow { failures: 0, ..task(0, 2, TaskState::Assigned, None) };
    second.failures_continue(&first);
    assert_eq!((second.failures, second.failing_version()), (2, 1));
    let mut third = task(0, 3, TaskState::Assigned, None);
    third.failures_continue(&second);
    assert_eq!((third.failures, third.failing_version()), (2, 1));
    let mut well = task(0, 3, TaskState::Assigned, None);
    well.failures_continue(&task(0, 2, TaskState::Pending, None));
    assert_eq!((well.failures, well.failing_since), (0, None));
    // Another version has not failed before.
    let begun = task_transition(&third, &TaskEvent::FailuresForgotten, NOW).unwrap().row;
    assert_eq!((begun.failures, begun.failing_since), (0, None));
}
