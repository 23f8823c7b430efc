//! What a rollout runs beside the tasks of the owner: canaries, which try the version first, and what surges.

use borough_model::job::{
    CanaryHealth, JobKind, JobRow, JobSpec, ResizeMode, ResizeSignal, Rollout, RolloutFailure, UpdateSpec,
    count_check,
};
use borough_model::rollout::RolloutStep;
use borough_model::task::{TaskRow, TaskState};

use crate::rollout::{
    DEADLINE_MS, HEALTHY_AFTER_MS, begun, begun_with_canaries, job, replaced, set, step, task,
};
use crate::sample::NOW;

#[test]
fn nothing_of_the_owner_is_replaced_before_the_canaries_are_healthy_and_promoted() {
    let (row, spec) = job(3, UpdateSpec { canaries: 2, ..UpdateSpec::default() });
    let row = begun_with_canaries(&row, 2, 2);
    assert_eq!((row.canary_base(), row.owner_count()), (Some(1), 3));
    assert_eq!([0, 2, 3, 4].map(|index| row.version_of(index)), [1, 1, 2, 2]);
    let mut tasks: Vec<TaskRow> =
        (0..3).map(|index| task(index, 1, TaskState::Running, Some(NOW - 60_000))).collect();
    tasks.push(task(3, 2, TaskState::Running, Some(NOW)));
    tasks.push(task(4, 0, TaskState::Pending, None));
    let deadline = NOW + i64::try_from(DEADLINE_MS).unwrap();
    let due_ms = Some(NOW + HEALTHY_AFTER_MS);
    assert_eq!(step(&row, &spec, &tasks, NOW), RolloutStep::Wait { due_ms });
    // What surges for an earlier version is replaced, also if it is healthy: nobody misses it.
    tasks[4] = task(4, 1, TaskState::Running, Some(NOW - 60_000));
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [4]);
    tasks[4] = task(4, 2, TaskState::Running, Some(NOW));
    tasks[0] = task(0, 1, TaskState::Lost, None);
    let later = NOW + HEALTHY_AFTER_MS;
    assert_eq!(step(&row, &spec, &tasks, later), RolloutStep::Canaries(CanaryHealth::Healthy));
    let rollout = row.rollout.as_deref().unwrap();
    let waiting = set(&row, rollout.with_canaries(CanaryHealth::Healthy, later));
    for now_ms in [later, deadline, deadline * 2] {
        assert_eq!(
            step(&waiting, &spec, &tasks, now_ms),
            RolloutStep::Wait { due_ms: None },
            "a person decides"
        );
    }
    let automatic =
        JobSpec { update: Some(UpdateSpec { auto_promote: true, ..spec.update.unwrap() }), ..spec.clone() };
    assert_eq!(step(&row, &automatic, &tasks, later), RolloutStep::Promote);
    // One ends after a long wait: its time begins again.
    tasks[3] = task(3, 2, TaskState::Pending, None);
    let now_ms = deadline * 2;
    assert_eq!(step(&waiting, &spec, &tasks, now_ms), RolloutStep::Canaries(CanaryHealth::Awaited));
    let again = set(&waiting, rollout.with_canaries(CanaryHealth::Awaited, now_ms));
    let end_ms = now_ms + i64::try_from(DEADLINE_MS).unwrap();
    assert_eq!(step(&again, &spec, &tasks, now_ms), RolloutStep::Wait { due_ms: Some(end_ms) });
    let failure =
        RolloutFailure::NoProgress { deadline_ms: DEADLINE_MS, surge_unplaced: 1, memory_in_use: 0 };
    assert_eq!(step(&again, &spec, &tasks, end_ms), RolloutStep::Fail(failure));
    let promoted = set(&waiting, waiting.rollout.as_deref().unwrap().promoted(now_ms));
    assert_eq!((promoted.canary_base(), promoted.version_of(0)), (None, 2));
    tasks[3] = task(3, 2, TaskState::Running, Some(NOW));
    let ended = replaced(step(&promoted, &spec, &tasks, now_ms));
    assert_eq!(ended, [1], "task 0 is away, and two surge: one healthy attempt more may end");
}

/// A version with canaries supersedes a rollout whose surging task serves for one that was replaced.
#[test]
fn what_surges_for_a_task_that_is_away_is_replaced_when_that_serves_again() {
    let none =
        UpdateSpec { unavailable_max: Some(0), surge_max: Some(1), canaries: 1, ..UpdateSpec::default() };
    let (row, spec) = job(1, none);
    let row = begun_with_canaries(&row, 0, 1);
    let row = JobRow { count: 2, ..begun_with_canaries(&row, 1, 1) };
    assert_eq!((row.owner_count(), row.surge(), row.version_of(0)), (1, 1, 1));
    let old = Some(NOW - 60_000);
    let mut tasks = vec![task(0, 1, TaskState::Stopping, None), task(1, 2, TaskState::Running, old)];
    assert!(matches!(step(&row, &spec, &tasks, NOW), RolloutStep::Wait { .. }), "nothing else serves");
    tasks[0] = task(0, 1, TaskState::Running, old);
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [1]);
    // A task that fails by itself is not waited for.
    tasks[0] = TaskRow { failures: 2, not_before_ms: NOW, ..task(0, 1, TaskState::Pending, None) };
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [1]);
}

/// What surges ends with the rollout, so it gets no further attempt for that. It keeps its charge until it has ended.
#[test]
fn what_surges_with_an_earlier_version_holds_up_no_rollout_unless_its_charge_differs() {
    let (row, spec) = job(3, UpdateSpec::default());
    let row = begun_with_canaries(&row, 0, 1);
    let old = Some(NOW - 60_000);
    let mut tasks: Vec<TaskRow> = (0..3).map(|index| task(index, 2, TaskState::Running, old)).collect();
    tasks.push(task(3, 1, TaskState::Running, old));
    assert_eq!(step(&row, &spec, &tasks, NOW), RolloutStep::Done { skipped: 0 });
    let held = Rollout { held: vec![1], ..row.rollout.as_deref().unwrap().clone() };
    let held = set(&row, held);
    assert_eq!(replaced(step(&held, &spec, &tasks, NOW)), [3]);
    tasks[3] = task(3, 1, TaskState::Stopping, None);
    assert_eq!(step(&held, &spec, &tasks, NOW), RolloutStep::Wait { due_ms: None });
    assert_eq!(step(&row, &spec, &tasks, NOW), RolloutStep::Done { skipped: 0 });
    // One of the owner is waited for.
    tasks[2] = task(2, 1, TaskState::Stopping, None);
    assert!(matches!(step(&row, &spec, &tasks, NOW), RolloutStep::Wait { due_ms: Some(_) }));
}

#[test]
fn a_version_that_supersedes_canaries_keeps_what_the_others_have() {
    let (row, _) = job(3, UpdateSpec { canaries: 1, ..UpdateSpec::default() });
    let first = begun_with_canaries(&row, 1, 1);
    let second = begun_with_canaries(&first, 1, 1);
    assert_eq!((second.spec_version, second.canary_base()), (3, Some(1)));
    let promoted = set(&second, second.rollout.as_deref().unwrap().promoted(NOW));
    // What was promoted and has not reached every task may be bad: it is not what the others begin again with.
    assert_eq!(begun_with_canaries(&promoted, 1, 1).canary_base(), Some(1));
    let done = set(&promoted, promoted.rollout.as_deref().unwrap().done(0));
    assert_eq!((done.earlier_version(), begun_with_canaries(&done, 1, 1).canary_base()), (None, Some(3)));
    let half = begun(&row);
    assert_eq!((half.earlier_version(), begun_with_canaries(&half, 1, 1).canary_base()), (Some(1), Some(1)));
    assert_eq!(begun(&second).canary_base(), None);
    let failed = second.rollout.as_deref().unwrap().failed(RolloutFailure::NoProgress {
        deadline_ms: 1,
        surge_unplaced: 0,
        memory_in_use: 0,
    });
    assert_eq!(set(&second, failed).canary_base(), Some(1), "also after a failure that is not taken back");
    assert_eq!(Rollout::revert(&second, None, "user/ada", NOW).canaries, 0);
}

/// What is refused of a job with these rules after a change of its spec; empty: nothing.
fn refused(count: u32, update: UpdateSpec, change: &dyn Fn(&mut JobSpec)) -> String {
    let mut spec = job(count, update).1;
    change(&mut spec);
    let errors = spec.validate().err().unwrap_or_default();
    errors.iter().map(|error| format!("{}: {}", error.path, error.accepted)).collect::<Vec<_>>().join("; ")
}

#[test]
fn canaries_are_of_services_and_no_more_than_the_tasks() {
    let refused = |count, update, kind| refused(count, update, &|spec| spec.kind = kind);
    let canaries = |canaries| UpdateSpec { canaries, ..UpdateSpec::default() };
    assert_eq!(refused(3, canaries(3), JobKind::Service), "");
    assert_eq!(refused(0, canaries(3), JobKind::Service), "", "a parked job keeps its rules");
    let why = "update.canaries: at most 3 of a job with 3 tasks: others serve while they are tried";
    assert_eq!(refused(3, canaries(4), JobKind::Service), why);
    let why = refused(3, canaries(1), JobKind::Batch);
    assert!(why.starts_with("update.canaries: none in batch work"), "{why}");
    let why = refused(3, UpdateSpec { auto_promote: true, ..UpdateSpec::default() }, JobKind::Service);
    assert!(why.starts_with("update.auto_promote: `false`, or `true` with `canaries`"), "{why}");
}

/// Without a surge, a bound of none would never let a rollout begin. Neither a gang nor batch work has one.
#[test]
fn what_surges_must_fit_the_job_and_lets_none_be_away() {
    let surge = UpdateSpec { surge_max: Some(2), ..UpdateSpec::default() };
    let share = UpdateSpec { surge_percent_max: Some(30), ..UpdateSpec::default() };
    let none = UpdateSpec { unavailable_max: Some(0), ..UpdateSpec::default() };
    let nothing = |_: &mut JobSpec| {};
    let why = refused(3, none, &nothing);
    assert!(why.starts_with("update.unavailable_max: 1 or more, or 0 with a `surge_max`"), "{why}");
    assert_eq!(refused(3, UpdateSpec { unavailable_max: Some(0), ..surge }, &nothing), "");
    assert_eq!(refused(3, UpdateSpec { unavailable_max: Some(0), ..share }, &nothing), "");
    assert_eq!(refused(3, UpdateSpec { surge_max: Some(0), ..UpdateSpec::default() }, &nothing), "");
    let why = refused(3, surge, &|spec| spec.kind = JobKind::Batch);
    assert!(why.starts_with("update.surge_max: none in batch work"), "{why}");
    let why = refused(3, share, &|spec| spec.min_member = 2);
    assert!(why.starts_with("update.surge_percent_max: none in a gang"), "{why}");
    let why = refused(99_999, surge, &nothing);
    assert_eq!(why, "update.surge_max: at most 1 beside 99999 tasks: a job has 100000 at most");
    let spec = job(4, surge).1;
    assert_eq!((count_check(99_998, &spec).is_ok(), count_check(99_999, &spec).is_ok()), (true, false));
    let counts = [0, 1, 3, 4, 10];
    assert_eq!(counts.map(|count| share.surge(count)), [0, 1, 1, 2, 3], "rounded up");
    assert_eq!(counts.map(|count| surge.surge(count)), [0, 1, 2, 2, 2], "no more than there are");
    assert_eq!(counts.map(|count| none.unavailable(count, 0)), [1; 5], "also if the quota has had no room");
}

#[test]
fn a_job_that_restarts_for_other_amounts_asks_for_no_signal() {
    let with =
        |resize| UpdateSpec { resize, resize_signal: Some(ResizeSignal::Hup), ..UpdateSpec::default() };
    assert_eq!(refused(3, with(ResizeMode::InPlace), &|_| ()), "");
    let why = refused(3, with(ResizeMode::Restart), &|_| ());
    assert!(why.starts_with("update.resize_signal: none beside `resize: restart`"), "{why}");
}
